"""Commands that move a whole log: out of a board, into one, onto another one again, and into a report."""

import math
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from board.cli.lines import lines_of, rewindable, written
from board.cli.options import After, Before
from board.cli.root import app
from board.cli.session import (
    DEFAULT_URL,
    Board,
    Caller,
    Ending,
    Json,
    Session,
    Shown,
    Token,
    Url,
    Worker,
    carry_out,
    command,
)
from board.cli.stores import on_store, read_settings
from board.settings import shown
from schema.codec import encode
from schema.limits import Settings

if TYPE_CHECKING:
    from board.settings import ServerSettings
    from workers.client.answers import Imported

File = Annotated[Path, typer.Argument(metavar="FILE", help="File of lines, also .gz; - is standard input.")]


@command("export", lines=True)
async def export(
    session: Session,
    after: After = None,
    before: Before = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write, in place of the output.")
    ] = None,
) -> Shown:
    """Write the log as JSON, one event a line, below a header with board, epoch, head and schema version.

    A file that was named is only there when it is whole.

    \b
    board export -o main.jsonl
    board export --after 1000 | wc -l
    """
    async with session.board.export(after=after, before=before) as lines:
        if output is None:
            async for line in lines:
                session.write(line)
            return Shown()
        count = await _write(output, lines)
    session.remark(f"{output}: {count - 1} events")
    return Shown()


async def _write(output: Path, lines: AsyncIterator[bytes]) -> int:
    count = 0
    with written(output) as file:
        async for line in lines:
            file.write(line + b"\n")
            count += 1
    return count


@app.command("import")
def import_log(
    file: File,
    form: Annotated[Literal["board", "delm"], typer.Option("--from", help="What wrote the file.")] = "board",
    store: Annotated[
        str | None, typer.Option(help="Import into this store itself, without a server: sqlite:PATH or postgresql://….")
    ] = None,
    url: Url = DEFAULT_URL,
    board: Board = "main",
    token: Token = None,
    worker: Worker = None,
    json: Json = False,
) -> None:
    """Read an export into an empty board, keeping seqs and times: on a running board as an admin, or into a store.

    With --store a board that is not there is made, with the settings of the export.

    \b
    board import main.jsonl --board restored --token "$ADMIN"
    board import main.jsonl --store sqlite:new.db
    """
    if form != "board":
        msg = "only `--from board` is supported, the lines of `board export`; the form of DeLM's notes is not defined"
        raise typer.BadParameter(msg)
    if store is not None:
        _import_into_store(file, store, board, json=json)
    else:
        caller = Caller(url=url, board=board, token=token, worker=worker, json=json)
        raise typer.Exit(carry_out(caller, lambda session: _import(session, file), Ending()))


async def _import(session: Session, file: Path) -> Shown:
    imported = await session.board.import_log(_async(lines_of(file)))
    return Shown(f"imported {imported.head} events, state {imported.state_hash}")


async def _async(lines: Iterator[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


def _import_into_store(file: Path, store: str, board: str, *, json: bool) -> None:
    settings = read_settings(store=store)
    with rewindable(file) as opened:
        imported = on_store(lambda: _restore(settings, opened, board))
    if json:
        typer.echo(encode(imported))
    else:
        typer.echo(
            f"imported {imported.head} events into {board!r} of {shown(settings.store)}, state {imported.state_hash}"
        )


async def _restore(settings: "ServerSettings", file: IO[bytes], board: str) -> "Imported":
    from board.app import open_store
    from board.service.importing import import_into_store
    from workers.client.answers import Imported

    async with open_store(settings) as store:
        if await store.board(board) is None:
            await store.create_board(board, _settings_of(file))
        state = await import_into_store(store, board, file)
        return Imported(head=state.seq, state_hash=state.state_hash())


def _settings_of(file: IO[bytes]) -> Settings:
    """Read the settings that a new board needs to hold an export; those of no board at all are left to the import."""
    from workers.exported import header_of

    header = header_of(file.readline())
    try:
        return msgspec.convert(header.settings, Settings) if header is not None else Settings()
    except msgspec.ValidationError as error:
        msg = f"a newer version wrote the settings of the export: {error}"
        raise typer.BadParameter(msg) from error


@app.command()
def replay(
    file: File,
    speed: Annotated[str, typer.Option(help="How many times faster than it was, or max for no pace at all.")] = "max",
    to: Annotated[str, typer.Option("--to", envvar="BOARD_URL", help="Address of the server.")] = DEFAULT_URL,
    board: Board = "main",
    token: Token = None,
    json: Json = False,
) -> None:
    """Do again, as its authors and in their order, what a recording says: an export, or a team's issue list.

    The board must be in open mode, since each note is posted in its author's name. What is refused, left out or
    shortened is counted and told; nothing is dropped in silence.

    \b
    board replay main.jsonl --speed 10
    board replay agent-team-trace.jsonl.gz --speed max --to http://127.0.0.1:8420
    """
    pace = _speed(speed)
    caller = Caller(url=to, board=board, token=token, json=json)
    raise typer.Exit(carry_out(caller, lambda session: _replay(session, file, pace), Ending()))


def _speed(text: str) -> float | None:
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < math.inf:
        msg = f"--speed {text!r} is neither a number above 0 nor max"
        raise typer.BadParameter(msg)
    return speed


async def _replay(session: Session, file: Path, speed: float | None) -> Shown:
    from board.cli.counts import tally_report
    from workers.exported import NotAnExport
    from workers.recording import UnknownRecording, read_recording
    from workers.replay import Replay

    settings = (await session.board.board()).settings
    session.heard()
    playing = Replay(session.board, speed=speed)
    try:
        tally = await playing.run(read_recording(lines_of(file), text_chars=int(settings["text_chars"])))
    except (NotAnExport, UnknownRecording) as error:
        msg = f"{file}: {error}"
        raise typer.BadParameter(msg) from error
    session.heard()
    if session.json:
        session.write(encode(tally))
        return Shown()
    return Shown(tally_report(tally))


@app.command()
def report(
    file: File,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON, for programs.")] = False,
) -> None:
    """Tell from an export how a team worked: notes, claims, conflicts, averted duplicate work, hold times.

    \b
    board export -o main.jsonl && board report main.jsonl
    board export | board report - --json
    """
    from workers.exported import NotAnExport
    from workers.report import report_of

    try:
        counted = report_of(lines_of(file))
    except NotAnExport as error:
        msg = f"{file}, {error}"
        raise typer.BadParameter(msg) from error
    if json:
        typer.echo(encode(counted))
        return
    from board.cli.counts import report_tables
    from board.cli.render import console

    console().print(report_tables(counted))
