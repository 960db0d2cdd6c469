"""The exported JSON Schemas: up to date, valid, and in agreement with the decoders."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest
from jsonschema import Draft202012Validator

from schema.codec import decode_draft, decode_event, encode
from schema.codes import problem
from schema.export import FOLDER, files, schema_of

AT: Final = "2026-12-01T10:00:00.123456Z"
NOTE: Final = {"kind": "note", "seq": 1, "at": AT, "author": "w1", "type": "FACT", "text": "a"}
HEADER: Final = {
    "board": "main",
    "epoch": "e1",
    "head": 1,
    "after": 0,
    "schema_version": 1,
    "state_hash": None,
    "settings": {},
}

GOOD: Final[list[tuple[str, Any]]] = [
    ("draft", {"type": "FACT", "text": "a", "refs": [{"rel": "supports", "seq": 1}]}),
    ("draft", {"type": "CLAIM", "text": "a", "scope": ["src/a.c"], "ttl_s": 5}),
    ("batch", {"notes": [{"type": "FAIL", "text": "a"}]}),
    ("event", NOTE),
    (
        "event",
        {"kind": "claim.released", "seq": 2, "at": AT, "author": "w1", "claim": 1, "holder": "w1", "outcome": "done"},
    ),
    ("export-line", HEADER),
    ("export-line", NOTE | {"detail": "long", "key": "k", "key_digest": "00"}),
    ("problem", problem("over_limit", "Too long.", field="text", value=401, limit=400, unit="characters").document()),
    ("client-op", {"op": "post", "id": 1, "note": {"type": "FACT", "text": "a"}}),
    ("client-op", {"op": "filter", "type": ["FACT", "claim.expired"]}),
    ("server-op", {"op": "events", "events": [NOTE]}),
    ("server-op", {"op": "reply", "id": None, "status": 201, "body": {}}),
]

BAD: Final[list[tuple[str, Any]]] = [
    ("draft", {"type": "FACT"}),
    ("draft", {"type": "FACT", "text": " "}),
    ("draft", {"type": "FACT", "text": "a", "seq": 1}),
    ("draft", {"type": "CLAIM", "text": "a", "scope": []}),
    ("draft", {"type": "FACT", "text": "a", "run": {"command": "a", "exit_code": 2**40}}),
    ("event", {"kind": "note.lost", "seq": 1, "at": AT, "author": "w1"}),
    ("problem", {"detail": "no code"}),
    ("client-op", {"op": "filter", "type": ["FACTS"]}),
    ("server-op", {"op": "live"}),
]


def test_the_files_are_what_the_types_say() -> None:
    """What is in the folder is what `python -m schema.export` would write now, and nothing else."""
    found = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
    assert found == files(), "run `python -m schema.export`"


@pytest.mark.parametrize("name", [name.removesuffix(".schema.json") for name in files()])
def test_every_schema_is_one(name: str) -> None:
    """Each file is a valid JSON Schema of its declared version."""
    Draft202012Validator.check_schema(schema_of(name))


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_what_the_board_takes_and_sends_is_valid(name: str, value: Any) -> None:
    """A schema admits what its decoder admits."""
    Draft202012Validator(schema_of(name)).validate(value)
    if name == "draft":
        decode_draft(encode(value))
    elif name == "event":
        decode_event(encode(value))


@pytest.mark.parametrize(("name", "value"), BAD)
def test_what_the_board_refuses_is_not_valid(name: str, value: Any) -> None:
    """A schema refuses what the board refuses for its shape."""
    assert not Draft202012Validator(schema_of(name)).is_valid(value)


def test_events_are_named_for_filters() -> None:
    """Every type of note and every other kind of event is one that a reader may filter by, and nothing else is."""
    from schema.events import EVENT_KINDS, EventType
    from schema.notes import NOTE_TYPES

    assert set(EventType.__args__) == {*NOTE_TYPES, *EVENT_KINDS} - {"note"}
    assert msgspec.convert("FACT", EventType) == "FACT"
