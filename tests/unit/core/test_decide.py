"""Decisions: each refusal, and what each command that is carried out leaves in the log."""

from __future__ import annotations

from typing import Any

import pytest

from board.core.commands import Append, Asker, Command, Narrow, Post, PostBatch, Release, Renew, Retract, Transfer
from board.core.decide import Done, Present, Seqs, Stored, decide, wanted
from board.core.history import Found, Wanted
from board.core.state import US
from schema.events import ClaimRefused, ClaimReleased, ClaimTransferred, Note, PatchInvalidated, PatchSuperseded
from schema.limits import SAME_TEXT_WINDOW_S
from schema.notes import Claim, Fact, Fail, Observed, PatchSummary, Ref
from tests.harness.bench import Bench, refused

ADMIN = Asker("boss", admin=True)


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.known = {"w1", "w2", "engineer"}
    return bench


def patch(**fields: Any) -> PatchSummary:
    return PatchSummary(**{"files": ("src/a.c",), "idea": "split", "evidence": "14 of 14 pass", **fields})


def last(bench: Bench) -> Any:
    return bench.log[-1].event


# Notes


def test_a_note_is_stored_as_it_was_said(bench: Bench) -> None:
    """A note gets seq, time and author; its long text is kept beside it, with size and hash in the note."""
    draft = Fact(text="rows end", scope=("./src//a.c",), tags=("reader",), to=("w2",), detail="é", key="k")
    assert bench.post("w1", draft) == Stored(1)
    record = bench.log[0]
    assert isinstance(record.event, Note)
    assert (record.event.author, record.event.scope, record.event.to) == ("w1", ("src/a.c",), ("w2",))
    assert (record.event.detail_bytes, record.detail, record.key) == (2, "é", "k")
    assert len(record.event.detail_hash) == 16


@pytest.mark.parametrize("seq", [0, 2, 99, 2**63, -1])
def test_a_ref_must_name_a_note(bench: Bench, seq: int) -> None:
    """A reference to a seq that is no note is refused."""
    claim = bench.held("w1", "a")
    bench.release("w1", claim)
    answer = refused(bench.post("w1", Fact(text="x", refs=(Ref("supports", seq),))))
    assert (answer.code, answer.facts["value"]) == ("unknown_ref", seq)


@pytest.mark.parametrize("claim", [1, 99])
def test_a_patch_names_a_claim(bench: Bench, claim: int) -> None:
    """A PATCH_SUMMARY under what is no CLAIM is refused."""
    bench.fact("w1", "x")
    assert refused(bench.post("w1", patch(claim=claim))).code == "unknown_ref"


def test_an_unknown_recipient_is_refused_with_near_matches(bench: Bench) -> None:
    """A note to nobody is refused, and the names near it are told."""
    answer = refused(bench.post("w1", Fact(text="x", to=("w2", "enginer"))))
    assert (answer.code, answer.facts["value"], answer.facts["near"]) == ("unknown_recipient", "enginer", ["engineer"])
    assert bench.log == []


def test_a_draft_that_is_not_admitted_is_not_decided(bench: Bench) -> None:
    """A limit is checked before anything else."""
    assert refused(bench.post("w1", Fact(text="x" * 401, refs=(Ref("supports", 9),)))).code == "over_limit"


@pytest.mark.parametrize("kind", [Fact, Fail])
def test_the_same_text_twice_is_one_note(bench: Bench, kind: type[Fact | Fail]) -> None:
    """An identical FACT or FAIL of one author within ten minutes is answered with the first."""
    assert bench.post("w1", kind(text="x", scope=("a",))) == Stored(1)
    bench.pass_time(SAME_TEXT_WINDOW_S)
    assert bench.post("w1", kind(text="x", scope=("./a",))) == Stored(1, duplicate=True)
    assert bench.post("w1", kind(text="x", scope=("b",))) == Stored(2)
    assert bench.post("w2", kind(text="x", scope=("a",))) == Stored(3)
    bench.pass_time(1)
    assert bench.post("w1", kind(text="x", scope=("a",))) == Stored(4)


