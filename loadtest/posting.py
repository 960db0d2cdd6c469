"""An open-loop poster: notes leave at their times, whether or not the answers to earlier ones are in."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from loadtest.lanes import encode_request
from loadtest.notes import draft, mark

if TYPE_CHECKING:
    from loadtest.lanes import Lanes

PATH: Final = "/v1/boards/main/notes"

_NEAR_S: Final = 0.0002


class Publisher(Protocol):
    """How a marked note gets to a server. `publish` never blocks; `drained` returns when the server has all."""

    def publish(self, mark_: bytes) -> None:
        """Send a note."""
        ...

    async def drained(self) -> None:
        """Return when each note that was published has been answered."""
        ...


class Post(msgspec.Struct, frozen=True):
    """One note's way: when it was begun, and how long until its answer was in, the wait for a connection included."""

    begun_ns: int
    taken_ns: int


class BoardPublisher:
    """Posts notes to a board, one a request."""

    def __init__(self, lanes: Lanes, worker: str = "poster") -> None:
        self.posts: list[Post] = []
        self.refused = 0
        self._lanes = lanes
        self._worker = worker

    def publish(self, mark_: bytes) -> None:
        """Post a note."""
        begun_ns = time.monotonic_ns()

        def answered(status: int, _: bytes) -> None:
            self.posts.append(Post(begun_ns, time.monotonic_ns() - begun_ns))
            self.refused += status != 201

        self._lanes.submit(encode_request("POST", PATH, draft(mark_), worker=self._worker), answered)

    async def drained(self) -> None:
        """Return when every answer is in."""
        await self._lanes.drained()

    def taken_ns(self, first_ns: int, last_ns: int) -> list[int]:
        """Give how long those took that were begun in this time."""
        return [post.taken_ns for post in self.posts if first_ns <= post.begun_ns <= last_ns]


class Pace:
    """Sends notes of one phase at a rate.

    `lag_ns` is how late each was begun: the generator's own fault, and not part of the note's latency, whose clock
    starts when it is begun. `sent` counts from `first`, the index of the first note.
    """

    def __init__(self, publisher: Publisher, phase: int, rate_per_s: float, *, first: int = 0) -> None:
        self.sent = first
        self.lag_ns: list[int] = []
        self._publisher = publisher
        self._phase = phase
        self._gap_ns = int(1e9 / rate_per_s)

    async def run(self, seconds: float) -> None:
        """Send for so long; return when the last note has been answered."""
        first_ns = time.monotonic_ns()
        count = max(1, int(seconds * 1e9 / self._gap_ns))
        for index in range(count):
            await self._until(first_ns + index * self._gap_ns)
            now_ns = time.monotonic_ns()
            self.lag_ns.append(now_ns - first_ns - index * self._gap_ns)
            self._publisher.publish(mark(self._phase, self.sent, now_ns))
            self.sent += 1
        await self._publisher.drained()

    @staticmethod
    async def _until(due_ns: int) -> None:
        early_s = (due_ns - time.monotonic_ns()) / 1e9
        # The loop must turn even when late, or no answer is ever read.
        await asyncio.sleep(early_s if early_s > _NEAR_S else 0)
