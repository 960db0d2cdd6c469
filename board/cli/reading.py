"""Commands that read: notes, the live stream, long texts, the view for a prompt, what is unread."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from board.cli.options import Before, Budget, Limit, Scope, Seq, Types
from board.cli.session import Session, Shown, command
from schema.events import Note

if TYPE_CHECKING:
    from workers.client.answers import Omitted

_PAGE = 1000


class _RawNotes(msgspec.Struct, frozen=True):
    notes: tuple[msgspec.Raw, ...] = ()


@command("read", lines=True)
async def read(
    session: Session,
    after: Annotated[int | None, typer.Option(min=0, help="Begin after this seq, not with the newest.")] = None,
    before: Before = None,
    limit: Limit = 50,
    note_type: Types = None,
    author: Annotated[str | None, typer.Option(help="Only notes of this worker.")] = None,
    scope: Scope = None,
    task: Annotated[str | None, typer.Option(help="Only notes of this task.")] = None,
    to: Annotated[str | None, typer.Option(help="Only notes addressed to this worker.")] = None,
) -> Shown:
    """Read the newest notes, or with --after those that follow a seq; the oldest of them comes first.

    With --json one note a line.

    \b
    board read --type FAIL --scope src/readers
    board read --after 57 --limit 1000 --json
    """
    from board.cli.render import event_lines

    newest = after is None
    wanted = session.board.each_note(
        after=after,
        before=before,
        limit=min(_PAGE, limit),
        order="desc" if newest else "asc",
        types=note_type or (),
        author=author,
        scope=scope or (),
        task=task,
        to=to,
    )
    notes = [note async for note in _first(wanted, limit)]
    lines = [raw for body in session.heard() for raw in msgspec.json.decode(body, type=_RawNotes).notes][:limit]
    step = -1 if newest else 1
    for line in lines[::step]:
        session.write(bytes(line))
    return Shown(None if session.json else event_lines(notes[::step]))


async def _first(notes: AsyncIterator[Note], limit: int) -> AsyncIterator[Note]:
    left = limit
    async for note in notes:
        yield note
        left -= 1
        if not left:
            return


@command("tail", lines=True, endless=True)
async def tail(
    session: Session,
    after: Annotated[int | None, typer.Option(min=0, help="Begin after this seq; 0 is the beginning.")] = None,
    last: Annotated[int | None, typer.Option("--tail", min=0, help="Begin with so many of the newest events.")] = None,
    note_type: Types = None,
    scope: Scope = None,
    author: Annotated[str, typer.Option(help="Only events of this worker.")] = "",
    to: Annotated[str, typer.Option(help="Only notes addressed to this worker.")] = "",
) -> Shown:
    """Follow the board live, one event a line: seq, time, type or kind, author, text, scope.

    Goes on by itself, without a hole, when the server was restarted. Ctrl-C ends it.

    \b
    board tail --tail 20
    board tail --after 57 --type FAIL --type PATCH_SUMMARY --json
    """
    from board.cli.render import event_line

    if after is not None and last is not None:
        msg = "--after and --tail exclude each other"
        raise typer.BadParameter(msg)
    stream = session.board.subscribe(
        after=after,
        tail=last,
        types=note_type or (),
        scope=scope or (),
        author=author,
        to=to,
        on_change=Changes(session),
    )
    async with stream:
        if session.json:
            async for line in stream.lines():
                session.write(line)
        async for event in stream:
            session.show(event_line(event))
    return Shown()


class Changes:
    """Tells on standard error when the board is lost and found again; a board that never was there is a refusal."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._began = False

    def __call__(self, change: Any) -> None:  # noqa: ANN401 -- a Change, whose module is heavy to import
        """Tell of one change."""
        from workers.client import Connected

        connected = isinstance(change, Connected)
        if connected and self._began:
            self._session.remark(f"connected again, going on after {change.after}")
        elif not connected and self._began:
            self._session.remark(f"lost the board ({change.reason}); next try in {change.retry_in_s:.1f} s")
        self._began = self._began or connected


@command("grep")
async def grep(
    session: Session,
    q: Annotated[str, typer.Argument(metavar="Q", help="Words; comma is OR, & is AND, quotes make a phrase.")],
    before: Before = None,
    limit: Limit = 50,
) -> Shown:
    """Search the whole history, the newest notes first.

    \b
    board grep '"line of dashes", tables & reader'
    """
    from board.cli.render import event_lines

    page = await session.board.search(q, before=before, limit=min(_PAGE, limit))
    return Shown(event_lines(page.notes))


@command("unfold")
async def unfold(session: Session, seq: Seq) -> Shown:
    """Print the long text of a note.

    \b
    board unfold 57 > diff.patch
    """
    detail = await session.board.detail(seq)
    if not session.json:
        session.show_block(detail)
    return Shown()


@command("snapshot")
async def snapshot(session: Session, budget: Budget = None, scope: Scope = None) -> Shown:
    """Print the view of the board that belongs in a prompt: markdown, or with --json the same as JSON.

    \b
    board snapshot --budget 800 --scope src/readers
    """
    if session.json:
        await session.board.snapshot_document(budget_tokens=budget, scope=scope or ())
    else:
        session.show_block(await session.board.snapshot(budget_tokens=budget, scope=scope or ()))
    return Shown()


@command("unread")
async def unread(session: Session, limit: Limit = 50, budget: Budget = None) -> Shown:
    """Show what this worker has not acknowledged, most relevant first.

    \b
    board unread --worker worker-0007
    """
    from board.cli.render import event_lines

    answer = await session.board.unread(limit=limit, budget_tokens=budget)
    if answer.omitted.total and not session.json:
        session.remark(_left_out(answer.omitted))
    return Shown(event_lines(answer.notes))


def _left_out(omitted: "Omitted") -> str:
    counts = ", ".join(f"{count} {kind}" for kind, count in omitted.by_type.items())
    too_large = f"; larger than the budget: {' '.join(map(str, omitted.too_large))}" if omitted.too_large else ""
    return f"left out: {'at least ' if omitted.at_least else ''}{omitted.total} ({counts}){too_large}"


@command("ack")
async def ack(
    session: Session,
    seqs: Annotated[list[int] | None, typer.Argument(metavar="SEQ...", help="Notes that were read.")] = None,
    through: Annotated[int | None, typer.Option(min=0, help="Everything up to this seq, shown or not.")] = None,
) -> Shown:
    """Acknowledge notes, so that they are unread no more.

    \b
    board ack 57 61
    board ack --through 120
    """
    if bool(seqs) == (through is not None):
        msg = "give either seqs or --through"
        raise typer.BadParameter(msg)
    await session.board.ack(seqs or (), through=through)
    return Shown()