def test_the_same_observation_twice_counts_twice(bench: Bench) -> None:
    """Other types than FACT and FAIL always count."""
    assert [bench.post("w1", Observed(text="x")) for _ in range(2)] == [Stored(1), Stored(2)]


def test_a_retracted_fact_may_be_said_again(bench: Bench) -> None:
    """What was taken back is no first note for another."""
    bench.fact("w1", "x")
    bench.run(Retract(Asker("w1"), 1, ""))
    assert bench.post("w1", Fact(text="x")) == Stored(3)


def test_a_key_is_its_authors_and_its_bodys(bench: Bench) -> None:
    """The same key and body is the first note; another body is refused; another author's key is another key."""
    assert bench.post("w1", Observed(text="x", key="k")) == Stored(1)
    assert bench.post("w1", Observed(text="x", key="k")) == Stored(1, duplicate=True)
    answer = refused(bench.post("w1", Observed(text="y", key="k")))
    assert (answer.code, answer.facts["seq"]) == ("key_reused", 1)
    assert bench.post("w2", Observed(text="x", key="k")) == Stored(2)


def test_a_newer_summary_supersedes_the_older(bench: Bench) -> None:
    """A PATCH_SUMMARY of the same author and work takes the older one's place; another author's does not."""
    bench.post("w1", patch(work="tables"))
    bench.post("w2", patch(work="tables"))
    bench.post("w1", patch(work="tables", idea="join"))
    event = last(bench)
    assert isinstance(event, PatchSuperseded)
    assert (event.note, event.by) == (1, 3)


def test_a_fail_invalidates_the_patches_it_refutes(bench: Bench) -> None:
    """A FAIL that refutes a patch says so once, whoever wrote either; what it supports stands."""
    bench.post("w1", patch())
    bench.fact("w1", "x")
    refs = (Ref("refutes", 1), Ref("refutes", 2), Ref("refutes", 1), Ref("supports", 1))
    bench.post("w2", Fail(text="broke", refs=refs))
    assert bench.kinds(3) == ["patch.invalidated"]
    event = last(bench)
    assert isinstance(event, PatchInvalidated)
    assert (event.note, event.by, event.author) == (1, 3, "board")


@pytest.mark.parametrize("how", ["released", "transferred", "waiting", "another's"])
def test_a_patch_under_a_claim_that_is_not_held_is_stale(bench: Bench, how: str) -> None:
    """A summary under a claim that its author does not hold is stored, and marked."""
    claim = bench.held("w1", "a")
    match how:
        case "released":
            bench.release("w1", claim)
        case "transferred":
            bench.run(Transfer(Asker("w1"), claim, "w2"))
        case "waiting":
            bench.waiting("w2", "a")
            claim = bench.state.seq - 1
    author = "w2" if how in ("waiting", "another's") else "w1"
    bench.post(author, patch(claim=claim))
    assert last(bench).stale


def test_a_patch_under_a_claim_that_is_held_is_not_stale(bench: Bench) -> None:
    """A summary of the holder stands."""
    claim = bench.held("w1", "a")
    bench.post("w1", patch(claim=claim))
    assert not last(bench).stale
    assert claim in bench.state.leases


# Claims


def test_a_refused_claim_is_logged(bench: Bench) -> None:
    """A refusal holds nothing, names who is in the way and what is free, and is logged with who asked for what."""
    held = bench.held("w1", "b")
    answer = refused(bench.claim("w2", "a", "b/c"))
    assert (answer.code, answer.facts["free"], answer.facts["refused"]) == ("claim_conflict", ("a",), 2)
    assert [(entry.claim, entry.holder, entry.overlap) for entry in answer.facts["conflicts"]] == [
        (held, "w1", ("b/c",))
    ]
    event = last(bench)
    assert isinstance(event, ClaimRefused)
    assert (event.author, event.scope, event.claim, event.holder) == ("w2", ("a", "b/c"), held, "w1")
    assert (event.reason, event.blockers[0].overlap) == ("claim_conflict", ("b/c",))


