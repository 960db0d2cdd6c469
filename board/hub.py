"""Fan-out to the subscribers of this process.

Readers that want the same share one encoding: they form a group, and each sweep encodes a group's frame once and hands
the same bytes to every one of its readers. Sweeps clock themselves: what is committed while one runs, and for as long
again, goes out together in the next. So a quiet board is fast and a busy one is cheap, and posts never have less than half
of the loop: at 1,000 notes a second to 1,024 readers sweeps one after the other left them so little that everything was late.

A reader that lags leaves its group and is fed from the log (or from the tail, the newest events, which are kept in
memory); it comes back when it has what its group has. So nobody's queue grows, and nobody waits for anybody.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from board.core.selection import selects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from board.core.history import Record
    from board.core.scope import Target
    from board.core.selection import Filter

FRAME_BYTES: Final = 262_144
"""The most that the payload of one frame holds, unless a single event is larger: under the 1 MiB that clients take by default."""

REST_S: Final = 0.025
"""The most seconds between two sweeps that are due."""

SHORT_S: Final = 0.001
"""A rest that is too short for a timer of the loop."""

SHARED_PAGES: Final = 16
"""Pages of the tail that are kept for other readers who stand at the same place, each of at most one page's bytes."""

RECORD_BYTES: Final = 2048
"""What an event in memory takes beside its encoded body: its decoded fields and the objects around them."""

_OPEN: Final = b'{"op":"events","events":['
_CLOSE: Final = b"]}"
_EMPTY_BYTES: Final = len(_OPEN) + len(_CLOSE)


class _Events(msgspec.Struct):
    events: list[msgspec.Raw]


_payload: Final = msgspec.json.Decoder(_Events)


class Reader(Protocol):
    """One subscriber, as its group sees it."""

    def deliver(self, frames: Sequence[bytes], seq: int) -> None:
        """Take frames that bring the reader up to `seq`. Never blocks, never raises."""
        ...

    def cut_off(self, seq: int) -> None:
        """Hear that it has all up to `seq`, and that what follows did not come here. Never blocks, never raises."""
        ...


def frame(payload: bytes) -> bytes:
    """Make one unmasked, uncompressed text frame (RFC 6455, section 5.2)."""
    size = len(payload)
    if size < 126:
        return b"\x81" + size.to_bytes(1, "big") + payload
    if size < 65_536:
        return b"\x81\x7e" + size.to_bytes(2, "big") + payload
    return b"\x81\x7f" + size.to_bytes(8, "big") + payload


def bodies_of(data: bytes) -> list[msgspec.Raw]:
    """Take the encoded events out of an `events` frame that `frames_of` made."""
    size = data[1]
    start = 2 if size < 126 else 4 if size == 126 else 10
    return _payload.decode(data[start:]).events


def frames_of(bodies: Sequence[bytes]) -> list[bytes]:
    """Join encoded events into `events` frames, each of at most `FRAME_BYTES` (or of one event)."""
    frames: list[bytes] = []
    start, size = 0, _EMPTY_BYTES
    for index, body in enumerate(bodies):
        if index > start and size + len(body) > FRAME_BYTES:
            frames.append(_events_frame(bodies[start:index]))
            start, size = index, _EMPTY_BYTES
        size += len(body) + 1
    if start < len(bodies):
        frames.append(_events_frame(bodies[start:]))
    return frames


def _events_frame(bodies: Sequence[bytes]) -> bytes:
    return frame(_OPEN + b",".join(bodies) + _CLOSE)


_body: Final = attrgetter("body")


class Tail:
    """The newest events of a board, in memory, bounded in bytes. It never has a hole."""

    def __init__(self, head: int, limit_bytes: int) -> None:
        self._records: deque[Record] = deque()
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self.head = head
        """The seq of the newest event that was ever added."""

    @property
    def reaches(self) -> int:
        """The tail holds every event after this seq."""
        return self._records[0].seq - 1 if self._records else self.head

    @property
    def bytes(self) -> int:
        """How many bytes of events it holds."""
        return self._bytes

    def extend(self, records: Sequence[Record]) -> None:
        """Add events that follow; drop the oldest over the bound."""
        self._records.extend(records)
        self._bytes += sum(map(len, map(_body, records))) + RECORD_BYTES * len(records)
        self.head = records[-1].seq
        while self._bytes > self._limit_bytes and len(self._records) > 1:
            self._bytes -= len(self._records.popleft().body) + RECORD_BYTES

    def restart(self, seq: int) -> None:
        """Hold nothing, and go on after `seq`."""
        self._records.clear()
        self._bytes = 0
        self.head = seq

    def record(self, seq: int) -> Record | None:
        """The event, if the tail still holds it."""
        index = seq - self.reaches - 1
        return self._records[index] if 0 <= index < len(self._records) else None

    def after(self, seq: int, *, limit: int) -> list[Record]:
        """Give the events after `seq`, which must not lie before `reaches`, at most `limit`."""
        assert seq >= self.reaches, (seq, self.reaches)
        skip, left = seq - self.reaches, self.head - seq
        if left < skip:  # from the end that is nearer: most readers lack the newest few of many thousand
            return list(islice(reversed(self._records), left))[::-1][:limit]
        return list(islice(self._records, skip, skip + limit))


