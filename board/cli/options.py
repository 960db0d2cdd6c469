"""Options that more than one command has."""

from typing import Annotated

import typer

from schema.notes import NOTE_TYPES


def upper_types(types: list[str] | None) -> list[str]:
    """Spell types of notes as the board does, however they were typed."""
    return [kind.upper() if kind.upper() in NOTE_TYPES else kind for kind in types or ()]


Seq = Annotated[int, typer.Argument(min=1, metavar="SEQ", help="Seq of the note.")]
ClaimSeq = Annotated[int, typer.Argument(min=1, metavar="SEQ", help="Seq of the claim.")]
Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="SCOPE...", help="Targets: src/a.c, src/**/*.c, src/a.c:10-40, src/a.py::Parser, task:tables."
    ),
]
Scope = Annotated[
    list[str] | None, typer.Option("--scope", "-s", help="Target, such as src/a.c:10-40; may be repeated.")
]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", callback=upper_types, help="Only this type of note, or kind of event; may be repeated."),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at the most.")]
Budget = Annotated[int | None, typer.Option("--budget", min=1, help="How many tokens at the most.")]
After = Annotated[
    int | None, typer.Option(min=0, help="Begin after this seq; without it, with the oldest that is kept.")
]
Before = Annotated[int | None, typer.Option(min=1, help="End before this seq.")]
