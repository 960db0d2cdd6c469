"""The history of a real program, as the work of a team: who changed which lines of which files, and when."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING, Final

import msgspec

from loadtest.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE: Final = ROOT / "tests" / "data" / "pandoc-history-sample.jsonl.gz"
TARGETS: Final = 64
_WILD: Final = re.compile(r"[*?\[\]{}]")
DAY_S: Final = 6 * 3600
"""How long a team works: the history, years long, is squeezed into six hours."""


class Change(msgspec.Struct, frozen=True):
    """One change: the first and last line of each range, by file, as they were before it."""

    t: float
    author: str
    files: dict[str, tuple[tuple[int, int], ...]]

    @property
    def scope(self) -> tuple[str, ...]:
        """What a worker claims before it: the lines, or the files where there are more ranges than a claim may hold."""
        lines = [_target(path, range_) for path, ranges in self.files.items() for range_ in ranges]
        return tuple(lines if len(lines) <= TARGETS else map(_file, self.files))


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A change that a worker is to make by `due_s`, counted from the team's start."""

    number: int
    due_s: float
    change: Change


def read_history(path: Path) -> list[Change]:
    """Read a history, oldest change first."""
    with gzip.open(path) as lines:
        changes = [msgspec.json.decode(line, type=Change) for line in lines]
    return sorted(changes, key=lambda change: change.t)


def shared_out(changes: list[Change], workers: int) -> list[list[Job]]:
    """Give each worker its jobs: the changes in turn, at the pace of the history, squeezed into six hours.

    The real authors are not kept: one of them made most of the changes, and the point is what happens when a team of
    this size takes on the same work.
    """
    first, last = changes[0].t, changes[-1].t
    stretch = DAY_S / max(last - first, 1)
    jobs = [
        Job(number=number, due_s=(change.t - first) * stretch, change=change) for number, change in enumerate(changes)
    ]
    return [jobs[worker::workers] for worker in range(workers)]


def _target(path: str, lines: tuple[int, int]) -> str:
    file = _file(path)
    return file if "?" in file else f"{file}:{lines[0]}-{lines[1]}"


def _file(path: str) -> str:
    # A name like `[Content_Types].xml` reads as a glob; there is no other way to write it than as one that meets it.
    return _WILD.sub("?", path)
