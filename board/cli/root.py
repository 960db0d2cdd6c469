"""The program that all commands belong to."""

from __future__ import annotations

from typing import Final

import typer

app: Final = typer.Typer(
    name="board",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="The shared context board: what a team of agents knows, claims and has finished.\n\n"
    "Client commands find the board by BOARD_URL, BOARD_NAME, BOARD_TOKEN and BOARD_WORKER, or by the options of the "
    "same names.\n\n"
    "Exit status: 0 done, 1 refused or conflict, 2 usage, 3 the board cannot be reached.",
)
