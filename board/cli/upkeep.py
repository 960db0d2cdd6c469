"""Commands that look after a store: copies of it while a server runs, putting one back, and checking it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from board.cli.root import app
from board.cli.stores import on_store, read_settings
from board.settings import DESCRIPTIONS, ServerSettings
from schema.codec import encode

if TYPE_CHECKING:
    from board.core.audit import Audited, Report
    from board.store.contract import BoardRow

SHOWN_FINDINGS: Final = 200

Store = Annotated[str | None, typer.Option(envvar="BOARD_STORE", help=DESCRIPTIONS["store"])]


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; there must be none of this name.")],
    store: Store = None,
) -> None:
    """Copy a SQLite store as it is now, while a server goes on, with the key of its tokens beside it (FILE.key).

    The copy is one file, whole and synced when the command ends. Whoever serves it later gets new epochs, so that
    readers notice that the log went back.

    \b
    board backup /backups/board-$(date +%F).db --store sqlite:/var/lib/board/board.db
    """
    path = _sqlite_path(read_settings(store=store))
    on_store(lambda: _copy(path, str(file)))
    typer.echo(f"{file}: {file.stat().st_size} bytes")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Backup to put back, or any copy of a store's file.")],
    store: Store = None,
) -> None:
    """Put a backup in the place of a SQLite store that is not there (move a damaged one away first), under new epochs.

    Tokens are those of the backup: what was revoked since must be revoked again.

    \b
    mv board.db damaged.db && board restore /backups/board.db --store sqlite:board.db
    """
    settings = read_settings(store=store)
    path = _sqlite_path(settings)
    for row in on_store(lambda: _restore(settings, str(file), path)):
        typer.echo(f"{row.name}: {row.head} events, epoch {row.epoch}")


@app.command()
def verify(
    store: Store = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON, for programs.")] = False,
) -> None:
    """Check a store, in use or not: pages, seqs, times, keys, details, indexes, and the state against a full replay.

    Where the log was trimmed, the replay begins with the base. Says what is wrong and where. Exit status: 0 nothing is wrong, 1 something is, 3 it cannot be opened.

    \b
    board verify --store sqlite:/var/lib/board/board.db
    """
    settings = read_settings(store=store)
    report = on_store(lambda: _verify(settings))
    typer.echo(encode(report) if json else _told(report))
    raise typer.Exit(1 if report.findings else 0)


def _sqlite_path(settings: ServerSettings) -> str:
    kind, _, path = settings.store.partition(":")
    if kind != "sqlite":
        msg = "only a SQLite store is copied by this command; PostgreSQL has tools of its own (pg_dump, pg_basebackup)"
        raise typer.BadParameter(msg)
    return path


async def _copy(source: str, target: str) -> None:
    from board.store.sqlite.copies import copy_file

    copy_file(source, target)


async def _restore(settings: ServerSettings, source: str, path: str) -> "list[BoardRow]":
    from board.app import open_store

    await _copy(source, path)
    async with open_store(settings) as opened:
        return await opened.boards()


async def _verify(settings: ServerSettings) -> "Report":
    from board.app import open_store
    from board.store.sqlite.verify import verify as verify_file
    from board.store.verify import verify as verify_store

    if settings.store.startswith("sqlite:"):
        return verify_file(_sqlite_path(settings))
    async with open_store(settings) as opened:
        return await verify_store(opened)


def _told_of(board: "Audited") -> str:
    span = f"up to {board.head}" if board.oldest == 1 else f"from {board.oldest}, where the base ends, to {board.head}"
    return f"{board.board}: {board.events} events {span}, state {board.state_hash}"


def _told(report: "Report") -> str:
    lines = [str(one) for one in report.findings[:SHOWN_FINDINGS]]
    if len(report.findings) > SHOWN_FINDINGS:
        lines.append(f"and {len(report.findings) - SHOWN_FINDINGS} more")
    lines += map(_told_of, report.boards)
    lines.append(f"{len(report.findings)} findings" if report.findings else "nothing is wrong")
    return "\n".join(lines)
