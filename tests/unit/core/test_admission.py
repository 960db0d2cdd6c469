"""What a board admits: every limit at its value and one above, and what is refused whatever its size."""

from __future__ import annotations

from typing import Any

import pytest

from board.core.admission import admit, check_ttl, check_worker_name, is_placeholder
from schema.codes import Problem
from schema.limits import PROFILES, Settings
from schema.notes import Claim, Draft, Fact, PatchSummary, Ref, Run

SETTINGS = Settings(
    text_chars=10,
    detail_bytes=8,
    targets=2,
    target_chars=6,
    files=2,
    refs=2,
    tags=2,
    tag_chars=3,
    recipients=2,
    name_chars=4,
    ttl_s_min=5,
    ttl_s_max=60,
)


def fact(**fields: Any) -> Fact:
    return Fact(**{"text": "x", **fields})


def patch(**fields: Any) -> PatchSummary:
    return PatchSummary(**{"files": ("a",), "idea": "x", "evidence": "ran it", **fields})


def claim(**fields: Any) -> Claim:
    return Claim(**{"text": "x", "scope": ("a",), **fields})


AT_AND_OVER = [
    ("text", fact(text="é" * 10), fact(text="é" * 11), 10, 11, "characters"),
    ("evidence", fact(evidence="e" * 10), fact(evidence="e" * 11), 10, 11, "characters"),
    ("idea", patch(idea="i" * 10), patch(idea="i" * 11), 10, 11, "characters"),
    ("risk", patch(risk="r" * 10), patch(risk="r" * 11), 10, 11, "characters"),
    ("run.command", fact(run=Run("r" * 10, 0)), fact(run=Run("r" * 11, 0)), 10, 11, "characters"),
    ("detail", fact(detail="é" * 4), fact(detail="é" * 4 + "x"), 8, 9, "bytes"),
    ("scope", fact(scope=("a", "b")), fact(scope=("a", "b", "c")), 2, 3, "targets"),
    ("files", patch(files=("a", "b")), patch(files=("a", "b", "c")), 2, 3, "files"),
    ("refs", fact(refs=(Ref("answers", 1),) * 2), fact(refs=(Ref("answers", 1),) * 3), 2, 3, "refs"),
    ("tags", fact(tags=("a", "b")), fact(tags=("a", "b", "c")), 2, 3, "tags"),
    ("tags", fact(tags=("aaa",)), fact(tags=("aaaa",)), 3, 4, "characters"),
    ("to", fact(to=("a", "b")), fact(to=("a", "b", "c")), 2, 3, "workers"),
    ("task", fact(task="t" * 4), fact(task="t" * 5), 4, 5, "characters"),
    ("commit", fact(commit="t" * 4), fact(commit="t" * 5), 4, 5, "characters"),
    ("pr", fact(pr="t" * 4), fact(pr="t" * 5), 4, 5, "characters"),
    ("key", fact(key="t" * 4), fact(key="t" * 5), 4, 5, "characters"),
    ("work", patch(work="t" * 4), patch(work="t" * 5), 4, 5, "characters"),
    ("ttl_s", claim(ttl_s=60), claim(ttl_s=61), 60, 61, "seconds"),
]


@pytest.mark.parametrize(("field", "at", "over", "limit", "value", "unit"), AT_AND_OVER)
def test_a_limit_admits_its_value_and_refuses_one_more(
    field: str, at: Draft, over: Draft, limit: int, value: int, unit: str
) -> None:
    """At the limit a draft is admitted; one above it is refused, naming field, value, limit and unit."""
    assert not isinstance(admit(at, SETTINGS, None), Problem)
    refused = admit(over, SETTINGS, None)
    assert isinstance(refused, Problem)
    assert refused.code == "over_limit"
    assert {name: refused.facts[name] for name in ("field", "limit", "value", "unit")} == {
        "field": field,
        "limit": limit,
        "value": value,
        "unit": unit,
    }


def test_a_draft_at_every_limit_is_admitted() -> None:
    """All limits may be reached at once."""
    draft = patch(
        files=("aaaaaa", "bbbbbb"), idea="i" * 10, evidence="e" * 10, risk="r" * 10, work="wwww", task="tttt", key="kkkk",
        scope=("cccccc", "dddddd"), tags=("aaa", "bbb"), detail="d" * 8, refs=(Ref("answers", 1),) * 2, to=("a", "b"),
    )  # fmt: skip
    admitted = admit(draft, SETTINGS, None)
    assert not isinstance(admitted, Problem)
    assert admitted.scope.texts == ("cccccc", "dddddd")
    assert admitted.files.texts == ("aaaaaa", "bbbbbb")


