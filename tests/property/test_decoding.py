"""A member that is given twice is refused, however the JSON around it is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.service.decoding import read_batch, read_draft
from schema.codes import ProblemError

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20) | st.sampled_from(
    ['"', '\\":', '"a":"b"', "é\u2028"]
)
DRAFTS = st.fixed_dictionaries(
    {"type": st.sampled_from(("OBSERVED", "FACT", "FAIL")), "text": TEXTS},
    optional={
        "scope": st.lists(TEXTS, max_size=3),
        "task": TEXTS,
        "refs": st.lists(st.fixed_dictionaries({"rel": st.just("supports"), "seq": st.integers(0, 9)}), max_size=2),
        "run": st.none() | st.fixed_dictionaries({"command": TEXTS, "exit_code": st.integers(0, 255)}),
        "tags": st.lists(TEXTS, max_size=2),
        "key": TEXTS | st.just(""),
    },
)
STYLES = st.fixed_dictionaries({
    "ensure_ascii": st.booleans(),
    "indent": st.none() | st.integers(0, 2),
    "separators": st.sampled_from(((",", ":"), (", ", ": "), (" , ", " : "))),
})  # fmt: skip


def doubled(draft: dict[str, Any], name: str, style: dict[str, Any], *, escaped: bool) -> str:
    """Write a draft with one of its members twice, the second perhaps with an escape in its name."""
    key = json.dumps(name)
    again = f'"\\u{ord(name[0]):04x}{name[1:]}"' if escaped else key
    body = json.dumps(draft, **style).rstrip()
    comma, colon = style["separators"]
    return f"{body[:-1]}{comma}{again}{colon}{json.dumps(draft[name], **style)}}}"


@given(DRAFTS, STYLES)
def test_what_is_given_once_is_read(draft: dict[str, Any], style: dict[str, Any]) -> None:
    """Any draft is read, alone and in a batch, as the same values."""
    body = json.dumps(draft, **style)
    assert read_batch(f'{{"notes":[{body}]}}'.encode()).notes == (read_draft(body.encode()),)


@given(DRAFTS, STYLES, st.booleans(), st.data())
def test_what_is_given_twice_is_refused(
    draft: dict[str, Any], style: dict[str, Any], escaped: bool, data: st.DataObject
) -> None:
    """A draft with a member too many is refused, alone and in a batch, and the refusal names the member."""
    name = data.draw(st.sampled_from(sorted(draft)))
    body = doubled(draft, name, style, escaped=escaped)
    for read, text in ((read_draft, body), (read_batch, f'{{"notes":[{body}]}}')):
        with pytest.raises(ProblemError) as refusal:
            read(text.encode())
        assert refusal.value.problem.code == "invalid_field"
        assert refusal.value.problem.facts["field"] == name
