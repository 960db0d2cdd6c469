"""Pages of the log: which rows, in which order, and where a page ends.

A filter is carried out as a stream of rows in order, read in rounds, and a page takes from it until it is full. What an
index cannot tell (whether two targets overlap, whether a phrase is there, whether two labels only share a hash) is
checked on what the stream gives.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec

from board.core.scope import overlap
from board.core.words import matches, searched_text
from board.store.contract import Filter, Row
from board.store.places import asked_for, recipient, scope_of
from board.store.postgres.derived import label_hash, word_hash
from board.store.postgres.pages import LARGEST, decoded, row_of
from schema.events import Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from board.core.words import Query
    from board.store.postgres.connections import Connection
    from schema.limits import Settings

ROUND: Final = 256
"""Rows that one statement gives. It bounds what is read in vain where a page ends by its bytes."""

_COLUMNS: Final = "seq, kind, type, author, body"

# Events that meet simple conditions, in order.
_SCAN: Final = """
    SELECT {columns} FROM events WHERE {conditions} ORDER BY seq {direction} LIMIT $4
"""
# Events of some types, in order: each type gives the next ones of its own, which are then merged. Asked for all types
# at once, PostgreSQL would sort every row of them.
_SCAN_TYPES: Final = """
    SELECT {columns} FROM unnest($5::text[]) AS asked (wanted) CROSS JOIN LATERAL (
        SELECT {columns} FROM events WHERE {conditions} AND coalesce(type, kind) = asked.wanted
        ORDER BY seq {direction} LIMIT $4
    ) AS found ORDER BY seq {direction} LIMIT $4
"""
# The seqs that are filed under any of some labels, in order, merged in the same way.
_FILED: Final = """
    SELECT DISTINCT seq FROM unnest($1::bigint[]) AS asked (label) CROSS JOIN LATERAL (
        SELECT seq FROM filings WHERE filings.label = asked.label AND seq > $2 AND seq < $3
        ORDER BY seq {direction} LIMIT $4
    ) AS found ORDER BY seq {direction} LIMIT $4
"""
# The seqs of notes that hold all of these words, newest first; or one of them at least.
_WORDED: Final = """
    SELECT seq FROM words WHERE board = $1 AND seq > $2 AND seq < $3 AND hashes {operator} $5::integer[]
    ORDER BY seq DESC LIMIT $4
"""
# Events with these seqs that meet simple conditions, in order.
_CHOSEN: Final = """
    SELECT {columns} FROM events WHERE {conditions} AND seq = ANY($5::bigint[]) ORDER BY seq {direction} LIMIT $4
"""
_IN_SPAN: Final = "events.board = $1 AND seq > $2 AND seq < $3"
_IS_LIVE: Final = """NOT EXISTS (
    SELECT 1 FROM events AS later
    WHERE later.board = $1 AND later.about = events.seq AND later.kind = 'note.retracted'
)"""

# A search that was prepared once would be planned for any word: for this one, PostgreSQL knows how common it is, and
# whether to walk back from the head or to look the word up.
PLAN_EACH: Final = "SET LOCAL plan_cache_mode = force_custom_plan"

_note: Final = msgspec.json.Decoder(Note).decode

Keeps = Callable[[Row], bool]


class Span(msgspec.Struct, frozen=True):
    """A stretch of one board's log, both ends excluded; and the direction in which it is read."""

    number: int
    low: int
    high: int
    descending: bool = False

    @classmethod
    def of(cls, number: int, after: int = 0, before: int | None = None, *, descending: bool = False) -> Span:
        """Make the span of seqs between two, those two excluded."""
        high = LARGEST if before is None else min(max(before, 0), LARGEST)
        return cls(number, min(max(after, 0), LARGEST), high, descending)

    @property
    def direction(self) -> str:
        """How SQL says it."""
        return "DESC" if self.descending else "ASC"

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """The first parameters of every statement."""
        return self.number, self.low, self.high, ROUND

    def past(self, last: int) -> Span:
        """Give what is left after this seq was read."""
        if self.descending:
            return msgspec.structs.replace(self, high=last)
        return msgspec.structs.replace(self, low=last)


async def page(
    connection: Connection,
    span: Span,
    where: Filter,
    settings: Settings,
    *,
    limit: int,
    max_bytes: int | None = None,
) -> tuple[list[Row], bool]:
    """Rows of a span that a filter keeps, and whether more follow."""
    if any("\0" in text for text in (where.author, where.task)):
        return [], False  # no column holds a NUL, and no statement takes one
    if where.to or where.scope:
        rows = _filed(connection, where, span, lambda row: _is_meant(where, decoded(_note, row.body), settings))
    else:
        rows = _scanned(connection, where, span)
    return await _cut(rows, limit, max_bytes)


