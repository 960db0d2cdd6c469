"""One step: time first, then the command, then who is next; and batches, which are stored whole or not at all."""

from __future__ import annotations

import pytest

from board.core.commands import Append, Asker, PassTime, Post, PostBatch, Release
from board.core.decide import Done, Present, Stored
from board.core.history import Found
from board.core.state import State
from board.core.step import StoredBatch, step
from schema.codes import Problem
from schema.limits import Settings
from schema.notes import Claim, Fact, Fail, Observed, PatchSummary, Ref
from tests.harness.bench import START_US, Bench, post_of, refused, seqs_of


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.known = {"w1", "w2", "w3"}
    return bench


def new(answer: StoredBatch | Problem) -> list[int]:
    assert isinstance(answer, StoredBatch), answer
    return [stored.seq for stored in answer.notes if not stored.duplicate]


def patch(idea: str) -> PatchSummary:
    return PatchSummary(files=("a",), idea=idea, evidence="3 of 3 pass", work="one")


def test_time_comes_before_the_command(bench: Bench) -> None:
    """A lease that has ended is out of the way of the very command that finds it."""
    bench.held("w1", "a", ttl_s=3)
    bench.now_us += 25_000_000
    second = bench.held("w2", "a")
    assert bench.kinds(1) == ["claim.expired", "CLAIM"]
    assert bench.lease(second).holder == "w2"


def test_a_command_is_a_sign_of_life_first(bench: Bench) -> None:
    """A holder's own command renews its lease before it is decided."""
    claim = bench.held("w1", "a", ttl_s=60)
    bench.now_us += 40_000_000
    bench.fact("w1", "x")
    assert bench.kinds(claim) == ["claim.renewed", "FACT"]


def test_who_is_next_is_granted_in_the_same_step(bench: Bench) -> None:
    """A release and the grant that it makes possible are one step, and all of their records have the step's time."""
    held = bench.held("w1", "a")
    bench.waiting("w2", "a")
    outcome = step(bench.state, Release(Asker("w1"), held), Present(START_US), found_in(bench))
    assert [record.event.__struct_config__.tag for record in outcome.records] == ["claim.released", "claim.granted"]
    assert {record.at_us for record in outcome.records} == {START_US}
    assert seqs_of(outcome.records) == [4, 5]


def found_in(bench: Bench) -> Found:
    found = Found()
    found.take(bench.log)
    return found


def test_passing_time_with_nothing_due_writes_nothing(bench: Bench) -> None:
    """Time alone leaves no record."""
    bench.held("w1", "a")
    head = bench.state.seq
    assert bench.run(PassTime()) == Done(0)
    assert bench.state.seq == head


def test_a_batch_is_numbered_notes_first(bench: Bench) -> None:
    """The notes of a batch are consecutive; what follows from them comes after the last."""
    bench.held("w1", "a")
    answer = bench.post_batch(
        "w2",
        Claim(text="x", scope=("a",), on_conflict="contest"),
        Observed(text="y"),
        Claim(text="z", scope=("a",), on_conflict="contest"),
    )
    assert new(answer) == [2, 3, 4]
    assert bench.kinds(1) == [
        "CLAIM",
        "OBSERVED",
        "CLAIM",
        "conflict.opened",
        "claim.released",
        "conflict.closed",
        "conflict.opened",
    ]
    assert bench.replayed().state_hash() == bench.state.state_hash()


def test_a_batch_sees_its_own_notes(bench: Bench) -> None:
    """Later notes of a batch may refute, supersede and repeat earlier ones."""
    answer = bench.post_batch(
        "w1", patch("one"), patch("two"), Fact(text="x"), Fact(text="x"), Fail(text="broke", refs=(Ref("refutes", 2),))
    )
    assert isinstance(answer, StoredBatch)
    assert [(stored.seq, stored.duplicate) for stored in answer.notes] == [
        (1, False), (2, False), (3, False), (3, True), (4, False),
    ]  # fmt: skip
    assert bench.kinds() == ["PATCH_SUMMARY", "PATCH_SUMMARY", "FACT", "FAIL", "patch.superseded", "patch.invalidated"]
    assert bench.replayed().state_hash() == bench.state.state_hash()


