"""The rules of claims and of waiting: who is in the way, what ends when, who is next, and which ring would close."""

from __future__ import annotations

import pytest

from board.core import claims, waits
from board.core.commands import Asker, Narrow, Renew, SignOfLife, Transfer
from board.core.decide import Done
from board.core.state import US
from schema.limits import CLAIM_LIFE_S
from tests.harness.bench import START_US, Bench, refused


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.known = {"w1", "w2", "w3"}
    return bench


def in_the_way(bench: Bench, worker: str, *scope: str) -> list[tuple[int, tuple[str, ...], bool]]:
    entries = claims.conflicts_with(bench.state, worker, bench.state.targets(scope), bench.now_us)
    return [(entry.claim, entry.overlap, entry.possible) for entry in entries]


def test_conflicts_name_the_place_where_two_claims_meet(bench: Bench) -> None:
    """The claims of others that overlap are listed by seq, each with the places where they meet."""
    first = bench.held("w1", "src/a.c:1-40", "doc")
    second = bench.held("w2", "src/b.c")
    assert in_the_way(bench, "w3", "src/a.c:30-50", "src/b.c", "doc/x.md") == [
        (first, ("doc/x.md", "src/a.c:30-40"), False),
        (second, ("src/b.c",), False),
    ]


def test_ones_own_claims_are_never_in_the_way(bench: Bench) -> None:
    """A holder may claim a part of what it holds."""
    bench.held("w1", "src")
    assert in_the_way(bench, "w1", "src/a.c") == []


def test_a_symbol_and_lines_may_meet(bench: Bench) -> None:
    """What cannot be told apart counts, and is marked as possible; one certain place makes the conflict certain."""
    seq = bench.held("w1", "r.py::A", "doc")
    assert in_the_way(bench, "w2", "r.py:1-9") == [(seq, ("r.py::A",), True)]
    assert in_the_way(bench, "w2", "r.py:1-9", "doc") == [(seq, ("doc", "r.py::A"), False)]


def test_waiting_claims_are_in_nobodys_way(bench: Bench) -> None:
    """A claim that waits holds nothing."""
    bench.held("w1", "a")
    bench.waiting("w2", "a", "b")
    assert in_the_way(bench, "w3", "b") == []


def test_free_are_the_targets_of_which_nobody_else_holds_a_part(bench: Bench) -> None:
    """Of the asked targets those are free that no other worker holds a part of."""
    bench.held("w1", "src/a.c")
    bench.held("w2", "doc")
    targets = bench.state.targets(("src", "src/b.c", "doc"))
    assert claims.free_targets(bench.state, "w2", targets) == ("src/b.c", "doc")


@pytest.mark.parametrize(
    ("after_s", "ttl_s", "end_s"), [(10, 600, 610), (10, 30, 600), (10, 21_600, 21_600), (500, 600, 1100)]
)
def test_a_lease_ends_never_earlier_and_never_after_six_hours(
    bench: Bench, after_s: int, ttl_s: int, end_s: int
) -> None:
    """A renewal counts from now, keeps a later end, and stops at six hours of life."""
    lease = bench.lease(bench.held("w1", "a", ttl_s=600))
    assert claims.lease_end_us(lease, START_US + after_s * US, ttl_s) == START_US + end_s * US


def test_a_sign_of_life_renews_once_in_a_third(bench: Bench) -> None:
    """A call renews a lease a third of its length after the last renewal, and not before."""
    seq = bench.held("w1", "a", ttl_s=90)
    bench.pass_time(29.9)
    bench.run(SignOfLife(Asker("w1")))
    assert bench.lease(seq).expires_us == START_US + 90 * US
    bench.pass_time(0.1)
    bench.run(SignOfLife(Asker("w1")))
    assert bench.lease(seq).expires_us == START_US + 120 * US
    assert bench.kinds(seq) == ["claim.renewed"]


def test_another_workers_call_renews_nothing(bench: Bench) -> None:
    """Only the holder's calls are signs of its life."""
    seq = bench.held("w1", "a", ttl_s=90)
    bench.pass_time(60)
    bench.run(SignOfLife(Asker("w2")))
    assert bench.kinds(seq) == []


