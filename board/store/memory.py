"""The store that keeps nothing: lists, dicts and naive scans. It is what every other store is compared with."""
# ruff: noqa: D102 -- the contract describes what these methods do

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Self

import msgspec

from board.core import words
from board.core.scope import overlap
from board.core.selection import selects
from board.core.spelling import spell
from board.store.contract import (
    Acks,
    BoardExists,
    BoardRow,
    Filter,
    Found,
    FullRow,
    Head,
    HeadMoved,
    KeyUse,
    LogTrimmed,
    Record,
    Row,
    StoreUnavailable,
    TokenRow,
    Wanted,
    WorkerRow,
)
from board.store.places import scope_of
from schema.events import AboutConflict, ClaimTransferred, Note, NoteRetracted, PatchInvalidated, PatchSuperseded, about
from schema.limits import Settings

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import TracebackType

    from board.core.scope import Target
    from board.core.words import Query


class _Board:
    def __init__(self, name: str, settings: Settings) -> None:
        self.row = BoardRow(name, secrets.token_hex(8), 0, settings)
        self.log: list[Record] = []
        self.retracted: set[int] = set()
        self.keys: dict[tuple[str, str], KeyUse] = {}
        self.lock = asyncio.Lock()
        self.checkpoint: tuple[int, bytes] | None = None
        self.base: tuple[int, bytes] | None = None
        self.workers: dict[str, WorkerRow] = {}
        self.acks: dict[str, Acks] = {}

    def keeps(self, record: Record, where: Filter) -> bool:
        if where.live_only and record.seq in self.retracted:
            return False
        return selects(where, record.event, self.spell)

    def spell(self, text: str) -> Target:
        settings = self.row.settings
        return spell(text, case_insensitive=settings.case_insensitive, max_chars=settings.target_chars)

    def touches(self, note: Note, scope: Sequence[Target]) -> bool:
        return any(overlap(x, y) for x in scope_of(note, self.row.settings) for y in scope)

    def head_of(self, note: Note) -> Head:
        state, holder = "", note.author if note.type == "CLAIM" else ""
        for event in (record.event for record in self.log):
            match event:
                case PatchSuperseded() if event.note == note.seq:
                    state = "superseded"
                case PatchInvalidated() if event.note == note.seq:
                    state = "invalidated"
                case ClaimTransferred() if event.claim == note.seq:
                    holder = event.holder
                case _:
                    pass
        return Head(note.seq, note.type, note.author, "retracted" if note.seq in self.retracted else state, holder)

    def found(self, wanted: Wanted) -> Found:
        kept = [record.event for record in self.log if record.seq >= self.row.oldest]
        found = Found(
            heads={note.seq: self.head_of(note) for note in kept if note.seq in wanted.seqs and isinstance(note, Note)},
            keys={key: self.keys[key] for key in wanted.keys & self.keys.keys()},
            oldest=self.row.oldest,
        )
        for note in kept if wanted.works else ():
            if isinstance(note, Note) and (note.author, note.work) in wanted.works and note.seq not in self.retracted:
                found.works[note.author, note.work] = note.seq
        return found

    def append(self, records: Sequence[Record]) -> None:
        if any(record.seq != self.row.head + step for step, record in enumerate(records, start=1)):
            msg = f"the head of {self.row.name} is {self.row.head}"
            raise HeadMoved(msg)
        keys = [(one.event.author, one.key) for one in records if one.key]
        assert len(keys) == len(set(keys) - self.keys.keys()), "a key was used twice"
        self.log += records
        self.row = msgspec.structs.replace(self.row, head=self.row.head + len(records))
        self.keys |= {(one.event.author, one.key): KeyUse(one.seq, one.digest) for one in records if one.key}
        self.retracted |= {one.event.note for one in records if isinstance(one.event, NoteRetracted)}

    def begin_after(self, seq: int, state: bytes) -> None:
        self.row = msgspec.structs.replace(self.row, oldest=seq + 1, head=max(self.row.head, seq))
        self.base = seq, state
        if self.checkpoint is not None and self.checkpoint[0] < seq:
            self.checkpoint = None

    def sweep(self) -> None:
        self.log = [one for one in self.log if one.seq >= self.row.oldest]
        self.keys = {key: use for key, use in self.keys.items() if use.seq >= self.row.oldest}
        for worker, acks in self.acks.items():
            self.acks[worker] = Acks(acks.through, frozenset(seq for seq in acks.seqs if seq >= self.row.oldest))