def test_a_batch_with_doubles_and_consequences_is_decided_again(bench: Bench) -> None:
    """Where notes turn out to be no new ones, the numbers of what follows close up."""
    bench.post("w1", Observed(text="first", key="k"))
    batch = PostBatch(
        Asker("w1"), tuple(post_of("w1", one) for one in (patch("a"), Observed(text="first", key="k"), patch("b")))
    )
    first_try = step(bench.replayed(), batch, Present(START_US), found_in(bench))
    assert (first_try.spoiled, first_try.doubles, first_try.records) == (True, 1, [])
    answer = bench.run(batch)
    assert isinstance(answer, StoredBatch)
    assert [(stored.seq, stored.duplicate) for stored in answer.notes] == [(2, False), (1, True), (3, False)]
    assert seqs_of(bench.log) == [1, 2, 3, 4]
    assert bench.kinds(3) == ["patch.superseded"]


def test_a_batch_of_doubles_only_stores_nothing(bench: Bench) -> None:
    """A whole batch sent again is answered with the notes that there are."""
    drafts = [Observed(text=key, key=key) for key in "abc"]
    bench.post_batch("w1", *drafts)
    answer = bench.post_batch("w1", *drafts)
    assert isinstance(answer, StoredBatch)
    assert answer.notes == tuple(Stored(seq, duplicate=True) for seq in (1, 2, 3))
    assert len(bench.log) == 3


@pytest.mark.parametrize("before", [0, 2])
def test_a_batch_that_is_refused_stores_nothing(bench: Bench, before: int) -> None:
    """One bad note refuses all, with its index, and leaves the board as it was but for what time had brought."""
    bench.held("w1", "a", ttl_s=3)
    bench.waiting("w2", "a")
    bench.now_us += 5_000_000
    drafts = [Observed(text=f"note {number}") for number in range(before)]
    answer = refused(bench.post_batch("w3", *drafts, Fact(text=""), Observed(text="z")))
    assert (answer.code, answer.facts["index"]) == ("invalid_field", before)
    assert answer.detail.startswith(f"Note {before} of the batch: ")
    bench.pass_time()
    assert bench.kinds(3) == ["claim.expired", "claim.granted"]
    assert bench.replayed().state_hash() == bench.state.state_hash()


def test_a_refused_claim_refuses_its_batch(bench: Bench) -> None:
    """A claim that is refused in a batch takes the batch with it, and is not logged alone."""
    bench.held("w1", "a")
    answer = refused(bench.post_batch("w2", Observed(text="x"), Claim(text="y", scope=("a",))))
    assert (answer.code, answer.facts["index"]) == ("claim_conflict", 1)
    assert len(bench.log) == 1


def test_another_log_is_taken_over_as_it_is(bench: Bench) -> None:
    """Events of another log keep their seqs and times, and fold to its state; a board that moved on refuses them."""
    bench.held("w1", "a", ttl_s=3)
    bench.pass_time(10)
    state = State(Settings())
    command = Append(Asker("boss", admin=True), tuple(bench.log))
    outcome = step(state, command, Present(START_US + 10**12), Found())
    assert outcome.records == bench.log
    assert state.state_hash() == bench.state.state_hash()
    again = step(state, command, Present(START_US + 10**12), Found())
    assert isinstance(again.answer, Problem)
    assert (again.answer.code, again.records) == ("board_exists", [])


def test_a_single_post_is_one_record(bench: Bench) -> None:
    """The simplest step leaves the note alone."""
    outcome = step(State(Settings()), Post(Asker("w1"), Observed(text="x")), Present(START_US), Found())
    assert (outcome.answer, seqs_of(outcome.records)) == (Stored(1), [1])
