"""The real server on a clock that a test moves: `python -m tests.harness.clocked serve …`, as `python -m board serve …`.

The clock is the machine's plus an offset, which both processes map into memory from the file that `CLOCK_FILE` names.
"""

from __future__ import annotations

import argparse
import mmap
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from board.app import serve
from board.service.clock import SystemClock
from board.settings import read
from tests.harness.node import Node

if TYPE_CHECKING:
    from collections.abc import Mapping

CLOCK_FILE = "CLOCK_FILE"

_BYTES = 8


class ShiftedClock:
    """The machine's clock and an offset: the server reads it, the test moves it."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_BYTES))
        with path.open("r+b") as file:
            self._offset = mmap.mmap(file.fileno(), _BYTES)
        self._system = SystemClock()

    def now_us(self) -> int:
        """Microseconds since 1970, UTC, as the server sees them."""
        return self._system.now_us() + int.from_bytes(self._offset[:], "little", signed=True)

    def move(self, seconds: float) -> None:
        """Let time jump by so much."""
        moved = int.from_bytes(self._offset[:], "little", signed=True) + round(seconds * 1_000_000)
        self._offset[:] = moved.to_bytes(_BYTES, "little", signed=True)


class ClockedNode(Node):
    """A server process whose time jumps when `clock` is moved."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "node",
        store: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        path = folder / f"{name}.clock"
        said = {CLOCK_FILE: str(path), **(environ or {})}
        super().__init__(folder, name=name, store=store, environ=said, module="tests.harness.clocked")
        self.clock = ShiftedClock(path)


def main() -> int:
    """Serve as the flags say, on the shifted clock."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("--port", type=int)
    parser.add_argument("--store")
    said = parser.parse_args()
    return serve(read(port=said.port, store=said.store), ShiftedClock(Path(os.environ[CLOCK_FILE])))


if __name__ == "__main__":
    sys.exit(main())
