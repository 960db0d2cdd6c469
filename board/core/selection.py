"""Which events a reader asks for: one filter for pages, streams and waits, and the rule that all of them follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from board.core.scope import Target, meet
from schema.events import AboutConflict, AnyEvent, ClaimNarrowed, ClaimRefused, ClaimReleased, Note

if TYPE_CHECKING:
    from collections.abc import Callable


class Filter(msgspec.Struct, frozen=True):
    """Which rows a page or a stream holds. Empty fields do not filter; together they must all hold.

    `types` names note types and kinds of other events (`FACT`, `claim.expired`). The others are about notes and leave
    out all else: `scope` keeps those whose scope or files overlap one of the targets, `to` those addressed to that
    worker, `task` those of that task. `live_only` leaves out retracted notes, which only a page of the log can tell.
    """

    types: tuple[str, ...] = ()
    author: str = ""
    task: str = ""
    to: str = ""
    scope: tuple[Target, ...] = ()
    notes_only: bool = False
    live_only: bool = False

    def __bool__(self) -> bool:
        return self != _EVERYTHING


_EVERYTHING = Filter()


def selects(where: Filter, event: AnyEvent, spell: Callable[[str], Target]) -> bool:
    """Tell whether the filter keeps an event; `spell` parses a target that was spelt before.

    `live_only` is not looked at: whether a note was retracted later is not in the note.
    """
    if where.types and type_of(event) not in where.types:
        return False
    if where.author and event.author != where.author:
        return False
    if not (where.notes_only or where.task or where.to or where.scope):
        return True
    return isinstance(event, Note) and _selects_note(where, event, spell)


def _selects_note(where: Filter, note: Note, spell: Callable[[str], Target]) -> bool:
    if where.task not in ("", note.task) or (where.to and where.to not in note.to):
        return False
    return not where.scope or _meets(where.scope, note.scope + note.files, spell)


def type_of(event: AnyEvent) -> str:
    """The type of a note, the kind of any other event."""
    return event.type if isinstance(event, Note) else str(event.__struct_config__.tag)


def recipients(event: AnyEvent) -> tuple[str, ...]:
    """The workers that an event is addressed to."""
    return event.to if isinstance(event, (Note, ClaimReleased)) else ()


def places(event: AnyEvent) -> tuple[str, ...]:
    """The targets that an event is about, as they are spelt."""
    match event:
        case Note():
            return event.scope + event.files
        case ClaimRefused() | ClaimNarrowed():
            return event.scope
        case AboutConflict():
            return event.overlap
        case _:
            return ()


def _meets(scope: tuple[Target, ...], texts: tuple[str, ...], spell: Callable[[str], Target]) -> bool:
    return any(meet(target, spell(text)) for text in texts for target in scope)
