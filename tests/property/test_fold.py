"""Random histories of a board: whatever is asked in whatever order, the log tells the same story as the live state."""
# ruff: noqa: D102 -- each method is named for what happens, or for what must hold

from __future__ import annotations

from itertools import combinations
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from board.core.commands import Asker, Narrow, Post, PostBatch, Release, Renew, Retract, SignOfLife, Transfer
from board.core.decide import Answer, Stored
from board.core.fold import TRANSITIONS, replay
from board.core.scope import scopes_overlap
from board.core.state import US, Lease, State, thaw
from board.core.step import StoredBatch
from schema.codec import us_of_text
from schema.events import AboutClaim, ClaimGranted, ClaimRenewed, ConflictClosed, ConflictOpened, Note
from schema.limits import CLAIM_LIFE_S
from schema.notes import Claim, Draft, Fact, Fail, Observed, PatchSummary, Ref
from tests.harness.bench import Bench, post_of

WORKERS = ("w1", "w2", "w3", "w4")
PLACES = ("a", "a/x", "a/*", "b", "b/y.py", "c.py:1-10", "c.py:5-20", "c.py::F", "task:t")

Asked = Post | PostBatch | Release | Renew | Narrow | Transfer | Retract | SignOfLife

workers = st.sampled_from(WORKERS)
scopes = st.lists(st.sampled_from(PLACES), min_size=1, max_size=3, unique=True).map(tuple)
lives_s = st.one_of(st.integers(1, 30), st.just(600))
claims = st.builds(
    Claim,
    text=st.just("work"),
    scope=scopes,
    ttl_s=lives_s,
    on_conflict=st.sampled_from(("refuse", "contest", "wait", "wait")),
    key=st.sampled_from(("", "", "k1", "k2")),
)
notes = st.one_of(
    st.builds(Observed, text=st.sampled_from(("seen", "heard"))),
    st.builds(Fact, text=st.sampled_from(("true", "false")), key=st.sampled_from(("", "k1", "k3"))),
    st.builds(Fail, text=st.just("broke"), refs=st.lists(st.builds(Ref, st.just("refutes"), st.integers(1, 8)), max_size=2).map(tuple)),
    st.builds(
        PatchSummary,
        files=st.just(("a/x",)),
        idea=st.just("smaller"),
        evidence=st.just("ran it, 3 of 3 pass"),
        work=st.sampled_from(("", "one", "two")),
    ),
)  # fmt: skip


def asks(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, tuple[Any, ...]]]:
    """One thing that may happen: the name of a method of `History`, and what to call it with."""
    return st.tuples(st.just(name), st.tuples(*arguments))


happenings = st.one_of(
    asks("post", workers, claims),
    asks("post", workers, claims),
    asks("post", workers, notes),
    asks("post_batch", workers, st.lists(st.one_of(notes, claims), min_size=1, max_size=5)),
    asks("release", st.integers(0, 9), st.booleans()),
    asks("renew", st.integers(0, 9), st.one_of(st.none(), lives_s)),
    asks("narrow", st.integers(0, 9), st.sampled_from((*PLACES, "c.py:5-10"))),
    asks("transfer", st.integers(0, 9), workers),
    asks("retract", st.integers(1, 30), workers),
    asks("call", workers),
    asks("be_seen", workers),
    asks("go_away", workers),
    asks("pass_time", st.one_of(st.floats(0.0, 20.0), st.sampled_from((601.0, float(CLAIM_LIFE_S))))),
)


