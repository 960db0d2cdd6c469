"""Commands that move a whole log: out of a board, into one, onto another one again, and into a report."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated

import typer

from board.cli.lines import lines_of, written
from board.cli.options import After, Before
from board.cli.root import app
from board.cli.session import DEFAULT_URL, Board, Caller, Ending, Session, Shown, Token, Url, Worker, carry_out, command

File = Annotated[Path, typer.Argument(metavar="FILE", help="File of lines, also .gz; - is standard input.")]


@command("export", lines=True)
async def export(
    session: Session,
    after: After = 0,
    before: Before = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write, in place of the output.")] = None,
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
