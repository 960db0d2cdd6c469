"""What it costs to open a board of a million notes, beside a small one.

The boards are filled through batches over HTTP, kept below the given folder, and used again by the next run. `filled` is
from the first batch to the answer of the last, `indexed` from there until a search knew all of it. Each board is then
started several times; every figure is the median of the starts. `ready` is from the start of the process to the answer of
`/readyz`, RSS is read right after it, and the calls that follow are the first of their kind in that process: a page of
100 notes, a search for one word of one note, a check of a scope. The file is in the page cache, and is not what is
measured.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec
import uvloop

from loadtest.calls import Answer, Calls
from loadtest.lanes import Lanes
from loadtest.processes import HOST, ROOT, Board, serving
from loadtest.report import MIB, Figures
from loadtest.vitals import files_bytes, vitals_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SMALL: Final = 1_000
LARGE: Final = 1_000_000

_BATCH: Final = 1000
_WORKERS: Final = 64
_AT_A_TIME: Final = 4
_TYPES: Final = ("OBSERVED", "FACT", "FAIL", "OBSERVED")
_TEXT: Final = "table rows end at a line of dashes, and what follows the dashes belongs to the next table"


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a board: seconds to be ready, memory then, and the first call of each kind, in milliseconds."""

    ready_s: float
    rss_bytes: int
    page_ms: float
    search_ms: float
    check_ms: float


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """How a board was filled."""

    filled_s: float
    indexed_s: float


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A board of so many notes, started several times."""

    notes: int
    filled: Filled
    file_bytes: int
    starts: tuple[Start, ...]

    def median(self, figure: str) -> float:
        """Give the median of one figure over the starts."""
        return statistics.median(getattr(start, figure) for start in self.starts)


def note(number: int) -> dict[str, object]:
    """Make a note with a word of its own."""
    return {
        "type": _TYPES[number % len(_TYPES)],
        "text": f"{_TEXT}; see word{number}",
        "scope": [f"src/part{number % 97}/file{number % 1009}.c:10-40"],
        "task": f"task-{number % 31}",
    }


def build(folder: Path, notes: int) -> Filled:
    """Fill a board, unless an earlier run has done it whole, and stop its server in order."""
    whole = folder / "filled.json"
    if whole.exists():
        return msgspec.json.decode(whole.read_bytes(), type=Filled)
    for left in (folder / "board.db", folder / "board.db-wal", folder / "board.db-shm"):
        left.unlink(missing_ok=True)
    with serving(folder) as board:
        filled = uvloop.run(_fill(board.port, notes))
        board.stop()
    whole.write_bytes(msgspec.json.encode(filled))
    return filled


async def _fill(port: int, notes: int) -> Filled:
    async with Lanes(HOST, port, _AT_A_TIME) as lanes:
        calls = Calls(lanes, "main")
        firsts = iter(range(0, notes, _BATCH))
        begun_s = time.monotonic()

        async def fill_some() -> None:
            for first in firsts:
                batch = [note(number) for number in range(first, min(first + _BATCH, notes))]
                await calls.post_all(batch, worker=f"worker-{first // _BATCH % _WORKERS:04}")

        async with asyncio.TaskGroup() as tasks:
            for _ in range(_AT_A_TIME):
                tasks.create_task(fill_some())
        filled_s = time.monotonic()
        await calls.get(f"/search?q=word{notes - 1}")
        return Filled(filled_s=filled_s - begun_s, indexed_s=time.monotonic() - filled_s)


async def _first_calls(board: Board, notes: int) -> Start:
    rss_bytes = vitals_of(board.pid).rss_bytes
    async with Lanes(HOST, board.port, 1) as lanes:
        calls = Calls(lanes, "main")
        page = await calls.get(f"/notes?after={notes // 2}&limit=100")
        search = await calls.get(f"/search?q=word{notes // 3}")
        check = await calls.post("/claims/check", {"scope": ["src/part7/file77.c"]}, worker="worker-0001")
    return Start(
        ready_s=board.ready_s,
        rss_bytes=rss_bytes,
        page_ms=_ms(page),
        search_ms=_ms(search),
        check_ms=_ms(check),
    )


def _ms(answer: Answer) -> float:
    if answer.status != 200:
        raise RuntimeError(f"a read was answered {answer.status} {answer.code}")
    return answer.taken_ns / 1e6


def opened(folder: Path, notes: int, starts: int) -> Opened:
    """Fill a board and start it several times."""
    filled = build(folder, notes)
    looks: list[Start] = []
    for _ in range(starts):
        with serving(folder) as board:
            looks.append(uvloop.run(_first_calls(board, notes)))
    return Opened(notes=notes, filled=filled, file_bytes=files_bytes([folder / "board.db"]), starts=tuple(looks))


def run(folder: Path, *, notes: int, small: int, starts: int) -> list[Opened]:
    """Measure the small and the large board."""
    return [opened(folder / f"open-{size}-{_shape()}", size, starts) for size in (small, notes)]


def _shape() -> str:
    """Name the shape of the store, so that a board that was filled for another one is left alone."""
    scripts = sorted((ROOT / "schema" / "migrations" / "sqlite").glob("*.sql"))
    return blake2b(b"".join(script.read_bytes() for script in scripts), digest_size=4).hexdigest()


def figures(results: Sequence[Opened]) -> Figures:
    """Put the boards side by side."""
    return Figures(
        title="Opening a board: median of the starts",
        columns=(
            "notes",
            "filled s",
            "indexed s",
            "file MiB",
            "ready s",
            "RSS MiB",
            "page ms",
            "search ms",
            "check ms",
        ),
        rows=tuple(
            (
                f"{result.notes:,}",
                result.filled.filled_s,
                result.filled.indexed_s,
                result.file_bytes / MIB,
                result.median("ready_s"),
                result.median("rss_bytes") / MIB,
                result.median("page_ms"),
                result.median("search_ms"),
                result.median("check_ms"),
            )
            for result in results
        ),
    )
