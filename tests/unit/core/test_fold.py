"""The fold: every state of a claim meets every event, and a log that cannot be is refused."""

from __future__ import annotations

import pytest

from board.core.fold import TRANSITIONS, BrokenLog, record_of, replay, same_text_digest
from board.core.history import Record
from board.core.state import US, State, clone, thaw
from schema.codec import encode, text_of_us, us_of_text
from schema.events import (
    AboutClaim,
    AnyEvent,
    ClaimExpired,
    ClaimGranted,
    ClaimNarrowed,
    ClaimReleased,
    ClaimRenewed,
    ClaimTransferred,
    ConflictClosed,
    ConflictOpened,
    Note,
)
from schema.limits import SAME_TEXT_WINDOW_S, Settings
from tests.harness.bench import START_US, Bench

AT = text_of_us(START_US)
LATER = text_of_us(START_US + 900 * US)

MOVES: dict[type[AnyEvent], AnyEvent] = {
    kind: kind(seq=2, at=AT, author="board", claim=1, holder="w1", **more)
    for kind, more in {
        ClaimGranted: {"expires_at": LATER},
        ClaimRenewed: {"expires_at": LATER},
        ClaimNarrowed: {"scope": ("src/a.c",)},
        ClaimReleased: {"outcome": "done"},
        ClaimExpired: {"expires_at": LATER},
        ClaimTransferred: {"giver": "w1"},
    }.items()
}


def claim(state: str) -> Note:
    return Note(
        seq=1, at=AT, author="w1", type="CLAIM", text="x", scope=("src",), ttl_s=600, state=state, expires_at=LATER
    )


def folded(*events: AnyEvent) -> State:
    state = State(Settings())
    replay(state, [record_of(event) for event in events])
    return state


def test_every_event_about_claims_that_moves_one_has_a_row() -> None:
    """The table knows every event about a claim but those that move none."""
    moves = {kind for kind in AboutClaim.__subclasses__() if kind.__struct_config__.tag not in _STILL}
    assert {kind for _, kind in TRANSITIONS} == moves == set(MOVES)


_STILL = ("claim.refused", "claim.queued")


@pytest.mark.parametrize("kind", MOVES)
@pytest.mark.parametrize("before", ["held", "waiting", "ended", "never"])
def test_every_state_meets_every_event(before: str, kind: type[AnyEvent]) -> None:
    """A claim goes from state to state as the table says; what is not in the table breaks the log."""
    history: list[AnyEvent] = [] if before == "never" else [claim("waiting" if before == "waiting" else "held")]
    if before == "ended":
        history.append(MOVES[ClaimReleased])
    state = folded(*history)
    move = _numbered(MOVES[kind], len(history) + 1)
    after = TRANSITIONS.get((before, kind))  # type: ignore[arg-type] -- the other states have no row
    if after is None:
        with pytest.raises(BrokenLog, match=str(move.seq)):
            replay(state, [record_of(move)])
        return
    replay(state, [record_of(move)])
    lease = state.leases.get(1)
    assert (lease.state if lease else "ended") == after


def _numbered(event: AnyEvent, seq: int) -> AnyEvent:
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    return type(event)(**{**fields, "seq": seq})


@pytest.mark.parametrize("seq", [1, 3])
def test_a_hole_or_a_double_breaks_the_log(seq: int) -> None:
    """An event that does not follow the last is refused, with its seq."""
    state = folded(claim("held"))
    with pytest.raises(BrokenLog, match=f"event {seq} follows 1"):
        replay(state, [record_of(_numbered(MOVES[ClaimRenewed], seq))])


def test_a_conflict_is_closed_once() -> None:
    """Closing a conflict that is not open breaks the log."""
    pair = {"at": AT, "author": "board", "claims": (1, 2), "holders": ("w1", "w2"), "overlap": ("src",)}
    opened = ConflictOpened(seq=1, **pair)
    closed = [ConflictClosed(seq=seq, conflict=1, how="released", **pair) for seq in (2, 3)]
    assert not folded(opened, closed[0]).conflicts
    with pytest.raises(BrokenLog, match="event 3"):
        folded(opened, *closed)


