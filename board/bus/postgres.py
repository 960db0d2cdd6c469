"""The bus over PostgreSQL's own NOTIFY, for nodes that have no Redis: it says that a head moved, and no more.

A notification takes less than 8,000 bytes, and one that is sent within a transaction makes all commits of the database
take turns. So it is sent after the commit, on a connection of its own, and carries no events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import asyncpg
from asyncpg import exceptions as pg

from board.bus.bell import Bell, BusLost
from board.bus.contract import DEAF_S
from board.bus.rings import encoded

if TYPE_CHECKING:
    from collections.abc import Sequence

CHANNEL: Final = "board_bell"

_NOTIFY: Final = "SELECT pg_notify($1, $2)"
_connect: Final[Any] = asyncpg.connect  # its own types ask for whole seconds
_DRIVER: Final = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, pg.InternalClientError)


class NotifyBus(Bell):
    """The bus in the database that the store is in."""

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._dsn = dsn

    def ring(self, board: str, epoch: str, head: int, bodies: Sequence[bytes]) -> None:
        """Ring without the events."""
        del bodies
        super().ring(board, epoch, head, ())

    async def converse(self) -> None:
        """Listen, then send what is rung."""
        connection: Any = None
        try:
            connection = await _connect(self._dsn, timeout=DEAF_S, command_timeout=DEAF_S)
            await connection.add_listener(CHANNEL, lambda _c, _p, _ch, payload: self.take(payload.encode()))
            self.begin()
            while True:
                await self.rung()
                for ring, _ in self.waiting.take():
                    await connection.execute(_NOTIFY, CHANNEL, encoded(ring).decode())
                self.check_hearing()
        except _DRIVER as error:
            raise BusLost(str(error) or type(error).__name__) from error
        finally:
            if connection is not None:
                connection.terminate()
