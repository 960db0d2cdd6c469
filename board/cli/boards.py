"""Commands about boards and about who is on them."""

from typing import Annotated

import typer

from board.cli.session import Session, Shown, command
from schema.limits import Profile, SettingsDraft


@command("boards")
async def boards(
    session: Session,
    create: Annotated[str, typer.Option(metavar="NAME", help="Make this board first, as an admin.")] = "",
    profile: Annotated[Profile, typer.Option(help="Sizes and times of the new board.")] = "default",
) -> Shown:
    """List the boards that the caller may see, or make one.

    \b
    board boards
    board boards --create team-a --profile agensh
    """
    from board.cli.render import table

    if create:
        made = await session.board.create_board(create, SettingsDraft(profile=profile))
        return Shown(f"{made.board} made, epoch {made.epoch}")
    answer = await session.board.boards()
    rows = [(one.board, str(one.oldest), str(one.head), one.epoch) for one in answer.boards]
    return Shown(table("board", "oldest", "head", "epoch", rows=rows))


@command("workers")
async def workers(session: Session) -> Shown:
    """Show who is on the board: when last seen, open streams, live claims, unread notes.

    \b
    board workers --board team-a
    """
    from board.cli.render import clock, table

    answer = await session.board.workers()
    rows = [
        (
            one.worker,
            clock(one.last_seen),
            str(one.sockets),
            " ".join(map(str, one.claims)) or "-",
            "-" if one.unread is None else str(one.unread),
            one.root or "-",
        )
        for one in answer.workers
    ]
    return Shown(table("worker", "last seen", "streams", "claims", "unread", "root", rows=rows))