def test_a_renewal_keeps_the_rest_of_the_lease() -> None:
    """A renewal moves the end and the last sign of life, nothing else."""
    lease = folded(claim("held"), MOVES[ClaimRenewed]).leases[1]
    assert (lease.expires_us, lease.renewed_us) == (us_of_text(LATER), START_US)
    assert (lease.holder, lease.scope, lease.since_us) == ("w1", ("src",), START_US)


def test_a_transfer_renames_the_holders_of_its_conflicts() -> None:
    """After a transfer an open conflict names the new holder."""
    bench = Bench()
    first = bench.held("w1", "src")
    bench.held("w2", "src", on="contest")
    transferred = ClaimTransferred(seq=4, at=AT, author="w1", claim=first, holder="w3", giver="w1")
    state = bench.replayed()
    replay(state, [record_of(transferred)])
    assert [conflict.holders for conflict in state.conflicts.values()] == [("w3", "w2")]
    assert [lease.claim for lease in state.leases_of("w3")] == [first]
    assert state.leases_of("w1") == []


def test_freezing_and_thawing_changes_nothing() -> None:
    """A thawed state has the same bytes and hash, and goes on as the first would."""
    bench = Bench()
    bench.held("w1", "src", "doc/*.md")
    bench.held("w2", "src/a.c", on="contest")
    bench.waiting("w3", "src/b.c")
    bench.fact("w1", "rows end at dashes")
    thawed = thaw(bench.state.freeze(), Settings())
    assert thawed.freeze() == bench.state.freeze()
    assert thawed.state_hash() == bench.state.state_hash()
    bench.pass_time(10_000)
    replay(thawed, [record for record in bench.log if record.seq > thawed.seq])
    assert thawed.state_hash() == bench.state.state_hash()


def test_a_clone_moves_on_its_own() -> None:
    """What happens to a clone does not happen to the state."""
    bench = Bench()
    bench.held("w1", "src")
    before = bench.state.freeze()
    other = clone(bench.state)
    replay(other, [record_of(_numbered(MOVES[ClaimReleased], 2))])
    assert bench.state.freeze() == before
    assert not other.leases


def test_texts_are_kept_for_ten_minutes() -> None:
    """The state forgets a FACT with the first one that comes more than ten minutes later, by the log's time alone."""
    bench = Bench()
    bench.fact("w1", "one")
    bench.pass_time(SAME_TEXT_WINDOW_S)
    bench.fact("w1", "two")
    assert len(bench.state.texts.rows()) == 2
    bench.pass_time(1)
    bench.fact("w1", "three")
    assert [seq for _, seq, _ in bench.state.texts.rows()] == [2, 3]


def test_asking_for_a_text_changes_nothing() -> None:
    """Looking for an earlier FACT leaves the state as it is, however late it is asked."""
    bench = Bench()
    bench.fact("w1", "one")
    before = bench.state.freeze()
    assert bench.state.texts.first(same_text_digest(bench.log[0].body), START_US) == 1
    assert bench.state.texts.first(same_text_digest(bench.log[0].body), START_US + 10**12) is None
    assert bench.state.freeze() == before


def test_the_digest_leaves_out_seq_and_time() -> None:
    """Two notes that differ in seq and time alone have one digest; another author has another."""

    def digest(seq: int, at_us: int, author: str) -> bytes:
        return same_text_digest(encode(Note(seq=seq, at=text_of_us(at_us), author=author, type="FACT", text="x")))

    assert digest(1, 0, "w1") == digest(200, 10**15, "w1") != digest(1, 0, "w2")


def test_ends_of_leases_that_are_over_are_swept_out() -> None:
    """Thousands of long claims that were released at once leave no memory behind."""
    state = State(Settings())
    for number in range(10_000):
        one = claim("held")
        record = record_of(_numbered(one, 2 * number + 1))
        replay(state, [record])
        ended = ClaimReleased(seq=2 * number + 2, at=AT, author="w1", claim=record.seq, holder="w1", outcome="done")
        replay(state, [Record(ended, START_US, encode(ended))])
    assert len(state._due) < 2000
    assert state.next_due_us() is None
