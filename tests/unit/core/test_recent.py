"""The index of a board's newest events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.recent import Recent, concerned
from schema.events import (
    AnyEvent,
    ClaimExpired,
    ClaimGranted,
    ClaimNarrowed,
    ClaimRefused,
    ClaimReleased,
    ClaimRenewed,
    ClaimTransferred,
    ConflictClosed,
    ConflictOpened,
    Note,
    NoteRetracted,
    PatchInvalidated,
    PatchSuperseded,
)
from schema.notes import NOTE_TYPES, Ref

if TYPE_CHECKING:
    from collections.abc import Sequence

AT = "2026-12-01T10:00:00.000000Z"


def note(seq: int, author: str = "w2", type: str = "FACT", **said: Any) -> Note:
    return Note(seq=seq, at=AT, author=author, type=type, text="t", **said)  # pyright: ignore[reportArgumentType]


def fed(*events: AnyEvent, since: int = 0, limit: int = 100) -> Recent:
    recent = Recent(since, limit=limit)
    for event in events:
        recent.add(event)
    return recent


@pytest.mark.parametrize(
    ("event", "names"),
    [
        (ClaimExpired(seq=2, at=AT, author="board", claim=1, holder="w1", expires_at=AT), {"w1"}),
        (ClaimGranted(seq=2, at=AT, author="board", claim=1, holder="w1", expires_at=AT), {"w1"}),
        (ClaimRenewed(seq=2, at=AT, author="board", claim=1, holder="w1", expires_at=AT), set()),
        (ClaimReleased(seq=2, at=AT, author="w1", claim=1, holder="w1", outcome="done"), set()),
        (ClaimReleased(seq=2, at=AT, author="w1", claim=1, holder="w1", outcome="handoff", to=("w2",)), {"w2"}),
        (ClaimReleased(seq=2, at=AT, author="root", claim=1, holder="w1", outcome="done", reason="r"), {"w1"}),
        (ClaimNarrowed(seq=2, at=AT, author="root", claim=1, holder="w1", scope=("a",)), {"w1"}),
        (ClaimTransferred(seq=2, at=AT, author="w1", claim=1, holder="w2", giver="w1"), {"w2"}),
        (ClaimTransferred(seq=2, at=AT, author="root", claim=1, holder="w2", giver="w1"), {"w1", "w2"}),
        (ClaimRefused(seq=2, at=AT, author="w2", claim=1, holder="w1", text="", scope=("a",), blockers=()), set()),
        (ConflictOpened(seq=2, at=AT, author="board", claims=(1, 2), holders=("w1", "w2"), overlap=()), {"w1", "w2"}),
        (
            ConflictClosed(
                seq=2, at=AT, author="board", claims=(1, 2), holders=("w1", "w2"), overlap=(), conflict=1, how="expired"
            ),
            {"w1", "w2"},
        ),
        (PatchInvalidated(seq=2, at=AT, author="board", note=1, by=3), {"the author"}),
        (PatchSuperseded(seq=2, at=AT, author="the author", note=1, by=3), set()),
        (NoteRetracted(seq=2, at=AT, author="root", note=1), {"the author"}),
        (NoteRetracted(seq=2, at=AT, author="the author", note=1), set()),
        (note(2), set()),
    ],
)
def test_an_event_concerns_those_to_whom_it_happened(event: AnyEvent, names: set[str]) -> None:
    """Whoever lost or got a claim, stands in a conflict, or wrote what was struck out is concerned; never the doer."""
    assert concerned(event, "the author") == names


def test_notes_are_counted_for_each_reader() -> None:
    """A reader's unread notes are those of others after its position, but for those it acknowledged one by one."""
    recent = fed(note(1), note(2, "w1"), note(3, type="FAIL"), note(4), note(5, "w3", "CLAIM"))
    assert recent.unread("w1", 0, ()) == dict.fromkeys(NOTE_TYPES, 0) | {"FACT": 2, "FAIL": 1, "CLAIM": 1}
    assert recent.unread("w2", 0, ()) == dict.fromkeys(NOTE_TYPES, 0) | {"FACT": 1, "CLAIM": 1}
    assert recent.unread("w1", 3, (4, 2)) == dict.fromkeys(NOTE_TYPES, 0) | {"CLAIM": 1}


