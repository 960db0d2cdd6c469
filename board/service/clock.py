"""The server's clock. Everything that needs the time is given one, so that a test can move it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Gives the time of day."""

    def now_us(self) -> int:
        """Microseconds since 1970, UTC."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_us(self) -> int:
        """Microseconds since 1970, UTC."""
        return time.time_ns() // 1000
