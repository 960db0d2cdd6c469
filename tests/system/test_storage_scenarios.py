"""What is on the disk when many write at once, when the server dies, and when there is no room left."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from board.core.exported import Reader
from board.core.state import State
from schema.codes import Problem
from schema.events import ClaimExpired, Note
from schema.limits import Settings
from schema.notes import Claim, Fact, Observed
from tests.harness.clocked import ClockedNode
from tests.harness.node import Node, NodeFailed
from tests.harness.team import Team, outcome, until
from workers.client import Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from workers.client import BoardClient
    from workers.client.answers import Posted

pytestmark = pytest.mark.anyio


POSTS = 5


async def test_no_database_is_locked(tmp_path: Path) -> None:
    """64 posters and 64 readers at once: every call succeeds, and only the posts are in the log."""
    async with Node(tmp_path) as node, Team(node) as team:
        done = asyncio.Event()

        async def write(worker: str) -> None:
            for number in range(POSTS):
                await team(worker).post(Observed(text=f"{worker} {number}"))

        async def read(worker: str) -> None:
            while not done.is_set():
                await team(worker).notes(limit=10, order="desc")

        readers = [asyncio.create_task(read(f"r{number}")) for number in range(64)]
        await asyncio.gather(*(write(f"w{number}") for number in range(64)))
        done.set()
        await asyncio.gather(*readers)
        assert [event.seq for event in await team.log()] == list(range(1, 64 * POSTS + 1))
        assert [line for line in node.logged() if line["level"] == "error"] == []


class Ledger:
    """What posters were told, to be compared with what is kept."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, str] = {}
        self.numbers = 0

    async def holds(self, count: int) -> bool:
        """Whether so many notes were acknowledged."""
        return len(self.acknowledged) >= count

    async def keep_posting(self, client: BoardClient) -> None:
        """Post until the server is gone; now and then claim and release."""
        with_detail = "d" * 5000
        while True:
            self.numbers += 1
            text = f"note {self.numbers}"
            draft = Claim(text=text, scope=(text,)) if self.numbers % 7 == 0 else Fact(text=text, detail=with_detail)
            posted = await outcome(client.post(draft))
            if isinstance(posted, Problem):
                return
            self.acknowledged[posted.seq] = text
            if posted.claim is not None and self.numbers % 2:
                await outcome(client.release(posted.seq))


async def kill_under_load(folder: Path, rounds: int) -> None:
    """Kill the server in the middle of a crowd of posters, again and again, and compare each time."""
    ledger, epochs = Ledger(), set[str]()
    async with Node(folder) as node:
        for _ in range(rounds):
            await post_until_killed(node, ledger, len(ledger.acknowledged) + 100)
            await node.restart()
            epochs.add(await assert_kept(node, ledger))
    assert len(epochs) == 1


async def post_until_killed(node: Node, ledger: Ledger, wanted: int) -> None:
    """Post from 16 workers, and kill the server while all are at it, once so many notes are acknowledged."""
    clients = [node.client(f"w{number}", backoff=Backoff(tries=1)) for number in range(16)]
    posters = [asyncio.create_task(ledger.keep_posting(client)) for client in clients]
    await until(lambda: ledger.holds(wanted))
    await node.kill9()
    await asyncio.gather(*posters)
    for client in clients:
        await client.close()


async def assert_kept(node: Node, ledger: Ledger) -> str:
    """Every acknowledged note is there once under its seq, no seq is missing, and the log folds to the served state."""
    reader = Reader(State(Settings()))
    kept: dict[int, str] = {}
    async with node.client("onlooker") as client:
        async with client.export() as lines:
            async for line in lines:
                record = reader.take(line)
                if record is not None and isinstance(record.event, Note):
                    kept[record.seq] = record.event.text
        board = await client.board()
    reader.finish()
    assert kept.items() >= ledger.acknowledged.items()
    assert len(set(kept.values())) == len(kept)
    assert (board.head, board.state_hash) == (reader.state.seq, reader.state.state_hash())
    return board.epoch


async def test_killed_under_load(tmp_path: Path) -> None:
    """Killed three times under 16 posters, the server loses nothing it acknowledged and needs nobody's help."""
    await kill_under_load(tmp_path, 3)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_killed_fifty_times_under_load(tmp_path: Path) -> None:
    """Killed fifty times under 16 posters, the server loses nothing it acknowledged and needs nobody's help."""
    await kill_under_load(tmp_path, 50)


async def test_a_team_that_calls_at_once_is_known_for_good(tmp_path: Path) -> None:
    """300 workers whose first calls came together are all known after a kill -9: they were written before the answers."""
    names = {f"w{number}" for number in range(300)}
    async with Node(tmp_path) as node, Team(node) as team:
        await asyncio.gather(*(team(name).claims() for name in names))
        await node.kill9()
        await node.restart()
        assert {one.worker for one in (await team("onlooker").workers()).workers} == {"onlooker", *names}


ROOM_BYTES = 300_000


