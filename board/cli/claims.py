"""Commands about claims: who holds what, and taking, keeping and ending it."""

from typing import Annotated, Literal

import typer

from board.cli.durations import seconds_of
from board.cli.options import ClaimSeq, Limit, Scope, Targets
from board.cli.session import Session, Shown, command
from schema.notes import OnConflict, Outcome

Ttl = Annotated[
    str, typer.Option("--ttl", help="Length of the lease, such as 90s or 30m; the board's own if left out.")
]


@command("claim")
async def claim(
    session: Session,
    scope: Targets,
    text: Annotated[str, typer.Option("--message", "-m", help="What it is for.")],
    ttl: Ttl = "",
    on_conflict: Annotated[
        OnConflict, typer.Option(help="What to do if another holds a part: be refused, hold it as well, or wait.")
    ] = "refuse",
    task: Annotated[str, typer.Option(help="Task that it belongs to.")] = "",
) -> Shown:
    """Claim a scope: all of it, or none. Prints the seq of the claim, how long it is held, and what is known about it.

    Ends with 1 when another worker holds a part of it, and says who, what, until when, and what is free.

    \b
    board claim src/readers/tables.c -m "rewrite the row loop" --ttl 30m
    board claim 'src/**/*.c' task:tables -m "rename Row" --on-conflict wait
    """
    from board.cli.render import claimed, now_us

    posted = await session.board.claim(scope, text, ttl_s=_ttl_s(ttl), on_conflict=on_conflict, task=task)
    return Shown(claimed(posted, now_us()))


@command("release")
async def release(
    session: Session,
    seq: ClaimSeq,
    outcome: Annotated[Outcome, typer.Option(help="How the work ended.")] = "done",
    to: Annotated[list[str] | None, typer.Option(help="Worker that it is handed to.")] = None,
    text: Annotated[str, typer.Option("--message", "-m", help="What to say about it.")] = "",
    reason: Annotated[str, typer.Option(help="Why an admin ends another's claim.")] = "",
) -> Shown:
    """End a claim. Ending it twice does no harm.

    \b
    board release 60
    board release 60 --outcome handoff --to worker-0003 -m "the tests are left"
    """
    await session.board.release(seq, outcome=outcome, to=to or (), text=text, reason=reason)
    return Shown(f"{seq} released: {outcome}")


@command("renew")
async def renew(session: Session, seq: ClaimSeq, ttl: Ttl = "") -> Shown:
    """Hold a claim for longer.

    \b
    board renew 60 --ttl 30m
    """
    renewed = await session.board.renew(seq, ttl_s=_ttl_s(ttl))
    return Shown(f"{seq} held until {renewed.expires_at}")


@command("check")
async def check(session: Session, scope: Targets) -> Shown:
    """Tell whether a scope is free, who holds what of it, and what is known about it. Writes nothing.

    Ends with 1 when another worker holds a part of it.

    \b
    board check src/readers 'tests/*.sh' && echo free
    """
    from board.cli.render import check_report, now_us

    found = await session.board.check(scope)
    return Shown(check_report(found, now_us()), status=1 if found.conflicts else 0)


@command("claims")
async def claims(
    session: Session,
    state: Annotated[Literal["live", "waiting", "ended", "all"], typer.Option(help="Which claims.")] = "live",
    scope: Scope = None,
    holder: Annotated[str | None, typer.Option(help="Only claims of this worker.")] = None,
    limit: Limit = 1000,
) -> Shown:
    """Show who holds what, since when, for how much longer, and who disputes it.

    \b
    board claims
    board claims --state all --scope src/readers
    """
    from board.cli.render import claims_table, now_us

    page = await session.board.claims(state=state, scope=scope or (), holder=holder, limit=limit)
    return Shown(claims_table(page.claims, now_us()))


def _ttl_s(text: str) -> int | None:
    if not text:
        return None
    try:
        return seconds_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