def test_the_sentence_names_at_most_three(bench: Bench) -> None:
    """Who is refused by many is told three of them and how many more there are."""
    for number in range(5):
        bench.held(f"h{number}", f"a/{number}")
    assert refused(bench.claim("w1", "a")).detail.endswith("and 2 more.")


def test_a_contested_claim_is_held_beside_the_other(bench: Bench) -> None:
    """A claim that contests is held, and opens a conflict with each that it meets; the earlier comes first."""
    first = bench.held("w1", "a")
    answer = bench.claim("w2", "a", on="contest")
    assert isinstance(answer, Stored)
    assert answer.claim is not None
    assert answer.claim.state == "contested"
    assert [entry.claim for entry in answer.claim.conflicts] == [first]
    (conflict,) = bench.state.conflicts.values()
    assert (conflict.claims, conflict.holders, conflict.overlap) == ((first, answer.seq), ("w1", "w2"), ("a",))


def test_contesting_nobody_is_holding(bench: Bench) -> None:
    """Where nobody is in the way a claim that contests, or would wait, is simply held."""
    for place, how in (("a", "contest"), ("b", "wait")):
        answer = bench.claim("w1", place, on=how)
        assert isinstance(answer, Stored)
        assert answer.claim is not None
        assert answer.claim.state == "held"


def test_claiming_the_same_scope_anew_ends_the_older_claim(bench: Bench) -> None:
    """A holder that claims its scope again holds it once, and the older claim reads superseded."""
    first = bench.held("w1", "a", "b")
    second = bench.held("w1", "b", "./a")
    event = last(bench)
    assert isinstance(event, ClaimReleased)
    assert (event.claim, event.outcome) == (first, "superseded")
    assert list(bench.state.leases) == [second]


def test_a_ring_is_refused_and_logged(bench: Bench) -> None:
    """Who would wait in a ring is told the ring, and nothing of it waits."""
    bench.held("w1", "a")
    bench.held("w2", "b")
    bench.waiting("w1", "b")
    answer = refused(bench.claim("w2", "a", on="wait"))
    assert (answer.code, answer.facts["ring"]) == ("would_deadlock", ("w2", "w1", "w2"))
    assert last(bench).reason == "would_deadlock"


MOVES = [
    Renew,
    Release,
    lambda asker, claim: Narrow(asker, claim, ("a/x",)),
    lambda asker, claim: Transfer(asker, claim, "w2"),
]


@pytest.mark.parametrize("move", MOVES)
def test_a_move_needs_a_claim(bench: Bench, move: Any) -> None:
    """What is no claim cannot be moved."""
    bench.fact("w1", "x")
    for seq in (1, 9):
        assert refused(bench.run(move(Asker("w1"), seq))).code == "claim_not_found"


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("asker", [Asker("w2"), ADMIN])
def test_a_move_needs_the_holder(bench: Bench, move: Any, asker: Asker) -> None:
    """Another worker may not move a claim, nor an admin without a reason; the holder is named."""
    claim = bench.held("w1", "a")
    answer = refused(bench.run(move(asker, claim)))
    assert (answer.code, answer.facts["holder"]) == ("forbidden", "w1")
    assert bench.kinds(claim) == []


@pytest.mark.parametrize("move", MOVES)
def test_an_ended_claim_is_not_moved(bench: Bench, move: Any) -> None:
    """A claim that has ended is refused to its holder, but releasing it again is done already."""
    claim = bench.held("w1", "a")
    bench.release("w1", claim)
    command = move(Asker("w1"), claim)
    answer = bench.run(command)
    assert answer == Done(claim) if isinstance(command, Release) else refused(answer).code == "claim_ended"
    assert bench.kinds(claim) == ["claim.released"]


def test_the_right_to_an_ended_claim_is_its_last_holders(bench: Bench) -> None:
    """After a transfer and its end, a claim is the taker's to release again, and not its author's."""
    claim = bench.held("w1", "a")
    bench.run(Transfer(Asker("w1"), claim, "w2"))
    bench.release("w2", claim)
    assert bench.release("w2", claim) == Done(claim)
    assert refused(bench.release("w1", claim)).code == "forbidden"


