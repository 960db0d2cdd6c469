"""A team's issue list, read as what the team would have said on a board.

One line an event: `t` (seconds since 1970), `event`, `issue`, and where known `by`, `title`, `type`, `reason`, `text`,
`on`, `rel`. Created is an OBSERVED, claimed and hooked a CLAIM on `task:<issue>`, closed its release and a FACT,
a comment or a dependency a FACT, blocked and reopened a FAIL, deferred an OBSERVED.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from schema.limits import CLAIM_LIFE_S
from schema.notes import Claim, Fact, Fail, Observed
from workers.acts import Act, Deed, Release, Say, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Spoken = Observed | Fact | Fail | Claim
"""The notes that say one text."""

NOBODY: Final = "anonymous"

_SENTENCE: Final = re.compile(r".+?[.!?:;](?=\s)|.+", re.DOTALL)
_CUT: Final = " … (all of it in detail)"


class TraceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One event of the list, as it is written."""

    t: float
    event: str
    issue: str
    by: str = NOBODY
    title: str = ""
    type: str = ""
    reason: str = ""
    text: str = ""
    on: str = ""
    rel: str = ""


_decoder: Final = msgspec.json.Decoder(TraceLine)


def is_trace(line: bytes) -> bool:
    """Tell whether a file that begins with this line is such a list."""
    try:
        _decoder.decode(line)
    except msgspec.DecodeError:
        return False
    return True


def read_trace(lines: Iterable[bytes], *, text_chars: int) -> Iterator[Act | Unread]:
    """Read a whole list, in order. Texts of more than `text_chars` are shortened, with all of it in `detail`."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield from acts_of(number, line, text_chars=text_chars)


def acts_of(number: int, line: bytes, *, text_chars: int) -> Iterator[Act | Unread]:
    """Read one line: the acts that it stands for, or the reason why it stands for none."""
    try:
        event = _decoder.decode(line)
    except msgspec.DecodeError as error:
        yield Unread(line=number, reason=f"not a line of a trace: {error}")
        return
    deeds = _deeds(event, text_chars)
    if not deeds:
        yield Unread(line=number, reason=f"event {event.event!r} has no reading")
    for deed in deeds:
        yield Act(line=number, at_s=event.t, author=event.by, deed=deed)


def shorten(text: str, limit: int) -> tuple[str, str]:
    """Give what a note can say of a text, and the whole text for `detail` (empty where nothing was left out).

    What is said is the first sentence, or its beginning up to a word, and says that there is more.
    """
    if len(text) <= limit:
        return text, ""
    room = limit - len(_CUT)
    sentence = _SENTENCE.match(text.strip())
    first = " ".join(sentence[0].split()) if sentence is not None else ""
    if len(first) > room:
        first = first[:room].rsplit(" ", 1)[0]
    return first + _CUT, text


def _deeds(event: TraceLine, text_chars: int) -> list[Deed]:
    task = f"task:{event.issue}"
    draft = _draft(event)
    if draft is None:
        return []
    match event.event:
        case "closed":
            return [Release(claim=task), _say(event, draft, (task,), text_chars)]
        case "depends":
            return [_say(event, draft, (task, f"task:{event.on}"), text_chars)]
        case _:
            return [_say(event, draft, (task,), text_chars)]


def _draft(event: TraceLine) -> Spoken | None:
    match event.event:
        case "created":
            return Observed(text=event.title, tags=(event.type,) if event.type else ())
        case "claimed" | "hooked":
            intent = event.reason or f"work on {event.issue}"
            return Claim(text=intent, scope=(f"task:{event.issue}",), ttl_s=CLAIM_LIFE_S)
        case "closed" | "comment":
            return Fact(text=event.reason or event.text)
        case "depends":
            return Fact(text=f"{event.issue} {event.rel or 'depends on'} {event.on}")
        case "blocked" | "reopened" | "deferred":
            kind = Observed if event.event == "deferred" else Fail
            return kind(text=event.reason or event.text)
        case _:
            return None


def _say(event: TraceLine, draft: Spoken, scope: tuple[str, ...], text_chars: int) -> Say:
    text, detail = shorten(draft.text.strip() or f"{event.issue} was {event.event}", text_chars)
    whole = replace(draft, text=text, detail=detail, scope=scope, task=event.issue)
    return Say(name=scope[0] if isinstance(draft, Claim) else "", draft=whole, shortened=bool(detail))
