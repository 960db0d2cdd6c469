"""The prompt view keeps its promises on any log: its budget, its bytes, its place, and its frame."""

from __future__ import annotations

import gzip
import re
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from board.core.levels import BOUNDS
from board.core.tokens import tokens
from schema.events import AnyEvent, Note, PatchSuperseded
from schema.notes import Claim, Fact, Fail, Observed, Ref, Run
from tests.harness.views import at, claim, common_start, conflict, note, released, renewed, view, views
from workers.acts import Act, Release, Say
from workers.trace import read_trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from board.core.snapshot import Snapshot
    from workers.acts import Deed

TRACE = Path(__file__).parents[1] / "data" / "agent-team-trace-sample.jsonl.gz"
SURVIVES = 0.85
"""The share of a view, on the average of the trace, that one more note must leave in its place."""

PLAIN = st.just("some text")
PATHS = ("src/a.c", "src/b.c", "src", "lib/z.c", "src/a.c:1-9")
few = settings(max_examples=60)
"""Each example is a whole log, folded and shown more than once."""

_ROW = re.compile(r"- #\d+ .*")
_OTHER = re.compile(r"|# Board .*|A line that begins .*|## [A-Z][a-z0-9# ]+|Left out.*: .* As of #\d+\.")


@st.composite
def logs(draw: st.DrawFn, texts: st.SearchStrategy[str] = PLAIN, most: int = 60) -> list[AnyEvent]:
    """Logs of notes, claims, releases, conflicts and corrections, as a board would write them."""
    log: list[AnyEvent] = []
    live: dict[str, Note] = {}
    for _ in range(draw(st.integers(0, most))):
        log += draw(_next(len(log) + 1, live, texts))
    return log


@st.composite
def _next(draw: st.DrawFn, seq: int, live: dict[str, Note], texts: st.SearchStrategy[str]) -> list[AnyEvent]:
    worker, path = draw(st.sampled_from(["w1", "w2", "w3"])), draw(st.sampled_from(PATHS))
    match draw(st.integers(0, 9)):
        case 0 if worker not in live:
            others = list(live.values())
            live[worker] = claim(seq, worker, path)
            opened = [conflict(seq + 1, other, live[worker]) for other in others[:1] if other.scope == (path,)]
            return [live[worker], *opened]
        case 1 if worker in live:
            return [renewed(seq, live[worker])]
        case 2 if seq > 1:
            return [PatchSuperseded(seq=seq, at=at(seq), author="w2", note=draw(st.integers(1, seq - 1)), by=seq)]
        case _:
            return [draw(_note(seq, worker, path, texts))]


@st.composite
def _note(draw: st.DrawFn, seq: int, worker: str, path: str, texts: st.SearchStrategy[str]) -> Note:
    refs = [Ref(draw(st.sampled_from(["refutes", "supersedes", "supports"])), draw(st.integers(1, seq)))]
    said: dict[str, Any] = {
        "author": worker,
        "scope": draw(st.sampled_from([(), (path,)])),
        "refs": tuple(refs) if draw(st.integers(0, 5)) == 0 else (),
        "to": ("w1",) if draw(st.integers(0, 8)) == 0 else (),
        "run": Run("make test", draw(st.integers(0, 1))) if draw(st.integers(0, 6)) == 0 else None,
        "text": draw(texts) + f" {seq}",
    }
    return note(seq, draw(st.sampled_from(["FACT", "FAIL", "OBSERVED", "PATCH_SUMMARY"])), **said)


def levels(shown: Snapshot) -> list[str]:
    """The text of each level, and the page's heading: what one more note does not move, unless a bound does."""
    return [one.text if one.name == "level" else one.title for one in shown.sections if one.name in ("level", "page")]


def page(shown: Snapshot) -> tuple[tuple[int, str], ...]:
    return next((one.rows for one in shown.sections if one.name == "page"), ())


@few
@given(logs(st.text(max_size=300)), st.integers(1, 3000))
def test_the_budget_is_never_exceeded(log: list[AnyEvent], budget_tokens: int) -> None:
    """Neither by the board's rule nor by four characters to a token does a view count as more than it may."""
    shown = view(log, budget_tokens=budget_tokens)
    assert tokens(shown.text) <= budget_tokens
    assert len(shown.text) / 4 <= budget_tokens


@few
@given(logs(), st.integers(1, 2000))
def test_the_same_log_gives_the_same_bytes(log: list[AnyEvent], budget_tokens: int) -> None:
    """A view is a function of the log, the reader and the budget."""
    assert view(log, budget_tokens=budget_tokens) == view(list(log), budget_tokens=budget_tokens)


