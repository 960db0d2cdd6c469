"""Teams of 32, 128 and 1,024 workers take on the work of a real program's history, and claim it before they begin.

A worker claims what its next change touches as soon as its last one is in, so all of the team hold or ask at all times.
Refused, it takes what of it is free; where nothing is, it leaves the change to whoever is on it (that is duplicate work
averted) and asks for its next. Every tenth claim contests instead of being refused. When a change is due, its worker
posts the PATCH_SUMMARY and releases.

A claim's latency is from before its request to its answer. Connections are shared by the team, and a wait for a free
one counts.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec
import uvloop

from loadtest.calls import Answer, Calls
from loadtest.history import Job, shared_out
from loadtest.lanes import Lanes
from loadtest.processes import HOST
from loadtest.quantiles import Quantiles, quantiles_of
from loadtest.report import Figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadtest.history import Change

TEAMS: Final = (32, 128, 1024)
CONTEST_EVERY: Final = 10
TTL_S: Final = 21_600
"""The longest lease there is: the team's time is compressed, and the server's clock is not."""

_LANES: Final = 256


class Team(msgspec.Struct, frozen=True, kw_only=True):
    """How one team fared.

    `asked` counts claims, `partial` those that were asked again for what was free. `refused`, `conflicts` and `averted`
    are the board's own counts: refusals, conflicts that were opened, and changes that nobody did twice. `errors` counts
    any other answer than the expected ones, by code.
    """

    workers: int
    changes: int
    seconds: float
    asked: int
    claims_per_s: float
    held: int
    partial: int
    refused: int
    conflicts: int
    averted: int
    claim: Quantiles
    errors: dict[str, int]


class _Claimed(msgspec.Struct):
    seq: int


class _Refused(msgspec.Struct):
    free: tuple[str, ...] = ()


class _Board(msgspec.Struct):
    events: dict[str, int] = {}


class Shift:
    """One team at work."""

    def __init__(self, calls: Calls, speed: float) -> None:
        self.taken_ns: list[int] = []
        self.counts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self._calls = calls
        self._speed = speed
        self._begun_s = time.monotonic()

    async def run(self, jobs: Sequence[Sequence[Job]]) -> None:
        """Let every worker do its jobs."""
        self._begun_s = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for number, own in enumerate(jobs):
                tasks.create_task(self._work(f"worker-{number:04}", own))

    async def _work(self, worker: str, jobs: Sequence[Job]) -> None:
        for job in jobs:
            claim = await self._claim_all_or_some(worker, job)
            if claim is None:
                self.counts["averted"] += 1
                continue
            await asyncio.sleep(max(0.0, self._begun_s + job.due_s / self._speed - time.monotonic()))
            await self._finish(worker, job, claim)

    async def _claim_all_or_some(self, worker: str, job: Job) -> int | None:
        answer = await self._claim(worker, job, job.change.scope)
        if answer.status == 409:
            free = answer.read(_Refused).free
            if not free:
                return None
            self.counts["partial"] += 1
            answer = await self._claim(worker, job, free)
        if answer.status != 201:
            return None
        self.counts["held"] += 1
        return answer.read(_Claimed).seq

    async def _claim(self, worker: str, job: Job, scope: tuple[str, ...]) -> Answer:
        note: dict[str, Any] = {"type": "CLAIM", "text": f"change {job.number}", "scope": scope, "ttl_s": TTL_S}
        if job.number % CONTEST_EVERY == 0:
            note["on_conflict"] = "contest"
        answer = await self._calls.post("/notes", note, worker=worker)
        self.taken_ns.append(answer.taken_ns)
        self._expect(answer, 201, 409)
        return answer

    async def _finish(self, worker: str, job: Job, claim: int) -> None:
        summary = {
            "type": "PATCH_SUMMARY",
            "files": list(job.change.files),
            "idea": f"change {job.number} of the history",
            "evidence": "ran the tests of the readers, all passed",
            "claim": claim,
        }
        self._expect(await self._calls.post("/notes", summary, worker=worker), 201)
        release = await self._calls.post(f"/claims/{claim}/release", {"outcome": "done"}, worker=worker)
        self._expect(release, 200)

    def _expect(self, answer: Answer, *statuses: int) -> None:
        if answer.status not in statuses:
            self.errors[answer.code or str(answer.status)] += 1


async def measure(calls: Calls, changes: list[Change], workers: int, speed: float) -> Team:
    """Let one team do the work of the history on a board of its own."""
    await calls.create()
    shift = Shift(calls, speed)
    begun_s = time.monotonic()
    await shift.run(shared_out(changes, workers))
    took_s = time.monotonic() - begun_s
    events = (await calls.get("")).read(_Board).events
    return Team(
        workers=workers,
        changes=len(changes),
        seconds=took_s,
        asked=len(shift.taken_ns),
        claims_per_s=len(shift.taken_ns) / took_s,
        held=shift.counts["held"],
        partial=shift.counts["partial"],
        refused=events.get("claim.refused", 0),
        conflicts=events.get("conflict.opened", 0),
        averted=shift.counts["averted"],
        claim=quantiles_of(shift.taken_ns),
        errors=dict(shift.errors),
    )


async def _measure_all(port: int, changes: list[Change], teams: Sequence[int], speed: float) -> list[Team]:
    async with Lanes(HOST, port, _LANES) as lanes:
        stamp = f"{time.time_ns():x}"
        return [await measure(Calls(lanes, f"claims-{size}-{stamp}"), changes, size, speed) for size in teams]


def run(port: int, changes: list[Change], teams: Sequence[int], speed: float) -> list[Team]:
    """Measure every team, one after the other, on a server that runs."""
    return uvloop.run(_measure_all(port, changes, teams, speed))


def figures(results: Sequence[Team]) -> Figures:
    """Put the teams side by side."""
    columns = ("workers", "changes", "seconds", "claims asked", "claims/s", "held", "in part", "refused", "conflicts")
    columns += ("averted", "claim p50 ms", "p99", "max", "errors")
    return Figures(
        title="Claims of a team on a real program's history, six hours squeezed",
        columns=columns,
        rows=tuple(
            (
                f"{team.workers:,}",
                team.changes,
                team.seconds,
                team.asked,
                team.claims_per_s,
                team.held,
                team.partial,
                team.refused,
                team.conflicts,
                team.averted,
                team.claim.p50,
                team.claim.p99,
                team.claim.max,
                ", ".join(f"{count} {code}" for code, count in team.errors.items()) or 0,
            )
            for team in results
        ),
    )
