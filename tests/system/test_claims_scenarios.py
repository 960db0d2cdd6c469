"""Claims as users of such systems reported them broken, through the public door of a real server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from schema.codec import us_of_text
from schema.codes import Problem
from schema.events import ClaimExpired, ClaimGranted, ClaimRefused, ClaimReleased
from schema.limits import SettingsDraft
from schema.notes import Fact
from tests.harness.clocked import ClockedNode
from tests.harness.team import Team, outcome, refusal, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from workers.client.answers import Posted

pytestmark = pytest.mark.anyio

FILE = "src/core/manager.py"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClockedNode]:
    """One server for all of these tests; each has a board of its own."""
    node = ClockedNode(tmp_path_factory.mktemp("claims"))
    asyncio.run(node.start())
    yield node
    node.close()


@pytest.fixture
async def team(node: ClockedNode) -> AsyncIterator[Team]:
    async with Team(node) as team:
        yield team


def state_of(posted: Posted) -> str:
    assert posted.claim is not None
    return posted.claim.state


def named(refused: Problem) -> list[str]:
    """The places that a refusal says are taken."""
    return sorted({place for entry in refused.facts["conflicts"] for place in entry["overlap"]})


async def test_of_64_claimers_one_wins(team: Team) -> None:
    """64 workers claim one file at once, 20 times: one holds it, 63 are told who, and the log knows one CLAIM."""
    names = [f"w{number}" for number in range(64)]
    for turn in range(1, 21):
        barrier = asyncio.Barrier(len(names))

        async def claim(worker: str, barrier: asyncio.Barrier = barrier) -> Posted | Problem:
            await barrier.wait()
            return await outcome(team(worker).claim((FILE,), "refactor"))

        answers = dict(zip(names, await asyncio.gather(*map(claim, names)), strict=True))
        (winner,) = [name for name, answer in answers.items() if not isinstance(answer, Problem)]
        refused = [answer for answer in answers.values() if isinstance(answer, Problem)]
        assert {(entry["claim"], entry["holder"]) for one in refused for entry in one.facts["conflicts"]} == {
            (answers[winner].seq, winner)
        }
        assert len(refused) == 63
        assert await team.live() == [(answers[winner].seq, winner)]
        assert len((await team("onlooker").notes(types=("CLAIM",))).notes) == turn
        await team(winner).release(answers[winner].seq)


async def test_all_of_a_scope_or_none(team: Team) -> None:
    """A claim of which one part is taken holds nothing; the refusal names what is taken and what is free."""
    await team("w1").claim(("b.py",), "one")
    refused = await refusal(team("w2").claim(("a.py", "b.py", "c.py"), "three"))
    assert refused.code == "claim_conflict"
    assert named(refused) == ["b.py"]
    assert {entry["holder"] for entry in refused.facts["conflicts"]} == {"w1"}
    assert refused.facts["free"] == ["a.py", "c.py"]
    assert [holder for _, holder in await team.live()] == ["w1"]
    assert state_of(await team("w3").claim(("a.py",), "free")) == "held"
    (event,) = await team.logged(ClaimRefused)
    assert (event.author, event.holder, event.scope) == ("w2", "w1", ("a.py", "b.py", "c.py"))


async def test_an_expired_lease_never_blocks(node: ClockedNode, team: Team) -> None:
    """Who claims what a silent worker's lease of 3 s covered 25 s ago gets it, and the old one reads expired at 3 s."""
    first = await team("w1").claim((FILE,), "silent", ttl_s=3)
    node.clock.move(25)
    second = await team("w2").claim((FILE,), "next")
    assert state_of(second) == "held"
    assert second.seq > first.seq
    (ended,) = (await team("w2").claims(state="ended")).claims
    assert (ended.claim, ended.state) == (first.seq, "expired")
    assert us_of_text(ended.expires_at) == us_of_text(first.at) + 3_000_000