def limit_files(node: Node, limit_bytes: int) -> None:
    """Let no file of the server grow past this: the system then says EFBIG, as it says ENOSPC on a full disk."""
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))


async def test_a_full_disk(tmp_path: Path) -> None:
    """Without room writes are refused with 507 and reads go on; with room again writes do, and nothing is lost."""
    async with Node(tmp_path) as node, Team(node) as team:
        stored = [(await team("w1").post(Fact(text="before"))).seq]
        largest = largest_in(tmp_path)
        limit_files(node, largest + ROOM_BYTES)
        refused = await fill(team("w1"), stored)
        assert refused.row.status == 507
        assert "Nothing was stored" in refused.detail
        assert await notes_of(team("newcomer")) == stored
        limit_files(node, resource.RLIM_INFINITY)
        posted = await until(lambda: stored_again(team("w1")))
        assert await notes_of(team("w1")) == [*stored, posted.seq]
        await node.kill9()
        await node.restart()
        assert await notes_of(team("w1")) == [*stored, posted.seq]


async def fill(client: BoardClient, stored: list[int]) -> Problem:
    """Post until there is no room, and give the refusal."""
    while True:
        posted = await outcome(client.post(Fact(text=f"note {len(stored)}", detail="d" * 60_000)))
        if isinstance(posted, Problem):
            return posted
        stored.append(posted.seq)


async def notes_of(client: BoardClient) -> list[int]:
    return [note.seq async for note in client.each_note()]


async def stored_again(client: BoardClient) -> Posted | None:
    posted = await outcome(client.post(Fact(text="after", detail="d" * 60_000, key="after")))
    return None if isinstance(posted, Problem) else posted


async def test_leases_end_late_rather_than_never_on_a_full_disk(tmp_path: Path) -> None:
    """While an expiry cannot be written the server stays calm and answers reads; with room again the claim ends."""
    async with ClockedNode(tmp_path) as node, Team(node) as team:
        claim = await team("w1").claim(("a.py",), "short", ttl_s=5)
        stored = [claim.seq]
        limit_files(node, largest_in(tmp_path) + ROOM_BYTES)
        await fill(team("w2"), stored)
        limit_files(node, size_of(node.log) + 50_000)
        node.clock.move(60)
        assert await notes_of(team("w3")) == stored
        assert len([line for line in node.logged() if line["event"] == "writer.refused"]) == 1
        limit_files(node, resource.RLIM_INFINITY)
        (expired,) = await team.logged(ClaimExpired)
        assert expired.claim == claim.seq


def size_of(path: Path) -> int:
    return path.stat().st_size


def largest_in(folder: Path) -> int:
    return max(map(size_of, folder.iterdir()))


async def test_a_file_from_a_newer_version(tmp_path: Path) -> None:
    """A store that a newer version wrote is refused at the start, says so, and is left as it is."""
    async with Node(tmp_path) as node:
        assert await node.terminate() == 0
        path = tmp_path / "board.db"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("INSERT INTO migrations VALUES (999, 'later', 'x', 0)")
        before = path.read_bytes()
        with pytest.raises(NodeFailed):
            await node.start()
        assert "newer" in node.log.read_text()
        assert path.read_bytes() == before


async def test_the_wal_stays_bounded(tmp_path: Path) -> None:
    """While clients page history without a pause, 120 MB of writes leave a write-ahead log of less than half of it."""
    async with Node(tmp_path) as node, Team(node) as team:
        wal = tmp_path / "board.db-wal"
        done, longest = asyncio.Event(), [0]

        async def page() -> None:
            while not done.is_set():
                async for _ in team("reader").each_note(limit=1000):
                    longest[0] = max(longest[0], size_of(wal))

        readers = [asyncio.create_task(page()) for _ in range(2)]
        for _ in range(130):
            await team("writer").post_batch([Observed(text="note", detail="d" * 30_000)] * 30)
            longest[0] = max(longest[0], size_of(wal))
        done.set()
        await asyncio.gather(*readers)
        assert longest[0] < 60_000_000


async def test_an_old_log_is_imported_while_others_call(tmp_path: Path) -> None:
    """Leases that ended long ago do not end again in the middle of an import, whoever calls meanwhile."""
    async with ClockedNode(tmp_path) as node, Team(node) as old, Team(node) as new:
        claim = await old("w1").claim(("a.py",), "worked on", ttl_s=600)
        for _ in range(5):
            await old("w2").post_batch([Observed(text="note")] * 500)
        await old("w1").release(claim.seq)
        async with old("onlooker").export() as lines:
            exported = [line async for line in lines]
        node.clock.move(7200)
        done = asyncio.Event()
        callers = [asyncio.create_task(keep_calling(new(f"w{number}"), done)) for number in range(4)]
        imported = await new("onlooker").import_log(each(exported))
        done.set()
        await asyncio.gather(*callers)
        assert imported.state_hash == (await old("onlooker").board()).state_hash
        assert await new.log() == await old.log()


async def each(lines: list[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


async def keep_calling(client: BoardClient, done: asyncio.Event) -> None:
    while not done.is_set():
        await client.claims()
