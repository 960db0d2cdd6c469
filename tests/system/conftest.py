"""What tests of whole processes share: a running server with a store of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.harness.node import Node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
def anyio_backend() -> str:
    """The stream's client is asyncio's."""
    return "asyncio"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """Give a server that is ready, on a fresh store; it is killed when the test ends."""
    async with Node(tmp_path) as running:
        yield running
