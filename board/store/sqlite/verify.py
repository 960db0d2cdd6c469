"""Checking a file from its pages up: what SQLite finds, the log of every board, and the indexes that were made from it.

All is read in one transaction, so the file may be in use; nothing is written to it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apsw

from board.core.audit import Audited, Columns, Entry, Finding, LogAudit, Report, beginning
from board.core.words import searched_text, words_of
from board.store.contract import StoreUnavailable
from board.store.places import labels_of
from board.store.sqlite import connections, pages, trimming
from board.store.sqlite.derived import tokens_of
from board.store.sqlite.faults import translated
from board.store.sqlite.log import SEQ_BITS
from board.store.sqlite.pages import SEQS
from schema.codec import decode_event
from schema.events import Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from board.store.sqlite.connections import Connection
    from schema.limits import Settings

SHOWN_OF_SQLITE: Final = 100
"""The most of SQLite's own findings that are told."""

_INTEGRITY: Final = f"PRAGMA integrity_check({SHOWN_OF_SQLITE})"
_BOARDS: Final = "SELECT id, name, head, oldest, settings FROM boards ORDER BY name"
_LOG: Final = """
    SELECT events.id, at_us, kind, type, author, task, work, about, about2, key, digest, body, text
    FROM events LEFT JOIN details USING (id) WHERE events.id > ? AND events.id <= ? ORDER BY events.id
"""
_INDEXED: Final = "SELECT coalesce((SELECT seq FROM indexed WHERE board = ?), 0)"
_ACKS: Final = (
    "SELECT worker, through FROM acks WHERE board = ? UNION ALL SELECT worker, seq FROM acked WHERE board = ?"
)
_ORPHANS: Final = "SELECT id FROM details WHERE id NOT IN (SELECT id FROM events) LIMIT 100"
_STRAYS: Final = "SELECT id FROM events WHERE id >> 40 NOT IN (SELECT id FROM boards) LIMIT 100"
_VOCABULARY: Final = (
    "PRAGMA query_only = 0",
    "CREATE VIRTUAL TABLE temp.found_words USING fts5vocab (main, words, instance)",
    "PRAGMA query_only = 1",
)
"""A view of the index of words, for this connection alone; even that counts as writing."""
_WORDS: Final = "SELECT doc, term, offset FROM temp.found_words"
_FILINGS: Final = """
    SELECT event, name FROM filings JOIN labels ON labels.id = label WHERE event > ? AND event <= ?
"""


def verify(path: str) -> Report:
    """Check a file. Raises StoreUnavailable where it cannot even be opened, or is another program's."""
    if not Path(path).is_file():
        msg = f"there is no file {path}"
        raise StoreUnavailable(msg)
    try:
        connections.inspect(path)
        with closing(connections.reader(path)) as connection:
            for statement in _VOCABULARY:
                connection.execute(statement)
            connection.execute("BEGIN")
            return _Check(connection).report()
    except apsw.Error as error:
        raise translated(error) from error


