"""What a store promises. Every store keeps every promise; the suite in `tests/conformance` holds it to them.

A store keeps, per board, the log (rows that never change), one checkpoint of the folded state, the base where the log
was trimmed, the workers that were seen and what each acknowledged; and, for all boards, the tokens. It decides nothing:
seqs, times and kinds come from the caller. Indexes over the log (words, places, recipients) are derived: a store may
build them after the commit, as long as every read that needs one sees all rows that were committed before it began.

Errors are `StoreUnavailable` and its kin, on every method: they mean that nothing was stored (`OutcomeUnknown` alone
leaves that open), or for a read that nothing is known. Driver errors are translated in one place per store and never leave it.

A board that is not there is its caller's fault: every method that takes one raises KeyError, but for `board`.

Cancelling a call: a write that was handed over is carried out whole or not at all, whether its caller waits or not; the
next writer of the board sees what came of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, Self

import msgspec

from board.core.history import Found, Head, KeyUse, Record, Wanted
from board.core.selection import Filter
from schema.limits import Settings

__all__ = [
    "Acks",
    "BoardExists",
    "BoardRow",
    "Filter",
    "Found",
    "FullRow",
    "Head",
    "HeadMoved",
    "KeyUse",
    "LogTrimmed",
    "OutcomeUnknown",
    "Record",
    "Role",
    "Row",
    "Store",
    "StoreDamaged",
    "StoreFull",
    "StoreNewer",
    "StoreUnavailable",
    "TokenRow",
    "Transaction",
    "Wanted",
    "WorkerRow",
]

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import TracebackType

    from board.core.scope import Target
    from board.core.words import Query

Role = Literal["reader", "worker", "admin"]


class StoreUnavailable(Exception):
    """The store cannot be reached, read or written now. Trying again later may help; nothing was stored."""


class StoreFull(StoreUnavailable):
    """There is no room left, or the file may not be written. Reads go on."""


class StoreNewer(StoreUnavailable):
    """The store was written by a newer version of the board, and is left untouched."""


class StoreDamaged(StoreUnavailable):
    """The store holds what the board never writes: a corrupt page, a hole, a row that cannot be decoded."""


class HeadMoved(StoreUnavailable):
    """Somebody else wrote to this board since the transaction began; nothing of this one was stored."""


class LogTrimmed(StoreUnavailable):
    """What follows the last event that a writer has folded is no longer kept: it has to begin anew from the base."""


class OutcomeUnknown(StoreUnavailable):
    """The store went away during a commit: all of it was stored, or nothing; the next transaction shows which."""


class BoardExists(Exception):
    """There is a board of this name already."""


class Row(msgspec.Struct, frozen=True):
    """One event as it stands in the log: `type` is a note's and empty for other kinds."""

    seq: int
    kind: str
    type: str
    author: str
    body: bytes


class FullRow(msgspec.Struct, frozen=True):
    """One event with all that the log keeps beside it, for export."""

    seq: int
    body: bytes
    detail: str
    key: str
    digest: bytes


class BoardRow(msgspec.Struct, frozen=True):
    """One board: its name, the epoch of its log, its head (0 when empty), the oldest seq kept, and its settings."""

    name: str
    epoch: str
    head: int
    settings: Settings
    oldest: int = 1


class WorkerRow(msgspec.Struct, frozen=True):
    """A worker that was seen on a board: the root it registered (empty for none), and when it came and last called."""

    name: str
    root: str
    first_seen_us: int
    last_seen_us: int


class Acks(msgspec.Struct, frozen=True):
    """What a worker acknowledged: everything up to `through`, and `seqs` beyond it."""

    through: int = 0
    seqs: frozenset[int] = frozenset()


class TokenRow(msgspec.Struct, frozen=True):
    """A token, without the token: `digest` is all that is kept of it. Times are 0 for never."""

    id: str
    digest: bytes
    role: Role
    worker: str
    board: str
    created_us: int
    expires_us: int = 0
    revoked_us: int = 0


