"""Commands about tokens: on a store itself or, with an admin's token, on a running board."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, Protocol, TypeVar

import msgspec
import typer

from board.cli.durations import seconds_of
from board.cli.root import app
from board.cli.session import DEFAULT_URL, Caller, Ending, Json, Session, Shown, Token, carry_out
from board.cli.stores import on_store, read_settings
from board.settings import ServerSettings
from schema.codec import encode

if TYPE_CHECKING:
    from workers.client.answers import NewToken, Revoked, Tokens

A = TypeVar("A")
Role = Literal["reader", "worker", "admin"]

tokens = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Make, list and revoke tokens: with --store on the store itself, with --url and an admin's token on a running "
    "board, and with neither on the store that `board serve` would open here, if it is there.",
)
app.add_typer(tokens, name="token")

Store = Annotated[
    str | None, typer.Option(envvar="BOARD_STORE", help="Store to work on: sqlite:PATH or postgresql://….")
]
Url = Annotated[str | None, typer.Option(envvar="BOARD_URL", help="Address of a running board.")]


class Keeper(Protocol):
    """Whoever keeps tokens: a running board, or a store."""

    async def create_token(
        self, role: Role, *, worker: str | None = None, board: str | None = None, expires_s: int | None = None
    ) -> "NewToken":
        """Make a token."""
        ...

    async def tokens(self) -> "Tokens":
        """Give all tokens."""
        ...

    async def revoke_token(self, id: str) -> "Revoked":
        """Revoke one token."""
        ...

    async def revoke_tokens_of(self, worker: str) -> "Revoked":
        """Revoke the tokens of a worker."""
        ...


class Place(msgspec.Struct, frozen=True):
    """Where the tokens are that a command means: on a store, else on a running board."""

    store: ServerSettings | None
    caller: Caller


@tokens.command("create")
def create(
    context: typer.Context,
    role: Annotated[Role, typer.Option(help="What it may do.")],
    worker: Annotated[str, typer.Option(help="Whose it is; a worker's token needs a name.")] = "",
    board: Annotated[str, typer.Option(help="Board that it is for: main if left out; an admin's is for all.")] = "",
    expires: Annotated[str, typer.Option(help="How long it lives, such as 30d; for ever if left out.")] = "",
    store: Store = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Make a token, and print it: the only time that it is shown. The first one ends open mode.

    \b
    board token create --role admin
    board token create --role worker --worker worker-0007 --expires 30d --store sqlite:board.db --json
    """
    expires_s = _expires_s(expires)

    async def ask(keeper: Keeper) -> "NewToken":
        return await keeper.create_token(role, worker=worker, board=board, expires_s=expires_s)

    _run(_place(context, store, url, token, json=json), ask, lambda made: made.token)


@tokens.command("list")
def list_tokens(
    context: typer.Context, store: Store = None, url: Url = None, token: Token = None, json: Json = False
) -> None:
    """List all tokens ever made, without what is secret of them.

    \b
    board token list --store sqlite:board.db
    """

    async def ask(keeper: Keeper) -> "Tokens":
        return await keeper.tokens()

    _run(_place(context, store, url, token, json=json), ask, _table)


@tokens.command("revoke")
def revoke(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of the token.")] = "",
    worker: Annotated[str, typer.Option(help="Revoke all tokens of this worker instead.")] = "",
    store: Store = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Revoke one token, or all of a worker, at once and for good. Streams that they opened are closed.

    \b
    board token revoke 1f0c9a2b
    board token revoke --worker worker-0007
    """
    if bool(id) == bool(worker):
        msg = "give either an id or --worker"
        raise typer.BadParameter(msg)

    async def ask(keeper: Keeper) -> "Revoked":
        return await keeper.revoke_token(id) if id else await keeper.revoke_tokens_of(worker)

    _run(_place(context, store, url, token, json=json), ask, lambda ended: " ".join(ended.revoked))


def _expires_s(text: str) -> int | None:
    if not text:
        return None
    try:
        return seconds_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _place(context: typer.Context, store: str | None, url: str | None, token: str | None, *, json: bool) -> Place:
    """Tell what is meant: what stands on the command line before what stands in the environment, a store first."""
    caller = Caller(url=url or DEFAULT_URL, token=token, json=json)
    by_hand = {name for name in ("store", "url") if _is_by_hand(context, name)}
    if by_hand == {"store", "url"}:
        msg = "--store and --url exclude each other"
        raise typer.BadParameter(msg)
    if "url" in by_hand or (store is None and url is not None):
        return Place(None, caller)
    return Place(read_settings(store=store) if store is not None else _store_that_is_there(), caller)


def _is_by_hand(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _store_that_is_there() -> ServerSettings:
    settings = read_settings()
    if not Path(settings.store.removeprefix("sqlite:")).exists():
        msg = f"there is no store {settings.store} here: say which with --store (it is made), or --url of a board"
        raise typer.BadParameter(msg)
    typer.echo(f"using the store {settings.store}", err=True)
    return settings


def _run(place: Place, ask: Callable[[Keeper], Awaitable[A]], show: Callable[[A], Any]) -> NoReturn:
    if place.store is None:

        async def body(session: Session) -> Shown:
            return Shown(show(await ask(session.board)))

        raise typer.Exit(carry_out(place.caller, body, Ending()))
    from board.cli.render import console

    settings = place.store
    answer = on_store(lambda: _on_store(settings, ask))
    if place.caller.json:
        typer.echo(encode(answer))
    else:
        console().print(show(answer))
    raise typer.Exit


async def _on_store(settings: ServerSettings, ask: Callable[[Keeper], Awaitable[A]]) -> A:
    from board.app import open_tokens
    from board.cli.keeping import StoreKeeper

    async with open_tokens(settings) as access:
        return await ask(StoreKeeper(access))


def _table(answer: "Tokens") -> Any:  # noqa: ANN401 -- a renderable; rich is heavy to import
    from board.cli.render import clock, table

    rows = [
        (
            one.id,
            one.role,
            one.worker,
            one.board or "all",
            clock(one.created_at),
            clock(one.expires_at),
            clock(one.revoked_at),
        )
        for one in answer.tokens
    ]
    return table("id", "role", "worker", "board", "made", "expires", "revoked", rows=rows)
