"""Pages of the log: which rows, in which order, and where a page ends.

A filter is carried out as a stream of rows in order, and a page takes from it until it is full. The stream comes from
the one index that leaves fewest rows; the other conditions are checked on what it gives. Streams are read in rounds,
each one step of a statement, so that no cursor stays open.
"""

from __future__ import annotations

from heapq import merge
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from board.core.scope import overlap
from board.store.contract import Filter, Row
from board.store.places import asked_for, recipient, scope_of
from board.store.sqlite.derived import tokens_of
from board.store.sqlite.log import SEQ_BITS
from board.store.sqlite.pages import JOINED, SEQS, decoded, rows_of
from schema.codec import encode
from schema.events import Note
from schema.notes import NOTE_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from board.core.scope import Target
    from board.core.words import Query
    from board.store.sqlite.connections import Connection
    from schema.limits import Settings

ROUND: Final = 256
"""Rows that one statement gives. It bounds what is read in vain where a page ends by its bytes."""

_SCAN: Final = "SELECT id, body FROM events {} WHERE {}"
_AS_ARRAY: Final = "SELECT json_group_array(id) FROM ({})"
_LABELS: Final = """
    SELECT json_group_array(id) FROM labels WHERE board = ? AND name IN (SELECT value FROM json_each(?))
"""
_FILED: Final = "SELECT event AS id FROM filings WHERE label = :what AND event > :low AND event < :high"
_WORDED: Final = "SELECT rowid AS id FROM words WHERE words MATCH :what AND rowid > :low AND rowid < :high"

_note: Final = msgspec.json.Decoder(Note).decode
_ids: Final = msgspec.json.Decoder(list[int]).decode


class Span(msgspec.Struct, frozen=True):
    """A stretch of one board's log, by ids, both ends excluded; and the direction in which it is read."""

    low: int
    high: int
    descending: bool

    @classmethod
    def of(cls, number: int, after: int = 0, before: int | None = None, *, descending: bool = False) -> Span:
        """Make the span of seqs between two, those two excluded."""
        base = number << SEQ_BITS
        high = SEQS if before is None else min(max(before, 0), SEQS)
        return cls(base | min(max(after, 0), SEQS), base | high, descending)

    @property
    def number(self) -> int:
        """The number of the board."""
        return self.low >> SEQ_BITS

    @property
    def order(self) -> str:
        """How SQL says it."""
        return " ORDER BY id DESC LIMIT :limit" if self.descending else " ORDER BY id LIMIT :limit"

    def past(self, last: int) -> Span:
        """Give what is left after the row with this id was read."""
        if self.descending:
            return msgspec.structs.replace(self, high=last)
        return msgspec.structs.replace(self, low=last)


def page(
    connection: Connection,
    span: Span,
    where: Filter,
    settings: Settings,
    *,
    limit: int,
    max_bytes: int | None = None,
) -> tuple[list[Row], bool]:
    """Rows of a span that a filter keeps, and whether more follow."""
    if where.to:
        rows = _chosen(connection, _filed(connection, {recipient(where.to)}, span), where, span)
    elif where.scope:
        labels = {label for target in where.scope for label in asked_for(target)}
        rows = _chosen(connection, _filed(connection, labels, span), where, span)
    else:
        rows = _scanned(connection, where, span)
    return _cut(_touching(rows, where.scope, settings) if where.scope else rows, limit, max_bytes)


def search(connection: Connection, query: Query, span: Span, *, limit: int) -> tuple[list[Row], bool]:
    """Live notes that match, and whether more follow; the query is not empty."""
    ids = _id_rounds(connection, _WORDED, match_text(query), span)
    return _cut(_chosen(connection, ids, Filter(live_only=True), span), limit, None)


def match_text(query: Query) -> str:
    """Write a query as FTS5 reads it. Words hold letters and digits only, so that quoting them is enough."""
    return " OR ".join(
        "(" + " AND ".join(f'"{tokens_of(phrase)}"' for phrase in phrases) + ")" for phrases in query.alternatives
    )