class Transaction(Protocol):
    """The right to write to one board, held until the block ends: one holder at a time, on any number of nodes.

    Leaving the block without `commit` stores nothing.
    """

    commits_apart: bool
    """Whether each `commit` is durable by itself on return: then more may be decided while one is on its way."""

    missed: Sequence[Record]
    """Events that others committed after the `after` that was given, in order. Fold these before deciding."""

    async def lookup(self, wanted: Wanted) -> Found:
        """Give what the log says, as of this transaction. Notes before the oldest seq are not there; keys may be."""
        ...

    async def commit(self, records: Sequence[Record]) -> None:
        """Store the records, all or none, durable on return. Their seqs must follow the head without a hole.

        Raises HeadMoved when they do not, StoreFull or StoreUnavailable when they could not be stored. A key that its
        author used before is the caller's fault (AssertionError), and nothing is stored. May be called again.
        """
        ...

    async def begin_at(self, seq: int, state: bytes) -> None:
        """Let the log of an empty board begin after `seq`, with `state` as its base, durable on return.

        Raises HeadMoved where the board is not empty, StoreFull or StoreUnavailable.
        """
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Store(Protocol):
    """The log on disk. All methods may be called concurrently; reads see every write that returned before them."""

    async def open(self) -> None:
        """Bring the store to this version's shape and make it ready; the board `main` exists afterwards.

        Raises StoreNewer for a store of a newer version, StoreUnavailable when it cannot be opened.
        """
        ...

    async def close(self) -> None:
        """Finish the writes that were handed over and let go of everything. Closing twice is a no-op."""
        ...

    async def ping(self) -> None:
        """Return when a write would be possible now (it leaves nothing in any board); raise otherwise."""
        ...

    async def boards(self) -> list[BoardRow]:
        """All boards, by name."""
        ...

    async def board(self, name: str) -> BoardRow | None:
        """One board, or None."""
        ...

    async def create_board(self, name: str, settings: Settings) -> BoardRow:
        """Make a board with a new epoch, durable on return. Raises BoardExists."""
        ...

    def begin(self, board: str, after: int) -> Transaction:
        """Open a transaction for a writer that has folded the log up to `after`. Use as `async with`.

        Entering it raises LogTrimmed where `after` lies before what is kept.
        """
        ...

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
        """Rows with after < seq < before in seq order (or the newest first), at most `limit`; and whether more follow.

        With `max_bytes` the page also ends before its bodies are longer together, but holds one row at least.
        """
        ...

    async def records(self, board: str, *, after: int, limit: int) -> list[FullRow]:
        """Rows after a seq with all that is kept beside them, in order."""
        ...

    async def rows(self, board: str, seqs: Collection[int]) -> dict[int, Row]:
        """The rows with these seqs; those that are not there are left out."""
        ...

    async def about(self, board: str, seqs: Collection[int]) -> list[Row]:
        """The events about any of these seqs (`schema.events.about`; a conflict by either claim), in seq order."""
        ...

    async def detail(self, board: str, seq: int) -> str | None:
        """The long text of a note, or None where it has none."""
        ...

    async def search(self, board: str, query: Query, *, before: int | None, limit: int) -> tuple[list[Row], bool]:
        """Live notes that match, newest first, and whether more follow. An empty query matches every note."""
        ...

    async def overlapping(self, board: str, scope: Sequence[Target], types: Sequence[str], *, limit: int) -> list[Row]:
        """The newest live notes of these types whose scope or files overlap the scope, newest first.

        No type or no target finds nothing.
        """
        ...

    async def checkpoint(self, board: str) -> tuple[int, bytes] | None:
        """The newest checkpoint: the seq that it was taken at, and its bytes."""
        ...

    async def save_checkpoint(self, board: str, seq: int, state: bytes) -> None:
        """Keep this checkpoint in place of the older one, if it is newer."""
        ...

    async def base(self, board: str) -> tuple[int, bytes] | None:
        """What the log begins with where its beginning is no longer kept: the seq before the oldest, and its state."""
        ...

    async def trim(self, board: str, seq: int, state: bytes) -> bool:
        """Keep nothing up to `seq`, and `state`, which all of that folds to, as the base; durable on return.

        The board's oldest seq and its base move together, and never back: False, and nothing is changed, where the log
        begins after `seq` already. A seq past the head is the caller's fault (AssertionError). Writers wait for no more
        than that: the events are still there until `sweep` takes them, and a read may or may not give them.
        """
        ...

    async def sweep(self, board: str) -> bool:
        """Take away a piece of what comes before the oldest seq, with all that stands beside it; tell if more is left.

        No writer waits for long. What is swept is gone from every read, its keys may be used again, and single seqs
        that were acknowledged are forgotten. A sweep that was cut short is gone on with by the next.
        """
        ...

    async def workers(self, board: str) -> list[WorkerRow]:
        """All workers ever seen on the board, by name."""
        ...

    async def save_workers(self, board: str, rows: Sequence[WorkerRow]) -> None:
        """Add or update workers. `last_seen_us` never goes back, `first_seen_us` never changes."""
        ...

    async def acks(self, board: str, worker: str) -> Acks:
        """What the worker acknowledged so far."""
        ...

    async def all_acks(self, board: str) -> dict[str, Acks]:
        """What every worker acknowledged so far, by worker; those that never did are left out."""
        ...

    async def ack(self, board: str, worker: str, *, through: int | None, seqs: Collection[int]) -> Acks:
        """Acknowledge, durable on return; acknowledging twice changes nothing. Gives what is acknowledged now."""
        ...

    async def token_key(self, *, make: bool) -> bytes | None:
        """The key that tokens are hashed under: the same for every process and node of this store, for ever.

        It is made at the first call with `make`, durable on return; without, None says that there is none. It is not
        part of any board, and a store that can keeps it where a copy of the log does not take it along.
        """
        ...

    async def tokens(self) -> list[TokenRow]:
        """All tokens ever made, oldest first."""
        ...

    async def add_token(self, row: TokenRow) -> None:
        """Keep a token, durable on return. Its id and digest are new (AssertionError)."""
        ...

    async def revoke_tokens(self, *, id: str = "", worker: str = "", at_us: int) -> list[TokenRow]:
        """Revoke by id, by worker, or both where both are given, durable on return; an empty one names none.

        Gives the tokens that this call revoked, oldest first.
        """
        ...
