"""What a log says about the work of a team: counted in one pass over an export, holding counts and not notes."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from schema.codec import us_of_text
from schema.events import (
    AnyEvent,
    ClaimExpired,
    ClaimGranted,
    ClaimRefused,
    ClaimReleased,
    ConflictClosed,
    ConflictOpened,
    Note,
)
from workers.exported import header_of, read_export

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BUSIEST: Final = 10

_US: Final = 1_000_000


class HoldTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long claims were held, in seconds, of those that ended: how many, and the spread."""

    ended: int = 0
    median_s: float = 0.0
    p90_s: float = 0.0
    longest_s: float = 0.0


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """What became of claims. `granted` were held at some time, `contested` beside another's.

    `refused` asked for what another held and got nothing: each is duplicate work that was averted. `deadlocks` would
    have closed a ring of waiters. `live` still were held at the end of the log. `outcomes` counts releases.
    """

    granted: int = 0
    contested: int = 0
    waited: int = 0
    refused: int = 0
    deadlocks: int = 0
    expired: int = 0
    live: int = 0
    outcomes: dict[str, int] = {}
    held: HoldTimes = HoldTimes()


class Conflicts(msgspec.Struct, frozen=True, kw_only=True):
    """Conflicts that were opened, and how those that ended did."""

    opened: int = 0
    closed: dict[str, int] = {}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All of it; every mapping begins with the largest count. `busiest` counts notes and claims by target.

    What came up to the seq `after` is not in the export, and not counted.
    """

    after: int = 0
    events: int = 0
    first_at: str = ""
    last_at: str = ""
    kinds: dict[str, int] = {}
    notes: dict[str, int] = {}
    authors: dict[str, dict[str, int]] = {}
    claims: Claims = Claims()
    conflicts: Conflicts = Conflicts()
    averted: dict[str, int] = {}
    busiest: dict[str, int] = {}


class Counting:
    """Counts events one after the other, in the log's order; `report` may be asked for at any time."""

    def __init__(self) -> None:
        self._first_at = ""
        self._last_at = ""
        self._kinds: Counter[str] = Counter()
        self._notes: Counter[str] = Counter()
        self._authors: dict[str, Counter[str]] = {}
        self._claims: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._closed: Counter[str] = Counter()
        self._averted: Counter[str] = Counter()
        self._targets: Counter[str] = Counter()
        self._since_us: dict[int, int] = {}
        self._held_us: list[int] = []

    def add(self, event: AnyEvent) -> None:
        """Count one event."""
        self._first_at = self._first_at or event.at
        self._last_at = event.at
        self._kinds[kind_of(event)] += 1
        match event:
            case Note():
                self._add_note(event)
            case ClaimRefused():
                self._add_refusal(event)
            case ClaimGranted():
                self._hold(event.claim, event.at)
            case ClaimReleased():
                self._outcomes[event.outcome] += 1
                self._end(event.claim, event.at)
            case ClaimExpired():
                self._claims["expired"] += 1
                self._end(event.claim, event.at)
            case ConflictOpened():
                self._claims["conflicts"] += 1
            case ConflictClosed():
                self._closed[event.how] += 1
            case _:
                pass

    def add_unknown(self, kind: str) -> None:
        """Count an event of a kind that this version does not know."""
        self._kinds[kind] += 1

    def report(self) -> Report:
        """Give what was counted so far."""
        return Report(
            events=self._kinds.total(),
            first_at=self._first_at,
            last_at=self._last_at,
            kinds=_largest(self._kinds),
            notes=_largest(self._notes),
            authors={name: _largest(self._authors[name]) for name in self._busiest_authors()},
            claims=self._claims_report(),
            conflicts=Conflicts(opened=self._claims["conflicts"], closed=_largest(self._closed)),
            averted=_largest(self._averted),
            busiest=dict(self._targets.most_common(BUSIEST)),
        )

    def _add_note(self, note: Note) -> None:
        self._notes[note.type] += 1
        self._authors.setdefault(note.author, Counter())[note.type] += 1
        self._targets.update({*note.scope, *note.files})
        match note.state:
            case "held" | "contested":
                self._claims["contested"] += note.state == "contested"
                self._hold(note.seq, note.at)
            case "waiting":
                self._claims["waited"] += 1
            case _:
                pass

    def _add_refusal(self, refused: ClaimRefused) -> None:
        self._targets.update(set(refused.scope))
        if refused.reason == "would_deadlock":
            self._claims["deadlocks"] += 1
        else:
            self._claims["refused"] += 1
            self._averted[refused.author] += 1

    def _hold(self, claim: int, at: str) -> None:
        self._claims["granted"] += 1
        self._since_us[claim] = us_of_text(at)

    def _end(self, claim: int, at: str) -> None:
        since_us = self._since_us.pop(claim, None)
        if since_us is not None:
            self._held_us.append(us_of_text(at) - since_us)

    def _claims_report(self) -> Claims:
        names = ("granted", "contested", "waited", "refused", "deadlocks", "expired")
        counts = {name: self._claims[name] for name in names}
        held = hold_times(self._held_us)
        return Claims(**counts, live=len(self._since_us), outcomes=_largest(self._outcomes), held=held)

    def _busiest_authors(self) -> list[str]:
        return sorted(self._authors, key=lambda name: (-self._authors[name].total(), name))


def report_of(lines: Iterable[bytes]) -> Report:
    """Count an export, line by line. Raises NotAnExport at a line that cannot be read."""
    lines = iter(lines)
    first = list(itertools.islice(lines, 1))
    header, counting = header_of(first[0]) if first else None, Counting()
    for exported in read_export(itertools.chain(first, lines)):
        if exported.event is None:
            counting.add_unknown(exported.beside.kind)
        else:
            counting.add(exported.event)
    return replace(counting.report(), after=header.after if header is not None else 0)


def hold_times(held_us: Sequence[int]) -> HoldTimes:
    """Give the spread of hold times, in seconds; each figure is one of the times, no mean of two."""
    if not held_us:
        return HoldTimes()
    ordered = sorted(held_us)
    median, p90 = (ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.9))
    return HoldTimes(ended=len(ordered), median_s=median / _US, p90_s=p90 / _US, longest_s=ordered[-1] / _US)


def kind_of(event: AnyEvent) -> str:
    """Name the kind of an event."""
    return str(event.__struct_config__.tag)


def _largest(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