def test_an_admin_moves_with_a_reason(bench: Bench) -> None:
    """An admin with a reason may transfer and release, and the log says who and why."""
    claim = bench.held("w1", "a")
    bench.run(Transfer(ADMIN, claim, "w2", reason="w1 is gone"))
    event = last(bench)
    assert isinstance(event, ClaimTransferred)
    assert (event.author, event.giver, event.holder, event.reason) == ("boss", "w1", "w2", "w1 is gone")
    bench.run(Release(ADMIN, claim, reason="not needed"))
    assert (last(bench).author, last(bench).holder, last(bench).reason) == ("boss", "w2", "not needed")


BAD_MOVES = [
    (Renew(Asker("w1"), 1, 0), "over_limit"),
    (Renew(Asker("w1"), 1, 21_601), "over_limit"),
    (Release(Asker("w1"), 1, to=("enginer",)), "unknown_recipient"),
    (Release(Asker("w1"), 1, text="x" * 401), "over_limit"),
    (Release(Asker("w1"), 1, reason="x" * 401), "over_limit"),
    (Narrow(Asker("w1"), 1, ()), "over_limit"),
    (Narrow(Asker("w1"), 1, ("a/x",) * 65), "over_limit"),
    (Narrow(Asker("w1"), 1, ("b",)), "bad_target"),
    (Narrow(Asker("w1"), 1, ("a/x", "b")), "bad_target"),
    (Narrow(Asker("w1"), 1, ("..",)), "bad_target"),
    (Transfer(Asker("w1"), 1, "nobody"), "unknown_recipient"),
    (Transfer(Asker("w1"), 1, "b0ard"), "reserved_name"),
    (Transfer(Asker("w1"), 1, "w2", reason="x" * 401), "over_limit"),
]


@pytest.mark.parametrize(("command", "code"), BAD_MOVES)
def test_a_move_that_cannot_be_is_refused(bench: Bench, command: Command, code: str) -> None:
    """Lengths, targets and names are checked as in a note, and nothing is logged."""
    bench.held("w1", "a")
    assert refused(bench.run(command)).code == code
    assert bench.kinds(1) == []


def test_narrowing_gives_up_places_and_closes_what_they_met(bench: Bench) -> None:
    """A narrowed claim holds what is left; conflicts that were about the rest are over, others stay."""
    claim = bench.held("w1", "a", "b")
    bench.held("w2", "a", on="contest")
    bench.held("w3", "b", on="contest")
    assert bench.run(Narrow(Asker("w1"), claim, ("b/x",))) == Done(claim)
    assert bench.lease(claim).scope == ("b/x",)
    assert [conflict.holders for conflict in bench.state.conflicts.values()] == [("w1", "w3")]
    assert last(bench).how == "narrowed"


def test_a_transfer_to_the_other_side_ends_the_conflict(bench: Bench) -> None:
    """A conflict is over when one worker holds both of its claims, and goes on with the taker's name otherwise."""
    claim = bench.held("w1", "a")
    bench.held("w2", "a", on="contest")
    bench.run(Transfer(Asker("w1"), claim, "engineer"))
    assert [conflict.holders for conflict in bench.state.conflicts.values()] == [("engineer", "w2")]
    bench.run(Transfer(Asker("engineer"), claim, "w2"))
    assert bench.state.conflicts == {}
    assert last(bench).how == "transferred"


def test_a_transfer_to_oneself_changes_nothing(bench: Bench) -> None:
    """Who gives a claim to its holder is told that it is done; conflicts stay open."""
    claim = bench.held("w1", "a")
    bench.held("w2", "a", on="contest")
    head = bench.state.seq
    assert bench.run(Transfer(Asker("w1"), claim, "w1")) == Done(claim)
    assert bench.state.seq == head
    assert len(bench.state.conflicts) == 1


def test_a_transfer_makes_no_second_holder(bench: Bench) -> None:
    """A claim that lies in another one of its giver is not given away: the two would meet."""
    bench.held("w1", "a")
    inner = bench.held("w1", "a/x")
    assert refused(bench.run(Transfer(Asker("w1"), inner, "w2"))).code == "claim_conflict"


