"""The client of a board: every call over HTTP, and the live stream over a websocket.

    async with BoardClient("http://127.0.0.1:8420", worker="worker-0007") as board:
        posted = await board.post(Fact(text="table rows end at a line of dashes"))
        async with board.subscribe(after=posted.seq) as events:
            async for event in events:
                ...

Both raise `schema.codes.ProblemError` for whatever goes wrong at the board or on the way to it.
"""

from __future__ import annotations

from workers.client.backoff import Backoff
from workers.client.board import BoardClient
from workers.client.position import StreamHole
from workers.client.stream import Change, Connected, Lost, Subscription

__all__ = ["Backoff", "BoardClient", "Change", "Connected", "Lost", "StreamHole", "Subscription"]
