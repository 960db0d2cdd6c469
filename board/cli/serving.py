"""Commands that run the server, look after its store, or stand between it and an agent."""

from typing import Annotated, Literal

import typer

from board.cli.root import app
from board.cli.session import DEFAULT_URL, Board, Token, Url, Worker
from board.cli.stores import on_store, read_settings
from board.settings import DESCRIPTIONS, ServerSettings

LogFormat = Literal["auto", "json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help=DESCRIPTIONS["host"])] = None,
    port: Annotated[int | None, typer.Option(help=DESCRIPTIONS["port"])] = None,
    store: Annotated[str | None, typer.Option(help=DESCRIPTIONS["store"])] = None,
    bus: Annotated[str | None, typer.Option(help=DESCRIPTIONS["bus"])] = None,
    log_format: Annotated[LogFormat | None, typer.Option(help=DESCRIPTIONS["log_format"])] = None,
    log_level: Annotated[LogLevel | None, typer.Option(help=DESCRIPTIONS["log_level"])] = None,
    origin: Annotated[
        list[str] | None, typer.Option(help="Origin of a web page that may call; may be repeated.")
    ] = None,
    fd: Annotated[int | None, typer.Option(help=DESCRIPTIONS["fd"])] = None,
    drain_s: Annotated[float | None, typer.Option(help=DESCRIPTIONS["drain_s"])] = None,
) -> None:
    """Run the server until it is told to stop.

    On loopback and without a token everybody is an admin (open mode); on any other address a token must have been made
    before. Every setting is also an environment variable: BOARD_HOST, BOARD_PORT, BOARD_STORE and so on.

    \b
    board serve
    board serve --port 0 --store sqlite:/var/lib/board/board.db --log-format json
    board token create --role admin && board serve --host 0.0.0.0
    """
    settings = read_settings(
        host=host,
        port=port,
        store=store,
        bus=bus,
        log_format=log_format,
        log_level=log_level,
        origins=origin,
        fd=fd,
        drain_s=drain_s,
    )
    from board.app import serve as run

    raise typer.Exit(run(settings))


@app.command()
def migrate(store: Annotated[str | None, typer.Option(help=DESCRIPTIONS["store"])] = None) -> None:
    """Bring a store to this version's shape, and say at which version it is. The server does the same at its start.

    \b
    board migrate --store sqlite:/var/lib/board/board.db
    """
    settings = read_settings(store=store)
    typer.echo(on_store(lambda: _migrate(settings)))


async def _migrate(settings: ServerSettings) -> str:
    from board.app import open_store
    from board.store.migrations import known

    async with open_store(settings):
        kind = settings.store.partition(":")[0]
    if kind == "memory":
        return "a store in memory has no version: nothing is kept"
    newest = known("sqlite" if kind == "sqlite" else "postgresql")[-1]
    return f"{kind} store at version {newest.number} ({newest.name})"


@app.command()
def mcp(url: Url = DEFAULT_URL, board: Board = "main", token: Token = None, worker: Worker = None) -> None:
    """Serve the board's tools over standard input and output, for an agent that cannot speak HTTP.

    \b
    board mcp --url http://127.0.0.1:8420 --worker worker-0007
    """
    try:
        from board.mcp.stdio import run
    except ModuleNotFoundError as error:
        typer.echo(f"the tools are not installed here: {error}", err=True)
        raise typer.Exit(1) from error
    raise typer.Exit(run(url, board, token, worker))
