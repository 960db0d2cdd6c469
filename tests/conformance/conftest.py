"""The stores that the suite holds to the contract."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from board.store.memory import MemoryStore
from board.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from board.store.contract import Store


@asynccontextmanager
async def memory(_folder: Path) -> AsyncGenerator[Store, None]:
    """Give the oracle."""
    store = MemoryStore()
    await store.open()
    yield store
    await store.close()


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncGenerator[Store, None]:
    """Give a store on a file of its own."""
    store = SqliteStore(str(folder / "board.db"))
    await store.open()
    yield store
    await store.close()


STORES: dict[str, Callable[[Path], AbstractAsyncContextManager[Store]]] = {"memory": memory, "sqlite": sqlite}
"""Every store, by name. Each gives an open and empty one, and may keep it in the folder."""


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An open and empty store of each kind."""
    async with STORES[request.param](tmp_path) as opened:
        yield opened
