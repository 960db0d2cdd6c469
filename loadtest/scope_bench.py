"""What the scope algebra costs: `python -m loadtest.scope_bench` prints one figure a line.

Each figure is the best of several runs, in microseconds a call on one core: the best is what the code costs, the rest
is what else the machine was doing.
"""

from __future__ import annotations

import sys
from timeit import Timer
from typing import TYPE_CHECKING

from board.core.scope import overlap
from board.core.scope_index import ScopeIndex
from board.core.spelling import spell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

RUNS = 5

LONGEST = 4096


def cost_us(call: Callable[[], object]) -> float:
    """Measure one call, in microseconds."""
    timer = Timer(call)
    calls, _ = timer.autorange()
    calls = max(1, calls // 4)
    return min(timer.repeat(RUNS, calls)) / calls * 1e6


def show(name: str, call: Callable[[], object]) -> None:
    """Print a figure."""
    sys.stdout.write(f"{cost_us(call):>12,.2f} µs  {name}\n")


def index_of(texts: Iterable[str]) -> ScopeIndex:
    """Index one claim a text."""
    index = ScopeIndex()
    for owner, text in enumerate(texts):
        index.add(owner, [spell(text)])
    return index


def spelling() -> None:
    """Spell a plain path, lines, a glob, and the costliest text of the default length."""
    for text in ("src/readers/tables.c", "src/readers/tables.c:10-40", "src/**/*.[ch]", "src/{a,b}/{c,d}/*.py"):
        show(f"spell {text}", lambda text=text: spell(text))
    for name, costly in (
        ("53 wild segments", "{a,b}" * 5 + "/?*[!a-c]" * 53),
        ("a segment of 97 classes", "{a,b}" * 5 + "[!a]?" * 97),
    ):
        show(f"spell 32 alternatives of {name}", lambda costly=costly: spell(costly))


def pairs() -> None:
    """Compare two targets, from the common case to what is written to be slow."""
    names = f"{{{','.join(f'name{at}' for at in range(32))}}}"
    cases = {
        "two paths apart": ("src/a.c", "src/b.c"),
        "nested paths": ("src", "src/readers/tables.c"),
        "lines of one file": ("src/a.c:10-40", "src/a.c:20-50"),
        "a glob and a path": ("src/**/*.c", "src/readers/tables.c"),
        "two globs": ("src/**/*.c", "src/app/t*.c"),
        "200 segments full of ** on each side": ("**/a/" * 100 + "x", "a/**/" * 100 + "b/x"),
        "200 segments of **/* on each side": ("**/a*/" * 100 + "x", "**/*a/" * 100 + "b/x"),
        "80 different wild segments on each side": (
            "".join(f"**/{at}*/" for at in range(80)) + "x",
            "".join(f"**/*{at}/" for at in range(80)) + "b/x",
        ),
        "200 stars in one segment on each side": ("*a" * 200 + "x", "a*" * 200 + "?x"),
        "32 names on each side": (f"src/{names}.c", f"src/{names}.h"),
        "32 wild alternatives on each side": ("{a*,b*}" * 5 + "/*/x", "{*a,*b}" * 5 + "/**/x"),
    }
    for name, (x, y) in cases.items():
        one, other = spell(x, max_chars=LONGEST), spell(y, max_chars=LONGEST)
        show(f"overlap: {name}", lambda one=one, other=other: overlap(one, other))


def queries() -> None:
    """Ask an index of 10,000 live claims."""
    tree = index_of(f"src/mod{at % 100}/file{at}.c" for at in range(10_000))
    flat = index_of(f"src/file{at}.c" for at in range(10_000))
    lines = index_of(f"src/a.c:{at * 10 + 1}-{at * 10 + 9}" for at in range(10_000))
    long_lines = index_of([*(f"src/a.c:{at * 10 + 1}-{at * 10 + 9}" for at in range(10_000)), "src/a.c:1-100000"])
    globs = index_of(f"**/name{at}.c" for at in range(1000))
    for name, index, text in (
        ("a free path", tree, "src/mod7/new.c"),
        ("a held path", tree, "src/mod7/file7.c"),
        ("a free path in a directory of 10,000", flat, "src/new.c"),
        ("a directory of 100 claims", tree, "src/mod7"),
        ("a glob in a directory of 100, each of which may hold a match", tree, "src/mod7/**/x.c"),
        ("a glob that walks 10,000 and meets one", tree, "src/*/file77.c"),
        ("a glob that fits no name of 10,000 in one directory", flat, "src/*.h"),
        ("free lines among 10,000 ranges", lines, "src/a.c:50000"),
        ("lines that meet one of 10,000 and one over all", long_lines, "src/a.c:50005"),
        ("a path beside 1,000 globs of **/name.c", globs, "src/new.c"),
        ("lines beside 1,000 globs of **/name.c", globs, "src/new.c:3"),
    ):
        target = spell(text)
        show(f"index: {name}", lambda index=index, target=target: index.overlapping([target]))


def changes() -> None:
    """Add a claim to an index of 10,000 and take it out again."""
    index = index_of(f"src/mod{at % 100}/file{at}.c" for at in range(10_000))
    targets = [spell("src/mod7/new.c")]

    def add_and_discard() -> None:
        index.add(-1, targets)
        index.discard(-1)

    show("index: add and discard", add_and_discard)


if __name__ == "__main__":
    spelling()
    pairs()
    queries()
    changes()
