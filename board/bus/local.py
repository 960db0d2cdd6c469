"""The bus of a node that is alone: there is nobody to tell."""
# ruff: noqa: D102 -- the contract describes what these methods do

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from board.bus.contract import Listener


class LocalBus:
    """Rings for nobody, and hears nothing."""

    hears = True

    def start(self, listener: Listener) -> None:
        del listener

    async def close(self) -> None:
        return None

    def ring(self, board: str, epoch: str, head: int, bodies: Sequence[bytes]) -> None:
        del board, epoch, head, bodies

    def ring_for_tokens(self) -> None:
        return None