def _cut(rows: Iterator[Row], limit: int, max_bytes: int | None) -> tuple[list[Row], bool]:
    held: list[Row] = []
    size = 0
    for row in rows:
        size += len(row.body)
        if len(held) == limit or (held and max_bytes is not None and size > max_bytes):
            return held, True
        held.append(row)
    return held, False


def _touching(rows: Iterable[Row], scope: Sequence[Target], settings: Settings) -> Iterator[Row]:
    for row in rows:
        theirs = scope_of(decoded(_note, row.body), settings)
        if any(overlap(x, y) for x in theirs for y in scope):
            yield row


def _scanned(connection: Connection, where: Filter, span: Span) -> Iterator[Row]:
    sql = JOINED.format(_scan(where) + span.order)
    said = _said(where)
    read = ROUND
    while read == ROUND:
        rows = rows_of(connection.execute(sql, said | _bounds(span)).get, descending=span.descending)
        yield from rows
        read = len(rows)
        if rows:
            span = span.past(span.number << SEQ_BITS | rows[-1].seq)


def _scan(where: Filter) -> str:
    rest = " AND ".join(["id > :low", "id < :high", *_conditions(where)])
    if where.task:
        return _SCAN.format("INDEXED BY events_by_task", rest)
    if where.author:
        return _SCAN.format("INDEXED BY events_by_author", rest)
    if where.types or where.notes_only:
        # One branch a type: each gives its rows in order, and SQLite merges them as it goes. An IN would sort them all.
        branches = (f"coalesce(type, kind) = :type{place} AND {rest}" for place in range(len(_types(where))))
        return " UNION ALL ".join(_SCAN.format("INDEXED BY events_by_type", branch) for branch in branches)
    return _SCAN.format("NOT INDEXED", rest)


def _types(where: Filter) -> Sequence[str]:
    return sorted(set(where.types)) or NOTE_TYPES


def _conditions(where: Filter) -> list[str]:
    conditions = (
        (where.task, "task = :task"),
        (where.author, "author = :author"),
        (where.types, "coalesce(type, kind) IN (SELECT value FROM json_each(:types))"),
        (where.notes_only, "type IS NOT NULL"),
        (where.live_only, "NOT EXISTS (SELECT 1 FROM retracted WHERE retracted.id = events.id)"),
    )
    return [text for said, text in conditions if said]


def _said(where: Filter) -> dict[str, Any]:
    one_each = {f"type{place}": name for place, name in enumerate(_types(where))}
    return {"task": where.task, "author": where.author, "types": encode(where.types).decode(), **one_each}


def _bounds(span: Span) -> dict[str, Any]:
    return {"low": span.low, "high": span.high, "limit": ROUND}


def _chosen(connection: Connection, ids: Iterator[int], where: Filter, span: Span) -> Iterator[Row]:
    conditions = " AND ".join(["id IN (SELECT value FROM json_each(:ids))", *_conditions(where)])
    sql = JOINED.format(_SCAN.format("", conditions))
    said = _said(where)
    while some := list(islice(ids, ROUND)):
        joined = connection.execute(sql, said | {"ids": encode(some).decode()}).get
        yield from rows_of(joined, descending=span.descending)


def _filed(connection: Connection, labels: set[str], span: Span) -> Iterator[int]:
    known = _ids(connection.execute(_LABELS, (span.number, encode(sorted(labels)).decode())).get)
    streams = [_id_rounds(connection, _FILED, label, span) for label in known]
    return (one for one, _ in groupby(merge(*streams, reverse=span.descending)))


def _id_rounds(connection: Connection, select: str, what: int | str, span: Span) -> Iterator[int]:
    sql = _AS_ARRAY.format(select + span.order)
    read = ROUND
    while read == ROUND:
        ids = sorted(_ids(connection.execute(sql, _bounds(span) | {"what": what}).get), reverse=span.descending)
        yield from ids
        read = len(ids)
        if ids:
            span = span.past(ids[-1])
