"""How a refusal is told: in words on standard error, and as an exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from board.cli.render import conflicts_table, console, now_us, plain
from workers.client.answers import conflicts_of, free_of
from workers.client.refusals import action_of, exit_of

if TYPE_CHECKING:
    from schema.codes import Exit, Problem


def print_refusal(refused: Problem) -> Exit:
    """Print a refusal on standard error, and give the exit status that goes with its code."""
    console(stderr=True).print(refusal(refused, now_us()))
    return exit_of(refused)


def refusal(refused: Problem, now_us: int) -> RenderableType:
    """Say a refusal: its code and sentence, who is in the way, what is free, and what to do."""
    parts: list[RenderableType] = [Text(f"{refused.code}: {plain(refused.detail)}", style="red")]
    conflicts = conflicts_of(refused)
    if conflicts:
        parts.append(conflicts_table(conflicts, now_us))
    free = free_of(refused)
    if free:
        parts.append(Text(f"free: {plain(' '.join(free))}"))
    action = action_of(refused)
    if action:
        parts.append(Text(plain(action)))
    return Group(*parts)