@pytest.mark.parametrize("read", ["check", "claims", "conflicts"])
async def test_no_read_meets_a_lease_that_has_ended(node: ClockedNode, team: Team, read: str) -> None:
    """However late the writer wakes, a read shows no claim as live whose lease is over."""
    await team("w1").claim((FILE,), "one", ttl_s=3)
    await team("w2").claim((FILE,), "two", ttl_s=3, on_conflict="contest") if read == "conflicts" else None
    node.clock.move(10)
    match read:
        case "check":
            assert not (await team("w3").check((FILE,))).conflicts
        case "claims":
            assert not (await team("w3").claims()).claims
        case _:
            assert not (await team("w3").conflicts()).conflicts


async def test_a_dead_holder_lets_go_when_its_lease_ends(node: ClockedNode, team: Team) -> None:
    """A holder last seen at 30 s of a lease of 90 s blocks until 120 s, and the expiry says when it was last seen."""
    claim = await team("w1").claim((FILE,), "dies", ttl_s=90)
    node.clock.move(30)
    before_us = node.clock.now_us()
    await team("w1").notes()
    after_us = node.clock.now_us()
    node.clock.move(20)
    refused = await refusal(team("w2").claim((FILE,), "waits"))
    (entry,) = refused.facts["conflicts"]
    assert 0 < entry["expires_in_s"] <= 70
    assert us_of_text(entry["expires_at"]) > us_of_text(claim.at) + 90_000_000
    node.clock.move(71)
    assert state_of(await team("w2").claim((FILE,), "takes over")) == "held"
    (expired,) = await team.logged(ClaimExpired)
    assert (expired.claim, expired.holder, expired.author) == (claim.seq, "w1", "board")
    assert before_us <= us_of_text(expired.last_seen) <= after_us


async def test_one_early_call_does_not_keep_a_dead_holder(node: ClockedNode, team: Team) -> None:
    """A holder that called once, too early for a renewal, and died, loses its lease one length after that call."""
    await team("w1").claim((FILE,), "dies early", ttl_s=90)
    node.clock.move(20)
    await team("w1").notes()
    node.clock.move(75)
    assert (await refusal(team("w2").claim((FILE,), "too soon"))).code == "claim_conflict"
    node.clock.move(16)
    assert state_of(await team("w2").claim((FILE,), "in time")) == "held"


async def test_a_holder_is_told_of_the_end(node: ClockedNode, team: Team) -> None:
    """A holder whose lease ends is told once on its socket and in its unread; claiming again leaves one live claim."""
    async with team("w1").subscribe() as events:
        claim = await team("w1").claim((FILE,), "idle", ttl_s=3)
        node.clock.move(10)
        await team.logged(ClaimExpired)
        again = await team("w1").claim((FILE,), "again", ttl_s=600)
        told = [await anext(events)]
        while told[-1].seq < again.seq:
            told.append(await anext(events))
    assert [event.claim for event in told if isinstance(event, ClaimExpired)] == [claim.seq]
    unread = (await team("w1").unread()).notes
    assert [event.claim for event in unread if isinstance(event, ClaimExpired)] == [claim.seq]
    assert await team.live() == [(again.seq, "w1")]


async def test_a_lease_never_gets_shorter(node: ClockedNode, team: Team) -> None:
    """Neither a renewal for a shorter time nor any call moves the end of a lease nearer, or takes it away."""
    claim = await team("w1").claim((FILE,), "long", ttl_s=600)
    assert claim.claim is not None
    ends_us = [us_of_text(claim.claim.expires_at)]
    for ttl_s in (1, 600, 30):
        ends_us.append(us_of_text((await team("w1").renew(claim.seq, ttl_s=ttl_s)).expires_at))
        node.clock.move(5)
        await team("w1").notes()
        ends_us += [us_of_text(one.expires_at) for one in (await team("w2").claims()).claims]
    assert ends_us == sorted(ends_us)


