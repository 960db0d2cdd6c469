"""A team's issue list, read as acts on a board."""

from __future__ import annotations

import msgspec
import pytest

from schema.limits import CLAIM_LIFE_S
from schema.notes import Claim, Fact, Fail, Observed
from workers.acts import Act, Release, Say, Unread
from workers.trace import acts_of, is_trace, read_trace, shorten


def read(**event: object) -> list[Act | Unread]:
    """Read one line with these members."""
    line = msgspec.json.encode({"t": 1766812847.5, "issue": "bd-1", "by": "agent-1", **event})
    return list(acts_of(7, line, text_chars=100))


@pytest.mark.parametrize(
    ("event", "draft"),
    [
        ({"event": "created", "title": "Move it", "type": "task"}, Observed(text="Move it", tags=("task",))),
        ({"event": "claimed"}, Claim(text="work on bd-1", scope=("task:bd-1",), ttl_s=CLAIM_LIFE_S)),
        ({"event": "hooked", "reason": "mine"}, Claim(text="mine", scope=("task:bd-1",), ttl_s=CLAIM_LIFE_S)),
        ({"event": "comment", "text": "it is so"}, Fact(text="it is so")),
        ({"event": "reopened"}, Fail(text="bd-1 was reopened")),
        ({"event": "blocked", "reason": "no disk"}, Fail(text="no disk")),
        ({"event": "deferred"}, Observed(text="bd-1 was deferred")),
        ({"event": "created", "title": "  "}, Observed(text="bd-1 was created")),
    ],
)
def test_each_event_says_one_note(event: dict[str, object], draft: Observed | Fact | Fail | Claim) -> None:
    """Every event becomes the note that its author would have written, about the issue."""
    (act,) = read(**event)
    assert isinstance(act, Act)
    assert (act.line, act.at_s, act.author) == (7, 1766812847.5, "agent-1")
    assert isinstance(act.deed, Say)
    assert act.deed.draft == msgspec.structs.replace(draft, scope=("task:bd-1",), task="bd-1")


def test_a_dependency_is_about_both() -> None:
    """A dependency is a fact with both issues as its scope."""
    (act,) = read(event="depends", on="bd-2", rel="blocks")
    assert isinstance(act, Act)
    assert isinstance(act.deed, Say)
    assert act.deed.draft == Fact(text="bd-1 blocks bd-2", scope=("task:bd-1", "task:bd-2"), task="bd-1")


def test_closing_releases_and_says_why() -> None:
    """Closing ends the claim that was made on the issue, and tells the reason."""
    release, say = read(event="closed", reason="done at last")
    assert isinstance(release, Act)
    assert isinstance(say, Act)
    assert release.deed == Release(claim="task:bd-1")
    assert isinstance(say.deed, Say)
    assert say.deed.draft == Fact(text="done at last", scope=("task:bd-1",), task="bd-1")


def test_only_claims_have_a_name() -> None:
    """A release finds the claim by the issue, and no other note of it."""
    names = [act.deed.name for event in ("created", "claimed") for act in read(event=event) if isinstance(act, Act)]
    assert names == ["", "task:bd-1"]


@pytest.mark.parametrize("line", [b'{"t": 1, "event": "danced", "issue": "x"}', b"{", b'{"t": "late"}'])
def test_what_has_no_reading_is_told(line: bytes) -> None:
    """A line that stands for no act is given as such, with the reason, and not left out."""
    (unread,) = acts_of(3, line, text_chars=100)
    assert isinstance(unread, Unread)
    assert unread.line == 3
    assert unread.reason


def test_a_long_text_goes_into_detail() -> None:
    """A text over the limit is said by its beginning, which says so, with all of it in `detail`."""
    text = "## Audit\n\nThe race affects more methods than were found at first. Here they are: " + "x " * 200
    (act,) = read(event="comment", text=text)
    assert isinstance(act, Act)
    assert isinstance(act.deed, Say)
    assert act.deed.shortened
    draft = act.deed.draft
    assert isinstance(draft, Fact)
    assert draft.detail == text.strip()
    assert len(draft.text) <= 100
    assert draft.text.endswith("… (all of it in detail)")


@pytest.mark.parametrize(
    ("text", "said", "detail"),
    [
        ("short", "short", ""),
        ("x" * 60, "x" * 60, ""),
        ("One sentence. " + "y" * 60, "One sentence. … (all of it in detail)", "One sentence. " + "y" * 60),
        ("words " * 20, "words words words words words words … (all of it in detail)", "words " * 20),
        ("z" * 200, "z" * 36 + " … (all of it in detail)", "z" * 200),
    ],
)
def test_shortening_ends_at_a_sentence_or_a_word(text: str, said: str, detail: str) -> None:
    """What is said ends with a sentence where one fits, else with a word where there is one."""
    assert shorten(text, 60) == (said, detail)


def test_a_file_is_read_in_order() -> None:
    """Lines are numbered from 1, and empty ones are nothing."""
    lines = [
        b'{"t": 1, "event": "created", "issue": "a", "title": "A"}',
        b"",
        b'{"t": 2, "event": "claimed", "issue": "a"}',
    ]
    acts = list(read_trace(lines, text_chars=100))
    assert [act.line for act in acts] == [1, 3]
    assert is_trace(lines[0])
    assert not is_trace(b'{"board": "main"}')


def test_whoever_is_not_named_is_nobody() -> None:
    """An event without an author is nobody's."""
    (act,) = acts_of(1, b'{"t": 1, "event": "created", "issue": "a", "title": "A"}', text_chars=100)
    assert isinstance(act, Act)
    assert act.author == "anonymous"
