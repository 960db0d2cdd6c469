"""The prompt view: what it shows, in which order, and what it says of what it does not show."""

from __future__ import annotations

import pytest

from board.core.snapshot import changes_of
from board.core.spelling import spell
from schema.events import AnyEvent, NoteRetracted, PatchInvalidated, PatchSuperseded
from schema.notes import Ref, Run
from tests.harness.views import at, claim, conflict, note, released, view


def section(text: str, title: str) -> list[str]:
    """The lines below one heading."""
    _, _, rest = text.partition(f"\n## {title}\n")
    return rest.partition("\n\n")[0].splitlines()


def many(count: int, type: str = "FACT", first: int = 1, **said: str) -> list[AnyEvent]:
    return [note(seq, type, **said) for seq in range(first, first + count)]


def test_an_empty_board_says_so() -> None:
    """Without a note the view is its heading and an honest count."""
    shown = view([])
    assert shown.text.startswith("# Board main for w1\n")
    assert shown.text.endswith("Left out: nothing. As of #0.\n")
    assert shown.sections == ()


def test_a_small_board_is_shown_whole_and_in_order() -> None:
    """While everything fits, every note stands on the page, in the order of the log."""
    shown = view([note(1), note(2, "FAIL"), note(3, "OBSERVED")])
    assert [one.seq for one in shown.notes] == [1, 2, 3]
    assert section(shown.text, "Since #0") == [
        '- #1 FACT w2: "text of 1"',
        '- #2 FAIL w2: "text of 2"',
        '- #3 OBSERVED w2: "text of 3"',
    ]
    assert shown.omitted == {}


def test_no_type_starves() -> None:
    """Of a thousand notes of one type and a few of the others, the older ones of the others are still shown."""
    log = [note(1, "PATCH_SUMMARY", files=("a.c",), idea="i", evidence="ran it", text=""), note(2, "FAIL"), note(3)]
    shown = view([*log, *many(61, "OBSERVED", 4)], budget_tokens=600)
    assert {1, 2, 3} <= {one.seq for one in shown.notes}


def test_what_is_said_to_the_reader_and_near_it_comes_first() -> None:
    """A level chooses what is addressed to the reader, what touches its claims, and what failed near them."""
    log = [
        claim(1, "w1", "src/a.c"),
        note(2, to=("w1",)),
        note(3, scope=("src/a.c:9",)),
        note(4, "FAIL", scope=("src/b.c",)),
        note(5, scope=("lib/z.c",)),
    ]
    shown = view([*log, *many(59, first=6)], budget_tokens=500)
    assert {2, 3, 4} <= {one.seq for one in shown.notes}
    assert 5 not in {one.seq for one in shown.notes}


def test_what_is_out_of_date_is_gone_or_corrected_below() -> None:
    """Superseded notes leave a level with its next bound; those that stand on the page are corrected below it."""
    patches = [note(seq, "PATCH_SUMMARY", files=("a.c",), idea=f"idea {seq}", text="") for seq in (1, 2)]
    log = [*patches, PatchSuperseded(seq=3, at=at(3), author="w2", note=1, by=2)]
    assert section(view(log).text, "Changed since") == ["- #1 superseded by #2"]
    later = view([*log, *many(61, first=4)])
    assert "idea 1" not in later.text
    assert "idea 2" in later.text
    assert later.corrections == ()


def test_a_retracted_note_is_gone_at_once() -> None:
    """What was taken back is not shown, neither where it stood nor as a correction."""
    shown = view([note(1), note(2), NoteRetracted(seq=3, at=at(3), author="w2", note=1)])
    assert "text of 1" not in shown.text
    assert [one.seq for one in shown.notes] == [2]


@pytest.mark.parametrize(
    ("later", "line"),
    [
        (note(2, "FAIL", refs=(Ref("refutes", 1),)), "- #1 refuted by #2"),
        (note(2, refs=(Ref("supersedes", 1),)), "- #1 superseded by #2"),
        (PatchInvalidated(seq=2, at=at(2), author="board", note=1, by=9), "- #1 invalidated by #9"),
    ],
)
def test_a_correction_names_what_it_corrects_and_by_what(later: AnyEvent, line: str) -> None:
    """Each kind of correction is one short line at the end, with both seqs."""
    assert section(view([note(1), later]).text, "Changed since") == [line]


def test_the_last_word_counts() -> None:
    """A note that was corrected twice is told of once, with the newest correction."""
    changes = changes_of([note(5, refs=(Ref("refutes", 1),)), note(3, refs=(Ref("supersedes", 1),))], ())
    assert [(one.how, one.by) for one in changes[1]] == [("superseded", 3), ("refuted", 5)]


