"""The stores that the suite holds to the contract."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from board.store.memory import MemoryStore
from board.store.postgres import PostgresStore
from board.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from board.store.contract import Store
    from tests.harness.postgres import Postgres


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


@asynccontextmanager
async def postgres(server: Postgres) -> AsyncGenerator[Store, None]:
    """Give a store in a schema of its own."""
    store = PostgresStore(await server.new_place())
    await store.open()
    yield store
    await store.close()


@pytest.fixture(params=[*STORES, "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An open and empty store of each kind."""
    if request.param == "postgres":
        opening = postgres(request.getfixturevalue("postgres_server"))
    else:
        opening = STORES[request.param](tmp_path)
    async with opening as opened:
        yield opened
