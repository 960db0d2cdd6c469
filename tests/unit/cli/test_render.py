"""What people see: nothing in a note steers the terminal, and nothing that is copied is cut."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from board.cli.counts import report_tables, tally_report
from board.cli.durations import seconds_of, span_of
from board.cli.refusing import refusal
from board.cli.render import (
    check_report,
    claimed,
    claims_table,
    event_line,
    left_of,
    plain,
    plain_block,
)
from schema.codec import decode_event, us_of_text
from schema.codes import problem
from schema.events import Note
from tests.unit.workers.exports import Log
from workers.client.answers import Check, ClaimReply, ClaimView, Conflict, Posted
from workers.replay import Tally
from workers.report import report_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from schema.events import AnyEvent

NOW_US = us_of_text("2026-12-01T10:00:00Z")
LONG = "src/" + "a" * 300 + ".c:10-40"
CONFLICT = Conflict(
    claim=7, holder="w2", text="mine", overlap=(LONG,), expires_at="2026-12-01T10:05:00.000000Z", possible=True
)


def shown(what: RenderableType, width: int = 80) -> str:
    """Print as on a terminal of this width, without colours."""
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, soft_wrap=True, markup=False).print(what)
    return out.getvalue()


def event(kind: str, **fields: object) -> AnyEvent:
    """Make an event."""
    log = Log()
    log.add(kind, **fields)
    return decode_event(log.lines[0])


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("plain – ünïcode 漢字", "plain – ünïcode 漢字"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("two\nlines\tand\rmore", "two\\nlines\\tand\\rmore"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("\x9b31m", "\\x9b31m"),
    ],
)
def test_nothing_in_a_text_steers_the_terminal(text: str, printed: str) -> None:
    """What does not print is shown as an escape."""
    assert plain(text) == printed


def test_a_block_keeps_its_lines() -> None:
    """In a long text line ends and tabs stay, and the rest is escaped."""
    assert plain_block("a\n\tb\x1b[0m") == "a\n\tb\\x1b[0m"


@pytest.mark.parametrize(
    ("made", "parts"),
    [
        (
            event("note", type="FACT", text="it is [bold]so[/bold]", scope=[LONG], detail_bytes=9, to=["w3"]),
            ["     1  2026-12-01T10:00:01Z  FACT", "w1", "it is [bold]so[/bold]", LONG, "to w3", "board unfold 1"],
        ),
        (
            event(
                "note", type="PATCH_SUMMARY", idea="one pass", evidence="ran", risk="none", files=["a.c"], stale=True
            ),
            ["one pass", "evidence: ran", "risk: none", "[a.c]", "stale"],
        ),
        (
            event("claim.released", claim=3, holder="w1", outcome="done", text="ok"),
            ["claim.released", "3 of w1: done - ok"],
        ),
        (event("claim.transferred", claim=3, holder="w2", **{"from": "w1"}), ["3 from w1 to w2"]),
        (event("claim.granted", claim=3, holder="w2", expires_at="2026-12-01T10:05:00Z"), ["3 of w2 until 2026-12-01"]),
        (
            event("claim.queued", claim=3, holder="w2", blockers=[{"claim": 1, "holder": "w1", "overlap": ["a"]}]),
            ["3 of w2 waits for 1 of w1"],
        ),
        (
            event("claim.refused", claim=3, holder="w2", text="me too", scope=["a.c"], blockers=[]),
            ["me too (claim_conflict: 3 of w2)", "[a.c]"],
        ),
        (
            event("conflict.closed", claims=[1, 2], holders=["w1", "w2"], overlap=["a"], conflict=3, how="expired"),
            ["1 of w1 and 2 of w2 ended: expired", "[a]"],
        ),
        (event("note.retracted", note=3, reason="wrong"), ["3: wrong"]),
        (event("patch.superseded", note=3, by=4), ["3 by 4"]),
    ],
)
def test_every_event_is_one_whole_line(made: AnyEvent, parts: list[str]) -> None:
    """Seq, time, what, who, text and scope stand on one line, however narrow the terminal and long the scope."""
    line = shown(event_line(made), width=40)
    assert line.count("\n") == 1
    for part in parts:
        assert part in line


def test_claims_show_who_holds_what_for_how_long() -> None:
    """A table of claims has a row each; scopes and seqs are whole on a narrow terminal."""
    claims = [
        ClaimView(
            claim=123456,
            holder="worker-0007",
            text="rewrite",
            scope=(LONG,),
            state="contested",
            at="2026-12-01T09:59:00.000000Z",
            expires_at="2026-12-01T11:05:00.000000Z",
            conflicts=(7,),
        )
    ]
    table = shown(claims_table(claims, NOW_US), width=60)
    for part in ("123456", "worker-0007", "contested", "1 h 5 min", "7", LONG):
        assert part in table
    assert "no claims" in shown(claims_table([], NOW_US))


def test_a_refused_claim_says_who_what_until_when_and_what_is_free() -> None:
    """A conflict is told with a table, the free targets, and what to do."""
    refused = problem(
        "claim_conflict", "w2 holds it", conflicts=[{"claim": 7, "holder": "w2", "overlap": [LONG]}], free=["b.c"]
    )
    told = shown(refusal(refused, NOW_US))
    for part in ("claim_conflict: w2 holds it", "w2", LONG, "free: b.c", "on_conflict"):
        assert part in told


def test_a_claim_that_was_made_says_what_is_known() -> None:
    """The answer to a claim shows its state, its end, whom it meets, and the related notes."""
    note = event("note", type="FAIL", text="does not help")
    assert isinstance(note, Note)
    reply = ClaimReply(state="contested", expires_at="2026-12-01T10:10:00.000000Z", conflicts=(CONFLICT,))
    told = shown(claimed(Posted(seq=60, at="", note=note, claim=reply, related=(note,)), NOW_US))
    for part in ("60 contested until 2026-12-01T10:10:00Z (10 min)", LONG, "(possibly)", "does not help"):
        assert part in told


def test_a_check_says_what_is_free() -> None:
    """A check shows who is in the way and what is free, or that nothing is."""
    told = shown(check_report(Check(conflicts=(CONFLICT,)), NOW_US))
    assert "w2" in told
    assert "free: nothing" in told
    assert "free: a.c" in shown(check_report(Check(free=("a.c",)), NOW_US))


@pytest.mark.parametrize(
    ("text", "seconds"), [("45", 45), ("45s", 45), ("10m", 600), ("6h", 21_600), ("30d", 2_592_000), ("2w", 1_209_600)]
)
def test_spans_are_read(text: str, seconds: int) -> None:
    """A number with a unit is a span; without one it is seconds."""
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1d", "1.5h", "3y", "d"])
def test_other_spans_are_refused(text: str) -> None:
    """What is no span is named, with what one looks like."""
    with pytest.raises(ValueError, match="30d"):
        seconds_of(text)


@pytest.mark.parametrize(("seconds", "said"), [(0, "0 s"), (-5, "0 s"), (59.6, "1 min"), (3905, "1 h 5 min")])
def test_spans_are_said_in_two_units(seconds: float, said: str) -> None:
    """A span is told in its two largest units."""
    assert span_of(seconds) == said


def test_a_lease_without_an_end_has_nothing_left() -> None:
    """A claim that waits has no end yet."""
    assert left_of("", NOW_US) == "-"


def test_a_report_leaves_out_empty_tables() -> None:
    """Only questions that have an answer are shown."""
    log = Log()
    log.note("FACT", scope=[LONG])
    told = shown(report_tables(report_of(log.export())))
    assert LONG in told
    assert "Conflicts" not in told


def test_a_replay_tells_what_was_not_done() -> None:
    """Refusals, what was left out and what was shortened are all told."""
    tally = Tally(shortened=3, refusals=["line 2, w1: over_limit: too long"])
    tally.refused["over_limit"] = 1
    tally.left_out["no reading"] = 2
    told = shown(tally_report(tally))
    for part in ("over_limit", "line 2, w1", "no reading", "Shortened"):
        assert part in told
