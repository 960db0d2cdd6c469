"""What happens to the file: written by others, full, damaged, and its writer killed."""

from __future__ import annotations

import asyncio
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import apsw
import pytest

from board.store.contract import Filter, StoreDamaged, StoreFull, StoreNewer, StoreUnavailable
from board.store.sqlite import SqliteStore
from schema.limits import Settings
from tests.harness.logs import append, note, notes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator
    from pathlib import Path

pytestmark = pytest.mark.anyio

COMMITTER = """
import asyncio, sys
from board.store.sqlite import SqliteStore
from tests.harness.logs import append, notes

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    head = (await store.board("main")).head
    while True:
        await append(store, notes(head + 1, head + 3))
        head += 3
        print(head, flush=True)

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is."""
    return tmp_path / "board.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    """An open store."""
    opened = SqliteStore(str(path))
    await opened.open()
    yield opened
    await opened.close()


def held(path: Path) -> bytes:
    """Read a whole file."""
    return path.read_bytes()


def write_diary(path: Path) -> None:
    """Make a file that is no database."""
    path.write_bytes(b"this is somebody's diary\n" * 500)


def by_hand(path: Path, sql: str) -> None:
    """Do something to the file that the board never does."""
    connection = apsw.Connection(str(path))
    try:
        connection.execute(sql)
    finally:
        connection.close()


async def refused(path: Path, reason: type[StoreUnavailable]) -> None:
    """Open the file, which must be refused and left as it is."""
    before = held(path)
    opened = SqliteStore(str(path))
    with pytest.raises(reason) as caught:
        await opened.open()
    await opened.close()
    assert caught.type is reason
    assert held(path) == before


async def test_a_newer_file_is_refused(path: Path, store: SqliteStore) -> None:
    """A file that a newer version migrated is left untouched."""
    await append(store, notes(1, 2))
    await store.close()
    by_hand(path, "INSERT INTO migrations VALUES (999, 'of_tomorrow', 'x', 0)")
    await refused(path, StoreNewer)


async def test_a_changed_migration_is_refused(path: Path, store: SqliteStore) -> None:
    """A file whose migration ran from another text than ours is left untouched."""
    await store.close()
    by_hand(path, "UPDATE migrations SET checksum = 'x' WHERE number = 1")
    await refused(path, StoreDamaged)


async def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    """A file of anything else is left untouched."""
    write_diary(path)
    await refused(path, StoreDamaged)


async def test_a_database_of_another_program_is_refused(path: Path) -> None:
    """A database of another program is left untouched."""
    by_hand(path, "CREATE TABLE diary (day TEXT)")
    await refused(path, StoreUnavailable)


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """A file that cannot be made is said so."""
    with pytest.raises(StoreUnavailable):
        await SqliteStore(str(tmp_path / "nowhere" / "board.db")).open()


async def test_everything_outlives_a_close(path: Path, store: SqliteStore) -> None:
    """What was stored is there after the file was closed and opened, and seqs go on."""
    made = await store.create_board("other", Settings(text_chars=7))
    await append(store, [note(1, detail="long", key="k", digest=b"d"), *notes(2, 300)])
    before = await store.records("main", after=0, limit=1000)
    await store.close()
    again = SqliteStore(str(path))
    await again.open()
    assert await again.records("main", after=0, limit=1000) == before
    assert await again.board("other") == made
    await append(again, notes(301, 301))
    await again.close()


async def test_a_seq_is_never_reused(path: Path, store: SqliteStore) -> None:
    """Rows that were deleted by hand at the end of the log leave a hole, and their seqs are not given out again."""
    await append(store, notes(1, 5))
    by_hand(path, "DELETE FROM events WHERE id & 0xFFFFFFFFFF > 3")
    await append(store, notes(6, 6))
    rows, _ = await store.page("main", limit=10)
    assert [row.seq for row in rows] == [1, 2, 3, 6]


async def test_rows_never_change(path: Path, store: SqliteStore) -> None:
    """Whoever opens the file cannot rewrite an event."""
    await append(store, notes(1, 1))
    with pytest.raises(apsw.ConstraintError):
        by_hand(path, "UPDATE events SET author = 'somebody else'")


async def test_lost_indexes_are_rebuilt(path: Path, store: SqliteStore) -> None:
    """The derived tables may be emptied; what they find is found again."""
    await append(store, notes(1, 600, to=("w2",)))
    assert len((await store.page("main", limit=1000, where=Filter(to="w2")))[0]) == 600
    by_hand(
        path,
        "BEGIN; DELETE FROM filings; DELETE FROM labels; DELETE FROM indexed;"
        "INSERT INTO words (words) VALUES ('delete-all'); COMMIT",
    )
    assert len((await store.page("main", limit=1000, where=Filter(to="w2")))[0]) == 600


async def test_two_stores_on_one_file(path: Path, store: SqliteStore) -> None:
    """A second server on the file cannot fork the log: who is behind is refused, and then sees what it missed."""
    other = SqliteStore(str(path))
    await other.open()
    await append(store, notes(1, 2))
    async with other.begin("main", 0) as transaction:
        assert [record.seq for record in transaction.missed] == [1, 2]
        await transaction.commit(notes(3, 3))
    with pytest.raises(StoreUnavailable):
        await append(store, notes(3, 3))
    async with store.begin("main", 2) as transaction:
        assert [record.seq for record in transaction.missed] == [3]
    await other.close()


async def test_a_full_disk(path: Path, store: SqliteStore) -> None:
    """Where files cannot grow, writes say so and reads go on; with room again writes go on by themselves."""
    await append(store, notes(1, 100))
    with files_no_longer_than(len(held(path)) + 8192):
        for _ in range(3):
            with pytest.raises(StoreFull):
                await append(store, notes(101, 1000, text="x" * 400))
    with files_no_longer_than(0), pytest.raises(StoreFull):
        await store.ping()
    with files_no_longer_than(0):
        assert len((await store.page("main", limit=1000))[0]) == 100
    await store.ping()
    await append(store, notes(101, 1000, text="x" * 400))
    assert len((await store.page("main", limit=1000))[0]) == 1000


@contextmanager
def files_no_longer_than(size_bytes: int) -> Generator[None, None, None]:
    """Let the system refuse this process to write further into any file, as a full disk or a quota does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_locked_file(path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write waits for another process that is writing, and says so where that takes too long; reads go on."""
    monkeypatch.setattr("board.store.sqlite.connections.BUSY_MS", 50)
    await store.close()
    waiting = SqliteStore(str(path))
    await waiting.open()
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        await append(waiting, notes(1, 1))
    assert (await waiting.page("main", limit=5))[0] == []
    other.execute("ROLLBACK")
    other.close()
    await append(waiting, notes(1, 1))
    await waiting.close()


async def test_a_damaged_row(path: Path, store: SqliteStore) -> None:
    """A row that cannot be decoded is called damage, not left out."""
    await append(store, notes(1, 2))
    by_hand(path, "DROP TRIGGER events_never_change; UPDATE events SET body = CAST('{' AS BLOB)")
    with pytest.raises(StoreDamaged):
        await store.page("main", limit=5)


async def test_the_wal_stays_bounded(path: Path, store: SqliteStore) -> None:
    """While pages are read all the time, the WAL does not outgrow its bound."""
    stop = asyncio.Event()

    async def read() -> None:
        while not stop.is_set():
            await store.page("main", limit=1000)

    reading = asyncio.create_task(read())
    for head in range(0, 120_000, 1000):
        await append(store, notes(head + 1, head + 1000))
    stop.set()
    await reading
    assert len(held(path.with_name("board.db-wal"))) < 100 * 1_048_576


@pytest.mark.parametrize("kill_after", [1, 20, 100])
async def test_a_killed_writer_loses_nothing(path: Path, kill_after: int) -> None:
    """After kill -9 every acknowledged commit is there, none is there in part, and seqs go on; three times over."""
    for _ in range(3):
        acknowledged = commit_until_killed(path, kill_after)
        store = SqliteStore(str(path))
        await store.open()
        board = await store.board("main")
        assert board is not None
        rows = await store.records("main", after=0, limit=100_000)
        assert [row.seq for row in rows] == list(range(1, board.head + 1))
        assert board.head >= acknowledged
        assert board.head % 3 == 0
        await store.close()


def commit_until_killed(path: Path, lines: int) -> int:
    """Run a process that commits, kill it after so many commits; give the last head that it said was stored."""
    command = [sys.executable, "-c", COMMITTER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        heads = [int(child.stdout.readline()) for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        heads += [int(line) for line in child.stdout.read().splitlines() if line]
    return heads[-1]
