"""A recording, read as acts: an export of a board, or a team's issue list; which of them, its first line tells."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from schema.codec import us_of_text
from schema.events import (
    AnyEvent,
    ClaimNarrowed,
    ClaimRefused,
    ClaimReleased,
    ClaimTransferred,
    Note,
    NoteRetracted,
)
from schema.notes import Claim, Common, Draft, Fact, Fail, Observed, PatchSummary
from workers.acts import Act, Deed, Narrow, Release, Retract, Say, Transfer, Unread
from workers.exported import Exported, Header, header_of, read_export
from workers.trace import is_trace, read_trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schema.notes import NoteType, Outcome

_DRAFTS: dict[NoteType, type[Draft]] = {
    "OBSERVED": Observed,
    "FACT": Fact,
    "FAIL": Fail,
    "CLAIM": Claim,
    "PATCH_SUMMARY": PatchSummary,
}
_OUTCOMES: dict[str, Outcome] = {"done": "done", "abandoned": "abandoned", "handoff": "handoff"}


class UnknownRecording(ValueError):
    """The first line is neither an export's nor a trace's."""


def read_recording(lines: Iterable[bytes], *, text_chars: int) -> Iterator[Act | Unread]:
    """Read a recording, in order. Raises UnknownRecording; NotAnExport at a line of an export that cannot be read."""
    lines = iter(lines)
    first = next(lines, b"")
    whole = itertools.chain([first], lines)
    if (header := header_of(first)) is not None:
        return itertools.chain(_before(header), (act_of(exported) for exported in read_export(whole)))
    if is_trace(first):
        return read_trace(whole, text_chars=text_chars)
    msg = "the first line is neither the header of an export nor an event of a trace"
    raise UnknownRecording(msg)


def _before(header: Header) -> Iterator[Unread]:
    """What the export does not hold, because the board no longer kept it, or nobody asked for it."""
    if header.after:
        yield Unread(line=1, reason=f"the events up to {header.after} are not in the export")


def act_of(exported: Exported) -> Act | Unread:
    """Read one event of an export. What a board does by itself (an expiry, a grant) it will do again by itself."""
    event, line = exported.event, exported.line
    if event is None:
        return Unread(line=line, reason=f"{exported.beside.kind} is of an unknown kind")
    deed = _deed(event, exported.beside.detail)
    if deed is None:
        return Unread(line=line, reason=f"{exported.beside.kind} is the board's own doing")
    return Act(line=line, at_s=us_of_text(event.at) / 1e6, author=event.author, deed=deed)


def draft_of(note: Note, detail: str = "") -> Draft:
    """Give the draft that a note came from: what its author said, without what the board added."""
    kind = _DRAFTS[note.type]
    said: dict[str, Any] = {name: value for name, value in asdict(note).items() if name in kind.__struct_fields__}
    if note.type == "CLAIM":
        said["on_conflict"] = note.on_conflict or "refuse"
    said["detail"] = detail
    return kind(**said)


def _deed(event: AnyEvent, detail: str) -> Deed | None:
    match event:
        case Note():
            return Say(name=str(event.seq), draft=draft_of(event, detail))
        case NoteRetracted():
            return Retract(note=str(event.note), reason=event.reason)
        case ClaimRefused():
            return Say(name="", draft=Claim(text=event.text, scope=event.scope, task=event.task))
        case _:
            return _deed_on_claim(event)


def _deed_on_claim(event: AnyEvent) -> Deed | None:
    match event:
        case ClaimReleased() if event.outcome in _OUTCOMES:
            return Release(claim=str(event.claim), outcome=_OUTCOMES[event.outcome], text=event.text)
        case ClaimNarrowed():
            return Narrow(claim=str(event.claim), scope=event.scope)
        case ClaimTransferred():
            return Transfer(claim=str(event.claim), to=event.holder)
        case _:
            return None


def names_in(draft: Common) -> tuple[str, ...]:
    """Give the names of the earlier notes that a draft of an export refers to."""
    claim = (draft.claim,) if isinstance(draft, PatchSummary) and draft.claim is not None else ()
    return tuple(str(seq) for seq in (*(ref.seq for ref in draft.refs), *claim))
