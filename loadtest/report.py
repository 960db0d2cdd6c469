"""Figures for people, as a table, and for programs, as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MIB: Final = 1024 * 1024
NOTHING: Final = "–"

Cell = str | float | None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One table: columns carry their unit in their name."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def show(figures: Figures) -> None:
    """Print a table on standard output."""
    table = Table(title=figures.title, title_justify="left", title_style="bold")
    for index, column in enumerate(figures.columns):
        table.add_column(column, justify="right" if index else "left")
    for row in figures.rows:
        table.add_row(*map(cell, row))
    Console(width=None if Console().is_terminal else 180).print(table)


def cell(value: Cell) -> str:
    """Write a figure with three or four digits that count; a dash where there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NOTHING
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def verdict(value: float, target: float, *, at_least: bool) -> str:
    """Say a target, and whether a figure reaches it."""
    reached = value >= target if at_least else value <= target
    return f"{'≥' if at_least else '≤'} {target:,g} {'met' if reached else 'MISSED'}"


def save(path: Path | None, results: Sequence[msgspec.Struct]) -> None:
    """Write results as a JSON list, where a path is given. Not-a-number becomes null."""
    if path is not None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
