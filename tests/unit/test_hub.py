"""The fan-out of one board: what is kept in memory, how events are put into frames, and who is handed what."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from board.core.history import Record
from board.core.selection import Filter
from board.core.spelling import spell
from board.hub import FRAME_BYTES, RECORD_BYTES, Channel, Tail, frame, frames_of
from schema.codec import encode
from schema.events import Note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pytestmark = pytest.mark.anyio

ALL = Filter()
FACTS = Filter(types=("FACT",))


def note(seq: int, *, type_: str = "FACT", text: str = "x", scope: tuple[str, ...] = ()) -> Record:
    event = Note(seq=seq, at="2026-12-01T10:00:00.000000Z", author="w1", type=type_, text=text, scope=scope)
    return Record(event, seq, encode(event))


def notes(first: int, last: int) -> list[Record]:
    return [note(seq) for seq in range(first, last + 1)]


def payload_of(data: bytes) -> bytes:
    """Unwrap a frame whose payload is shorter than 65,536 bytes."""
    return data[2:] if data[1] < 126 else data[4:] if data[1] == 126 else data[10:]


def seqs_in(frames: Sequence[bytes]) -> list[int]:
    return [event["seq"] for data in frames for event in msgspec.json.decode(payload_of(data))["events"]]


class Ear:
    """A reader that writes down what it is handed, and may do something on the way."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.seqs: list[int] = []
        self.position = 0
        self.cut: int | None = None
        self._then = then

    def deliver(self, frames: Sequence[bytes], seq: int) -> None:
        """Take frames."""
        self.seqs += seqs_in(frames)
        self.position = seq
        self._then()

    def cut_off(self, seq: int) -> None:
        """Write down what was lost."""
        self.cut = seq


def channel(head: int = 0, *, tail_bytes: int = 1_000_000) -> Channel:
    return Channel(head, spell, tail_bytes=tail_bytes)


async def publish(one: Channel, *batches: Sequence[Record]) -> None:
    for batch in batches:
        one.publish(batch)
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("size", "head"),
    [(0, b"\x81\x00"), (125, b"\x81\x7d"), (126, b"\x81\x7e\x00\x7e"), (65_535, b"\x81\x7e\xff\xff"),
     (65_536, b"\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00")],
)  # fmt: skip
def test_a_frame_says_its_length(size: int, head: bytes) -> None:
    """A frame is text, final and unmasked, with its length in the shortest of three forms."""
    assert frame(b"x" * size) == head + b"x" * size


def test_no_events_make_no_frame() -> None:
    """Nothing to send is sent as nothing."""
    assert frames_of([]) == []


