"""What 10,000 live claims cost whoever asks whether a scope is free.

Two boards of one server, one with the claims and one without any: the same question is put to both in turn, one at a
time over one connection, so that whatever else the machine does hits both alike. The clock covers the whole HTTP call.
The pure decision is measured beside it, without server and store: the exported log is folded, and the question put to
the state.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import msgspec
import uvloop

from loadtest.calls import Calls
from loadtest.lanes import Lanes
from loadtest.processes import HOST, ROOT, environment
from loadtest.quantiles import Quantiles, quantiles_of
from loadtest.report import Figures, verdict
from workers.client import BoardClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CLAIMS: Final = 10_000
RATIO_TARGET: Final = 1.3

_HOLDERS: Final = 100
_TTL_S: Final = 21_600

# The rest of this package sees a board from the outside only. What the decision costs by itself cannot be seen from
# there, so a process of its own looks inside; it reads an export and prints microseconds.
_PURE: Final = """
import sys, timeit
from board.core.claims import conflicts_with, free_targets
from board.core.fold import record_of, replay
from board.core.spelling import spell
from board.core.state import State
from schema.codec import decode_event
from schema.limits import Settings

state = State(Settings())
replay(state, [record_of(decode_event(line)) for line in sys.stdin.buffer.readlines()[1:]])
questions = [tuple(map(spell, scope.split())) for scope in sys.argv[1:]]

def decide():
    for targets in questions:
        conflicts_with(state, "asker", targets, state.at_us)
        free_targets(state, "asker", targets)

timer = timeit.Timer(decide)
rounds, _ = timer.autorange()
print(min(timer.repeat(5, max(1, rounds // 4))) / max(1, rounds // 4) / len(questions) * 1e6)
"""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One board's answers. `pure_us` is the decision alone, in microseconds."""

    live_claims: int
    call: Quantiles
    pure_us: float


def scopes(count: int) -> Iterator[tuple[str, ...]]:
    """Give what the live claims hold: lines of files in a hundred directories."""
    for number in range(count):
        yield (f"src/mod{number % 100}/file{number}.c:10-40",)


def questions(count: int) -> list[tuple[str, ...]]:
    """Give what is asked: a free file beside held ones, free lines of a held file, and held lines."""
    held = [7 + 100 * (number % 100) for number in range(count // 3 + 1)]
    asked: list[tuple[str, ...]] = []
    for number in held:
        asked.append((f"src/mod7/new{number}.c", f"src/mod8/new{number}.h"))
        asked.append((f"src/mod7/file{number}.c:50-60", f"src/mod7/new{number}.c"))
        asked.append((f"src/mod7/file{number}.c:30-60", f"src/mod8/new{number}.h"))
    return asked[:count]


async def _hold(calls: Calls, count: int) -> None:
    notes = [{"type": "CLAIM", "text": "hold a part", "scope": scope, "ttl_s": _TTL_S} for scope in scopes(count)]
    share = max(1, count // _HOLDERS)
    for first in range(0, count, share):
        await calls.post_all(notes[first : first + share], worker=f"holder-{first // share:04}")


async def _ask(boards: Sequence[Calls], count: int) -> list[list[int]]:
    taken_ns: list[list[int]] = [[] for _ in boards]
    for scope in questions(count):
        for calls, taken in zip(boards, taken_ns, strict=True):
            answer = await calls.post("/claims/check", {"scope": scope}, worker="asker")
            if answer.status != 200:
                raise RuntimeError(f"a check was answered {answer.status} {answer.code}")
            taken.append(answer.taken_ns)
    return taken_ns


def pure_us(export: bytes) -> float:
    """Measure the decision alone, on the state that an export folds to: microseconds a question, best of five runs."""
    asked = [" ".join(scope) for scope in questions(99)]
    finished = subprocess.run(
        [sys.executable, "-c", _PURE, *asked],
        input=export,
        stdout=subprocess.PIPE,
        env=environment({}),
        cwd=ROOT,
        check=True,
    )
    return float(finished.stdout)


async def measure(port: int, count: int, asked: int) -> list[Checked]:
    """Ask both boards."""
    stamp = f"{time.time_ns():x}"
    async with Lanes(HOST, port, 1) as lanes:
        _, full = boards = (Calls(lanes, f"check-empty-{stamp}"), Calls(lanes, f"check-full-{stamp}"))
        for calls in boards:
            await calls.create()
        await _hold(full, count)
        await _ask(boards, asked // 10)
        taken_ns = await _ask(boards, asked)
    return [
        Checked(live_claims=claims, call=quantiles_of(taken), pure_us=pure_us(await _export(port, calls.board)))
        for claims, taken, calls in zip((0, count), taken_ns, boards, strict=True)
    ]


async def _export(port: int, board: str) -> bytes:
    async with BoardClient(f"http://{HOST}:{port}", board) as client, client.export() as lines:
        return b"\n".join([line async for line in lines])


def run(port: int, *, claims: int, asked: int) -> list[Checked]:
    """Measure on a server that runs."""
    return uvloop.run(measure(port, claims, asked))


def figures(results: Sequence[Checked]) -> Figures:
    """Put both boards side by side, with the ratio that is promised."""
    empty, full = results
    ratio = full.call.p50 / empty.call.p50
    return Figures(
        title="claims/check beside live claims",
        columns=("live claims", "asked", "p50 ms", "p99 ms", "max ms", "decision alone µs", "median ratio", "target"),
        rows=(
            ("0", empty.call.count, empty.call.p50, empty.call.p99, empty.call.max, empty.pure_us, None, None),
            (
                f"{full.live_claims:,}",
                full.call.count,
                full.call.p50,
                full.call.p99,
                full.call.max,
                full.pure_us,
                ratio,
                verdict(ratio, RATIO_TARGET, at_least=False),
            ),
        ),
    )
