"""What buses with a server have in common: rings that wait, a conversation that is begun anew, an ear for itself."""
# ruff: noqa: D102 -- the contract describes what these methods do

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from board.bus.contract import DEAF_S, PROBE_S, RETRY_S
from board.bus.rings import Ring, Waiting, bodies_in, decoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from board.bus.contract import Listener

log = structlog.get_logger()


class BusLost(Exception):
    """The conversation with the server of the bus is over: it went away, or it is deaf."""


class Bell(ABC):
    """A bus that talks to a server, in one conversation after the other.

    A conversation listens and sends until something is wrong. What waits to be sent when it ends is dropped: whoever
    missed it reads the log.
    """

    def __init__(self) -> None:
        self.node = secrets.token_hex(8)
        self.waiting = Waiting()
        self._listener: Listener
        self._rung = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None
        self._heard_itself_s = float("-inf")
        self._conversing = False

    @abstractmethod
    async def converse(self) -> None:
        """Connect, call `begin` once rings are heard, and go on until something is wrong. Raises BusLost."""

    def start(self, listener: Listener) -> None:
        self._listener = listener
        self._task = asyncio.get_running_loop().create_task(self._run(), name="bus")

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY_S):
                await self._idle.wait()
        task.cancel()
        await asyncio.wait((task,))

    def ring(self, board: str, epoch: str, head: int, bodies: Sequence[bytes]) -> None:
        if self._conversing:
            self.send(Ring(self.node, board, epoch, head), bodies)

    def ring_for_tokens(self) -> None:
        if self._conversing:
            self.send(Ring(self.node, tokens=True))

    @property
    def hears(self) -> bool:
        return self._conversing and not self.is_deaf()

    async def _run(self) -> None:
        quiet = False
        while True:
            try:
                await self.converse()
            except BusLost as error:
                # Said once for each loss, not for each attempt.
                if self._conversing or not quiet:
                    log.warning("bus.lost", reason=str(error))
                quiet = True
            finally:
                self._conversing = False
                self.waiting.clear()
                self._idle.set()
            await asyncio.sleep(RETRY_S)

    def begin(self) -> None:
        """Say that rings are heard from now on."""
        self._conversing = True
        self._heard_itself_s = asyncio.get_running_loop().time()
        log.info("bus.listening")
        self._listener.may_have_missed()

    def send(self, ring: Ring, bodies: Sequence[bytes] = ()) -> None:
        """Put a ring among those that wait."""
        self.waiting.add(ring, bodies)
        self._rung.set()
        self._idle.clear()

    async def rung(self) -> None:
        """Return when something waits to be sent; a ring for itself does at the latest after `PROBE_S`."""
        self._rung.clear()
        if self.waiting:
            return
        self._idle.set()
        try:
            async with asyncio.timeout(PROBE_S):
                await self._rung.wait()
        except TimeoutError:
            self.send(Ring(self.node))

    def take(self, data: bytes) -> None:
        """Pass on what was heard."""
        found = decoded(data)
        if found is None:
            return
        ring, rest = found
        if ring.node == self.node:
            self._heard_itself_s = asyncio.get_running_loop().time()
        elif ring.tokens:
            self._listener.heard_of_tokens()
        elif ring.board:
            self._listener.heard(ring.board, ring.epoch, ring.head, bodies_in(rest))

    def is_deaf(self) -> bool:
        """Whether the bus has not heard itself for too long."""
        return asyncio.get_running_loop().time() - self._heard_itself_s > DEAF_S

    def check_hearing(self) -> None:
        """Raise BusLost where the bus is deaf."""
        if self.is_deaf():
            msg = f"the bus has not heard itself for {DEAF_S:g} s"
            raise BusLost(msg)
