"""What every client command shares: the options that say which board and who calls, and how it ends.

A command is an async function of a `Session` and its own options, and gives what people see. With `--json` what the
board answered is printed in place of it, exactly as it came.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
import typer

from board.cli.root import app

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rich.console import RenderableType

    from schema.codes import ProblemError

DEFAULT_URL: Final = "http://127.0.0.1:8420"
INTERRUPTED: Final = 130

Url = Annotated[str, typer.Option(envvar="BOARD_URL", help="Address of the server.")]
Board = Annotated[str, typer.Option(envvar="BOARD_NAME", help="Name of the board.")]
Token = Annotated[
    str | None,
    typer.Option(envvar="BOARD_TOKEN", help="Credential; the environment hides it from the list of processes."),
]
Worker = Annotated[str | None, typer.Option(envvar="BOARD_WORKER", help="Who calls, on a board in open mode.")]
Json = Annotated[bool, typer.Option("--json", help="Print the board's own JSON, for programs.")]

_SHARED: Final[dict[str, tuple[Any, object]]] = {
    "url": (Url, DEFAULT_URL),
    "board": (Board, "main"),
    "token": (Token, None),
    "worker": (Worker, None),
    "json": (Json, False),
}


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The options of every client command."""

    url: str = DEFAULT_URL
    board: str = "main"
    token: str | None = None
    worker: str | None = None
    json: bool = False


class Shown(msgspec.Struct, frozen=True):
    """What people see of a command's outcome, None for nothing, and the exit status."""

    what: Any = None
    status: int = 0


Body = TypeVar("Body", bound="Callable[..., Awaitable[Shown]]")


class Session:
    """One run of a client command: the open client, and where to print."""

    def __init__(self, caller: Caller) -> None:
        from workers.client import Backoff, BoardClient

        self.caller = caller
        self._heard: list[bytes] = []
        # Few tries: a person or a script waits, and the news that nobody answers should come soon.
        self.board = BoardClient(
            caller.url,
            caller.board,
            caller.token,
            caller.worker,
            backoff=Backoff(tries=3),
            on_answer=self._heard.append if caller.json else None,
        )

    @property
    def json(self) -> bool:
        """Whether a program reads the output."""
        return self.caller.json

    def heard(self) -> list[bytes]:
        """Give the bodies that the board answered with so far, as they came, and forget them; none without `--json`."""
        heard = self._heard.copy()
        self._heard.clear()
        return heard

    def write(self, line: bytes) -> None:
        """Print one line as it is, at once."""
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    def show(self, what: RenderableType) -> None:
        """Print for people."""
        from board.cli.render import console

        console().print(what)

    def show_block(self, text: str) -> None:
        """Print a long text: harmless on a terminal, elsewhere as it is, to the byte."""
        from board.cli.render import plain_block

        if sys.stdout.isatty():
            self.show(plain_block(text))
        else:
            sys.stdout.buffer.write(text.encode())

    def remark(self, what: RenderableType) -> None:
        """Print beside the output, on standard error."""
        from board.cli.render import console

        console(stderr=True).print(what)


class Ending(msgspec.Struct, frozen=True):
    """How a command ends: whether a refusal may print JSON where its lines went, and its status when interrupted."""

    lines: bool = False
    interrupted: int = INTERRUPTED


def command(name: str, *, lines: bool = False, endless: bool = False) -> Callable[[Body], Body]:
    """Make a client command of an async function: its own options first, then those of every client command.

    `lines` is for one that prints events line by line, and `endless` for one that is meant to be interrupted.
    """
    ending = Ending(lines=lines, interrupted=0 if endless else INTERRUPTED)

    def register(body: Body) -> Body:
        def run(**given: Any) -> None:  # noqa: ANN401 -- the options, typed by the signature below
            caller = Caller(**{field: given.pop(field) for field in Caller.__struct_fields__})
            raise typer.Exit(carry_out(caller, lambda session: body(session, **given), ending))

        run.__doc__ = body.__doc__
        run.__signature__ = _signature(body)  # type: ignore[attr-defined]
        app.command(name)(run)
        return body

    return register


def carry_out(caller: Caller, body: Callable[[Session], Awaitable[Shown]], ending: Ending) -> int:
    """Run a command to its end, and give the exit status; a refusal is printed with what to do about it."""
    from schema.codes import ProblemError
    from workers.client import StreamHole

    try:
        return asyncio.run(_within(caller, body))
    except ProblemError as error:
        return _refused(caller, error, ending)
    except StreamHole as error:
        typer.echo(f"the board left events out: {error}", err=True)
        return 1
    except KeyboardInterrupt:
        return ending.interrupted


async def _within(caller: Caller, body: Callable[[Session], Awaitable[Shown]]) -> int:
    session = Session(caller)
    async with session.board:
        shown = await body(session)
    bodies = session.heard()
    if bodies:
        session.write(bodies[-1])
    elif shown.what is not None:
        session.show(shown.what)
    return shown.status


def _refused(caller: Caller, error: ProblemError, ending: Ending) -> int:
    from board.cli.refusing import print_refusal
    from schema.codec import encode
    from workers.client.refusals import document_of

    if caller.json and not ending.lines:
        sys.stdout.buffer.write(encode(document_of(error.problem)) + b"\n")
    return print_refusal(error.problem)


def _signature(body: Callable[..., object]) -> inspect.Signature:
    own = list(inspect.signature(body, eval_str=True).parameters.values())[1:]
    kind = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter(name, kind, annotation=annotation, default=default)
        for name, (annotation, default) in _SHARED.items()
    ]
    return inspect.Signature([*(parameter.replace(kind=kind) for parameter in own), *shared])