async def test_who_keeps_posting_keeps_its_claim(node: ClockedNode, team: Team) -> None:
    """A worker that posts now and then keeps its claim of 60 s for minutes without ever renewing it."""
    claim = await team("w1").claim((FILE,), "busy", ttl_s=60)
    for step in range(10):
        node.clock.move(35)
        await team("w1").post(Fact(text=f"step {step}"))
        assert await team.live() == [(claim.seq, "w1")]


async def test_six_hours_are_the_end(node: ClockedNode, team: Team) -> None:
    """A claim ends after six hours however often its holder calls."""
    claim = await team("w1").claim((FILE,), "for ever", ttl_s=21_600)
    for _ in range(3):
        node.clock.move(7000)
        await team("w1").notes()
    assert await team.live() == [(claim.seq, "w1")]
    node.clock.move(700)
    await team("w1").notes()
    assert await team.live() == []
    assert [event.how for event in await team.logged(ClaimExpired)] == ["life"]


async def test_a_stale_worker_is_back_with_one_call(node: ClockedNode, team: Team) -> None:
    """A worker that was silent is here again after any call; what expired meanwhile stays expired."""
    claim = await team("w1").claim((FILE,), "goes silent", ttl_s=3)
    node.clock.move(3600)
    back_us = node.clock.now_us()
    await team("w1").notes()
    seen = {one.worker: one.last_seen for one in (await team("w2").workers()).workers}
    assert us_of_text(seen["w1"]) >= back_us
    assert await team.live() == []
    assert (await refusal(team("w1").renew(claim.seq))).code == "claim_ended"
    assert [event.claim for event in await team.logged(ClaimExpired)] == [claim.seq]


async def test_a_dead_waiter_is_skipped(team: Team) -> None:
    """Of two waiters the first loses its connection: the second is granted, and releasing twice changes nothing."""
    held = await team("w1").claim((FILE,), "holds")
    async with team("w2").subscribe():
        assert state_of(await team("w2").claim((FILE,), "first", on_conflict="wait")) == "waiting"
        third = await team("w3").claim((FILE,), "second", on_conflict="wait")
        await until(lambda: team.sockets("w2"))
    await until(lambda: _none(team.sockets("w2")))
    await team("w1").release(held.seq)
    assert await team.live() == [(third.seq, "w3")]
    await team("w1").release(held.seq)
    assert await team.live() == [(third.seq, "w3")]
    assert len(await team.logged(ClaimReleased)) == 1


async def _none(count: object) -> bool:
    return not await count  # type: ignore[misc] -- an awaitable number


async def test_a_waiter_that_came_back_is_next(team: Team) -> None:
    """A waiter whose connection was lost keeps its place, and is granted it when it calls again."""
    held = await team("w1").claim((FILE,), "holds")
    async with team("w2").subscribe():
        waits = await team("w2").claim((FILE,), "first", on_conflict="wait")
        await until(lambda: team.sockets("w2"))
    await until(lambda: _none(team.sockets("w2")))
    await team("w1").release(held.seq)
    assert await team.live() == []
    await team("w2").notes()
    await team.logged(ClaimGranted)
    assert await team.live() == [(waits.seq, "w2")]


async def test_a_ring_of_two_is_refused(team: Team) -> None:
    """Who would wait for a worker that waits for him is refused at once, with the ring spelt out."""
    await team("w1").claim(("a",), "a")
    await team("w2").claim(("b",), "b")
    assert state_of(await team("w1").claim(("b",), "b too", on_conflict="wait")) == "waiting"
    refused = await refusal(team("w2").claim(("a",), "a too", on_conflict="wait"))
    assert refused.code == "would_deadlock"
    assert refused.facts["ring"] == ["w2", "w1", "w2"]