def test_a_retracted_note_is_not_counted() -> None:
    """What was taken back is nobody's unread note, acknowledged or not."""
    recent = fed(note(1), note(2), NoteRetracted(seq=3, at=AT, author="w2", note=1))
    assert recent.unread("w1", 0, ())["FACT"] == 1
    assert recent.unread("w1", 0, (1,))["FACT"] == 1


def test_events_are_found_by_whom_they_concern() -> None:
    """Events are given by seq after a position; of a note that is known here, the author needs not be told."""
    recent = fed(
        note(1, "w1", "PATCH_SUMMARY"),
        ClaimExpired(seq=2, at=AT, author="board", claim=1, holder="w1", expires_at=AT),
        PatchInvalidated(seq=3, at=AT, author="board", note=1, by=9),
    )
    assert recent.concerning("w1", 0) == [2, 3]
    assert recent.concerning("w1", 2) == [3]
    assert recent.concerning("w2", 0) == []


def test_the_author_of_an_older_note_must_be_told() -> None:
    """An event about a note from before the index names it as unknown, and is filed under the author that is told."""
    recent, event = Recent(7), PatchInvalidated(seq=8, at=AT, author="board", note=1, by=6)
    assert recent.unknown_subjects(event) == [1]
    recent.add(event, {1: "w1"})
    assert recent.concerning("w1", 7) == [8]
    assert recent.unknown_subjects(NoteRetracted(seq=9, at=AT, author="root", note=1)) == []


def corrections(recent: Recent, worker: str, through: int = 0, *seqs: int) -> set[int]:
    return set(recent.corrections(worker, through, seqs, limit=64))


def test_corrections_are_found_by_whom_they_matter_to() -> None:
    """Notes that refute or supersede, and retractions, matter to the author and to whoever acknowledged what they correct."""
    recent = fed(
        note(1, "w1"),
        note(2, "w2", refs=(Ref("supports", 1),)),
        note(3, "w3", refs=(Ref("refutes", 1), Ref("supersedes", 2))),
        NoteRetracted(seq=4, at=AT, author="w2", note=2),
    )
    assert corrections(recent, "w1") == {3}
    assert corrections(recent, "w2") == {3, 4}
    assert corrections(recent, "w9") == set()
    assert corrections(recent, "w9", 1) == {3}
    assert corrections(recent, "w9", 0, 2) == {3, 4}
    assert corrections(recent, "w9", 3) == {4}


def test_a_correction_that_was_taken_back_is_none() -> None:
    """A note that refuted another and was retracted matters to nobody; its retraction matters to who acknowledged it."""
    recent = fed(note(1, "w1"), note(2, refs=(Ref("refutes", 1),)), NoteRetracted(seq=3, at=AT, author="w2", note=2))
    assert corrections(recent, "w1") == set()
    assert corrections(recent, "w9", 0, 2) == {3}


def test_the_index_is_bounded() -> None:
    """Over its limit the index forgets the older half, and says since when it knows everything."""
    recent = fed(*(note(seq) for seq in range(1, 12)), limit=10)
    assert recent.since == 6
    assert recent.seq == 11
    assert recent.author(6) is None
    assert recent.unread("w1", 6, ())["FACT"] == 5


@given(st.lists(st.tuples(st.sampled_from(["w1", "w2"]), st.sampled_from(NOTE_TYPES), st.booleans())), st.data())
def test_counts_agree_with_counting(written: Sequence[tuple[str, str, bool]], data: st.DataObject) -> None:
    """However the index is fed and bounded, it counts what a walk over the log counts."""
    events: list[AnyEvent] = []
    gone: set[int] = set()
    for author, type_, struck in written:
        events.append(note(len(events) + 1, author, type_))
        if struck:
            gone.add(data.draw(st.integers(1, len(events))))
            events.append(NoteRetracted(seq=len(events) + 1, at=AT, author="w2", note=max(gone)))
            gone.add(max(gone))
    recent = fed(*events, limit=6)
    struck_out = {event.note for event in events if isinstance(event, NoteRetracted)}
    through = data.draw(st.integers(recent.since, recent.seq))
    seqs = data.draw(st.frozensets(st.integers(1, len(events) + 1)))
    left = [
        event
        for event in events
        if isinstance(event, Note)
        and event.author != "w1"
        and event.seq > through
        and event.seq not in seqs | struck_out
    ]
    counted = recent.unread("w1", through, seqs)
    assert counted == {type_: sum(one.type == type_ for one in left) for type_ in NOTE_TYPES}
