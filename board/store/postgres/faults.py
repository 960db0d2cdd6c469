"""The one place where PostgreSQL's errors, and those on the way to it, become the contract's."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import asyncpg
from asyncpg import exceptions as pg

from board.store.contract import HeadMoved, StoreDamaged, StoreFull, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Generator


class ConnectionLost(StoreUnavailable):
    """The server went away, or has not answered in time: what was under way may or may not have happened."""


_LOST: Final = (
    OSError,
    TimeoutError,
    pg.PostgresConnectionError,
    pg.ConnectionDoesNotExistError,
    pg.AdminShutdownError,
    pg.CrashShutdownError,
    pg.CannotConnectNowError,
    pg.IdleInTransactionSessionTimeoutError,
    pg.InternalClientError,
    asyncpg.InterfaceError,
)
_MOVED: Final = (pg.SerializationError, pg.DeadlockDetectedError)
_CALLERS: Final = (pg.IntegrityConstraintViolationError, pg.CharacterNotInRepertoireError)
_DAMAGED: Final = (pg.DataCorruptedError, pg.IndexCorruptedError)

DRIVER: Final = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, pg.InternalClientError)
"""Whatever asyncpg raises."""


def translated(error: Exception) -> StoreUnavailable | AssertionError:
    """Give the contract's error for the driver's. A constraint that fails is no failure of the store but of its caller.

    A seq that is taken already means that somebody else wrote first; its index is the events' primary key.
    """
    sentence = f"PostgreSQL: {error or type(error).__name__}"
    if isinstance(error, _MOVED) or getattr(error, "constraint_name", "") == "events_pkey":
        return HeadMoved(sentence)
    if isinstance(error, _CALLERS):
        return AssertionError(sentence)
    if isinstance(error, _LOST):
        return ConnectionLost(sentence)
    if isinstance(error, pg.DiskFullError):
        return StoreFull(sentence)
    return StoreDamaged(sentence) if isinstance(error, _DAMAGED) else StoreUnavailable(sentence)


@contextmanager
def translating() -> Generator[None]:
    """Translate what the driver raises inside the block."""
    try:
        yield
    except DRIVER as error:
        raise translated(error) from error
