"""The command line of the board: `board serve` runs it, every other command calls it.

Each command's module is small and imports what is heavy (the HTTP client, the server) only when it runs, so that
`board --help` and a completion answer at once.
"""

from __future__ import annotations

import typer

from board.cli import boards, claims, logs, notes, serving, tokens, watching

app = typer.Typer(
    name="board",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="The shared context board: what a team of agents knows, claims and has finished.\n\n"
    "Client commands find the board by BOARD_URL, BOARD_NAME, BOARD_TOKEN and BOARD_WORKER, or by the options of the "
    "same names. Exit status: 0 done, 1 refused or conflict, 2 usage, 3 the board cannot be reached.",
)

for module in (serving, notes, claims, watching, boards, logs, tokens):
    module.register(app)


def main() -> None:
    """Run the command line, and leave the process with its exit status."""
    app()
