"""What a report counts."""

from __future__ import annotations

import pytest

from tests.unit.workers.exports import Log
from workers.exported import NotAnExport
from workers.report import Claims, Conflicts, HoldTimes, hold_times, report_of


def test_counts_notes_by_type_and_author() -> None:
    """Notes are counted by type and, for each author, by type; the largest count comes first."""
    log = Log()
    for type_, author in (("FACT", "w1"), ("FAIL", "w2"), ("FACT", "w2"), ("FACT", "w2")):
        log.note(type_, author)
    report = report_of(log.export())
    assert report.events == 4
    assert list(report.notes.items()) == [("FACT", 3), ("FAIL", 1)]
    assert list(report.authors.items()) == [("w2", {"FACT": 2, "FAIL": 1}), ("w1", {"FACT": 1})]


def test_counts_what_became_of_claims() -> None:
    """A claim is granted when it is held at once or after a wait; it ends by release or expiry, or lives on."""
    log = Log()
    held = log.note("CLAIM", scope=["a"], state="held")
    contested = log.note("CLAIM", "w2", scope=["a"], state="contested")
    waiting = log.note("CLAIM", "w3", scope=["a"], state="waiting")
    log.add("claim.released", claim=held, holder="w1", outcome="done")
    log.add("claim.expired", "board", claim=contested, holder="w2", expires_at="2026-12-01T10:00:00Z")
    log.add("claim.granted", "board", claim=waiting, holder="w3", expires_at="2026-12-01T10:00:00Z")
    report = report_of(log.export())
    held_for = HoldTimes(ended=2, median_s=3.0, p90_s=3.0, longest_s=3.0)
    assert report.claims == Claims(
        granted=3, contested=1, waited=1, expired=1, live=1, outcomes={"done": 1}, held=held_for
    )


def test_counts_averted_duplicate_work() -> None:
    """A refused claim is averted work of who asked; a ring of waiters is another matter."""
    log = Log()
    refusal = {"claim": 1, "holder": "w1", "text": "too", "scope": ["a"], "blockers": []}
    log.add("claim.refused", "w2", **refusal)
    log.add("claim.refused", "w2", **refusal, reason="would_deadlock")
    report = report_of(log.export())
    assert report.averted == {"w2": 1}
    assert (report.claims.refused, report.claims.deadlocks) == (1, 1)


def test_counts_conflicts_by_their_end() -> None:
    """Conflicts are counted when they open, and by how they close."""
    log = Log()
    pair = {"claims": [1, 2], "holders": ["w1", "w2"], "overlap": ["a"]}
    opened = [log.add("conflict.opened", "board", **pair) for _ in range(2)]
    log.add("conflict.closed", "board", **pair, conflict=opened[0], how="released")
    assert report_of(log.export()).conflicts == Conflicts(opened=2, closed={"released": 1})


def test_lists_the_busiest_scopes() -> None:
    """A target counts once for each note, claim or refusal that names it, as scope or as file."""
    log = Log()
    log.note("FACT", scope=["a", "b"])
    log.note("PATCH_SUMMARY", files=["a"], scope=["a"], idea="i", evidence="e")
    assert report_of(log.export()).busiest == {"a": 2, "b": 1}


def test_an_unknown_kind_is_counted_and_no_more() -> None:
    """A kind of a newer board appears among the kinds."""
    log = Log()
    log.add("note.translated", note=1)
    assert report_of(log.export()).kinds == {"note.translated": 1}


@pytest.mark.parametrize(
    ("lines", "line"), [([], None), ([b"{}"], 1), ([b'{"board":"m","epoch":"e","head":1}', b"half a li"], 2)]
)
def test_what_is_no_export_is_named(lines: list[bytes], line: int | None) -> None:
    """A line that cannot be read is named by its number; no lines at all are no events."""
    if line is None:
        assert report_of(lines).events == 0
        return
    with pytest.raises(NotAnExport) as refused:
        report_of(lines)
    assert refused.value.line == line


def test_the_spread_of_no_hold_times_is_nothing() -> None:
    """Without an ended claim every figure is zero."""
    assert hold_times([]) == HoldTimes()
    assert hold_times([5_000_000]) == HoldTimes(ended=1, median_s=5.0, p90_s=5.0, longest_s=5.0)
