"""The store: each call of the contract, handed to the thread that carries it out."""
# ruff: noqa: D102 -- the contract describes what these methods do

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

import msgspec

from board.store.contract import (
    Acks,
    BoardExists,
    BoardRow,
    Filter,
    Found,
    FullRow,
    HeadMoved,
    Row,
    StoreFull,
    StoreUnavailable,
    TokenRow,
    WorkerRow,
)
from board.store.sqlite import connections, derived, log, pages, queries, token_key, trimming
from board.store.sqlite.reader import Readers
from board.store.sqlite.writer import Writer
from schema.limits import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence
    from types import TracebackType

    from board.core.scope import Target
    from board.core.words import Query
    from board.store.contract import Record, Wanted
    from board.store.sqlite.connections import Connection

T = TypeVar("T")

SPARE_BYTES: Final = 4 * 1_048_576
"""Free bytes of the file system under which `ping` says that the store is full, a little before it is."""


class Behind(msgspec.Struct, frozen=True):
    """A read found that its board has to be indexed up to `head` first."""

    head: int


class SqliteStore:
    """The log in one SQLite file. The package's docstring has the decisions behind it."""

    def __init__(self, path: str, *, read_threads: int = 2) -> None:
        self._path = path
        self._writer = Writer(path, derived.catch_up_somewhere)
        self._readers = Readers(path, read_threads)
        self._is_open = False
        self._boards: dict[str, tuple[int, Settings]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._heads: dict[str, int] = {}

    async def open(self) -> None:
        await asyncio.to_thread(connections.prepare, self._path)
        self._writer.start()
        self._is_open = True
        # Two processes may open a new file at once.
        with suppress(BoardExists):
            await self.create_board("main", Settings())

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        # The writer last: the connection that closes last folds the WAL into the file.
        self._readers.stop()
        self._writer.stop()

    async def ping(self) -> None:
        await self._write(log.probe)
        room = await asyncio.to_thread(os.statvfs, Path(self._path).parent)
        if room.f_bavail * room.f_frsize < SPARE_BYTES:
            msg = f"less than {SPARE_BYTES} bytes are free beside {self._path}"
            raise StoreFull(msg)

    async def boards(self) -> list[BoardRow]:
        return await self._read(pages.boards)

    async def board(self, name: str) -> BoardRow | None:
        return await self._read(partial(pages.board, name=name))

    async def create_board(self, name: str, settings: Settings) -> BoardRow:
        return await self._write(partial(log.create_board, name=name, settings=settings))

    def begin(self, board: str, after: int) -> SqliteTransaction:
        return SqliteTransaction(self, board, after)

    async def page(
        self,
        board: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int,
        descending: bool = False,
        where: Filter = Filter(),
        max_bytes: int | None = None,
    ) -> tuple[list[Row], bool]:
        number, settings = await self._known(board)
        span = queries.Span.of(number, after, before, descending=descending)
        query = partial(queries.page, span=span, where=where, settings=settings, limit=limit, max_bytes=max_bytes)
        if where.scope or where.to:
            return await self._read_indexed(number, query)
        return await self._read(query)

    async def records(self, board: str, *, after: int, limit: int) -> list[FullRow]:
        number, _ = await self._known(board)
        return await self._read(partial(pages.records, number=number, after=after, limit=limit))

    async def rows(self, board: str, seqs: Collection[int]) -> dict[int, Row]:
        number, _ = await self._known(board)
        return await self._read(partial(pages.rows, number=number, seqs=seqs))

    async def about(self, board: str, seqs: Collection[int]) -> list[Row]:
        number, _ = await self._known(board)
        return await self._read(partial(pages.about, number=number, seqs=seqs))

    async def detail(self, board: str, seq: int) -> str | None:
        number, _ = await self._known(board)
        return await self._read(partial(pages.detail, number=number, seq=seq))

    async def search(self, board: str, query: Query, *, before: int | None, limit: int) -> tuple[list[Row], bool]:
        if not query.alternatives:
            every = Filter(notes_only=True, live_only=True)
            return await self.page(board, before=before, limit=limit, descending=True, where=every)
        number, _ = await self._known(board)
        span = queries.Span.of(number, before=before, descending=True)
        return await self._read_indexed(number, partial(queries.search, query=query, span=span, limit=limit))

    async def overlapping(self, board: str, scope: Sequence[Target], types: Sequence[str], *, limit: int) -> list[Row]:
        if not scope or not types:
            return []
        where = Filter(types=tuple(types), scope=tuple(scope), live_only=True)
        rows, _ = await self.page(board, limit=limit, descending=True, where=where)
        return rows

    async def checkpoint(self, board: str) -> tuple[int, bytes] | None:
        number, _ = await self._known(board)
        return await self._read(partial(pages.checkpoint, number=number))

    async def save_checkpoint(self, board: str, seq: int, state: bytes) -> None:
        await self._write(partial(log.save_checkpoint, board=board, seq=seq, state=state))

    async def base(self, board: str) -> tuple[int, bytes] | None:
        number, _ = await self._known(board)
        return await self._read(partial(trimming.base, number=number))

    async def trim(self, board: str, seq: int, state: bytes) -> bool:
        return await self._write(partial(trimming.trim, board=board, seq=seq, state=state))

    async def sweep(self, board: str) -> bool:
        # Not synced: what a power cut brings back is swept again.
        return await self._write(partial(trimming.sweep, board=board), derived=True)

    async def workers(self, board: str) -> list[WorkerRow]:
        number, _ = await self._known(board)
        return await self._read(partial(pages.workers, number=number))

    async def save_workers(self, board: str, rows: Sequence[WorkerRow]) -> None:
        await self._write(partial(log.save_workers, board=board, rows=rows))

    async def acks(self, board: str, worker: str) -> Acks:
        number, _ = await self._known(board)
        return await self._read(partial(log.acks, number=number, worker=worker))

    async def all_acks(self, board: str) -> dict[str, Acks]:
        number, _ = await self._known(board)
        return await self._read(partial(log.all_acks, number=number))

    async def ack(self, board: str, worker: str, *, through: int | None, seqs: Collection[int]) -> Acks:
        return await self._write(partial(log.ack, board=board, worker=worker, through=through, seqs=seqs))

    async def token_key(self, *, make: bool) -> bytes | None:
        self._check_open()
        return await asyncio.to_thread(token_key.read_key, self._path, make=make)

    async def tokens(self) -> list[TokenRow]:
        return await self._read(pages.tokens)

    async def add_token(self, row: TokenRow) -> None:
        await self._write(partial(log.add_token, row=row))

    async def revoke_tokens(self, *, id: str = "", worker: str = "", at_us: int) -> list[TokenRow]:
        return await self._write(partial(log.revoke_tokens, token_id=id, worker=worker, at_us=at_us))

    async def _known(self, board: str) -> tuple[int, Settings]:
        if board not in self._boards:
            self._boards[board] = await self._read(partial(pages.known, name=board))
        return self._boards[board]

    async def _read(self, work: Callable[[Connection], T]) -> T:
        self._check_open()
        return await self._readers.read(work)

    def _write(self, work: Callable[[Connection], T], *, derived: bool = False) -> Awaitable[T]:
        self._check_open()
        return asyncio.shield(self._writer.submit(work, derived=derived))

    def _check_open(self) -> None:
        if not self._is_open:
            msg = "the store is not open"
            raise StoreUnavailable(msg)

    async def _read_indexed(self, number: int, work: Callable[[Connection], T]) -> T:
        needed: int | None = None
        while isinstance(answer := await self._read(partial(_if_indexed, number, needed, work)), Behind):
            needed = answer.head
            while await self._write(partial(derived.catch_up, number=number), derived=True) < needed:
                pass
        return answer

    async def lock(self, board: str) -> asyncio.Lock:
        """Give the lock that one writer of a board holds at a time."""
        await self._known(board)
        return self._locks.setdefault(board, asyncio.Lock())

    async def missed(self, board: str, after: int) -> Sequence[Record]:
        """Give what was committed after a seq; mostly nothing, which the head that was seen last tells."""
        if self._heads.get(board) == after:
            return ()
        number, _ = await self._known(board)
        return await self._read(partial(pages.missed, number=number, after=after))

    async def lookup(self, board: str, wanted: Wanted) -> Found:
        """Give what the log says."""
        number, _ = await self._known(board)
        return await self._read(partial(pages.lookup, number=number, wanted=wanted))

    def append(self, board: str, records: Sequence[Record]) -> asyncio.Future[None]:
        """Hand over records that follow each other."""
        return self._move_head(board, records[-1].seq, partial(log.append, board=board, records=records))

    def begin_at(self, board: str, seq: int, state: bytes) -> asyncio.Future[None]:
        """Hand over where the log of an empty board begins."""
        return self._move_head(board, seq, partial(trimming.begin_at, board=board, seq=seq, state=state))

    def _move_head(self, board: str, head: int, work: Callable[[Connection], None]) -> asyncio.Future[None]:
        self._check_open()
        written = self._writer.submit(work)
        written.add_done_callback(lambda _: self._note_head(board, head, written))
        return written

    def _note_head(self, board: str, head: int, written: asyncio.Future[None]) -> None:
        if written.cancelled() or written.exception():
            self._heads.pop(board, None)
        else:
            self._heads[board] = head


class SqliteTransaction:
    """The right to write, among the tasks of this process. The head of the board tells if another process wrote."""

    commits_apart = True
    missed: Sequence[Record] = ()

    def __init__(self, store: SqliteStore, board: str, after: int) -> None:
        self._store = store
        self._board = board
        self._after = after
        self._written: asyncio.Future[None] | None = None

    async def lookup(self, wanted: Wanted) -> Found:
        return await self._store.lookup(self._board, wanted) if wanted else Found()

    async def commit(self, records: Sequence[Record]) -> None:
        if not records:
            return
        if any(later.seq != earlier.seq + 1 for earlier, later in pairwise(records)):
            msg = f"the records for {self._board} do not follow each other"
            raise HeadMoved(msg)
        self._written = self._store.append(self._board, records)
        await asyncio.shield(self._written)

    async def begin_at(self, seq: int, state: bytes) -> None:
        self._written = self._store.begin_at(self._board, seq, state)
        await asyncio.shield(self._written)

    async def __aenter__(self) -> Self:
        self._lock = await self._store.lock(self._board)
        await self._lock.acquire()
        try:
            self.missed = await self._store.missed(self._board, self._after)
        except BaseException:
            self._lock.release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A commit whose caller was cancelled is still on its way; the next writer must see what came of it.
        if self._written is None or self._written.done():
            self._lock.release()
        else:
            self._written.add_done_callback(lambda _: self._lock.release())


def _if_indexed(number: int, needed: int | None, work: Callable[[Connection], T], connection: Connection) -> T | Behind:
    head, indexed = derived.progress(connection, number)
    return work(connection) if indexed >= (head if needed is None else needed) else Behind(head)
