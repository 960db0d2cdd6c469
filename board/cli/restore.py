"""Read an export back into an empty board of a store: the same seqs and times, and the same state or none."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from board.core.fold import BrokenLog, replay
from board.core.history import Record
from board.core.state import State
from schema.codec import encode, us_of_text
from schema.codes import ProblemError, problem
from schema.limits import Settings
from workers.exported import Exported, Header, NotAnExport, header_of, read_export

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from board.store.contract import Store

CHUNK: Final = 1000


class Restored(msgspec.Struct, frozen=True):
    """What the board holds now: its head, and the hash of the state that its log folds to."""

    head: int
    state_hash: str


async def restore(store: Store, board: str, lines: Callable[[], Iterator[bytes]]) -> Restored:
    """Import an export; `lines` is called twice, since all of it is checked before anything is written.

    A board that is not there is made, with the settings of the export. Raises NotAnExport for lines that cannot be
    restored, ProblemError `board_exists` for a board that holds events already or has other settings. A store that
    fails half-way leaves the beginning of the log, and the board has to be restored under another name.
    """
    header, settings = _header(next(lines(), b""))
    restored = _checked(header, settings, lines())
    await _empty_board(store, board, settings)
    head = 0
    for records in _chunks(lines()):
        async with store.begin(board, head) as transaction:
            await transaction.commit(records)
        head = records[-1].seq
    return restored


def _header(line: bytes) -> tuple[Header, Settings]:
    header = header_of(line)
    if header is None:
        raise NotAnExport(1, "it is not the header of an export")
    if header.after:
        raise NotAnExport(1, f"it begins after seq {header.after}; only an export from the beginning can be restored")
    try:
        return header, msgspec.convert(header.settings, Settings)
    except msgspec.ValidationError as error:
        raise NotAnExport(1, f"a newer version wrote its settings: {error}") from error


def _checked(header: Header, settings: Settings, lines: Iterator[bytes]) -> Restored:
    state = State(settings)
    for records in _chunks(lines):
        try:
            replay(state, records)
        except BrokenLog as error:
            raise NotAnExport(records[0].seq + 1, f"from here on it does not fold: {error}") from error
    if state.seq != header.head:
        raise NotAnExport(state.seq + 1, f"it ends at seq {state.seq}; its header promises {header.head}")
    found = state.state_hash()
    if header.state_hash and found != header.state_hash:
        raise NotAnExport(1, f"it folds to the state {found}; its header promises {header.state_hash}")
    return Restored(state.seq, found)


async def _empty_board(store: Store, board: str, settings: Settings) -> None:
    row = await store.board(board)
    if row is None:
        await store.create_board(board, settings)
        return
    wrong = f"holds {row.head} events" if row.head else "has other settings than the export"
    if row.head or row.settings != settings:
        sentence = f"the board {board!r} {wrong}; import under a new name with --board, or into a new store"
        raise ProblemError(problem("board_exists", sentence, value=board))


def _chunks(lines: Iterator[bytes]) -> Iterator[list[Record]]:
    records = map(_record, read_export(lines))
    while chunk := list(islice(records, CHUNK)):
        yield chunk


def _record(exported: Exported) -> Record:
    event, beside = exported.event, exported.beside
    if event is None:
        raise NotAnExport(exported.line, f"a newer version wrote it: {beside.kind}")
    digest = bytes.fromhex(beside.key_digest)
    return Record(event, us_of_text(event.at), encode(event), beside.detail, beside.key, digest)