REFUSED = [
    ("invalid_field", "text", fact(text="")),
    ("invalid_field", "text", fact(text=" \n")),
    ("invalid_field", "text", fact(text="a\0b")),
    ("invalid_field", "idea", patch(idea=" ")),
    ("invalid_field", "evidence", patch(evidence="")),
    ("invalid_field", "detail", fact(detail="a\0b")),
    ("invalid_field", "task", fact(task="a\nb")),
    ("invalid_field", "tags", fact(tags=("a\u2028",))),
    ("invalid_field", "key", fact(key="\x7f")),
    ("invalid_field", "scope", claim(scope=())),
    ("invalid_field", "files", patch(files=())),
    ("over_limit", "ttl_s", claim(ttl_s=4)),
    ("over_limit", "ttl_s", claim(ttl_s=0)),
    ("over_limit", "ttl_s", claim(ttl_s=-1)),
    ("bad_target", "scope", fact(scope=("",))),
    ("bad_target", "scope", claim(scope=("a", "../b"))),
    ("bad_target", "scope", fact(scope=("abcdefg",))),
    ("bad_target", "files", patch(files=("/x",))),
    ("placeholder_evidence", "evidence", patch(evidence="TBD.")),
]


@pytest.mark.parametrize(("code", "field", "draft"), REFUSED)
def test_what_is_refused_names_its_field(code: str, field: str, draft: Draft) -> None:
    """Empty texts, control characters, targets that cannot be spelt and placeholders are refused by name."""
    refused = admit(draft, SETTINGS, None)
    assert isinstance(refused, Problem)
    assert (refused.code, refused.facts["field"]) == (code, field)


def test_a_risk_may_be_empty() -> None:
    """Of a patch's texts only the risk may be left out."""
    assert not isinstance(admit(patch(risk=""), SETTINGS, None), Problem)


@pytest.mark.parametrize(("chars", "admitted"), [(100, True), (101, False)])
def test_the_small_profile_bounds_a_patch_as_a_whole(chars: int, admitted: bool) -> None:
    """In the profile `agensh` a text has 100 characters, and the fields of a patch 300 together."""
    settings = PROFILES["agensh"]
    assert isinstance(admit(fact(text="x" * chars), settings, None), Problem) != admitted
    whole = patch(idea="i" * 100, evidence="e" * 100, risk="r" * chars)
    assert isinstance(admit(whole, settings, None), Problem) != admitted


def test_the_fields_of_a_patch_are_counted_together() -> None:
    """Where a board bounds the whole of a patch, three short fields may be too long."""
    settings = Settings(text_chars=10, patch_chars=20)
    assert not isinstance(admit(patch(idea="i" * 7, evidence="e" * 7, risk="r" * 6), settings, None), Problem)
    refused = admit(patch(idea="i" * 7, evidence="e" * 7, risk="r" * 7), settings, None)
    assert isinstance(refused, Problem)
    assert (refused.facts["limit"], refused.facts["value"]) == (20, 21)


def test_targets_are_spelt_and_roots_are_stripped() -> None:
    """What is stored is the one spelling of each target."""
    admitted = admit(fact(scope=("/srv/app/src//a.py", "./b/")), Settings(), "/srv/app")
    assert not isinstance(admitted, Problem)
    assert admitted.scope.texts == ("src/a.py", "b")


@pytest.mark.parametrize("ttl_s", [5, 60])
def test_a_lease_may_be_as_long_as_both_bounds(ttl_s: int) -> None:
    """Both bounds of a lease are inclusive."""
    assert check_ttl(ttl_s, SETTINGS) is None


@pytest.mark.parametrize("name", ["w1", "worker-0007", "a", "A.b_c@d-e", "x" * 64, "boarder", "9"])
def test_a_workers_name(name: str) -> None:
    """Letters, digits and four marks name a worker, up to 64 characters."""
    assert check_worker_name(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-a",
        ".a",
        "a b",
        "a/b",
        "x" * 65,
        "wörker",
        "board",
        "Board",
        "b0ard",
        "bo-ard",
        "b.o.a.r.d",
        "bo@rd",
        "w1\n",
    ],
)
def test_what_is_no_workers_name(name: str) -> None:
    """What does not fit the pattern, and what looks like the board's own name, is reserved."""
    refused = check_worker_name(name)
    assert refused is not None
    assert refused.code == "reserved_name"


@pytest.mark.parametrize(
    "text",
    ["tbd", "T.B.D. later".replace(".", ""), "Pending!", "should work", "It should pass now", "n/a", "…", "LGTM"],
)
def test_a_placeholder_is_no_evidence(text: str) -> None:
    """Words that stand where evidence should are told apart without case and punctuation."""
    assert is_placeholder(text)


@pytest.mark.parametrize(
    "text",
    [
        "ran tests/tables.sh, 14 of 14 pass",
        "pending requests drop from 9 to 0 in the trace",
        "none of the 12 tests fail",
    ],
)
def test_evidence_is_no_placeholder(text: str) -> None:
    """A sentence that begins like a placeholder and says what was seen is evidence."""
    assert not is_placeholder(text)
