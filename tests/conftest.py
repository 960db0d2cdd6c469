"""What all tests share: the event loop that anyio's plugin runs them on."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Run tests on asyncio alone, which the server runs on."""
    return "asyncio"