def _row(record: Record) -> Row:
    event = record.event
    kind, type_ = str(event.__struct_config__.tag), event.type if isinstance(event, Note) else ""
    return Row(event.seq, kind, type_, event.author, record.body)


def _cut(rows: Sequence[Row], limit: int, max_bytes: int | None) -> tuple[list[Row], bool]:
    held: list[Row] = []
    for row in rows[:limit]:
        if held and max_bytes is not None and sum(len(one.body) for one in (*held, row)) > max_bytes:
            break
        held.append(row)
    return held, len(held) < len(rows)


class MemoryStore:
    """The log in this process's memory. Durable means nothing here; all other promises hold."""

    def __init__(self) -> None:
        self._boards: dict[str, _Board] = {}
        self._tokens: list[TokenRow] = []
        self._token_key: bytes | None = None
        self._is_open = False

    async def open(self) -> None:
        self._is_open = True
        self._boards.setdefault("main", _Board("main", Settings()))

    async def close(self) -> None:
        self._is_open = False

    async def ping(self) -> None:
        self._check_open()

    async def boards(self) -> list[BoardRow]:
        self._check_open()
        return [self._boards[name].row for name in sorted(self._boards)]

    async def board(self, name: str) -> BoardRow | None:
        self._check_open()
        return self._boards[name].row if name in self._boards else None

    async def create_board(self, name: str, settings: Settings) -> BoardRow:
        self._check_open()
        if name in self._boards:
            raise BoardExists(name)
        self._boards[name] = _Board(name, settings)
        return self._boards[name].row

    def begin(self, board: str, after: int) -> MemoryTransaction:
        return MemoryTransaction(self, board, after)

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
        found = self.find(board)
        within = (one for one in found.log if after < one.seq and (before is None or one.seq < before))
        rows = [_row(one) for one in within if found.keeps(one, where)]
        return _cut(rows[::-1] if descending else rows, limit, max_bytes)

    async def records(self, board: str, *, after: int, limit: int) -> list[FullRow]:
        log = [one for one in self.find(board).log if one.seq > after]
        return [FullRow(one.seq, one.body, one.detail, one.key, one.digest) for one in log[:limit]]

    async def rows(self, board: str, seqs: Collection[int]) -> dict[int, Row]:
        return {one.seq: _row(one) for one in self.find(board).log if one.seq in seqs}

    async def about(self, board: str, seqs: Collection[int]) -> list[Row]:
        return [_row(one) for one in self.find(board).log if not set(_subjects(one)).isdisjoint(seqs)]

    async def detail(self, board: str, seq: int) -> str | None:
        return next((one.detail for one in self.find(board).log if one.seq == seq and one.detail), None)

    async def search(self, board: str, query: Query, *, before: int | None, limit: int) -> tuple[list[Row], bool]:
        found = self.find(board)
        rows = [
            _row(one)
            for one in reversed(found.log)
            if isinstance(one.event, Note)
            and (before is None or one.seq < before)
            and words.matches(query, words.searched_text(one.event))
            and one.seq not in found.retracted
        ]
        return _cut(rows, limit, None)

    async def overlapping(self, board: str, scope: Sequence[Target], types: Sequence[str], *, limit: int) -> list[Row]:
        found = self.find(board)
        rows = [
            _row(one)
            for one in reversed(found.log)
            if isinstance(one.event, Note)
            and one.event.type in types
            and found.touches(one.event, scope)
            and one.seq not in found.retracted
        ]
        return rows[:limit]

    async def checkpoint(self, board: str) -> tuple[int, bytes] | None:
        return self.find(board).checkpoint

    async def save_checkpoint(self, board: str, seq: int, state: bytes) -> None:
        found = self.find(board)
        if found.checkpoint is None or seq > found.checkpoint[0]:
            found.checkpoint = seq, state

    async def base(self, board: str) -> tuple[int, bytes] | None:
        return self.find(board).base

    async def trim(self, board: str, seq: int, state: bytes) -> bool:
        found = self.find(board)
        assert seq <= found.row.head, "a trim past the head"
        if seq < found.row.oldest:
            return False
        found.begin_after(seq, state)
        return True

    async def sweep(self, board: str) -> bool:
        self.find(board).sweep()
        return False

    async def workers(self, board: str) -> list[WorkerRow]:
        workers = self.find(board).workers
        return [workers[name] for name in sorted(workers)]

    async def save_workers(self, board: str, rows: Sequence[WorkerRow]) -> None:
        workers = self.find(board).workers
        for row in rows:
            old = workers.get(row.name, row)
            seen_us = max(old.last_seen_us, row.last_seen_us)
            workers[row.name] = WorkerRow(row.name, row.root, old.first_seen_us, seen_us)

    async def acks(self, board: str, worker: str) -> Acks:
        return self.find(board).acks.get(worker, Acks())

    async def all_acks(self, board: str) -> dict[str, Acks]:
        return dict(self.find(board).acks)

    async def ack(self, board: str, worker: str, *, through: int | None, seqs: Collection[int]) -> Acks:
        found = self.find(board)
        old = found.acks.get(worker, Acks())
        reached = max(old.through, through or 0)
        beyond = frozenset(seq for seq in (*old.seqs, *seqs) if seq > reached)
        found.acks[worker] = Acks(reached, beyond)
        return found.acks[worker]

    async def token_key(self, *, make: bool) -> bytes | None:
        self._check_open()
        if make and self._token_key is None:
            self._token_key = secrets.token_bytes(32)
        return self._token_key

    async def tokens(self) -> list[TokenRow]:
        self._check_open()
        return sorted(self._tokens, key=lambda row: row.created_us)

    async def add_token(self, row: TokenRow) -> None:
        self._check_open()
        self._tokens.append(row)

    async def revoke_tokens(self, *, id: str = "", worker: str = "", at_us: int) -> list[TokenRow]:
        self._check_open()
        asked = [one for one in self._tokens if one.id == id or (worker and one.worker == worker)]
        revoked = [msgspec.structs.replace(one, revoked_us=at_us) for one in asked if not one.revoked_us]
        by_id = {one.id: one for one in revoked}
        self._tokens = [by_id.get(one.id, one) for one in self._tokens]
        return sorted(revoked, key=lambda row: row.created_us)

    def find(self, board: str) -> _Board:
        """Give a board. Raises KeyError."""
        self._check_open()
        return self._boards[board]

    def _check_open(self) -> None:
        if not self._is_open:
            msg = "the store is not open"
            raise StoreUnavailable(msg)


def _subjects(record: Record) -> tuple[int | None, ...]:
    event = record.event
    return event.claims if isinstance(event, AboutConflict) else (about(event),)


class MemoryTransaction:
    """The right to write, among the tasks of this process."""

    commits_apart = False
    missed: Sequence[Record] = ()

    def __init__(self, store: MemoryStore, board: str, after: int) -> None:
        self._store = store
        self._name = board
        self._after = after

    async def lookup(self, wanted: Wanted) -> Found:
        return self._store.find(self._name).found(wanted)

    async def commit(self, records: Sequence[Record]) -> None:
        self._store.find(self._name).append(records)

    async def begin_at(self, seq: int, state: bytes) -> None:
        if self._board.row.head:
            msg = f"the head of {self._name} is {self._board.row.head}"
            raise HeadMoved(msg)
        self._board.begin_after(seq, state)

    async def __aenter__(self) -> Self:
        self._board = self._store.find(self._name)
        await self._board.lock.acquire()
        if self._after < self._board.row.oldest - 1:
            self._board.lock.release()
            raise LogTrimmed(self._name)
        self.missed = [one for one in self._board.log if one.seq > self._after]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._board.lock.release()
