"""The store: each call of the contract, on a borrowed connection."""
# ruff: noqa: D102 -- the contract describes what these methods do

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from board.store.contract import BoardExists, Filter
from board.store.postgres import derived, log, nodes, pages, queries, shape, trimming
from board.store.postgres.connections import Connections
from board.store.postgres.faults import ConnectionLost
from board.store.postgres.indexing import Indexing
from board.store.postgres.transaction import PostgresTransaction
from schema.limits import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence

    from board.core.scope import Target
    from board.core.words import Query
    from board.store.commons import Sockets
    from board.store.contract import Acks, BoardRow, FullRow, Row, TokenRow, WorkerRow
    from board.store.postgres.connections import Connection

T = TypeVar("T")
Work: TypeAlias = "Callable[[Connection], Awaitable[T]]"

WRITERS: Final = 4
"""Connections kept for writers, beside those of `connections`: however many read, a note can be stored."""


class PostgresStore:
    """The log in PostgreSQL, and what nodes share beside it. The package's docstring has the decisions behind it."""

    def __init__(self, dsn: str, *, connections: int = 8, wait_s: float = 5.0) -> None:
        self._reading = Connections(dsn, size=connections, wait_s=wait_s)
        self._writing = Connections(dsn, size=WRITERS, wait_s=wait_s)
        self._boards: dict[str, tuple[int, Settings]] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._indexing = Indexing(self._index)

    async def open(self) -> None:
        self._reading.open()
        self._writing.open()
        async with self._writing.lent() as connection:
            await shape.prepare(connection)
        self._indexing.start()
        # Several nodes may open a new store at once.
        with suppress(BoardExists):
            await self.create_board("main", Settings())

    async def close(self) -> None:
        await self._indexing.stop()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._writing.close()
        await self._reading.close()

    async def ping(self) -> None:
        await self._write(log.probe)

    async def boards(self) -> list[BoardRow]:
        return await self._read(pages.boards)

    async def board(self, name: str) -> BoardRow | None:
        return await self._read(partial(pages.board, name=name))

    async def create_board(self, name: str, settings: Settings) -> BoardRow:
        return await self._write(partial(log.create_board, name=name, settings=settings))

    def begin(self, board: str, after: int) -> PostgresTransaction:
        return PostgresTransaction(self, self._writing, board, after)

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
        number, settings = await self.known(board)
        if where.scope or where.to:
            await self._index(board)
        span = queries.Span.of(number, after, before, descending=descending)
        return await self._read(
            partial(queries.page, span=span, where=where, settings=settings, limit=limit, max_bytes=max_bytes)
        )

    async def records(self, board: str, *, after: int, limit: int) -> list[FullRow]:
        number, _ = await self.known(board)
        return await self._read(partial(pages.records, number=number, after=after, limit=limit))

    async def rows(self, board: str, seqs: Collection[int]) -> dict[int, Row]:
        number, _ = await self.known(board)
        return await self._read(partial(pages.rows, number=number, seqs=seqs))

    async def about(self, board: str, seqs: Collection[int]) -> list[Row]:
        number, _ = await self.known(board)
        return await self._read(partial(pages.about, number=number, seqs=seqs))

    async def detail(self, board: str, seq: int) -> str | None:
        number, _ = await self.known(board)
        return await self._read(partial(pages.detail, number=number, seq=seq))

    async def search(self, board: str, query: Query, *, before: int | None, limit: int) -> tuple[list[Row], bool]:
        if not query.alternatives:
            every = Filter(notes_only=True, live_only=True)
            return await self.page(board, before=before, limit=limit, descending=True, where=every)
        number, _ = await self.known(board)
        await self._index(board)
        span = queries.Span.of(number, before=before, descending=True)
        return await self._read(partial(queries.search, query=query, span=span, limit=limit))

    async def overlapping(self, board: str, scope: Sequence[Target], types: Sequence[str], *, limit: int) -> list[Row]:
        if not scope or not types:
            return []
        where = Filter(types=tuple(types), scope=tuple(scope), live_only=True)
        rows, _ = await self.page(board, limit=limit, descending=True, where=where)
        return rows

    async def checkpoint(self, board: str) -> tuple[int, bytes] | None:
        number, _ = await self.known(board)
        return await self._read(partial(pages.checkpoint, number=number))

    async def save_checkpoint(self, board: str, seq: int, state: bytes) -> None:
        number, _ = await self.known(board)
        await self._write(partial(log.save_checkpoint, number=number, seq=seq, state=state))

    async def base(self, board: str) -> tuple[int, bytes] | None:
        number, _ = await self.known(board)
        return await self._read(partial(trimming.base, number=number))

    async def trim(self, board: str, seq: int, state: bytes) -> bool:
        number, _ = await self.known(board)
        return await self._write(partial(trimming.trim, number=number, seq=seq, state=state))

    async def sweep(self, board: str) -> bool:
        number, settings = await self.known(board)
        await self._index(board)  # then it is known what has to be taken out of the indexes
        return await self._write(partial(trimming.sweep, number=number, settings=settings))

    async def workers(self, board: str) -> list[WorkerRow]:
        number, _ = await self.known(board)
        return await self._read(partial(pages.workers, number=number))

    async def save_workers(self, board: str, rows: Sequence[WorkerRow]) -> None:
        number, _ = await self.known(board)
        await self._write(partial(log.save_workers, number=number, rows=rows))

    async def acks(self, board: str, worker: str) -> Acks:
        number, _ = await self.known(board)
        return await self._read(partial(log.acks, number=number, worker=worker))

    async def all_acks(self, board: str) -> dict[str, Acks]:
        number, _ = await self.known(board)
        return await self._read(partial(log.all_acks, number=number))

    async def ack(self, board: str, worker: str, *, through: int | None, seqs: Collection[int]) -> Acks:
        number, _ = await self.known(board)
        return await self._write(partial(log.ack, number=number, worker=worker, through=through, seqs=seqs))

    async def token_key(self, *, make: bool) -> bytes | None:
        if make:
            await self._write(nodes.make_token_key)
        return await self._read(nodes.token_key)

    async def tokens(self) -> list[TokenRow]:
        return await self._read(pages.tokens)

    async def add_token(self, row: TokenRow) -> None:
        await self._write(partial(log.add_token, row=row))

    async def revoke_tokens(self, *, id: str = "", worker: str = "", at_us: int) -> list[TokenRow]:
        return await self._write(partial(log.revoke_tokens, token_id=id, worker=worker, at_us=at_us))

    async def keep_ticket(self, digest: bytes, identity: bytes, *, end_us: int, now_us: int, limit: int) -> bool:
        keep = partial(nodes.keep_ticket, digest=digest, identity=identity, end_us=end_us, now_us=now_us, limit=limit)
        return await self._write(keep)

    async def take_ticket(self, digest: bytes, *, now_us: int) -> bytes | None:
        return await self._write(partial(nodes.take_ticket, digest=digest, now_us=now_us))

    async def report_sockets(self, board: str, node: str, rows: Sequence[Sockets], *, now_us: int) -> None:
        number, _ = await self.known(board)
        await self._write(partial(nodes.report_sockets, number=number, node=node, rows=rows, now_us=now_us))

    async def sockets_elsewhere(self, board: str, node: str, *, alive_us: int) -> list[Sockets]:
        number, _ = await self.known(board)
        return await self._read(partial(nodes.sockets_elsewhere, number=number, node=node, alive_us=alive_us))

    async def known(self, board: str) -> tuple[int, Settings]:
        """Give the number and settings of a board. Raises KeyError."""
        if board not in self._boards:
            self._boards[board] = await self._read(partial(pages.known, name=board))
        return self._boards[board]

    def turn(self, board: str) -> asyncio.Lock:
        """Give the lock that one writer of a board holds at a time in this process, so that others need no connection."""
        return self._turns.setdefault(board, asyncio.Lock())

    def own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something to its end, whoever waits for it; the store does not close before."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def grown(self, board: str) -> None:
        """Hear that a commit was made."""
        self._indexing.want(board)

    async def _index(self, board: str) -> None:
        """Bring the index of a board to where its head is now."""
        number, settings = await self.known(board)
        head, indexed = await self._read(partial(derived.progress, number=number))
        while indexed < head:
            indexed = await self._write(partial(derived.index_piece, number=number, settings=settings))

    async def _read(self, work: Work[T]) -> T:
        try:
            return await self._carry_out(self._reading, work)
        except ConnectionLost:
            # A connection that was kept may have died since, with the server back already. Reading twice does no harm.
            return await self._carry_out(self._reading, work)

    async def _write(self, work: Work[T]) -> T:
        return await self._carry_out(self._writing, work)

    @staticmethod
    async def _carry_out(connections: Connections, work: Work[T]) -> T:
        async with connections.lent() as connection:
            return await work(connection)