def test_a_lease_is_over_at_its_very_end(bench: Bench) -> None:
    """A lease of 3 s lives until just before 3 s, and is over at 3 s."""
    seq = bench.held("w1", "a", ttl_s=3)
    bench.pass_time(2.999_999)
    assert seq in bench.state.leases
    bench.pass_time(0.000_001)
    assert bench.kinds(seq) == ["claim.expired"]
    assert bench.state.next_due_us() is None


def test_a_call_that_was_not_logged_still_counts(bench: Bench) -> None:
    """A holder that called after its last renewal keeps its lease from then on: being lazy must not cost it."""
    seq = bench.held("w1", "a", ttl_s=90)
    bench.seen_us["w1"] = START_US + 20 * US
    bench.pass_time(95)
    assert bench.kinds(seq) == ["claim.renewed"]
    assert bench.lease(seq).expires_us == START_US + 110 * US
    bench.pass_time(15)
    assert bench.kinds(seq) == ["claim.renewed", "claim.expired"]


def test_an_expiry_tells_how_and_when_the_holder_was_last_seen(bench: Bench) -> None:
    """The event says whether the lease or the six hours were over, and when the holder last called."""
    bench.held("w1", "a", ttl_s=3)
    bench.pass_time(3)
    bench.held("w1", "b", ttl_s=21_600)
    bench.pass_time(CLAIM_LIFE_S)
    ends = [record.event for record in bench.log if record.event.__struct_config__.tag == "claim.expired"]
    assert [(end.how, end.author, end.last_seen[-16:-8]) for end in ends] == [
        ("lease", "board", "08:00:00"),
        ("life", "board", "08:00:03"),
    ]


def test_an_expiry_closes_its_conflicts_once(bench: Bench) -> None:
    """Two claims that end together close the conflict between them once."""
    bench.held("w1", "a", ttl_s=3)
    bench.held("w2", "a", on="contest", ttl_s=3)
    head = bench.state.seq
    bench.pass_time(3)
    assert bench.kinds(head) == ["claim.expired", "conflict.closed", "claim.expired"]


def test_waiters_are_granted_in_turn(bench: Bench) -> None:
    """First come first served: a waiter also waits for earlier waiters of the same place."""
    held = bench.held("w1", "a")
    second, third = bench.waiting("w2", "a"), bench.waiting("w3", "a/x")
    bench.release("w1", held)
    assert (bench.lease(second).state, bench.lease(third).state) == ("held", "waiting")
    bench.release("w2", second)
    assert bench.lease(third).state == "held"


def test_waiters_of_different_places_are_granted_together(bench: Bench) -> None:
    """Whoever's way is free is granted, whatever others wait for."""
    held = bench.held("w1", "a", "b")
    second, third = bench.waiting("w2", "a"), bench.waiting("w3", "b")
    bench.release("w1", held)
    assert (bench.lease(second).state, bench.lease(third).state) == ("held", "held")


@pytest.mark.parametrize("how", ["narrow", "transfer", "expire"])
def test_whatever_frees_a_place_grants_it(bench: Bench, how: str) -> None:
    """A waiter is granted its place however the place gets free."""
    held = bench.held("w1", "a", "b", ttl_s=60)
    waiting = bench.waiting("w2", "a", ttl_s=600)
    match how:
        case "narrow":
            bench.run(Narrow(Asker("w1"), held, ("b",)))
        case "transfer":
            bench.run(Transfer(Asker("w1"), held, "w2"))
        case _:
            bench.pass_time(60)
    assert bench.lease(waiting).state == "held"


def test_a_granted_lease_begins_anew(bench: Bench) -> None:
    """The lease and the six hours of a claim that waited count from the grant."""
    held = bench.held("w1", "a", ttl_s=60)
    waiting = bench.waiting("w2", "a", ttl_s=600)
    bench.pass_time(60)
    lease = bench.lease(waiting)
    assert lease.since_us == lease.renewed_us == START_US + 60 * US
    assert lease.expires_us == START_US + 660 * US
    assert lease.at_us == START_US
    assert held not in bench.state.leases