class History:
    """One board and a mirror of it that only ever sees the log."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.bench.known = set(WORKERS)
        self.mirror = State(self.bench.state.settings)
        self.opened: set[int] = set()
        self.called_us: dict[str, int] = {}
        self.longest_s: dict[int, int] = {}

    # What may happen

    def post(self, worker: str, draft: Draft) -> None:
        self.carry_out(post_of(worker, draft))

    def post_batch(self, worker: str, drafts: list[Draft]) -> None:
        head = self.bench.state.seq
        answer = self.carry_out(PostBatch(Asker(worker), tuple(post_of(worker, draft) for draft in drafts)))
        if isinstance(answer, StoredBatch):
            new = [stored.seq for stored in answer.notes if not stored.duplicate]
            assert new == list(range(new[0], new[0] + len(new))) if new else True
        else:
            assert not any(isinstance(record.event, Note) for record in self.bench.log[head:])

    def release(self, which: int, admin: bool) -> None:
        if lease := self.pick(which):
            self.carry_out(Release(Asker("w1" if admin else lease.holder, admin=admin), lease.claim, reason="why"))

    def renew(self, which: int, ttl_s: int | None) -> None:
        if lease := self.pick(which):
            self.longest_s[lease.claim] = max(self.longest_s.get(lease.claim, 0), ttl_s or 0)
            self.carry_out(Renew(Asker(lease.holder), lease.claim, ttl_s))

    def narrow(self, which: int, place: str) -> None:
        if lease := self.pick(which):
            self.carry_out(Narrow(Asker(lease.holder), lease.claim, (lease.scope[-1],)))
            self.carry_out(Narrow(Asker(lease.holder), lease.claim, (place,)))

    def transfer(self, which: int, taker: str) -> None:
        if lease := self.pick(which):
            self.carry_out(Transfer(Asker(lease.holder), lease.claim, taker))
            self.called_us[taker] = self.bench.now_us  # the lease goes on for as long as its giver's would

    def retract(self, note: int, worker: str) -> None:
        self.carry_out(Retract(Asker(worker), note, ""))

    def call(self, worker: str) -> None:
        self.be_seen(worker)
        self.carry_out(SignOfLife(Asker(worker)))

    def be_seen(self, worker: str) -> None:
        self.bench.seen_us[worker] = self.called_us[worker] = self.bench.now_us

    def go_away(self, worker: str) -> None:
        self.bench.gone.add(worker)
        self.pass_time(0.0)

    def pass_time(self, seconds: float) -> None:
        self.bench.pass_time(seconds)
        self.mirror_log()

    def pick(self, which: int) -> Lease | None:
        leases = sorted(self.bench.state.leases)
        return self.bench.lease(leases[which % len(leases)]) if leases else None

    def carry_out(self, command: Asked) -> Answer | StoredBatch:
        if command.asker.worker in self.bench.gone:
            self.bench.gone.discard(command.asker.worker)
            self.bench.run(SignOfLife(command.asker))  # as the service does before any call while claims wait
        self.called_us[command.asker.worker] = self.bench.now_us
        answer = self.bench.run(command)
        if isinstance(answer, Stored):
            assert isinstance(self.bench.log[answer.seq - 1].event, Note)
        self.mirror_log()
        return answer

    # What must hold

    def mirror_log(self) -> None:
        for record in self.bench.log[self.mirror.seq :]:
            assert record.seq == self.mirror.seq + 1
            self.check_event(record.event)
            replay(self.mirror, (record,))

    def check_event(self, event: object) -> None:
        lease = self.mirror.leases.get(event.claim) if isinstance(event, AboutClaim) else None
        match event:
            case ClaimRenewed():
                assert lease is not None
                assert us_of_text(event.expires_at) > lease.expires_us
            case ClaimGranted():
                assert lease is not None
                assert not [one.claim for one in self.waiting_before(lease) if one.holder not in self.bench.gone]
            case ConflictOpened():
                self.opened.add(event.seq)
            case ConflictClosed():
                self.opened.remove(event.conflict)
            case _:
                pass
        if lease is not None and type(event) in {kind for _, kind in TRANSITIONS}:
            assert (lease.state, type(event)) in TRANSITIONS

    def waiting_before(self, lease: Lease) -> list[Lease]:
        return [
            one
            for one in self.mirror.waiting_leases()
            if one.claim < lease.claim and one.holder != lease.holder and self.meet(one, lease)
        ]

    def meet(self, one: Lease, other: Lease) -> bool:
        return bool(scopes_overlap(self.mirror.targets(one.scope), self.mirror.targets(other.scope)))

    def the_log_folds_to_the_live_state(self) -> None:
        state = self.bench.state
        assert self.mirror.freeze() == state.freeze()
        assert thaw(state.freeze(), state.settings).state_hash() == state.state_hash()

    def what_meets_is_one_holders_or_a_conflict(self) -> None:
        held = [lease for lease in self.mirror.leases.values() if lease.state == "held"]
        joined = {conflict.claims for conflict in self.mirror.conflicts.values()}
        assert set(self.mirror.conflicts) == self.opened
        for one, other in combinations(held, 2):
            pair = (min(one.claim, other.claim), max(one.claim, other.claim))
            if one.holder != other.holder and self.meet(one, other):
                assert pair in joined
            else:
                assert pair not in joined

    def no_lease_outlives_its_end(self) -> None:
        for lease in self.mirror.leases.values():
            assert lease.expires_us > self.bench.now_us
            assert lease.expires_us <= lease.since_us + CLAIM_LIFE_S * US

    def no_lease_outlives_its_silent_holder(self) -> None:
        for lease in self.mirror.leases.values():
            called_us = max(self.called_us.get(lease.holder, 0), lease.since_us)
            longest_s = max(lease.ttl_s, self.longest_s.get(lease.claim, 0))
            assert lease.expires_us <= called_us + longest_s * US

    def nobody_waits_for_himself(self) -> None:
        blockers = {worker: self.blockers_of(worker) for worker in WORKERS}
        while leaves := [worker for worker, others in blockers.items() if not others & blockers.keys()]:
            for worker in leaves:
                del blockers[worker]
        assert not blockers

    def blockers_of(self, worker: str) -> set[str]:
        leases = self.mirror.leases_of(worker)
        waiting = [lease for lease in leases if lease.state == "waiting"]
        held = [one for one in self.mirror.leases.values() if one.state == "held"]
        return {
            one.holder
            for lease in waiting
            for one in (*held, *self.waiting_before(lease))
            if one.holder != worker and self.meet(one, lease)
        }

    def whose_way_is_free_waits_no_longer(self) -> None:
        for lease in self.mirror.waiting_leases():
            if lease.holder not in self.bench.gone:
                assert self.blockers_of(lease.holder) or len(self.mirror.leases_of(lease.holder)) > 1

    def check(self) -> None:
        self.the_log_folds_to_the_live_state()
        self.what_meets_is_one_holders_or_a_conflict()
        self.no_lease_outlives_its_end()
        self.no_lease_outlives_its_silent_holder()
        self.nobody_waits_for_himself()
        self.whose_way_is_free_waits_no_longer()


@settings(max_examples=150, deadline=None)
@given(st.lists(happenings, min_size=20, max_size=60))
def test_every_history_keeps_the_rules(told: list[tuple[str, tuple[Any, ...]]]) -> None:
    """Whatever happens, at every seq: one holder of a place or a conflict, no ring, and a log that folds to the state."""
    history = History()
    for name, arguments in told:
        getattr(history, name)(*arguments)
        history.check()
    assert history.bench.replayed().state_hash() == history.bench.state.state_hash()