class _Check:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._findings: list[Finding] = []
        self._boards: list[Audited] = []
        self._words: Counter[int] = Counter()
        """For each note, the sum of the hashes of its words and their places."""

    def report(self) -> Report:
        self._guarded("", self._check_file)
        self._guarded("", self._check_boards)
        self._guarded("", self._check_words)
        return Report(tuple(self._boards), tuple(self._findings))

    def _guarded(self, board: str, check: Any, *given: Any) -> None:  # noqa: ANN401 -- a method of this class
        """Go on with the next check where a page of the file cannot be read."""
        try:
            check(*given)
        except apsw.Error as error:
            self._find(board, 0, f"the file cannot be read on: {error}")

    def _find(self, board: str, seq: int, what: str) -> None:
        self._findings.append(Finding(board, seq, what))

    def _rows(self, statement: str, *said: int) -> Iterable[tuple[Any, ...]]:
        return self._connection.cursor().execute(statement, said)  # read row by row: a log does not fit into memory

    def _check_file(self) -> None:
        for (told,) in self._rows(_INTEGRITY):
            if told != "ok":
                self._find("", 0, f"SQLite: {told}")
        for (event,) in self._rows(_ORPHANS):
            self._find(
                "", event & SEQS, f"board number {event >> SEQ_BITS} keeps a detail of an event that is not there"
            )
        for (event,) in self._rows(_STRAYS):
            self._find("", event & SEQS, f"is of board number {event >> SEQ_BITS}, which is not there")

    def _check_boards(self) -> None:
        for number, name, head, oldest, settings in list(self._rows(_BOARDS)):
            self._guarded(name, self._check_board, number, name, head, oldest, pages.settings_of(settings))

    def _check_board(self, number: int, name: str, head: int, oldest: int, settings: Settings) -> None:
        state, wrong = beginning(name, settings, oldest, trimming.base(self._connection, number))
        self._findings += wrong
        audit = LogAudit(name, state, head=head, checkpoint=pages.checkpoint(self._connection, number))
        indexed, filings = self._indexed(number, name, head), _Sums()
        base = number << SEQ_BITS
        for entry in self._entries(base):
            # What is still to be swept is in the indexes, and no part of the log.
            event = audit.take(entry) if entry.seq >= oldest else decode_event(entry.body)
            if isinstance(event, Note) and entry.seq <= indexed:
                self._words[base | entry.seq] = _sum(enumerate(_tokens(event)))
                filings.expect(entry.seq, labels_of(event, settings))
        audit.finish()
        self._findings += audit.findings
        for event, label in self._rows(_FILINGS, base, base | SEQS):
            filings.meet(event & SEQS, label)
        for seq in filings.wrong():
            self._find(name, seq, "is filed under other places or recipients than it names")
        self._check_acks(number, name, head)
        self._boards.append(Audited(name, audit.events, head, state.state_hash(), oldest))

    def _entries(self, base: int) -> Iterator[Entry]:
        for row in self._rows(_LOG, base, base | SEQS):
            event, at_us, kind, type_, author, task, work, about, about2, key, digest, body, text = row
            subjects = [None if one is None else one & SEQS for one in (about, about2)]
            columns = Columns(kind, type_, author, task, work, *subjects)
            yield Entry(event & SEQS, bytes(body), text or "", key or "", bytes(digest or b""), at_us, columns)

    def _indexed(self, number: int, name: str, head: int) -> int:
        indexed: int = self._connection.execute(_INDEXED, (number,)).get
        if indexed > head:
            self._find(name, 0, f"is indexed up to {indexed}, beyond its head {head}")
        return indexed

    def _check_acks(self, number: int, name: str, head: int) -> None:
        for worker, seq in self._rows(_ACKS, number, number):
            if seq > head:
                self._find(name, seq, f"was acknowledged by {worker}, and is beyond the head {head}")

    def _check_words(self) -> None:
        for event, term, place in self._rows(_WORDS):
            self._words[event] -= hash((place, term))
        names = {number: name for number, name, *_ in self._rows(_BOARDS)}
        for event, left in self._words.items():
            if left:
                name = names.get(event >> SEQ_BITS, "")
                self._find(name, event & SEQS, "is found by other words than it has")


class _Sums:
    """Compares two sets of labels for each event by sums, so that neither is kept."""

    def __init__(self) -> None:
        self._sums: Counter[int] = Counter()

    def expect(self, seq: int, labels: Iterable[str]) -> None:
        self._sums[seq] += sum(map(hash, labels))

    def meet(self, seq: int, label: str) -> None:
        self._sums[seq] -= hash(label)

    def wrong(self) -> list[int]:
        return sorted(seq for seq, left in self._sums.items() if left)


def _tokens(note: Note) -> list[str]:
    return tokens_of(words_of(searched_text(note))).split()


def _sum(placed: Iterable[tuple[int, str]]) -> int:
    return sum(map(hash, placed))
