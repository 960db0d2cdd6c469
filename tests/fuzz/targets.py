"""Every place that takes bytes from strangers, as a function that must come back: with a value, or with its own refusal."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from board.core.audit import Entry, LogAudit
from board.core.exported import BadExport, Reader
from board.core.secrecy import hide_tokens, hide_tokens_in
from board.core.spelling import BadTarget, spell, spell_root
from board.core.state import State
from board.core.words import parse
from board.service.decoding import read, read_batch, read_draft
from board.service.questions import AckBody, NotesQuery, ReleaseBody, StreamQuery, read_query
from schema.codec import decode_event, encode, us_of_text
from schema.codes import ProblemError
from schema.limits import Settings
from schema.ops import AckOp, FilterOp, PostOp

if TYPE_CHECKING:
    from collections.abc import Callable

_ops: Final = msgspec.json.Decoder(PostOp | AckOp | FilterOp)


def _said(refused: Exception) -> None:
    assert str(refused), "a refusal says why"


def draft(data: bytes) -> None:
    """A draft is refused, or says the same when it is encoded and read again."""
    try:
        taken = read_draft(data)
    except ProblemError as refused:
        encode(refused.problem.document())
        return
    assert read_draft(encode(taken)) == taken


def batch(data: bytes) -> None:
    """A batch is refused, or says the same again."""
    try:
        taken = read_batch(data)
    except ProblemError as refused:
        encode(refused.problem.document())
        return
    assert read_batch(encode(taken)) == taken


def body(data: bytes) -> None:
    """A body of any other call is refused or taken."""
    for kind in (AckBody, ReleaseBody):
        try:
            read(data, kind)
        except ProblemError as refused:
            encode(refused.problem.document())


def event(data: bytes) -> None:
    """A line of the log that can be read says the same again, and one that cannot is called damage by the audit."""
    audit = LogAudit("main", State(Settings()), head=1, checkpoint=None)
    audit.take(Entry(1, data))
    audit.finish()
    try:
        taken = decode_event(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        assert audit.findings
        return
    assert decode_event(encode(taken)) == taken


def op(data: bytes) -> None:
    """A frame of a client is refused or taken."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        data.decode()
        _ops.decode(data)


def exported(data: bytes) -> None:
    """An export is refused by its line, or taken."""
    reader = Reader(State(Settings()))
    try:
        for line in data.splitlines():
            reader.take(line)
        reader.finish()
    except BadExport as refused:
        _said(refused)


def query(data: bytes) -> None:
    """A query string is refused or taken."""
    for kind in (NotesQuery, StreamQuery, None):
        try:
            read_query(data, kind)
        except ProblemError as refused:
            encode(refused.problem.document())


def target(data: bytes) -> None:
    """A target is refused with a reason, or spelt; what is spelt is spelt the same again."""
    text = data.decode("utf-8", "replace")
    try:
        spelt = spell(text)
    except BadTarget as refused:
        _said(refused)
    else:
        assert spell(spelt.text) == spelt
    try:
        spell_root(text)
    except BadTarget as refused:
        _said(refused)


def search(data: bytes) -> None:
    """Whatever is searched for is a query."""
    parse(data.decode("utf-8", "replace"))


def secrecy(data: bytes) -> None:
    """Tokens are hidden in bytes as they are in text, and what is hidden once stays as it is."""
    text = data.decode("utf-8", "replace")
    assert hide_tokens_in(text.encode()) == hide_tokens(text).encode()
    assert hide_tokens(hide_tokens(text)) == hide_tokens(text)


def time(data: bytes) -> None:
    """A time is refused, or a whole number."""
    with suppress(ValueError):
        assert isinstance(us_of_text(data.decode("ascii", "replace")), int)


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    one.__name__: one for one in (draft, batch, body, event, op, exported, query, target, search, secrecy, time)
}

SEEDS: Final[tuple[bytes, ...]] = (
    b'{"type":"FACT","text":"x","scope":["src/a.c:10-40","task:tables/rows"],"refs":[{"rel":"supports","seq":1}],"key":"k"}',
    b'{"type":"CLAIM","text":"x","scope":["src/**/*.c","src/{x,y}.py"],"ttl_s":600,"on_conflict":"wait"}',
    b'{"type":"PATCH_SUMMARY","files":["a"],"idea":"x","evidence":"y","run":{"command":"m","exit_code":0}}',
    b'{"notes":[{"type":"OBSERVED","text":"x"},{"type":"FAIL","text":"y"}]}',
    b'{"kind":"note","seq":1,"at":"2026-12-01T10:00:00.123456Z","author":"w1","type":"FACT","text":"x"}',
    b'{"kind":"patch.superseded","seq":3,"at":"2026-12-01T10:00:00.000000Z","author":"board","note":1,"by":2}',
    b'{"op":"post","id":1,"note":{"type":"FACT","text":"x"}}',
    b'{"op":"ack","seqs":[1,2],"through":3}',
    b'{"op":"filter","type":["FACT"],"scope":["src"]}',
    b'{"board":"main","epoch":"e","head":1,"schema_version":1}\n{"kind":"note","seq":1}',
    b"after=1&type=FACT&type=FAIL&scope=src%2Fa.c&token=x",
    b"src/a.py::Parser.read",
    b'"open quote, a & b',
    b"bt_0123abcd_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ",
    b"2026-12-01T10:00:00.123456Z",
)
"""Where to begin: one well-formed example for each grammar."""
