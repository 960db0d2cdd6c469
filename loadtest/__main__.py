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


Url = Annotated[str | None, typer.Option(help="A board in open mode on this machine; one of its own if left out.")]


class Way(StrEnum):
    """Ways to write."""

    SINGLE = "single"
    BATCH = "batch"


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


@contextmanager
def serving_at(url: str | None, folder: Path) -> Generator[int]:
    """Give the port of a board: the one that is named, or one that is run for as long as the block."""
    from loadtest.calls import loopback_port
    from loadtest.processes import serving

    if url is None:
        with serving(folder) as board:
            yield board.port
        return
    try:
        port = loopback_port(url)
    except ValueError as error:
        raise typer.BadParameter(f"{error}", param_hint="--url") from error
    yield port


@app.command()
def write(
    way: Annotated[list[Way] | None, typer.Option(help="Only this way to write; may be repeated.")] = None,
    seconds: Seconds = 8.0,
    warm_s: Warm = 2.0,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Store notes as fast as the board takes them, one a request and 1,000 a request."""
    from loadtest import report
    from loadtest import write as bench

    ways = [bench.WAYS[one.value] for one in way or Way]
    with working(folder) as place:
        results = bench.run(place, ways, warm_s=warm_s, seconds=seconds)
    report.show(bench.figures(results))
    report.save(json, results)


@app.command()
def nodes(seconds: Seconds = 8.0, warm_s: Warm = 2.0, folder: Folder = None, json: Json = None) -> None:
    """Write to one board through one node and through two, on PostgreSQL, with and without Redis."""
    from loadtest import nodes as bench
    from loadtest import report

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


@app.command()
def claims(
    data: Annotated[
        Path | None, typer.Option(help="A history, as gzipped JSON lines; a small sample if left out.")
    ] = None,
    team: Annotated[list[int] | None, typer.Option(help="Workers; may be repeated. [32, 128, 1024]", min=1)] = None,
    speed: Annotated[float, typer.Option(help="How often the team's six hours go into the real time.", min=1)] = 2160.0,
    url: Url = None,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Let teams of several sizes claim and do the work of a real program's history."""
    from loadtest import claims as bench
    from loadtest import report
    from loadtest.history import SAMPLE, read_history

    with working(folder) as place, serving_at(url, place / "claims") as port:
        results = bench.run(port, read_history(data or SAMPLE), team or bench.TEAMS, speed)
    report.show(bench.figures(results))
    report.save(json, results)


@app.command()
def check(
    live: Annotated[int, typer.Option("--claims", help="How many claims are live.", min=1)] = 10_000,
    asked: Annotated[int, typer.Option(help="How many questions are put to each board.", min=10)] = 1000,
    url: Url = None,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Ask what is free beside 10,000 live claims, and on an empty board."""
    from loadtest import check as bench
    from loadtest import report

    with working(folder) as place, serving_at(url, place / "check") as port:
        results = bench.run(port, claims=live, asked=asked)
    report.show(bench.figures(results))
    report.save(json, results)


@app.command(name="open")
def open_(
    notes: Annotated[int, typer.Option(help="Notes of the large board.", min=1)] = 1_000_000,
    small: Annotated[int, typer.Option(help="Notes of the small board.", min=1)] = 1_000,
    starts: Annotated[int, typer.Option(help="How often each is started.", min=1)] = 3,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Open a board of a million notes, and a small one: time to be ready, memory, first calls.

    Filled boards are kept below --dir and used again.
    """
    from loadtest import opening, report

    with working(folder) as place:
        results = opening.run(place, notes=notes, small=small, starts=starts)
    report.show(opening.figures(results))
    report.save(json, results)


@app.command()
def catchup(
    readers: Annotated[int, typer.Option(help="How many come back.", min=1, max=16_384)] = 1024,
    behind: Annotated[int, typer.Option(help="How many notes each has missed.", min=1)] = 200,
    rate: Annotated[float, typer.Option(help="Notes a second that arrive meanwhile.", min=1)] = 50.0,
    seconds: Seconds = 10.0,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Let 1,024 readers come back at once, each 200 notes behind."""
    from loadtest import catchup as bench
    from loadtest import report

    plan = bench.Plan(readers=readers, behind=behind, rate_per_s=rate, seconds=seconds)
    with working(folder) as place:
        result = bench.run(place / "catchup", plan)
    report.show(bench.figures(result))
    report.save(json, [result])


@app.command()
def stalled(
    readers: Annotated[int, typer.Option(help="How many read.", min=2, max=16_384)] = 200,
    stall: Annotated[int, typer.Option(help="How many of them stop.", min=1)] = 20,
    rate: Annotated[float, typer.Option(help="Notes a second.", min=1)] = 200.0,
    seconds: Seconds = 20.0,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Let 20 readers of 200 stop to read: memory, and what the others notice."""
    from loadtest import report
    from loadtest import stalled as bench

    plan = bench.Plan(readers=readers, stalled=stall, rate_per_s=rate, seconds=seconds)
    with working(folder) as place:
        result = bench.run(place / "stalled", plan)
    report.show(bench.figures(result))
    report.save(json, [result])


@app.command()
def soak(
    minutes: Annotated[float, typer.Option(help="How long.", min=0.05, max=24 * 60)] = 30.0,
    subscribers: Annotated[int, typer.Option(help="How many subscribe and stay.", min=1, max=16_384)] = 200,
    rate: Annotated[float, typer.Option(help="Notes a second.", min=1)] = 50.0,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Keep a team's load up, and tell what grows: memory, descriptors, write-ahead log, tasks."""
    from loadtest import report
    from loadtest import soak as bench

    plan = bench.Plan(seconds=minutes * 60, subscribers=subscribers, rate_per_s=rate)
    with working(folder) as place:
        result = bench.run(place / "soak", plan)
    report.show(bench.figures(result))
    report.save(json, [result])


@app.command()
def team(
    users: Annotated[int, typer.Option(help="How many there are.", min=8)] = 1024,
    ramp_s: Annotated[float, typer.Option(help="Seconds until everybody is there.", min=1)] = 30.0,
    hold_s: Annotated[float, typer.Option(help="Seconds before and after the storm.", min=1)] = 60.0,
    pace_s: Annotated[float, typer.Option(help="Seconds between two acts of a writer, on average.", min=0.01)] = 30.0,
    out: Annotated[Path, typer.Option(help="Where CSV and HTML go.")] = Path("team"),
    url: Url = None,
    folder: Folder = None,
) -> None:
    """Let a team of 1,024 work through HTTP, streams and MCP, with a storm of reconnects (locust, headless)."""
    from loadtest import team as bench

    plan = bench.Plan(users=users, ramp_s=ramp_s, hold_s=hold_s, pace_s=pace_s)
    with working(folder) as place, serving_at(url, place / "team") as port:
        status = bench.run(port, plan, out)
    raise typer.Exit(status)


@app.command()
def mcp(
    clients: Annotated[int, typer.Option(help="How many call tools.", min=1, max=16_384)] = 1024,
    subscribers: Annotated[int, typer.Option(help="How many hold a stream beside them.", min=0, max=16_384)] = 1024,
    rate: Annotated[float, typer.Option(help="Notes a second that fan out.", min=1)] = 50.0,
    gap_s: Annotated[float, typer.Option(help="Seconds between two calls of a client.", min=0.1)] = 5.0,
    filled: Annotated[int, typer.Option(help="Notes that are on the board before.", min=20)] = 5000,
    seconds: Seconds = 30.0,
    warm_s: Warm = 10.0,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Let 1,024 MCP clients call tools while notes fan out; an error or a hole makes the exit status 1."""
    from loadtest import mcp as bench
    from loadtest import report

    plan = bench.Plan(
        clients=clients,
        subscribers=subscribers,
        rate_per_s=rate,
        gap_s=gap_s,
        warm_s=warm_s,
        seconds=seconds,
        filled=filled,
    )
    with working(folder) as place:
        result = bench.run(place / "mcp", plan)
    report.show(bench.figures(result))
    report.save(json, [result])
    raise typer.Exit(int(bench.broken([result])))


@app.command()
def listeners(
    count: Annotated[int, typer.Option("--listeners", help="How many listen.", min=1, max=4096)] = 1024,
    tellings: Annotated[int, typer.Option(help="How often they are told.", min=1)] = 10,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Let 1,024 MCP clients listen for changes: CPU each time that one is told, memory of each."""
    from loadtest import listeners as bench
    from loadtest import report

    with working(folder) as place:
        result = bench.run(place / "listeners", bench.Plan(listeners=count, tellings=tellings))
    report.show(bench.figures(result))
    report.save(json, [result])


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