@few
@given(logs(st.text("abc de", max_size=80)), st.text("abc de", max_size=80), st.sampled_from([400, 900, 1500]))
def test_one_more_note_leaves_the_earlier_part_in_its_place(log: list[AnyEvent], text: str, budget_tokens: int) -> None:
    """Levels stay byte for byte and the page only grows, until a bound moves or the page is full."""
    before = view(log, budget_tokens=budget_tokens)
    after = view([*log, note(len(log) + 1, author="w3", text=text)], budget_tokens=budget_tokens)
    if levels(before) == levels(after):
        assert page(after)[: len(page(before))] == page(before)
        assert common_start(before.text, after.text).count("\n- #") >= _rows(before)
    elif (len(log) + 1) % 16 and page(before):
        assert page(before)[0] not in page(after), "the levels moved, though the page did not start anew"


def _rows(shown: Snapshot) -> int:
    return sum(len(one.rows) for one in shown.sections if one.name in ("level", "page"))


@few
@given(logs(), st.integers(1, 2000))
def test_overlapping_claims_are_shown_before_anything_else(log: list[AnyEvent], budget_tokens: int) -> None:
    """A view that shows any note shows every live claim that overlaps the reader's."""
    shown, whole = view(log, budget_tokens=budget_tokens), view(log, budget_tokens=100_000)
    due = {seq for one in whole.sections if one.name == "claims" for seq, row in one.rows if "overlaps yours" in row}
    assert due <= set(shown.claims) or not shown.notes


@few
@given(logs(), st.integers(1, 2000))
def test_every_note_is_shown_or_counted(log: list[AnyEvent], budget_tokens: int) -> None:
    """What a view shows and what it says that it left out are all the notes there are, claims aside."""
    shown = view(log, budget_tokens=budget_tokens)
    seen = {one.seq for one in shown.notes} | {
        side.seq for one in shown.contradictions for side in (one.newer, one.older)
    }
    notes = [one for one in log if isinstance(one, Note) and one.type != "CLAIM"]
    left_out = sum(count for type_, count in shown.omitted.items() if type_.isupper() and type_ != "CLAIM")
    assert len(seen) + left_out == len(notes)


@few
@given(logs(st.text(st.characters(exclude_categories=["Cs"]), max_size=120), most=12))
def test_nothing_that_is_written_leaves_its_line(log: list[AnyEvent]) -> None:
    """Every line of a view is the board's own, or one row about one event."""
    for line in view(log).text.removesuffix("\n").split("\n"):
        assert _ROW.fullmatch(line) or _OTHER.fullmatch(line), line


def team(lines: Sequence[bytes]) -> Iterator[AnyEvent]:
    """Read the trace of a real team as the log of a board; whoever claims what is held gets nothing."""
    seq, held = 0, dict[str, Note]()
    for act in read_trace(lines, text_chars=400):
        if isinstance(act, Act) and (event := _event(seq + 1, act.author, act.deed, held)) is not None:
            seq += 1
            yield event


def _event(seq: int, author: str, deed: Deed, held: dict[str, Note]) -> AnyEvent | None:
    match deed:
        case Release():
            ended = held.pop(deed.claim, None)
            return None if ended is None else released(seq, ended)
        case Say(draft=Claim()) if deed.name not in held:
            held[deed.name] = claim(seq, author, *deed.draft.scope)
            return held[deed.name]
        case Say(draft=Fact() | Fail() | Observed() as draft):
            kind, said = (
                str(draft.__struct_config__.tag),
                {"text": draft.text, "scope": draft.scope, "task": draft.task},
            )
            return note(seq, kind, author=author, **said)
        case _:
            return None


@pytest.mark.parametrize("budget_tokens", [1500, 6000])
def test_most_of_a_view_survives_one_more_event_of_a_real_team(budget_tokens: int) -> None:
    """On the trace of a real team, most of a prompt is still the beginning of the next one, event after event."""
    log = list(team(gzip.decompress(TRACE.read_bytes()).splitlines()))
    texts = [shown.text for shown in views(log, "agent-001", budget_tokens=budget_tokens, bounds=BOUNDS)]
    assert all(tokens(text) <= budget_tokens for text in texts)
    shares = [len(common_start(*pair)) / len(pair[0]) for pair in pairwise(texts)]
    assert fmean(shares) > SURVIVES
