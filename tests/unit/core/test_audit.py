"""What the audit of a log finds: nothing in what the board wrote, and every kind of damage where it is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from board.core.audit import Columns, Entry, Finding, LogAudit, beginning
from board.core.commands import Asker, Post
from board.core.decide import Present
from board.core.fold import record_of, replay
from board.core.history import Found
from board.core.state import State
from board.core.step import step
from schema.codec import decode_event
from schema.limits import Settings
from schema.notes import Claim, Draft, Fact

START_US = 1_800_000_000_000_000
DRAFTS: tuple[Draft, ...] = (
    Fact(text="rows end at dashes", scope=("src/a.c",), detail="long", key="k1"),
    Claim(text="mine", scope=("src/b.c",), on_conflict="contest"),
    Claim(text="mine too", scope=("src",), on_conflict="contest"),
    Fact(text="another", key="k2"),
)


def written() -> tuple[State, list[Entry]]:
    """Let the board itself write a log; give the state that it came to, and the log as a store keeps it."""
    state, found, entries = State(Settings()), Found(), []
    for number, draft in enumerate(DRAFTS):
        present = Present(START_US + number, {"w0", "w1"}, frozenset())
        outcome = step(state, Post(Asker(f"w{number % 2}"), draft, b"d" * 16 if draft.key else b""), present, found)
        for one in outcome.records:
            columns = Columns.of(one.event)
            entries.append(Entry(one.seq, one.body, one.detail, one.key, one.digest, one.at_us, columns))
    return state, entries


def audited(entries: list[Entry], *, head: int = 5, checkpoint: tuple[int, bytes] | None = None) -> list[Finding]:
    """Audit a log to its end."""
    audit = LogAudit("main", State(Settings()), head=head, checkpoint=checkpoint)
    for entry in entries:
        audit.take(entry)
    audit.finish()
    return audit.findings


def test_what_the_board_wrote_is_right() -> None:
    """Nothing is found in a log of the board's own, with a checkpoint of any moment of it."""
    state, entries = written()
    assert len(entries) == 5
    assert audited(entries) == []
    assert audited(entries, checkpoint=(5, state.freeze())) == []
    assert audited(entries, checkpoint=(0, State(Settings()).freeze())) == []


def changed(place: int, **said: Any) -> list[Entry]:
    """Give the log with one entry of it changed."""
    _, entries = written()
    entries[place] = msgspec.structs.replace(entries[place], **said)
    return entries


def body_with(place: int, old: bytes, new: bytes) -> bytes:
    """Give a body in which something is changed."""
    body = written()[1][place].body
    assert old in body
    return body.replace(old, new)


@pytest.mark.parametrize(
    ("entries", "seq", "words"),
    [
        (written()[1][:4], 0, "ends at 4; the board's head is 5"),
        ([*written()[1][:1], *written()[1][2:]], 3, "a hole or a double"),
        (changed(0, body=b"{"), 1, "cannot be decoded"),
        (changed(0, body=body_with(0, b'"seq":1', b'"seq":7')), 1, "says that its seq is 7"),
        (changed(0, body=written()[1][0].body.replace(b",", b", ", 1)), 1, "is not spelt as the board spells it"),
        (changed(3, detail="a stranger's"), 4, "bytes of detail"),
        (changed(0, detail="gone"), 1, "another detail"),
        (changed(0, detail=""), 1, "0 bytes of detail; it says 4"),
        (changed(0, digest=b""), 1, "0 bytes to tell what was sent"),
        (changed(0, at_us=START_US - 1), 1, "at another time"),
        (changed(0, columns=Columns("note", "FAIL", "w0", None, None, None, None)), 1, "type is 'FAIL', not 'FACT'"),
        (changed(3, body=body_with(3, b'"claims":[2,3]', b'"claims":[2,9]')), 4, "filed otherwise"),
        (
            changed(4, body=body_with(4, b"2027-01-15T08:00:00.000003Z", b"2026-01-15T08:00:00.000003Z")),
            5,
            "older than",
        ),
    ],
)
def test_damage_is_found_where_it_is(entries: list[Entry], seq: int, words: str) -> None:
    """Each kind of damage is named with its place."""
    findings = audited(entries)
    assert any(one.seq == seq and words in one.what for one in findings), findings


def test_a_key_that_was_used_twice() -> None:
    """Two notes of one author under one key are found."""
    _, entries = written()
    author = decode_event(entries[0].body).author
    body = entries[4].body.replace(b'"author":"w1"', f'"author":"{author}"'.encode())
    columns = msgspec.structs.replace(Columns.of(decode_event(body)))
    entries[4] = msgspec.structs.replace(entries[4], key="k1", body=body, columns=columns)
    assert [(one.seq, "used before" in one.what) for one in audited(entries)] == [(5, True)]


def test_a_log_that_does_not_fold() -> None:
    """An event about a claim that is not there is found, and what follows it is checked, but not folded."""
    entries = changed(
        3, body=body_with(3, b'"conflict.opened"', b'"conflict.closed"')[:-1] + b',"conflict":4,"how":"released"}'
    )
    findings = audited(entries)
    assert any(one.seq == 4 and "does not fold" in one.what for one in findings), findings


def test_a_log_without_its_beginning() -> None:
    """From the base on, what is left of a log is right and folds to the same state."""
    whole, entries = written()
    state = State(Settings())
    replay(state, [record_of(decode_event(entry.body)) for entry in entries[:2]])
    begun, findings = beginning("main", Settings(), 3, (2, state.freeze()))
    audit = LogAudit("main", begun, head=5, checkpoint=(5, whole.freeze()))
    for entry in entries[2:]:
        audit.take(entry)
    audit.finish()
    assert findings + audit.findings == []
    assert audit.state.state_hash() == whole.state_hash()


@pytest.mark.parametrize(
    ("oldest", "base", "words"),
    [
        (3, None, "the base is as of 0"),
        (1, (2, written()[0].freeze()), "the base is as of 5"),
        (3, (2, b"{"), "cannot be read"),
    ],
)
def test_a_wrong_base(oldest: int, base: tuple[int, bytes] | None, words: str) -> None:
    """A base that is missing, of another seq or cannot be read is found."""
    state, findings = beginning("main", Settings(), oldest, base)
    assert state.seq == oldest - 1
    assert any(words in one.what for one in findings), findings


def test_a_wrong_checkpoint() -> None:
    """A checkpoint that is not what the log folds to there is found, and one beyond the log."""
    state, entries = written()
    frozen = state.freeze()
    assert "not what the log folds to" in audited(entries, checkpoint=(5, frozen.replace(b"mine", b"your")))[0].what
    assert "which is not in the log" in audited(entries, checkpoint=(9, frozen))[0].what
