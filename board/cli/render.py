"""What people see: one line for an event, tables for claims and conflicts, and the reasons of a refusal.

Whatever a note holds was written by somebody else, so no character of it may steer the terminal: all but printable ones
are shown as escapes. Numbers that are copied (seqs, ids, scopes) are never wrapped or cut.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from board.cli.durations import span_of
from schema.codec import us_of_text
from schema.events import (
    AboutClaim,
    AboutConflict,
    AboutNote,
    AnyEvent,
    ClaimGranted,
    ClaimNarrowed,
    ClaimQueued,
    ClaimRefused,
    ClaimReleased,
    ClaimRenewed,
    ClaimTransferred,
    ConflictClosed,
    Note,
    NoteRetracted,
    PatchInvalidated,
    PatchSuperseded,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from workers.client.answers import Check, ClaimView, Conflict, Posted

_WIDE: Final = 10_000
"""Columns of an output that is no terminal: whoever reads it wants whole lines."""

_GAP: Final = 2
"""Columns between two columns of a table."""

_LEAST: Final = 20
"""Columns that are left to a text that is wrapped, even if the terminal is narrower."""

_STYLES: Final = {"FAIL": "red", "FACT": "green", "CLAIM": "yellow", "PATCH_SUMMARY": "cyan"}


def console(*, stderr: bool = False) -> Console:
    """Give a console that colours only a terminal, folds nothing elsewhere, and takes text for what it is."""
    made = Console(stderr=stderr, highlight=False, soft_wrap=True, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = _WIDE
    return made


def plain(text: str) -> str:
    """Show what does not print as an escape: control characters, line ends, and marks that turn the text around."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def plain_block(text: str) -> str:
    """Show a text of several lines: as `plain`, but for line ends and tabs."""
    return "".join(char if char in "\n\t" else plain(char) for char in text)


def event_line(event: AnyEvent) -> Text:
    """Say one event on one line: seq, time, type or kind, author, text, scope."""
    what = event.type if isinstance(event, Note) else str(event.__struct_config__.tag)
    line = Text(f"{event.seq:>6}  {clock(event.at)}  ")
    line.append(f"{what:<15}", _STYLES.get(what, "" if isinstance(event, Note) else "dim"))
    line.append(f"  {plain(event.author):<14}  ", "bold")
    line.append(plain(says(event)))
    where = scope_of(event)
    if where:
        line.append(f"  [{plain(' '.join(where))}]", "blue")
    return line


def clock(at: str) -> str:
    """Say a time to the second, in UTC."""
    return at[:19] + "Z" if at else "-"


def says(event: AnyEvent) -> str:
    """Say in words what an event tells."""
    match event:
        case Note():
            return _says_note(event)
        case AboutClaim():
            return _says_claim(event)
        case AboutConflict():
            first, second = zip(event.claims, event.holders, strict=True)
            ended = f" ended: {event.how}" if isinstance(event, ConflictClosed) else ""
            return f"{first[0]} of {first[1]} and {second[0]} of {second[1]}{ended}"
        case AboutNote():
            return _says_about_note(event)


def scope_of(event: AnyEvent) -> tuple[str, ...]:
    """Give the targets that an event is about."""
    match event:
        case Note():
            return tuple(dict.fromkeys((*event.scope, *event.files)))
        case ClaimRefused() | ClaimNarrowed():
            return event.scope
        case AboutConflict():
            return event.overlap
        case _:
            return ()


def _says_note(note: Note) -> str:
    more = (
        f"until {clock(note.expires_at)}" if note.expires_at else "",
        f"evidence: {note.evidence}" if note.evidence else "",
        f"risk: {note.risk}" if note.risk else "",
        f"exit {note.run.exit_code} of {note.run.command}" if note.run is not None else "",
        " ".join(f"{ref.rel} {ref.seq}" for ref in note.refs),
        f"to {', '.join(note.to)}" if note.to else "",
        "stale" if note.stale else "",
        f"{note.detail_bytes} bytes more: board unfold {note.seq}" if note.detail_bytes else "",
    )
    marks = "; ".join(mark for mark in more if mark)
    said = note.text or note.idea
    return f"{said} ({marks})" if marks else said