async def test_of_a_ring_of_three_one_is_refused(team: Team) -> None:
    """Three workers close a ring in the same instant: two wait, one is refused, and its release unties all."""
    places = {"w1": "a", "w2": "b", "w3": "c"}
    held = {worker: await team(worker).claim((place,), place) for worker, place in places.items()}
    wishes = {"w1": "b", "w2": "c", "w3": "a"}
    asked = [outcome(team(worker).claim((place,), "more", on_conflict="wait")) for worker, place in wishes.items()]
    answers = dict(zip(wishes, await asyncio.gather(*asked), strict=True))
    (loser,) = [worker for worker, answer in answers.items() if isinstance(answer, Problem)]
    assert answers[loser].code == "would_deadlock"
    assert set(answers[loser].facts["ring"]) == set(places)
    for _ in places:
        await team(loser).release(held[loser].seq)
        loser = next(worker for worker, place in wishes.items() if place == places[loser])
    assert sorted(holder for _, holder in await team.live("a", "b", "c")) == sorted(
        worker for worker, answer in answers.items() if not isinstance(answer, Problem)
    )


async def test_a_transfer_closes_no_ring(team: Team) -> None:
    """A waiting claim is not given to a worker for whom its own holder's holder waits."""
    await team("w1").claim(("a",), "a")
    await team("w2").claim(("b",), "b")
    waits = await team("w3").claim(("a",), "a too", on_conflict="wait")
    assert state_of(await team("w1").claim(("b",), "b too", on_conflict="wait")) == "waiting"
    refused = await refusal(team("w3").transfer(waits.seq, "w2"))
    assert refused.code == "would_deadlock"
    assert refused.facts["ring"] == ["w2", "w1", "w2"]


MEETING = [
    ("src/**", "src/app.rs"),
    ("src/*/test.py", "src/backend/test.py"),
    ("lib/skills", "lib/skills/flow/run.sh"),
    ("lib/skills/", "lib/skills/flow/run.sh"),
    ("docs/Cafe\u0301.md", "docs/Caf\u00e9.md"),
    ("./docs//Caf\u00e9.md", "docs/Caf\u00e9.md"),
    ("docs\\Caf\u00e9.md", "docs/Caf\u00e9.md"),
    ("r.ts", "r.ts::Router.handleAuth"),
]
APART = [
    ("src/*/test.py", "src/a/b/test.py"),
    ("lib/skills", "lib/skills-old/run.sh"),
    ("lib/skills/", "lib/skills-old/run.sh"),
    ("Config.yaml", "config.yaml"),
    ("r.ts::Router.handleAuth", "r.ts::Router.handleLogout"),
    ("r.ts::Router", "r.ts::Rout"),
]


@pytest.mark.parametrize(("one", "other"), [pair for both in MEETING for pair in (both, both[::-1])])
async def test_what_meets_is_refused_whoever_asks_first(team: Team, one: str, other: str) -> None:
    """Globs, directories, spellings and symbols that share a place are refused in either order."""
    await team("w1").claim((one,), "one")
    assert (await refusal(team("w2").claim((other,), "other"))).code == "claim_conflict"


@pytest.mark.parametrize(("one", "other"), [pair for both in APART for pair in (both, both[::-1])])
async def test_what_lies_apart_is_held_side_by_side(team: Team, one: str, other: str) -> None:
    """Places that only look alike are held by two workers at once."""
    await team("w1").claim((one,), "one")
    assert state_of(await team("w2").claim((other,), "other")) == "held"


async def test_case_is_the_boards_choice(node: ClockedNode) -> None:
    """Where a board says that case does not matter, two spellings of a name are one file."""
    async with Team(node, SettingsDraft(case_insensitive=True)) as team:
        await team("w1").claim(("Config.yaml",), "one")
        assert (await refusal(team("w2").claim(("config.yaml",), "other"))).code == "claim_conflict"


