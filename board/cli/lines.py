"""Files of lines: read one line at a time, and written whole or not at all."""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path


def lines_of(file: Path) -> Iterator[bytes]:
    """Give the lines of a file without their ends; unpacks `.gz`, and `-` is standard input.

    Raises typer.BadParameter when it cannot be opened or read.
    """
    try:
        with _opened(file) as lines:
            for line in lines:
                yield line.rstrip(b"\r\n")
    except (OSError, EOFError) as error:
        msg = f"{file}: {error}"
        raise typer.BadParameter(msg) from error


@contextmanager
def rewindable(file: Path) -> Generator[IO[bytes]]:
    """Open a file so that it can be read twice; standard input is kept beside for that.

    Raises typer.BadParameter when it cannot be opened.
    """
    try:
        with _opened(file) as opened:
            if opened.seekable():
                yield opened
                return
            with tempfile.TemporaryFile() as kept:
                shutil.copyfileobj(opened, kept)
                kept.seek(0)
                yield kept
    except (OSError, EOFError) as error:
        msg = f"{file}: {error}"
        raise typer.BadParameter(msg) from error


@contextmanager
def written(file: Path) -> Generator[IO[bytes]]:
    """Open a file to be written beside its place, and move it there when the block ends without an error."""
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("wb") as opened:
            yield opened
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def _opened(file: Path) -> IO[bytes]:
    if str(file) == "-":
        return sys.stdin.buffer
    return gzip.open(file) if file.suffix == ".gz" else file.open("rb")  # type: ignore[return-value]
