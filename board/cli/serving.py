"""Commands that run the server, look after its store, or stand between it and an agent."""

from typing import Annotated, Literal

import typer

from board import settings as server_settings
from board.cli.root import app
from board.cli.session import DEFAULT_URL, Board, Token, Url, Worker

_HELP = server_settings.DESCRIPTIONS

Store = Annotated[str | None, typer.Option(help=_HELP["store"], show_default=server_settings.DEFAULT_STORE)]
LogFormat = Literal["json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]


def read_settings(**flags: object) -> server_settings.ServerSettings:
    """Read the settings from the environment and these flags; a bad one is a usage error."""
    try:
        return server_settings.read(**flags)
    except server_settings.BadSetting as error:
        raise typer.BadParameter(str(error)) from error


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help=_HELP["host"])] = None,
    port: Annotated[int | None, typer.Option(help=_HELP["port"])] = None,
    store: Annotated[str | None, typer.Option(help=_HELP["store"])] = None,
    bus: Annotated[str | None, typer.Option(help=_HELP["bus"])] = None,
    log_format: Annotated[LogFormat | None, typer.Option(help=_HELP["log_format"])] = None,
    log_level: Annotated[LogLevel | None, typer.Option(help=_HELP["log_level"])] = None,
    origin: Annotated[list[str] | None, typer.Option(help="Origin of a web page that may call; may be repeated.")] = None,
    fd: Annotated[int | None, typer.Option(help=_HELP["fd"])] = None,
    drain_s: Annotated[float | None, typer.Option(help=_HELP["drain_s"])] = None,
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
def migrate(
    store: Annotated[str | None, typer.Option(help=_HELP["store"])] = None,
) -> None:
    """Bring a store to this version's shape, and say at which version it is. The server does the same at its start.

    \b
    board migrate --store sqlite:/var/lib/board/board.db
    """
    import asyncio

    settings = read_settings(store=store)
    raise typer.Exit(asyncio.run(_migrate(settings.store)))


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
    raise typer.Exit(run(url, board, token, worker) or 0)
