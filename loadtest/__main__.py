"""`python -m loadtest`: measure a board from the outside. Every load goes to loopback, is bounded, and ends by itself."""

from __future__ import annotations

import signal
import sys
import tempfile
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from loadtest.processes import ProgramFailed
from loadtest.readers import ReadersFailed

if TYPE_CHECKING:
    from collections.abc import Generator

app: Final = typer.Typer(
    name="loadtest",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help=__doc__,
)

Json = Annotated[Path | None, typer.Option(help="Write the results to this file as well, as JSON.")]
Folder = Annotated[
    Path | None, typer.Option("--dir", help="Where servers keep their files; a temporary one if left out.")
]
Seconds = Annotated[float, typer.Option(help="How long each measurement lasts.", min=0.1, max=3600)]
Warm = Annotated[float, typer.Option("--warm-s", help="How long to warm up before each measurement.", min=0, max=600)]


class Peer(StrEnum):
    """Servers to compare the board's fan-out with."""

    NATS = "nats"
    NCHAN = "nchan"
    REDIS = "redis"


@contextmanager
def working(folder: Path | None) -> Generator[Path]:
    """Give the folder, or a temporary one."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="loadtest-") as temporary:
        yield Path(temporary)


@app.command()
def write(seconds: Seconds = 8.0, warm_s: Warm = 2.0, folder: Folder = None, json: Json = None) -> None:
    """Store notes as fast as the board takes them, one a request and 1,000 a request."""
    from loadtest import report
    from loadtest import write as bench

    with working(folder) as place:
        results = bench.run(place, warm_s=warm_s, seconds=seconds)
    report.show(bench.figures(results))
    report.save(json, results)


@app.command()
def fanout(
    subscribers: Annotated[int, typer.Option(help="How many subscribe.", min=1, max=16_384)] = 1024,
    rate: Annotated[
        list[float] | None, typer.Option(help="Notes a second; may be repeated. [10, 100, 400, 1000]")
    ] = None,
    vs: Annotated[
        list[Peer] | None, typer.Option(help="A peer that does the same work after it; may be repeated.")
    ] = None,
    seconds: Seconds = 8.0,
    warm_s: Warm = 2.0,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Tell many subscribers of notes at several rates: CPU a delivery, latency to each and to the last, holes, memory."""
    from loadtest import fanout as bench
    from loadtest import report, targets

    peers = [peer.value for peer in vs or ()]
    for missing in [peer for peer in peers if not targets.is_installed(peer)]:
        typer.echo(f"{missing} is not installed here, and is left out", err=True)
        peers.remove(missing)
    plan = bench.Plan(subscribers=subscribers, rates=tuple(rate or bench.RATES), warm_s=warm_s, hold_s=seconds)
    with working(folder) as place:
        results = bench.run(place, plan, ["board", *peers])
    report.show(bench.figures(results))
    if peers:
        report.show(bench.ratios(results))
    report.save(json, results)


def _stop(_number: int, _frame: object) -> NoReturn:
    sys.exit(143)


def main() -> None:
    """Run one measurement; on SIGTERM leave as orderly as on Ctrl-C, so that no server is left behind."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        app()
    except (ProgramFailed, ReadersFailed) as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
