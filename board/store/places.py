"""Where notes are filed, for stores that keep an index of it.

A note is filed under *labels*: its places and its recipients. A place is a literal prefix of a target, the segments
before its first wild one; two targets can only overlap where the place of one is the place of the other or lies above
it. So a note is filed *at* its place (`file:src/a.c`) and *in* that place and every place above it (`file:src/a.c/`,
`file:src/`, `file:/`); to find what may overlap a target is then to read what is filed in its place and at the places
above. Each of those is one range of an index in the order of seqs, so that the newest notes below a large directory
are found without reading all of them, which a range over the names of places would have to. It costs a filing for each
level of depth. Whether two targets do overlap is for `board.core.scope.overlap` to say.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from board.core.spelling import BadTarget, spell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from board.core.scope import Target
    from schema.events import Note
    from schema.limits import Settings

_SPELLINGS_KEPT: Final = 16_384


def places_of(target: Target) -> set[tuple[str, ...]]:
    """Give the places of a target, one for each alternative: its kind, then the literal segments of its prefix."""
    return {(f"{target.kind}:", *pattern.prefix) for pattern in target.patterns}


def filed_under(target: Target) -> set[str]:
    """Give the labels of a note with this target in its scope."""
    return {label for place in places_of(target) for label in (_at(place), *map(_in, _up_to(place)))}


def asked_for(target: Target) -> set[str]:
    """Give the labels under which every note is filed whose scope may overlap this target."""
    return {label for place in places_of(target) for label in (_in(place), *map(_at, _up_to(place)))}


def recipient(worker: str) -> str:
    """Give the label of notes that are addressed to a worker; no kind of target is called `to`."""
    return f"to:{worker}"


def labels_of(note: Note, settings: Settings) -> set[str]:
    """Give every label of a note; the files of a PATCH_SUMMARY count as its scope."""
    places = {label for text in (*note.scope, *note.files) for label in _labels_of_text(text, settings)}
    return places | {recipient(worker) for worker in note.to}


def scope_of(note: Note, settings: Settings) -> list[Target]:
    """Read a note's scope and files back from the log."""
    spelt = (spelt_again(text, settings) for text in (*note.scope, *note.files))
    return [target for target in spelt if target is not None]


def spelt_again(text: str, settings: Settings) -> Target | None:
    """Read one target back from the log, or give None where an importer let in what is none: it names no place."""
    return _spelt(text, settings.case_insensitive, max(settings.target_chars, len(text)))


# The team of a board speaks of the same few places, and to spell one costs ten times what the look-up does.
@lru_cache(maxsize=_SPELLINGS_KEPT)
def _spelt(text: str, case_insensitive: bool, max_chars: int) -> Target | None:  # noqa: FBT001 -- a cache's key
    try:
        return spell(text, case_insensitive=case_insensitive, max_chars=max_chars)
    except BadTarget:
        return None


def _labels_of_text(text: str, settings: Settings) -> set[str]:
    target = spelt_again(text, settings)
    return set() if target is None else filed_under(target)


def _up_to(place: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    return (place[:depth] for depth in range(1, len(place) + 1))


def _at(place: Sequence[str]) -> str:
    return place[0] + "/".join(place[1:])


def _in(place: Sequence[str]) -> str:
    return _at(place) + "/"
