"""What a worker has not acknowledged, and in which order it reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from board.core import framing
from board.core.spelling import spell
from board.core.tokens import tokens
from board.core.unread import (
    RIDES,
    Item,
    Ranked,
    Rides,
    Standing,
    Urgency,
    block_of,
    fit,
    left_out,
    rank,
)
from schema.codec import encode
from schema.events import AnyEvent, ClaimExpired, ConflictOpened, Note, NoteRetracted, PatchInvalidated
from schema.notes import Ref

if TYPE_CHECKING:
    from collections.abc import Sequence

AT = "2026-12-01T10:00:00.000000Z"
ME = Standing("w1", through=10, seqs=frozenset((12,)), claims=(spell("src/a.c"),))


def note(seq: int, **said: Any) -> Note:
    fields: dict[str, Any] = {"author": "w2", "type": "FACT", "text": "t", **said}
    return Note(seq=seq, at=AT, **fields)


def item(event: AnyEvent, **said: Any) -> Item:
    return Item(event, encode(event), **said)


def ranked(*items: Item, standing: Standing = ME) -> list[tuple[Urgency, int]]:
    return [(one.urgency, one.item.seq) for one in rank(items, standing, spell)]


def urgent(*seqs: int, text: str = "t") -> list[Ranked]:
    return [Ranked(Urgency.ADDRESSED, item(note(seq, to=("w1",), text=text))) for seq in seqs]


def test_what_is_said_to_the_reader_comes_first_and_the_rest_last() -> None:
    """The order is: to me or about what is mine, touching my claims, corrections, conflicts, the rest; newest first."""
    items = [
        item(note(20)),
        item(note(21)),
        item(ConflictOpened(seq=22, at=AT, author="board", claims=(1, 2), holders=("w1", "w2"), overlap=("src/a.c",))),
        item(note(23, refs=(Ref("supersedes", 4),))),
        item(NoteRetracted(seq=24, at=AT, author="w2", note=12)),
        item(note(25, scope=("src/a.c:7",))),
        item(note(26, to=("w3", "w1"))),
        item(ClaimExpired(seq=27, at=AT, author="board", claim=1, holder="w1", expires_at=AT)),
        item(PatchInvalidated(seq=28, at=AT, author="board", note=3, by=23), subject_author="w1"),
    ]
    assert ranked(*items) == [
        (Urgency.ADDRESSED, 28),
        (Urgency.ADDRESSED, 27),
        (Urgency.ADDRESSED, 26),
        (Urgency.TOUCHING, 25),
        (Urgency.CORRECTION, 24),
        (Urgency.CORRECTION, 23),
        (Urgency.CONFLICT, 22),
        (Urgency.REST, 21),
        (Urgency.REST, 20),
    ]


def test_what_was_acknowledged_is_not_read_again() -> None:
    """Neither what lies up to `through` nor what was acknowledged by its seq is given."""
    assert ranked(item(note(10, to=("w1",))), item(note(11)), item(note(12))) == [(Urgency.REST, 11)]


def test_ones_own_notes_are_not_unread() -> None:
    """A worker does not read what it wrote, though it touches its claims."""
    assert ranked(item(note(11, author="w1", scope=("src/a.c",)))) == []


def test_events_that_concern_others_are_not_unread() -> None:
    """Of events that are no notes, a worker reads those that concern it alone."""
    others = [
        item(ClaimExpired(seq=11, at=AT, author="board", claim=1, holder="w2", expires_at=AT)),
        item(ConflictOpened(seq=13, at=AT, author="board", claims=(1, 2), holders=("w3", "w2"), overlap=("a",))),
        item(PatchInvalidated(seq=14, at=AT, author="board", note=3, by=2), subject_author="w2"),
        item(NoteRetracted(seq=15, at=AT, author="w2", note=11)),
    ]
    assert ranked(*others) == []


def test_a_note_that_refutes_ones_own_is_a_correction() -> None:
    """Whoever is refuted should know, whether it acknowledged its own note or not."""
    refuting = item(note(30, type="FAIL", refs=(Ref("refutes", 11),)), own_target=True)
    assert ranked(refuting) == [(Urgency.CORRECTION, 30)]


def test_a_long_note_hides_no_other() -> None:
    """What does not fit is passed over; what could never fit is named, so that it can be read by its seq."""
    small, long, huge = item(note(11)), item(note(13, text="x" * 300)), item(note(14, text="x" * 3000))
    found = rank([small, long, huge], ME, spell)
    shown = fit(found, limit=10, budget_tokens=100)
    assert [one.item.seq for one in shown.items] == [11]
    assert shown.too_large == (14, 13)
    assert [one.item.seq for one in fit(found, limit=1, budget_tokens=10_000).items] == [14]


@given(st.lists(st.integers(1, 400), max_size=30), st.integers(1, 40), st.integers(1, 3000))
def test_what_is_shown_stays_within_limit_and_budget(sizes: Sequence[int], limit: int, budget_tokens: int) -> None:
    """However large the notes are, their JSON never counts as more than the budget, nor are there more than asked."""
    found = rank([item(note(20 + at, text="x1" * size)) for at, size in enumerate(sizes)], ME, spell)
    shown = fit(found, limit=limit, budget_tokens=budget_tokens)
    assert len(shown.items) <= limit
    assert tokens(",".join(one.item.body.decode() for one in shown.items)) <= budget_tokens
    counts = left_out({}, found, shown.items)
    assert sum(counts.values()) == len(sizes) - len(shown.items)


def test_what_is_counted_and_not_shown_was_left_out() -> None:
    """Counts by type are those of the whole board where they are known, and at least those of what was found."""
    found = rank([item(note(11)), item(note(13, type="FAIL"))], ME, spell)
    assert left_out({"FACT": 70, "FAIL": 0}, found, found[:1]) == {"FACT": 70}
    assert left_out({"FACT": 70}, found, found[1:]) == {"FACT": 69, "FAIL": 1}


def test_a_block_says_what_to_acknowledge() -> None:
    """A block frames the first ten notes at most, and its last line names just the seqs that it shows."""
    block = block_of(urgent(*range(30, 18, -1)))
    assert block is not None
    assert block.seqs == tuple(range(30, 20, -1))
    lines = block.text.splitlines()
    assert lines[0] == framing.OPENING
    assert lines[-1].endswith(f"ack: [{', '.join(map(str, block.seqs))}] ---")
    assert len(lines) == 12


def test_a_block_is_bounded_in_characters() -> None:
    """Notes that do not fit any more are not shown, and not asked to be acknowledged."""
    block = block_of(urgent(*range(30, 20, -1), text="x" * 400))
    assert block is not None
    assert len(block.text) <= 1500
    assert len(block.seqs) == len(block.text.splitlines()) - 2 < 10


def test_there_is_no_block_without_an_urgent_note() -> None:
    """Nothing urgent, no frame."""
    assert block_of([]) is None


def test_a_note_rides_three_times_at_most() -> None:
    """A note rides along three times for each reader and board, and never after."""
    rides = Rides()
    for _ in range(RIDES):
        assert rides.may("main", "w1", 7)
        rides.count("main", "w1", (7,))
    assert not rides.may("main", "w1", 7)
    assert rides.may("main", "w2", 7)
    assert rides.may("other", "w1", 7)


def test_what_is_forgotten_does_not_ride_again() -> None:
    """The memory of rides is bounded: older notes than it holds have ridden, newer ones are counted anew."""
    rides = Rides(notes=2, readers=1)
    rides.count("main", "w1", (1, 2, 3))
    assert not rides.may("main", "w1", 1)
    assert rides.may("main", "w1", 3)
    rides.count("main", "w2", (1,))
    assert rides.may("main", "w1", 1)
