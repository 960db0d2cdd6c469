"""How the process is doing: the lag of its loop, and every bound of it, with how often each was met."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric

    from board.http.patience import Patience
    from board.service.service import Service
    from board.stream.streams import Streams

LOOK_EVERY_S: Final = 0.1
LOOKS_KEPT: Final = 150


class LoopLag:
    """How late the event loop is: the worst of the last 15 seconds, in seconds. While it is late, everything waits."""

    def __init__(self) -> None:
        self._looks: deque[float] = deque([0.0], maxlen=LOOKS_KEPT)
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._looking = asyncio.create_task(self._look(), name="looks at the lag of the loop")

    async def stop(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    @property
    def worst_s(self) -> float:
        """The worst lag of late."""
        return max(self._looks)

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + LOOK_EVERY_S
            await asyncio.sleep(LOOK_EVERY_S)
            self._looks.append(max(0.0, loop.time() - due_s))


class Vitals(Collector):
    """What is read at the time that it is asked for, over all boards: for those who may see the whole server."""

    def __init__(self, service: Service, streams: Streams, patience: Patience, lag: LoopLag) -> None:
        self._service = service
        self._streams = streams
        self._patience = patience
        self._lag = lag

    def collect(self) -> Iterable[Metric]:
        """Give every figure."""
        for name, (what, value) in self._gauges().items():
            yield GaugeMetricFamily(name, what, value=float(value))
        for name, (what, value) in self._counters().items():
            yield CounterMetricFamily(name, what, value=float(value))
        refusals = CounterMetricFamily("board_quota_refusals", "Calls refused with 429, by quota.", labels=["quota"])
        for quota, count in sorted(self._service.quotas.refused.items()):
            refusals.add_metric([quota], count)
        yield refusals

    def _gauges(self) -> dict[str, tuple[str, float]]:
        boards = self._service.boards.opened()
        settings = self._service.settings
        return {
            "board_loop_lag_seconds": ("The worst lag of the event loop in the last 15 seconds.", self._lag.worst_s),
            "board_tasks": ("Tasks of the event loop.", len(asyncio.all_tasks())),
            "board_connections_open": ("HTTP connections that are open.", self._patience.open),
            "board_connections_lingering": (
                "Connections that were answered and wait for their peer to end.",
                self._patience.lingering,
            ),
            "board_connections_limit": ("The most TCP connections, streams among them.", settings.connections),
            "board_streams_limit": ("The most streams.", settings.subscribers),
            "board_streams_behind": ("Streams that are fed from the log or the tail.", self._streams.behind),
            "board_streams_waiting_bytes": ("Bytes that wait for slow readers.", self._streams.waiting_bytes),
            "board_tail_bytes": ("Bytes of the newest events in memory.", sum(b.channel.tail.bytes for b in boards)),
            "board_tail_limit_bytes": ("The most of those, over all boards.", settings.tail_bytes * len(boards)),
            "board_writer_queue_limit_notes": ("The most notes that wait, of one board.", settings.queue_notes),
            "board_workers_known": ("Workers that are remembered.", sum(len(b.presence.names) for b in boards)),
            "board_workers_limit": ("The most of those, over all boards.", settings.board_workers * len(boards)),
            "board_waits_open": ("Long polls that wait.", self._service.waits),
        }

    def _counters(self) -> dict[str, tuple[str, float]]:
        boards = self._service.boards.opened()
        return {
            "board_writer_overflows": (
                "Writes refused because the queue was full.",
                sum(b.writer.overflows for b in boards),
            ),
            "board_store_failures": (
                "Groups of writes that the store did not take.",
                sum(b.writer.failures for b in boards),
            ),
            "board_workers_refused": (
                "Calls under a name that was one too many.",
                sum(b.presence.refused for b in boards),
            ),
            "board_connections_refused": ("Connections that were one too many.", self._patience.refused),
            "board_requests_late": ("Requests that did not come in time.", self._patience.late),
            "board_answers_unread": ("Answers whose reader took nothing for too long.", self._patience.unread),
            "board_connections_cut": (
                "Connections closed on a peer that still sent, which may have lost its answer.",
                self._patience.cut,
            ),
            "board_streams_silent": ("Streams dropped because their peer answered no ping.", self._streams.silent),
        }
