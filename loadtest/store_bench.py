"""What the SQLite store carries: `python -m loadtest.store_bench [--rows 1000000] [--folder FOLDER]`.

Three ways to write (one note a commit, 64, 1,000), each until its time is over, then a board of a million rows: how long
it takes to open it, and to read from it. Durable throughout: each commit is synced before it counts. One way more is
measured with 64 writers of one note each on boards of their own, which is what group commit is for.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from board.core.spelling import spell
from board.core.words import parse
from board.store.contract import Filter, Record
from board.store.sqlite import SqliteStore
from schema.codec import encode, text_of_us
from schema.events import Note
from schema.limits import Settings
from schema.notes import NOTE_TYPES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

START_US: Final = 1_800_000_000_000_000
TEXT: Final = (
    "table rows end at a line of dashes, and what follows the dashes belongs to the next table; see the reader"
)
FILL_BATCH: Final = 1000
READS: Final = 200


def record(seq: int) -> Record:
    """Make a note of about 300 bytes."""
    note = Note(
        seq=seq,
        at=text_of_us(START_US + seq),
        author=f"worker-{seq % 64:04}",
        type=NOTE_TYPES[seq % len(NOTE_TYPES)],
        text=f"{TEXT} {seq}",
        scope=(f"src/part{seq % 97}/file{seq % 1009}.c:10-40",),
        task=f"task-{seq % 31}",
        to=(f"worker-{seq % 1024:04}",) if seq % 10 == 0 else (),
    )
    return Record(note, START_US + seq, encode(note))


async def append(store: SqliteStore, board: str, head: int, count: int) -> int:
    """Commit some notes after the head; give the new head."""
    async with store.begin(board, head) as transaction:
        await transaction.commit([record(seq) for seq in range(head + 1, head + count + 1)])
    return head + count


async def rate(store: SqliteStore, board: str, batch: int, seconds: float) -> float:
    """Commit batches, one after another; give rows per second."""
    await store.create_board(board, Settings())
    head, start_s = 0, time.perf_counter()
    while time.perf_counter() - start_s < seconds:
        head = await append(store, board, head, batch)
    return head / (time.perf_counter() - start_s)


async def together(store: SqliteStore, writers: int, seconds: float) -> float:
    """Let several writers commit single notes at once, each to its own board; give rows per second of all."""
    return sum(await asyncio.gather(*(rate(store, f"own-{number}", 1, seconds) for number in range(writers))))


async def fill(store: SqliteStore, board: str, rows: int) -> float:
    """Bring a board to so many rows; give the seconds it took."""
    await store.create_board(board, Settings())
    start_s = time.perf_counter()
    for head in range(0, rows, FILL_BATCH):
        await append(store, board, head, min(FILL_BATCH, rows - head))
    return time.perf_counter() - start_s


async def timed(name: str, read: Callable[[int], Awaitable[object]], times: int = READS) -> None:
    """Print how long a read takes: the median and the slowest but one percent."""
    taken: list[float] = []
    for number in range(times):
        start_s = time.perf_counter()
        await read(number)
        taken.append(time.perf_counter() - start_s)
    taken.sort()
    print(
        f"  {name:<44} p50 {taken[len(taken) // 2] * 1e3:8.2f} ms   p99 {taken[len(taken) * 99 // 100] * 1e3:8.2f} ms"
    )


async def measure_writes(store: SqliteStore, seconds: float) -> None:
    """Print what each way to write carries."""
    for batch in (1, 64, 1000):
        print(
            f"  {batch:>5} a commit        {await rate(store, f'by-{batch}', batch, seconds):>10,.0f} rows/s",
            flush=True,
        )
    print(f"  64 writers, 1 each {await together(store, 64, seconds):>12,.0f} rows/s", flush=True)


async def measure_reads(store: SqliteStore, board: str, rows: int) -> None:
    """Print how long the reads of a large board take."""
    step = max(rows // READS, 1)
    scope = (spell("src/part7"),)
    await timed("page of 1,000, anywhere", lambda n: store.page(board, after=n * step, limit=1000))
    await timed("page of 100 newest FAIL", lambda _: newest(store, board, Filter(types=("FAIL",))))
    await timed("page of 100 of one author", lambda _: newest(store, board, Filter(author="worker-0007")))
    await timed("page of 100 of one task", lambda _: newest(store, board, Filter(task="task-3")))
    await timed("page of 100 to one worker", lambda _: newest(store, board, Filter(to="worker-0010")))
    await timed("page of 100 below a directory", lambda _: newest(store, board, Filter(scope=scope)))
    await timed("10 newest overlapping a file", lambda n: related(store, board, f"src/part{n % 97}/file{n}.c"))
    await timed("10 newest overlapping **/*.c", lambda _: related(store, board, "**/*.c"))
    await timed("search, 50 of a word in every note", lambda _: find(store, board, "dashes"))
    await timed("search, one word in one note", lambda n: find(store, board, str(n * step + 1)))
    await timed("search, phrase and word", lambda n: find(store, board, f'"line of dashes" & {n * step + 1}'))


def newest(store: SqliteStore, board: str, where: Filter) -> Awaitable[object]:
    """Read the newest 100 that a filter keeps."""
    return store.page(board, limit=100, descending=True, where=where)


def related(store: SqliteStore, board: str, target: str) -> Awaitable[object]:
    """Read what the reply to a claim lists."""
    return store.overlapping(board, [spell(target)], ["FAIL", "FACT", "PATCH_SUMMARY"], limit=10)


def find(store: SqliteStore, board: str, q: str) -> Awaitable[object]:
    """Search."""
    return store.search(board, parse(q), before=None, limit=50)


def size_mib(path: Path) -> float:
    """Tell how large a file is."""
    return path.stat().st_size / 2**20


async def run(path: Path, rows: int, seconds: float) -> None:
    """Measure everything on one file."""
    store = SqliteStore(str(path))
    await store.open()
    print("writing, each commit synced:")
    await measure_writes(store, seconds)
    filled_s = await fill(store, "large", rows)
    print(f"filled a board with {rows:,} rows in {filled_s:.1f} s ({rows / filled_s:,.0f} rows/s)")
    start_s = time.perf_counter()
    await find(store, "large", "dashes")
    print(f"indexed the rest of its words and places in {time.perf_counter() - start_s:.1f} s")
    await store.close()
    store = SqliteStore(str(path))
    start_s = time.perf_counter()
    await store.open()
    print(f"opened {size_mib(path):,.0f} MiB in {(time.perf_counter() - start_s) * 1e3:.1f} ms; reading:")
    await measure_reads(store, "large", rows)
    await store.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the large board")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each way to write is measured")
    parser.add_argument("--folder", type=Path, default=None, help="where the file is made (a temporary folder)")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        asyncio.run(run(Path(folder) / "bench.db", asked.rows, asked.seconds))


if __name__ == "__main__":
    main()
