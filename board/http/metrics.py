"""What the server counts, for Prometheus. Board and worker names are no labels: one team never sees another's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client import Metric

    from board.service.boards import OpenBoard
    from board.service.service import Service
    from board.stream.streams import Streams

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The registry of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "board_http_requests", "HTTP requests by route and status.", ("route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "board_http_request_seconds",
            "Seconds from the request's head to the answer.",
            ("route",),
            buckets=_BUCKETS_S,
            registry=self._registry,
        )

        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._service: Service | None = None

    def watch(self, service: Service, streams: Streams, *others: Collector) -> None:
        """Count what these hold, at the time that it is asked for; `others` for those who may see the whole server."""
        self._service = service
        for collector in (_Gauges(service, streams), *others):
            self._registry.register(collector)

    def request(self, route: str, status: int, took_s: float) -> None:
        """Count one request."""
        key = (route, status)
        if key not in self._children:
            self._children[key] = (self._requests.labels(route, str(status)), self._seconds.labels(route))
        requests, seconds = self._children[key]
        requests.inc()
        seconds.observe(took_s)

    def render(self, board: str = "") -> tuple[bytes, str]:
        """The text that Prometheus reads, and its type; of one board alone for a caller who may see no other."""
        if not board:
            return generate_latest(self._registry), CONTENT_TYPE
        registry = CollectorRegistry()
        assert self._service is not None
        registry.register(_BoardGauges(self._service, board))
        return generate_latest(registry), CONTENT_TYPE


class _BoardGauges(Collector):
    def __init__(self, service: Service, board: str) -> None:
        self._service = service
        self._board = board

    def collect(self) -> Iterable[Metric]:
        boards = [board for board in self._service.boards.opened() if board.name == self._board]
        yield from _of_boards(boards)


def _of_boards(boards: Sequence[OpenBoard]) -> Iterable[Metric]:
    values = {
        "board_events": ("Events in the logs.", sum(board.state.seq for board in boards)),
        "board_leases": ("Claims that are held or wait.", sum(len(board.state.leases) for board in boards)),
        "board_conflicts_open": ("Open conflicts.", sum(len(board.state.conflicts) for board in boards)),
        "board_writer_queue_notes": ("Notes that wait to be written.", sum(b.writer.queued_notes for b in boards)),
        "board_events_delivered": ("Events handed to streams.", sum(b.channel.delivered for b in boards)),
    }
    for name, (what, value) in values.items():
        yield GaugeMetricFamily(name, what, value=float(value))


class _Gauges(Collector):
    def __init__(self, service: Service, streams: Streams) -> None:
        self._service = service
        self._streams = streams

    def collect(self) -> Iterable[Metric]:
        boards = self._service.boards.opened()
        values = {
            "board_streams_open": ("Open streams.", self._streams.count),
            "board_streams_stalled": ("Streams closed because their reader did not keep up.", self._streams.stalled),
            "board_boards_open": ("Boards that are served.", len(boards)),
            "board_bus_hears": ("1 while rings of other nodes are heard.", self._service.hears_others),
        }
        yield from _of_boards(boards)
        for name, (what, value) in values.items():
            yield GaugeMetricFamily(name, what, value=float(value))