class Group:
    """The readers of one board that want the same events."""

    def __init__(self, where: Filter, spell: Callable[[str], Target]) -> None:
        self.where = where
        self.readers: dict[Reader, None] = {}
        self._spell = spell
        self._all = not where

    def bodies(self, records: Sequence[Record]) -> list[bytes]:
        """The encoded events that this group wants."""
        if self._all:
            return [record.body for record in records]
        return [record.body for record in records if selects(self.where, record.event, self._spell)]


class Channel:
    """One board's fan-out."""

    def __init__(self, head: int, spell: Callable[[str], Target], *, tail_bytes: int) -> None:
        self.tail = Tail(head, tail_bytes)
        self.delivered = 0
        """How many events were handed to readers, over all of them."""
        self._spell = spell
        self._groups: dict[Filter, Group] = {}
        self._fresh: list[Record] = []
        self._rested_s = 0.0
        """When the next sweep may begin, by the monotonic clock."""
        self._pages: dict[tuple[int, Filter, int, int], tuple[list[bytes], int]] = {}

    @property
    def swept(self) -> int:
        """What every reader in a group has been handed: all that the tail was ever given."""
        return self.tail.head

    @property
    def readers(self) -> int:
        """How many readers are live."""
        return sum(len(group.readers) for group in self._groups.values())

    def publish(self, records: Sequence[Record]) -> None:
        """Take events that are durable; they go out in the next sweep.

        They enter the tail with that sweep, not now: the tail may be too small for all of them.
        """
        if not self._fresh:
            self._sweep_soon()
        self._fresh.extend(records)

    def _sweep_soon(self) -> None:
        rest_s, loop = self._rested_s - time.monotonic(), asyncio.get_running_loop()
        if rest_s > SHORT_S:
            loop.call_later(rest_s, self._sweep)
        else:
            loop.call_soon(self._sweep)

    def record(self, seq: int) -> Record | None:
        """An event that was published, if it waits for the next sweep or the tail still holds it."""
        waits = bool(self._fresh) and seq >= self._fresh[0].seq
        return self._fresh[seq - self._fresh[0].seq] if waits else self.tail.record(seq)

    def restart(self, seq: int) -> None:
        """Go on after `seq`: what came before it never came here. Every reader is told."""
        swept, self._fresh = self.swept, []
        self.tail.restart(seq)
        for group in list(self._groups.values()):
            for reader in list(group.readers):
                reader.cut_off(swept)

    def join(self, reader: Reader, where: Filter) -> None:
        """Add a reader that has everything up to `swept`."""
        group = self._groups.get(where)
        if group is None:
            group = self._groups[where] = Group(where, self._spell)
        group.readers[reader] = None

    def leave(self, reader: Reader, where: Filter) -> None:
        """Remove a reader, if it is there."""
        group = self._groups.get(where)
        if group is not None:
            group.readers.pop(reader, None)
            if not group.readers:
                del self._groups[where]

    def bodies_after(self, seq: int, where: Filter, *, max_bytes: int, limit: int) -> tuple[list[bytes], int]:
        """A page of what a reader at `seq` still needs up to `swept`, and the seq that it brings the reader to.

        The tail must reach back to `seq`. The page is made of at most `limit` events of the tail, whether the filter
        keeps them or not, and holds at most `max_bytes`, or one event.
        """
        group, size = Group(where, self._spell), 0
        chosen: list[bytes] = []
        position = seq
        for record in self.tail.after(seq, limit=limit):
            bodies = group.bodies((record,))
            size += sum(map(len, bodies))
            if size > max_bytes and chosen:
                break
            chosen += bodies
            position = record.seq
        return chosen, position

    def frames_after(self, seq: int, where: Filter, *, max_bytes: int, limit: int) -> tuple[list[bytes], int]:
        """Give the page of `bodies_after` in frames; readers that stand at the same place share it until the next sweep."""
        asked = (seq, where, max_bytes, limit)
        page = self._pages.get(asked)
        if page is None:
            bodies, position = self.bodies_after(seq, where, max_bytes=max_bytes, limit=limit)
            if len(self._pages) >= SHARED_PAGES:
                self._pages.clear()
            page = self._pages[asked] = (frames_of(bodies), position)
        return page

    def _sweep(self) -> None:
        """Hand out what waits. The loop then has as long for everything else as that took, before the next sweep."""
        records, self._fresh = self._fresh, []
        if records:
            begun_s = time.monotonic()
            self._hand_out(records)
            now_s = time.monotonic()
            self._rested_s = now_s + min(now_s - begun_s, REST_S)

    def _hand_out(self, records: Sequence[Record]) -> None:
        self.tail.extend(records)
        self._pages.clear()
        for group in list(self._groups.values()):
            bodies = group.bodies(records)
            if not bodies:
                continue
            frames = frames_of(bodies)
            self.delivered += len(bodies) * len(group.readers)
            for reader in list(group.readers):
                reader.deliver(frames, self.tail.head)