def test_contradictions_stand_side_by_side_the_newer_first() -> None:
    """Opposite results and refutations are shown with both notes; neither is merged into the other."""
    log: list[AnyEvent] = [note(1, run=Run("make test", 0), text="passes"), *many(80, first=2)]
    log += [note(82, run=Run("make test", 1), text="breaks"), note(83, "FAIL", refs=(Ref("refutes", 82),))]
    shown = view(log, budget_tokens=900)
    lines = section(shown.text, "Contradictions")
    assert lines[0] == "- #83 refutes #82"
    assert lines[1] == '- #82 exit 1, #1 exit 0: both ran "make test"'
    assert [(one.newer.seq, one.older.seq) for one in shown.contradictions] == [(83, 82), (82, 1)]
    assert "passes" in shown.text
    assert "breaks" in shown.text


def test_live_claims_say_whose_they_are() -> None:
    """Claims that overlap the reader's come first, then its own, then the others; a conflict is named in both."""
    mine, other, far = claim(1, "w1", "src/a.c"), claim(2, "w2", "src"), claim(3, "w3", "lib")
    shown = view([mine, other, far, conflict(4, mine, other)])
    lines = section(shown.text, "Live claims")
    assert lines[0].startswith("- #2 w2 [src] contested #4 overlaps yours until ")
    assert lines[1].startswith("- #1 w1 [src/a.c] contested #4 yours until ")
    assert lines[2].startswith("- #3 w3 [lib] until ")
    assert section(shown.text, "Open conflicts") == ["- #4 claims #1 of w1 and #2 of w2 [src/a.c]"]
    assert (shown.claims, shown.conflicts) == ((2, 1, 3), (4,))


def test_ended_claims_are_not_shown() -> None:
    """A claim that was released is no live claim, and no note of the view either."""
    mine = claim(1, "w2", "src/a.c")
    assert view([mine, released(2, mine)]).claims == ()


def overlapping(count: int) -> list[AnyEvent]:
    mine = claim(1, "w1", "src")
    return [mine, *(claim(seq, f"w{seq}", f"src/f{seq}.c") for seq in range(2, count + 2)), *many(200, first=count + 2)]


@pytest.mark.parametrize("budget_tokens", [250, 300, 400, 700, 1500])
def test_claims_that_overlap_the_readers_are_never_evicted(budget_tokens: int) -> None:
    """However small the budget, the overlapping claims are all there as long as they fit; notes give way to them."""
    shown = view(overlapping(8), budget_tokens=budget_tokens)
    assert set(range(2, 10)) <= set(shown.claims)
    assert shown.tokens <= budget_tokens


def test_a_budget_for_nothing_is_not_exceeded() -> None:
    """Where not even the overlapping claims fit, as many as fit are shown, and the rest is counted."""
    shown = view(overlapping(8), budget_tokens=60)
    assert shown.tokens <= 60
    assert shown.claims
    assert shown.omitted["CLAIM"] == 9 - len(shown.claims)
    assert view(overlapping(8), budget_tokens=1).text == ""


def test_what_was_left_out_is_counted_by_type() -> None:
    """Every note is either shown or counted under its type, in words and as values."""
    log = [*many(150, "OBSERVED"), *many(50, "FAIL", first=151)]
    shown = view(log)
    by_type = {type_: sum(one.type == type_ for one in shown.notes) for type_ in ("FAIL", "OBSERVED")}
    assert shown.omitted == {"FAIL": 50 - by_type["FAIL"], "OBSERVED": 150 - by_type["OBSERVED"]}
    counted = ", ".join(f"{type_} {count}" for type_, count in shown.omitted.items())
    assert shown.text.endswith(f"\nLeft out: {counted}. As of #200.\n")


def test_what_touches_a_new_claim_is_shown_at_the_end() -> None:
    """Notes about a scope that the reader has just claimed come below, where they do not move what stands above."""
    old = [note(1, scope=("src/new.c",), text="what to know of it"), *many(90, first=2)]
    before = view(old, budget_tokens=700)
    assert "what to know of it" not in before.text
    after = view([*old, claim(92, "w1", "src/new.c")], budget_tokens=700)
    assert section(after.text, "For you") == ['- #1 FACT w2 [src/new.c]: "what to know of it"']


def test_a_scope_is_the_readers_interest() -> None:
    """Where a scope was asked for, claims that overlap it come first, whoever holds them, and no other is shown."""
    log = [claim(1, "w2", "src/a.c"), claim(2, "w3", "lib"), note(3, scope=("src/a.c",))]
    shown = view(log, scope=(spell("src"),))
    assert shown.claims == (1,)
    assert shown.omitted == {"CLAIM": 1}
