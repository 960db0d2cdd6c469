"""Whether a log is what the board would have written: every event, what is kept beside it, and what it folds to.

Pure: it is handed the log entry by entry, and gives what is wrong and where. It trusts nothing that it can work out:
bodies are decoded and encoded again, columns are compared with bodies, and the whole log is folded.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from board.core.fold import BrokenLog, replay
from board.core.history import Record
from board.core.state import State, thaw
from schema.codec import decode_event, encode, us_of_text
from schema.events import AboutConflict, AnyEvent, Note, about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schema.limits import Settings

DIGEST_BYTES: Final = 16
"""The length of what is kept of a draft that was sent under a key."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong: on which board (empty for the store itself), at which seq (0 for none), and what."""

    board: str
    seq: int
    what: str

    def __str__(self) -> str:
        where = " ".join(filter(None, [self.board, f"event {self.seq}" if self.seq else ""]))
        return f"{where}: {self.what}" if where else self.what


class Columns(msgspec.Struct, frozen=True):
    """What a store keeps of an event once more, beside the body, to find it by."""

    kind: str
    type: str | None
    author: str
    task: str | None
    work: str | None
    about: int | None
    about2: int | None

    @classmethod
    def of(cls, event: AnyEvent) -> Columns:
        """Give what the columns of an event must be."""
        kind = str(event.__struct_config__.tag)
        if isinstance(event, Note):
            return cls(kind, event.type, event.author, event.task or None, event.work or None, None, None)
        first, second = event.claims if isinstance(event, AboutConflict) else (about(event), None)
        return cls(kind, None, event.author, None, None, first, second)


class Entry(msgspec.Struct, frozen=True):
    """One line of a log as it was found; `at_us` and `columns` are None in a store that has no such."""

    seq: int
    body: bytes
    detail: str = ""
    key: str = ""
    digest: bytes = b""
    at_us: int | None = None
    columns: Columns | None = None


def beginning(
    board: str, settings: Settings, oldest: int, base: tuple[int, bytes] | None
) -> tuple[State, list[Finding]]:
    """Give what a log before its oldest event folds to, by its base, and what is wrong with that."""
    state, findings = State(settings), list[Finding]()
    if base is not None:
        try:
            state = thaw(base[1], settings)
        except msgspec.DecodeError as error:
            findings.append(Finding(board, base[0], f"the base cannot be read: {error}"))
    if state.seq != oldest - 1:
        findings.append(Finding(board, oldest, f"is the oldest that is kept, and the base is as of {state.seq}"))
        state.seq = oldest - 1
    return state, findings


class LogAudit:
    """Checks one board's log from its oldest event to its head. `state` is what the log before the oldest folds to."""

    def __init__(self, board: str, state: State, *, head: int, checkpoint: tuple[int, bytes] | None) -> None:
        self.board = board
        self.state = state
        self.findings: list[Finding] = []
        self.events = 0
        """How many entries were taken."""
        self._head = head
        self._last = state.seq
        self._at_us = state.at_us
        self._folds = True
        self._keys: set[tuple[str, str]] = set()
        self._checkpoint = checkpoint
        self._check_checkpoint()

    def take(self, entry: Entry) -> AnyEvent | None:
        """Check the next entry; give its event, None where it cannot be read."""
        if entry.seq != self._last + 1:
            self._find(entry.seq, f"follows event {self._last}: the log has a hole or a double")
        self._last = entry.seq
        self.events += 1
        event = self._decoded(entry)
        if event is not None:
            for what in self._wrong(entry, event):
                self._find(entry.seq, what)
            self._fold(entry, event)
        self._check_checkpoint()
        return event

    def finish(self) -> None:
        """Check that the log ends where the store says."""
        if self._last != self._head:
            self._find(0, f"the log ends at {self._last}; the board's head is {self._head}")
        if self._checkpoint is not None and self._folds:
            self._find(0, f"the checkpoint stands at {self._checkpoint[0]}, which is not in the log")

    def _find(self, seq: int, what: str) -> None:
        self.findings.append(Finding(self.board, seq, what))

    def _decoded(self, entry: Entry) -> AnyEvent | None:
        try:
            return decode_event(entry.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._find(entry.seq, f"cannot be decoded: {error}")
            self._folds = False
            return None

    def _wrong(self, entry: Entry, event: AnyEvent) -> Iterator[str]:
        if event.seq != entry.seq:
            yield f"says that its seq is {event.seq}"
        if encode(event) != entry.body:
            yield "is not spelt as the board spells it"
        if entry.columns is not None and (wanted := Columns.of(event)) != entry.columns:
            yield f"is filed otherwise than it says: {_difference(wanted, entry.columns)}"
        yield from self._wrong_time(entry, event)
        yield from _wrong_detail(entry, event)
        yield from self._wrong_key(entry, event)

    def _wrong_time(self, entry: Entry, event: AnyEvent) -> Iterator[str]:
        try:
            at_us = us_of_text(event.at)
        except ValueError as error:
            yield f"has no time: {error}"
            return
        if entry.at_us not in (None, at_us):
            yield f"is filed at another time than it says, {event.at}"
        if at_us < self._at_us:
            yield f"is older than the event before it: {event.at}"
        self._at_us = max(self._at_us, at_us)

    def _wrong_key(self, entry: Entry, event: AnyEvent) -> Iterator[str]:
        if not entry.key:
            return
        if (event.author, entry.key) in self._keys:
            yield f"has the key {entry.key!r}, which its author had used before"
        self._keys.add((event.author, entry.key))
        if len(entry.digest) != DIGEST_BYTES:
            yield f"has a key, and {len(entry.digest)} bytes to tell what was sent under it, not {DIGEST_BYTES}"

    def _fold(self, entry: Entry, event: AnyEvent) -> None:
        if not self._folds:
            return
        try:
            replay(self.state, (Record(event, us_of_text(event.at), entry.body),))
        except (BrokenLog, ValueError, AssertionError) as error:
            self._find(entry.seq, f"does not fold, and what follows was not folded: {error}")
            self._folds = False

    def _check_checkpoint(self) -> None:
        if self._checkpoint is None or not self._folds or self.state.seq != self._checkpoint[0]:
            return
        kept, self._checkpoint = self._checkpoint[1], None
        if kept != self.state.freeze():
            self._find(self.state.seq, "the checkpoint is not what the log folds to there")


def _difference(wanted: Columns, found: Columns) -> str:
    pairs = [(name, getattr(wanted, name), getattr(found, name)) for name in Columns.__struct_fields__]
    return ", ".join(f"{name} is {there!r}, not {right!r}" for name, right, there in pairs if right != there)


def _wrong_detail(entry: Entry, event: AnyEvent) -> Iterator[str]:
    said: Any = (event.detail_bytes, event.detail_hash) if isinstance(event, Note) else (0, "")
    data = entry.detail.encode()
    if len(data) != said[0]:
        yield f"has {len(data)} bytes of detail; it says {said[0]}"
    elif data and said[1] and not sha256(data).hexdigest().startswith(said[1]):
        yield "has another detail than it was written with"


class Audited(msgspec.Struct, frozen=True):
    """One board that was checked to its end: how many events it keeps, from which one on, and what they fold to.

    Where the log was trimmed, the fold begins with the base.
    """

    board: str
    events: int
    head: int
    state_hash: str
    oldest: int = 1


class Report(msgspec.Struct, frozen=True):
    """What was checked, and what is wrong with it: nothing, where `findings` is empty."""

    boards: tuple[Audited, ...]
    findings: tuple[Finding, ...]