async def test_a_symbol_and_its_parents(team: Team) -> None:
    """Two methods are held apart; their class, and their file, are refused naming both; a like name is free."""
    await team("w1").claim(("r.ts::Router.handleAuth",), "one")
    await team("w2").claim(("r.ts::Router.handleLogout",), "other")
    for whole in ("r.ts::Router", "r.ts"):
        refused = await refusal(team("w3").claim((whole,), "all"))
        assert named(refused) == ["r.ts::Router.handleAuth", "r.ts::Router.handleLogout"]
    assert state_of(await team("w3").claim(("r.ts::Rout",), "like")) == "held"


async def test_absolute_meets_relative(team: Team) -> None:
    """A registered root is stripped from an absolute path, which then meets another's relative one."""
    await team("w1").register("/srv/wt-17/app")
    claim = await team("w1").claim(("/srv/wt-17/app/src/a.py",), "absolute")
    assert claim.note.scope == ("src/a.py",)
    assert (await refusal(team("w2").claim(("src/a.py",), "relative"))).code == "claim_conflict"


@pytest.mark.parametrize("target", ["../../etc/passwd", "/srv/wt-18/app/src/a.py", "", "x" * 5000, "a\0b", "**"])
async def test_a_target_that_cannot_be_is_refused(team: Team, target: str) -> None:
    """A path out of the root, another root, an empty or an endless target are refused with the reason."""
    await team("w1").register("/srv/wt-17/app")
    refused = await refusal(team("w1").claim(("src/a.py", target), "bad"))
    assert refused.code == "bad_target"
    assert refused.facts["reason"]
    assert await team.live() == []


async def test_only_the_holder_moves_a_claim(team: Team) -> None:
    """Another worker may not release, renew or narrow a claim; an admin may end it with a reason, which is logged."""
    claim = await team("w1").claim((FILE, "b.py"), "mine")
    for call in (
        team("w2").release(claim.seq),
        team("w2").renew(claim.seq),
        team("w2").narrow(claim.seq, ("b.py",)),
        team("w2").transfer(claim.seq, "w2"),
    ):
        assert (await refusal(call)).code == "forbidden"
    assert await team.live() == [(claim.seq, "w1")]
    await team("w2").release(claim.seq, outcome="abandoned", reason="w1 was shut down")
    (released,) = await team.logged(ClaimReleased)
    assert (released.author, released.holder, released.reason) == ("w2", "w1", "w1 was shut down")


async def test_check_writes_nothing(node: ClockedNode, team: Team) -> None:
    """Checking a held, an expired, a free and a malformed target tells each, and leaves the log as it was."""
    await team("w1").claim(("held.py",), "held")
    await team("w1").claim(("expired.py",), "expired", ttl_s=1)
    node.clock.move(2)
    await team.logged(ClaimExpired)
    before = await team.log()
    found = await team("w2").check(("held.py", "expired.py", "free.py"))
    assert [(entry.holder, entry.overlap) for entry in found.conflicts] == [("w1", ("held.py",))]
    assert found.free == ("expired.py", "free.py")
    assert not (await team("w1").check(("held.py",))).conflicts
    refused = await refusal(team("w2").check(("free.py", "../out.py")))
    assert (refused.code, refused.facts["value"]) == ("bad_target", "../out.py")
    assert await team.log() == before


async def test_a_lease_that_ended_while_nobody_served(tmp_path_factory: pytest.TempPathFactory) -> None:
    """After a stop and a start the first answer already knows of the expiry, and a subscriber is told of it."""
    async with ClockedNode(tmp_path_factory.mktemp("restart")) as node, Team(node) as team:
        claim = await team("w1").claim((FILE,), "outlived", ttl_s=30)
        await node.kill9()
        node.clock.move(3600)
        await node.restart()
        (ended,) = (await team("w2").claims(state="ended")).claims
        assert (ended.claim, ended.state) == (claim.seq, "expired")
        async with team("w1").subscribe(after=claim.seq) as events:
            told = await anext(events)
        assert isinstance(told, ClaimExpired)
        assert told.claim == claim.seq
