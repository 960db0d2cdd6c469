"""Copies of a file: made whole while it is in use, and known as copies by whoever opens them.

A copy that is put in place of the log takes it back to an older life: seqs that readers have seen are given out again
for other events. Readers can only know by the epoch, so a copy carries a mark, and the first store that opens it as
its own gives every board a new epoch and takes the mark away. Nobody can forget that; and of two that start from the
same copy, each has an epoch of its own.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import apsw

from board.store.contract import StoreUnavailable
from board.store.sqlite import connections, token_key
from board.store.sqlite.faults import translated

if TYPE_CHECKING:
    from board.store.sqlite.connections import Connection

_TIDY: Final = ("PRAGMA journal_mode = DELETE", "PRAGMA synchronous = FULL", connections.MARK_AS_COPY)


def copy_file(source: str, target: str) -> None:
    """Copy a log's file as it is now, and the key of its tokens, to names that are free; durable on return.

    The source may be in use and goes on; its writers do not wait. Nothing is there under the target's name until it
    is whole. Raises StoreUnavailable, also where there is a file of the target's name.
    """
    path, part = Path(target), Path(f"{target}.part")
    for taken in (path, token_key.beside(target)):
        if taken.exists():
            msg = f"{taken} is there already; move it away first"
            raise StoreUnavailable(msg)
    if not Path(source).is_file():
        msg = f"there is no file {source}"
        raise StoreUnavailable(msg)
    try:
        connections.inspect(source)
        with closing(connections.reader(source)) as connection:
            _copy(connection, part)
        if (key := token_key.read_key(source, make=False)) is not None:
            token_key.keep_key(target, key)
        part.rename(path)
        _sync(path.parent)
    except apsw.Error as error:
        raise translated(error) from error
    except OSError as error:
        msg = f"the copy cannot be written: {error}"
        raise StoreUnavailable(msg) from error
    finally:
        part.unlink(missing_ok=True)


def _copy(source: Connection, part: Path) -> None:
    part.unlink(missing_ok=True)
    with closing(connections.Connection(str(part))) as copy:
        # In one step: between two, another process would write, and the copy begin again.
        with copy.backup("main", source, "main") as backup:
            backup.step(-1)
        for statement in _TIDY:
            copy.execute(statement)


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