def test_who_is_gone_is_passed_over_and_keeps_its_place(bench: Bench) -> None:
    """A waiter without connection is passed over; back again, it is next."""
    held = bench.held("w1", "a")
    second, third = bench.waiting("w2", "a"), bench.waiting("w3", "a")
    bench.gone.add("w2")
    bench.release("w1", held)
    assert (bench.lease(second).state, bench.lease(third).state) == ("waiting", "held")
    bench.gone.clear()
    bench.release("w3", third)
    assert bench.lease(second).state == "held"


def ring(bench: Bench, worker: str, *scope: str, waits_for_it: bool = True) -> tuple[str, ...]:
    targets = bench.state.targets(scope)
    return waits.ring_with(bench.state, waits.Prospect(bench.state.seq + 1, worker, targets, waits=waits_for_it))


def test_a_ring_is_spelt_out(bench: Bench) -> None:
    """The ring that would close goes from worker to worker, and ends where it began."""
    bench.held("w1", "a")
    bench.held("w2", "b")
    bench.held("w3", "c")
    bench.waiting("w1", "b")
    bench.waiting("w2", "c")
    assert ring(bench, "w3", "a") == ("w3", "w1", "w2", "w3")
    assert ring(bench, "w3", "d") == ()


def test_holding_closes_a_ring_as_well(bench: Bench) -> None:
    """A worker that waits may not take a free place for which one waits whom it waits for itself."""
    bench.held("w1", "a")
    bench.waiting("w2", "a", "b")
    bench.waiting("w3", "a")
    assert ring(bench, "w3", "b", waits_for_it=False) == ("w3", "w2", "w3")
    assert ring(bench, "w4", "b", waits_for_it=False) == ()


def test_who_is_gone_still_counts_for_a_ring(bench: Bench) -> None:
    """A waiter that is gone may be back: no ring may close through it meanwhile."""
    bench.held("w1", "a")
    bench.waiting("w2", "a", "b")
    bench.waiting("w3", "a")
    bench.gone.add("w2")
    assert refused(bench.claim("w3", "b")).code == "would_deadlock"


def test_a_grant_past_one_that_is_gone_closes_no_ring(bench: Bench) -> None:
    """A waiter is not granted what one who is gone waits for, while it waits for that one."""
    held = bench.held("w1", "a")
    bench.held("w2", "b")
    second = bench.waiting("w2", "a")
    third = bench.waiting("w3", "a")
    bench.waiting("w3", "b")
    bench.gone.add("w2")
    bench.release("w1", held)
    assert (bench.lease(second).state, bench.lease(third).state) == ("waiting", "waiting")
    bench.gone.clear()
    bench.pass_time()
    assert (bench.lease(second).state, bench.lease(third).state) == ("held", "waiting")


def test_a_renewal_that_moves_nothing_is_not_logged(bench: Bench) -> None:
    """Renewing for a shorter time than is left is done already."""
    seq = bench.held("w1", "a", ttl_s=600)
    assert bench.run(Renew(Asker("w1"), seq, 30)) == Done(seq)
    assert bench.kinds(seq) == []


def test_a_claim_is_listed_as_it_stands(bench: Bench) -> None:
    """A live claim is held, contested or waiting; it names its open conflicts and how long it has."""
    first = bench.held("w1", "a", ttl_s=60)
    second = bench.held("w2", "a", on="contest")
    third = bench.waiting("w3", "a")
    bench.pass_time(1)
    entries = {
        claim: claims.claim_entry(bench.state, bench.lease(claim), bench.now_us) for claim in (first, second, third)
    }
    assert [entry["state"] for entry in entries.values()] == ["contested", "contested", "waiting"]
    assert entries[first]["conflicts"] == entries[second]["conflicts"] == [3]
    assert entries[first]["expires_in_s"] == 59
    assert "conflicts" not in entries[third]
