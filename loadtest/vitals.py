"""What the kernel says of processes: CPU seconds, resident memory, open descriptors."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PROC: Final = Path("/proc")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """One look at some processes, summed: user and system time so far (in steps of 10 ms), and what they hold now."""

    cpu_s: float
    rss_bytes: int
    descriptors: int


def vitals_of(pid: int) -> Vitals:
    """Look at a process and all that it started. A process that is gone counts as nothing."""
    looks = [look for member in family(pid) if (look := _look(member)) is not None]
    return Vitals(
        cpu_s=sum(look.cpu_s for look in looks),
        rss_bytes=sum(look.rss_bytes for look in looks),
        descriptors=sum(look.descriptors for look in looks),
    )


def family(pid: int) -> list[int]:
    """Give the process and its descendants."""
    members = [pid]
    for member in members:
        members += _children(member)
    return members


def files_bytes(paths: Iterable[Path]) -> int:
    """Give the size of those files that exist."""
    return sum(path.stat().st_size for path in paths if path.exists())


def _children(pid: int) -> Iterator[int]:
    for task in (_PROC / str(pid) / "task").glob("*/children"):
        with suppress(OSError):
            yield from map(int, task.read_text().split())


def _look(pid: int) -> Vitals | None:
    folder = _PROC / str(pid)
    try:
        # The name of the program stands in brackets and may hold blanks: fields are counted from behind it.
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        descriptors = len(list((folder / "fd").iterdir()))
    except OSError:
        return None
    user, system, pages = int(fields[11]), int(fields[12]), int(fields[21])
    return Vitals(cpu_s=(user + system) / _TICKS_PER_S, rss_bytes=pages * _PAGE_BYTES, descriptors=descriptors)