async def search(connection: Connection, query: Query, span: Span, *, limit: int) -> tuple[list[Row], bool]:
    """Live notes that match, newest first, and whether more follow; the query is not empty."""
    await connection.execute("BEGIN READ ONLY")
    await connection.execute(PLAN_EACH)
    found = await _cut(_worded(connection, query, span), limit, None)
    await connection.execute("COMMIT")
    return found


def _is_meant(where: Filter, note: Note, settings: Settings) -> bool:
    if where.to and where.to not in note.to:
        return False
    return not where.scope or any(overlap(x, y) for x in scope_of(note, settings) for y in where.scope)


async def _cut(rows: AsyncGenerator[Row], limit: int, max_bytes: int | None) -> tuple[list[Row], bool]:
    held: list[Row] = []
    size = 0
    async with aclosing(rows):
        async for row in rows:
            size += len(row.body)
            if len(held) == limit or (held and max_bytes is not None and size > max_bytes):
                return held, True
            held.append(row)
    return held, False


async def _scanned(connection: Connection, where: Filter, span: Span) -> AsyncGenerator[Row]:
    types = [sorted(set(where.types))] if where.types else []
    conditions, said = _conditions(where, 5 + len(types))
    scan = _SCAN_TYPES if types else _SCAN
    sql = scan.format(columns=_COLUMNS, conditions=conditions, direction=span.direction)
    read = ROUND
    while read == ROUND:
        rows = await connection.fetch(sql, *span.bounds, *types, *said)
        for row in rows:
            yield row_of(row)
        read = len(rows)
        if rows:
            span = span.past(rows[-1][0])


def _conditions(where: Filter, first: int) -> tuple[str, list[Any]]:
    """Write the conditions that a column can tell, numbering their parameters from `first`."""
    texts, said = [_IN_SPAN], list[Any]()
    for column, value in (("events.author", where.author), ("events.task", where.task)):
        if value:
            texts.append(f"{column} = ${first + len(said)}")
            said.append(value)
    if where.notes_only:
        texts.append("events.type IS NOT NULL")
    if where.live_only:
        texts.append(_IS_LIVE)
    return " AND ".join(texts), said


async def _filed(connection: Connection, where: Filter, span: Span, keeps: Keeps) -> AsyncGenerator[Row]:
    labels = {recipient(where.to)} if where.to else {label for target in where.scope for label in asked_for(target)}
    hashes = [label_hash(span.number, label) for label in labels]
    sql = _FILED.format(direction=span.direction)
    read = ROUND
    while read == ROUND:
        seqs = [row[0] for row in await connection.fetch(sql, hashes, *span.bounds[1:])]
        for row in await _chosen(connection, where, span, seqs):
            if (not where.types or row.type in where.types) and keeps(row):
                yield row
        read = len(seqs)
        if seqs:
            span = span.past(seqs[-1])


async def _chosen(connection: Connection, where: Filter, span: Span, seqs: Sequence[int]) -> list[Row]:
    # Two boards may share a hash: what is no note of this one is left out here.
    conditions, said = _conditions(msgspec.structs.replace(where, notes_only=True), 6)
    sql = _CHOSEN.format(columns=_COLUMNS, conditions=conditions, direction=span.direction)
    return [row_of(row) for row in await connection.fetch(sql, *span.bounds, seqs, *said)]


async def _worded(connection: Connection, query: Query, span: Span) -> AsyncGenerator[Row]:
    operator, wanted = _wanted_words(query)
    hashes = [word_hash(span.number, word) for word in wanted]
    sql = _WORDED.format(operator=operator)
    read = ROUND
    while read == ROUND:
        seqs = [row[0] for row in await connection.fetch(sql, *span.bounds, hashes)]
        for row in await _chosen(connection, _LIVE, span, seqs):
            if matches(query, searched_text(decoded(_note, row.body))):
                yield row
        read = len(seqs)
        if seqs:
            span = span.past(seqs[-1])


def _wanted_words(query: Query) -> tuple[str, set[str]]:
    """Give what the index can be asked: all words of the one alternative, or one word of each of several.

    The longest word of an alternative is taken for its rarest.
    """
    words = [{word for phrase in phrases for word in phrase} for phrases in query.alternatives]
    return ("@>", words[0]) if len(words) == 1 else ("&&", {max(some, key=len) for some in words})


_LIVE: Final = Filter(live_only=True)
