"""Counts as people read them: what a report found, and what became of a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.text import Text

from board.cli.durations import span_of
from board.cli.render import clock, plain, table
from schema.notes import NOTE_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workers.replay import Tally
    from workers.report import Report

AUTHORS: Final = 20
"""How many authors are listed; the JSON has them all."""


def report_tables(report: Report) -> RenderableType:
    """Show a report: one table for each question, empty ones left out."""
    begin = f" (what came up to event {report.after} is not in the export)" if report.after else ""
    span = Text(f"{report.events} events from {clock(report.first_at)} to {clock(report.last_at)}{begin}")
    return Group(
        span,
        *_section("Notes by type", ("type", "notes"), report.notes),
        *_authors(report),
        *_section("Claims", ("what became of them", "claims"), _claims(report)),
        *_section("Conflicts", ("how they ended", "conflicts"), _conflicts(report)),
        *_section("Duplicate work averted", ("who was told in time", "times"), report.averted),
        *_section("Busiest scopes", ("target", "notes and claims"), report.busiest),
    )


def tally_report(tally: Tally) -> RenderableType:
    """Show what became of a replay."""
    return Group(
        *_section("Posted", ("type", "notes"), tally.posted),
        *_section("Repeated", ("what the board knew already", "notes"), _if_any("same words", tally.repeated)),
        *_section("Done", ("what", "times"), tally.done),
        *_section("Refused by the board", ("code", "times"), tally.refused),
        *(Text(f"  {plain(refusal)}") for refusal in tally.refusals),
        *_section("Left out", ("why", "times"), tally.left_out),
        *_section("Shortened", ("texts with all of it in detail", "notes"), _if_any("too long", tally.shortened)),
    )


def _section(title: str, columns: tuple[str, str], counts: Mapping[str, object]) -> list[RenderableType]:
    if not counts:
        return []
    rows = [(name, str(count)) for name, count in counts.items()]
    return [Text(f"\n{title}", style="bold"), table(*columns, rows=rows)]


def _authors(report: Report) -> list[RenderableType]:
    shown = list(report.authors.items())[:AUTHORS]
    if not shown:
        return []
    rows = [(name, *(str(counts.get(kind, 0)) for kind in NOTE_TYPES)) for name, counts in shown]
    more = len(report.authors) - len(shown)
    rest = [Text(f"and {more} more: see --json")] if more else []
    return [Text("\nNotes by author", style="bold"), table("author", *NOTE_TYPES, rows=rows), *rest]


def _claims(report: Report) -> dict[str, str]:
    claims, held = report.claims, report.claims.held
    counts = {
        "granted": claims.granted,
        "of these contested": claims.contested,
        "waited": claims.waited,
        "refused": claims.refused,
        "refused for a ring of waiters": claims.deadlocks,
        **{f"released: {how}": count for how, count in claims.outcomes.items()},
        "expired": claims.expired,
        "live at the end": claims.live,
    }
    spans = {"median": held.median_s, "90 % within": held.p90_s, "longest": held.longest_s}
    times = {f"held, {name}": span_of(seconds) for name, seconds in spans.items()} if held.ended else {}
    return {name: str(count) for name, count in counts.items() if count} | times


def _conflicts(report: Report) -> dict[str, int]:
    return _if_any("opened", report.conflicts.opened) | dict(report.conflicts.closed)


def _if_any(name: str, count: int) -> dict[str, int]:
    return {name: count} if count else {}