@pytest.mark.parametrize("size", [1, 100, FRAME_BYTES // 3, FRAME_BYTES - 27, FRAME_BYTES])
def test_frames_hold_every_event_once(size: int) -> None:
    """Events are split into frames in order; a payload is over the limit only where one event alone is."""
    bodies = [b"%d%s" % (number, b"0" * size) for number in range(1, 8)]
    frames = frames_of(bodies)
    payloads = [payload_of(data) for data in frames]
    assert b",".join(payload[len(b'{"op":"events","events":[') : -2] for payload in payloads) == b",".join(bodies)
    assert all(len(payload) <= FRAME_BYTES or payload.count(b",") == 1 for payload in payloads)


def test_frames_are_filled() -> None:
    """Small events share a frame as long as they fit."""
    assert len(frames_of([b"1"] * 1000)) == 1
    assert len(frames_of([b"1" * 1000] * 1000)) == 4


def test_the_tail_keeps_the_newest() -> None:
    """The tail drops its oldest events over its bound in bytes, and says how far it reaches back."""
    size = len(note(5).body) + RECORD_BYTES
    tail = Tail(4, 3 * size)
    assert (tail.reaches, tail.head) == (4, 4)
    tail.extend(notes(5, 9))
    assert (tail.reaches, tail.head) == (6, 9)
    assert [record.seq for record in tail.after(6, limit=9)] == [7, 8, 9]
    assert [record.seq for record in tail.after(7, limit=1)] == [8]
    assert tail.after(9, limit=9) == []
    assert tail.record(6) is None
    assert tail.record(7) == note(7)
    assert tail.record(10) is None


def test_the_tail_keeps_one_event_of_any_size() -> None:
    """An event that is larger than the bound is kept until the next."""
    tail = Tail(0, 10)
    tail.extend(notes(1, 2))
    assert (tail.reaches, tail.head) == (1, 2)


def test_the_tail_gives_the_same_from_either_end() -> None:
    """What follows a seq is given in order and up to the limit, wherever in the tail it lies."""
    tail = Tail(0, 1_000_000)
    tail.extend(notes(1, 20))
    for after in range(21):
        for limit in (1, 7, 100):
            expected = list(range(after + 1, 21))[:limit]
            assert [record.seq for record in tail.after(after, limit=limit)] == expected


async def test_a_channel_that_begins_anew_tells_its_readers() -> None:
    """What was published and not swept is dropped, every reader hears up to where it has all, and the tail goes on."""
    one, ears = channel(), (Ear(), Ear())
    one.join(ears[0], ALL)
    one.join(ears[1], Filter(types=("FAIL",)))
    await publish(one, notes(1, 3))
    one.publish(notes(4, 5))
    one.restart(90)
    assert [ear.cut for ear in ears] == [3, 3]
    await publish(one, notes(91, 92))
    assert ears[0].seqs == [1, 2, 3, 91, 92]
    assert (one.tail.reaches, one.swept) == (90, 92)


async def test_what_comes_in_one_turn_goes_out_together() -> None:
    """Batches that are published before the sweep reach a reader in one delivery, each event once."""
    one, ear = channel(), Ear()
    one.join(ear, ALL)
    one.publish(notes(1, 2))
    one.publish(notes(3, 3))
    assert (ear.seqs, one.swept) == ([], 0)
    await asyncio.sleep(0)
    assert (ear.seqs, ear.position, one.swept) == ([1, 2, 3], 3, 3)
    await publish(one, notes(4, 4))
    assert ear.seqs == [1, 2, 3, 4]


async def test_a_burst_larger_than_the_tail_is_delivered_whole() -> None:
    """Live readers get every event of a burst that the tail is too small to keep."""
    one, ear = channel(tail_bytes=200), Ear()
    one.join(ear, ALL)
    await publish(one, notes(1, 50), notes(51, 99))
    assert ear.seqs == list(range(1, 100))
    assert one.tail.reaches > 90


async def test_readers_of_one_filter_share_the_bytes() -> None:
    """Two readers that want the same are handed the very same frames, whoever wants less only what it wants."""
    frames: list[list[bytes]] = []

    class Keeper(Ear):
        def deliver(self, given: Sequence[bytes], seq: int) -> None:
            frames.append(list(given))
            super().deliver(given, seq)

    one = channel()
    first, second, other = Keeper(), Keeper(), Ear()
    one.join(first, FACTS)
    one.join(second, Filter(types=("FACT",)))
    one.join(other, Filter(types=("FAIL",)))
    await publish(one, [note(1), note(2, type_="FAIL"), note(3)])
    assert (first.seqs, second.seqs, other.seqs) == ([1, 3], [1, 3], [2])
    assert frames[0][0] is frames[1][0]
    assert (one.readers, one.delivered) == (3, 5)


async def test_a_filter_by_scope_keeps_what_overlaps() -> None:
    """A reader of a directory is handed the notes about what lies in it."""
    one, ear = channel(), Ear()
    one.join(ear, Filter(scope=(spell("src"),)))
    await publish(one, [note(1, scope=("src/a.c",)), note(2, scope=("doc/a.md",)), note(3)])
    assert ear.seqs == [1]
    assert one.swept == 3


async def test_members_may_change_during_a_sweep() -> None:
    """A reader that leaves, or lets another join, while it is handed frames disturbs nobody."""
    one = channel()
    late = Ear()
    leaver = Ear(lambda: one.leave(leaver, ALL))
    inviter = Ear(lambda: one.join(late, FACTS))
    steady = Ear()
    for ear in (leaver, inviter, steady):
        one.join(ear, ALL)
    await publish(one, notes(1, 2))
    await publish(one, notes(3, 3))
    assert (leaver.seqs, steady.seqs, inviter.seqs) == ([1, 2], [1, 2, 3], [1, 2, 3])
    assert late.seqs == [3]


async def test_leaving_twice_or_without_joining_is_harmless() -> None:
    """To leave is idempotent, and the last of a group takes it along."""
    one, ear = channel(), Ear()
    one.leave(ear, ALL)
    one.join(ear, ALL)
    one.leave(ear, ALL)
    one.leave(ear, ALL)
    await publish(one, notes(1, 1))
    assert (ear.seqs, one.readers) == ([], 0)


async def test_a_page_of_the_tail_is_bounded() -> None:
    """A page holds so many bytes, or one event, and looks at so many events, kept by the filter or not."""
    one = channel()
    await publish(one, [note(seq, type_="FACT" if seq % 2 else "FAIL") for seq in range(1, 101)])
    size = len(note(10).body)

    def page(seq: int, where: Filter, max_bytes: int, limit: int) -> tuple[int, int]:
        bodies, position = one.bodies_after(seq, where, max_bytes=max_bytes, limit=limit)
        return len(bodies), position

    assert page(0, ALL, 1_000_000, 500) == (100, 100)
    assert page(10, ALL, 3 * size, 500) == (3, 13)
    assert page(0, ALL, 1, 500) == (1, 1)
    assert page(0, FACTS, 1_000_000, 10) == (5, 10)
    assert page(0, Filter(types=("CLAIM",)), 1, 500) == (0, 100)
    assert page(100, ALL, 1, 500) == (0, 100)
