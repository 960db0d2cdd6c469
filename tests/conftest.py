"""What all tests share: the event loop that anyio's plugin runs them on, and servers that are started once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.harness.postgres import Postgres
    from tests.harness.redis import Redis


@pytest.fixture
def anyio_backend() -> str:
    """Run tests on asyncio alone, which the server runs on."""
    return "asyncio"


@pytest.fixture(scope="session")
def server_folder() -> Iterator[Path]:
    """A folder for servers that run as another user; pytest's own are closed to it."""
    with tempfile.TemporaryDirectory(prefix="board-servers-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres_server(server_folder: Path) -> Iterator[Postgres]:
    """A PostgreSQL that all tests share which do it no harm; each makes a database of its own."""
    from tests.harness.postgres import Postgres

    with Postgres(server_folder / "postgres") as server:
        yield server


@pytest.fixture(scope="session")
def redis_server(server_folder: Path) -> Iterator[Redis]:
    """A Redis that all tests share which do it no harm."""
    from tests.harness.redis import Redis

    with Redis(server_folder / "redis") as server:
        yield server