def _says_claim(event: AboutClaim) -> str:
    match event:
        case ClaimRefused():
            return f"{event.text} ({event.reason}: {event.claim} of {event.holder})"
        case ClaimReleased():
            words = f"{event.claim} of {event.holder}: {event.outcome}", event.text, event.reason
            return " - ".join(word for word in words if word)
        case ClaimTransferred():
            return f"{event.claim} from {event.giver} to {event.holder}"
        case ClaimGranted() | ClaimRenewed():
            return f"{event.claim} of {event.holder} until {clock(event.expires_at)}"
        case ClaimQueued():
            blockers = ", ".join(f"{blocker.claim} of {blocker.holder}" for blocker in event.blockers)
            return f"{event.claim} of {event.holder} waits for {blockers}"
        case _:
            return f"{event.claim} of {event.holder}"


def _says_about_note(event: AboutNote) -> str:
    match event:
        case NoteRetracted():
            return f"{event.note}: {event.reason}" if event.reason else str(event.note)
        case PatchSuperseded() | PatchInvalidated():
            return f"{event.note} by {event.by}"
        case _:
            return str(event.note)


def event_lines(events: Iterable[AnyEvent]) -> RenderableType:
    """Say events, one a line."""
    return Group(*(event_line(event) for event in events))


class Grid:
    """Rows below headings. No column is wrapped or cut but the last, which is wrapped where a terminal is too narrow.

    Rich alone would rather drop whole columns than print past the edge; what is to be copied must be there.
    """

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        self._columns = columns
        self._rows = [[plain(cell) for cell in row] for row in rows]
        cells = [columns, *self._rows]
        self._widths = [max(cell_len(row[index]) for row in cells) for index in range(len(columns))]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render for one console."""
        *firm, last = self._widths
        taken = sum(width + _GAP for width in firm)
        room = max(_LEAST, options.max_width - taken) if console.is_terminal else last
        widths = [*firm, min(last, room)]
        made = Table(box=None, pad_edge=False, header_style="bold", width=taken + widths[-1])
        for column, width in zip(self._columns, widths, strict=True):
            made.add_column(column, width=width, overflow="fold")
        for row in self._rows:
            made.add_row(*map(Text, row))
        yield made


def table(*columns: str, rows: Iterable[Sequence[str]]) -> Grid:
    """Give rows below headings."""
    return Grid(columns, rows)


def claims_table(claims: Sequence[ClaimView], now_us: int) -> RenderableType:
    """Show who holds what: the seq, the holder, how, since when, for how much longer, conflicts, scope and intent."""
    if not claims:
        return Text("no claims")
    rows = [
        (
            str(claim.claim),
            claim.holder,
            claim.state,
            clock(claim.at),
            claim.outcome or "-" if claim.ended_at else left_of(claim.expires_at, now_us),
            " ".join(map(str, claim.conflicts)) or "-",
            " ".join(claim.scope),
            claim.text,
        )
        for claim in claims
    ]
    return table("claim", "holder", "state", "since", "left", "conflicts", "scope", "what for", rows=rows)


def conflicts_table(conflicts: Sequence[Conflict], now_us: int) -> RenderableType:
    """Show who is in the way: what of, until when, and what for."""
    rows = [
        (
            str(conflict.claim),
            conflict.holder,
            " ".join(conflict.overlap) + (" (possibly)" if conflict.possible else ""),
            f"{clock(conflict.expires_at)} ({left_of(conflict.expires_at, now_us)} left)",
            conflict.text,
        )
        for conflict in conflicts
    ]
    return table("claim", "holder", "holds", "until", "what for", rows=rows)


def claimed(posted: Posted, now_us: int) -> RenderableType:
    """Say what became of a claim: its seq and state, whom it meets, and what is known about its scope."""
    reply = posted.claim
    parts: list[RenderableType] = [Text(str(posted.seq))]
    if reply is not None:
        until = f" until {clock(reply.expires_at)} ({left_of(reply.expires_at, now_us)})" if reply.expires_at else ""
        parts = [Text(f"{posted.seq} {reply.state}{until}")]
        if reply.conflicts:
            parts.append(conflicts_table(reply.conflicts, now_us))
    return Group(*parts, *map(event_line, posted.related))


def check_report(found: Check, now_us: int) -> RenderableType:
    """Say who is in the way of a scope, what of it is free, and what is known about it."""
    parts: list[RenderableType] = [conflicts_table(found.conflicts, now_us)] if found.conflicts else []
    parts.append(Text(f"free: {plain(' '.join(found.free)) or 'nothing'}"))
    return Group(*parts, *map(event_line, found.related))


def left_of(expires_at: str, now_us: int) -> str:
    """Say how much of a lease is left by this machine's clock."""
    return span_of((us_of_text(expires_at) - now_us) / 1e6) if expires_at else "-"


def now_us() -> int:
    """Read this machine's clock."""
    return round(datetime.now(UTC).timestamp() * 1e6)