def test_a_waiting_claim_is_not_given_into_a_ring(bench: Bench) -> None:
    """A waiting claim is refused to a worker for whom its holder waits."""
    bench.held("w1", "a")
    bench.held("w2", "b")
    waiting = bench.waiting("engineer", "a")
    bench.waiting("w1", "b")
    answer = refused(bench.run(Transfer(Asker("engineer"), waiting, "w2")))
    assert (answer.code, answer.facts["ring"]) == ("would_deadlock", ("w2", "w1", "w2"))


# Retracting


def test_only_the_author_takes_a_note_back(bench: Bench) -> None:
    """Another worker may not retract a note, nor an admin without a reason; twice is once."""
    seq = bench.fact("w1", "x")
    for asker in (Asker("w2"), ADMIN):
        assert refused(bench.run(Retract(asker, seq, ""))).code == "forbidden"
    assert refused(bench.run(Retract(Asker("w1"), seq, "x" * 401))).code == "over_limit"
    assert refused(bench.run(Retract(Asker("w1"), 9, ""))).code == "note_not_found"
    assert [bench.run(Retract(Asker("w1"), seq, "")) for _ in range(2)] == [Done(seq), Done(seq)]
    assert bench.kinds(seq) == ["note.retracted"]


def test_retracting_a_claim_lets_go_of_it(bench: Bench) -> None:
    """A CLAIM that is taken back is released, and its conflicts are closed."""
    claim = bench.held("w1", "a")
    bench.held("w2", "a", on="contest")
    bench.run(Retract(ADMIN, claim, "made in error"))
    assert bench.kinds(3) == ["note.retracted", "claim.released", "conflict.closed"]
    assert bench.state.conflicts == {}


# What is asked of the log beforehand


def test_a_decision_names_what_it_will_ask() -> None:
    """Refs, keys, claims and works are named; seqs that no store can hold are left out."""
    asker = Asker("w1")
    draft = patch(refs=(Ref("supports", 3), Ref("refutes", 2**60)), claim=4, work="t", key="k")
    assert wanted(Post(asker, draft)) == Wanted(frozenset({3, 4}), frozenset({("w1", "k")}), frozenset({("w1", "t")}))
    assert wanted(Retract(asker, 7, "")) == wanted(Renew(asker, 7)) == Wanted(frozenset({7}))
    assert not wanted(Post(asker, Fact(text="x")))
    assert not wanted(Retract(asker, -7, ""))


def test_a_batch_asks_for_all_at_once() -> None:
    """What the notes of a batch ask for is asked together."""
    asker = Asker("w1")
    posts = tuple(Post(asker, Observed(text="x", key=key)) for key in "ab")
    assert wanted(PostBatch(asker, posts)) == Wanted(keys=frozenset({("w1", "a"), ("w1", "b")}))


def test_numbers_of_a_batch() -> None:
    """The notes of a batch follow each other, and what follows from them comes after the last."""
    seqs = Seqs(10, notes=2)
    assert [seqs.note(), seqs.other(), seqs.note(), seqs.other()] == [11, 13, 12, 14]
    single = Seqs(10)
    assert [single.note(), single.other(), single.other()] == [11, 12, 13]


@pytest.mark.parametrize("command", [PostBatch(Asker("w1"), ()), Append(Asker("w1"), ())])
def test_what_is_no_single_decision(bench: Bench, command: Command) -> None:
    """A batch, and another log's events, are carried out by a step and not decided here."""
    with pytest.raises(TypeError):
        decide(bench.state, command, _present(bench), Found())


def _present(bench: Bench) -> Present:
    return Present(bench.now_us)


def test_deciding_changes_nothing(bench: Bench) -> None:
    """A decision leaves the state as it is, whatever it decides."""
    bench.held("w1", "a")
    bench.waiting("w2", "a")
    bench.fact("w1", "x")
    before = bench.state.freeze()
    bench.now_us += 10_000 * US
    for draft in (Fact(text="x"), Claim(text="x", scope=("a",)), Claim(text="x", scope=("a",), on_conflict="wait")):
        decide(bench.state, Post(Asker("w3"), draft), _present(bench), Found())
    assert bench.state.freeze() == before
