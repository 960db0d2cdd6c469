"""Taking a whole exported log into an empty board: same seqs, same times, same state.

The export is read twice: first it is folded and checked to its end, then it is stored in pieces. So a bad line stores
nothing at all; only a failure of the store itself can leave a board that holds the beginning of the log.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import IO, Final

from board.core.exported import BadExport, Reader
from board.core.history import Record
from board.core.state import State
from board.store.contract import BoardRow, Store
from schema.codes import ProblemError, problem

PIECE_EVENTS: Final = 1000
SPOOL_BYTES: Final = 8_388_608
LINE_BYTES: Final = 67_108_864
"""The most of one line: a header may hold the state of 20,000 claims and 65,536 texts."""

Append = Callable[[list[Record]], Awaitable[None]]


async def spool(chunks: AsyncIterator[bytes]) -> IO[bytes]:
    """Keep a body of any size in a temporary file, to be read twice."""
    file = tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES)  # noqa: SIM115 -- the caller closes it
    async for chunk in chunks:
        file.write(chunk)
    return file


def check(file: IO[bytes], row: BoardRow) -> State:
    """Read an export to its end and give the state that it folds to. Raises ProblemError `invalid_field`."""
    reader = Reader(State(row.settings))
    try:
        for _ in _records(file, reader):
            pass
        reader.finish()
    except BadExport as error:
        raise ProblemError(
            problem("invalid_field", f"The export cannot be taken: {error}.", line=error.line)
        ) from error
    return reader.state


def _records(file: IO[bytes], reader: Reader) -> Iterable[Record]:
    file.seek(0)
    while line := file.readline(LINE_BYTES):
        record = reader.take(line)
        if record is not None:
            yield record


def base_of(file: IO[bytes], row: BoardRow) -> State | None:
    """Give the state that the log of a checked export begins with; None where that is its very beginning."""
    reader = Reader(State(row.settings))
    file.seek(0)
    reader.take(file.readline(LINE_BYTES))
    return reader.state if reader.state.seq else None


async def store_all(file: IO[bytes], row: BoardRow, append: Append) -> None:
    """Hand over the records of a checked export, piece by piece."""
    piece: list[Record] = []
    for record in _records(file, Reader(State(row.settings))):
        piece.append(record)
        if len(piece) == PIECE_EVENTS:
            await append(piece)
            piece = []
    if piece:
        await append(piece)


async def import_into_store(store: Store, board: str, file: IO[bytes]) -> State:
    """Take an export into an empty board of a store that nobody serves, and give its state. Raises ProblemError."""
    row = await store.board(board)
    if row is None:
        raise ProblemError(problem("board_not_found", f"There is no board {board!r}.", value=board))
    refuse_unless_empty(row.name, row.head)
    state = check(file, row)
    base = base_of(file, row)
    if base is not None:
        async with store.begin(board, 0) as transaction:
            await transaction.begin_at(base.seq, base.freeze())

    async def append(records: list[Record]) -> None:
        async with store.begin(board, records[0].seq - 1) as transaction:
            await transaction.commit(records)

    await store_all(file, row, append)
    return state


def refuse_unless_empty(board: str, head: int) -> None:
    """Refuse to import over a log that has events already."""
    if head:
        sentence = f"The board {board!r} holds {head} events; a log is only imported into an empty board."
        raise ProblemError(problem("board_exists", sentence, value=board, head=head))
