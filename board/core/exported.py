"""Exports read back: a header line, then the log's own events with the long text and the key that stood beside them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from board.core.fold import BrokenLog, replay
from board.core.history import Record
from board.core.state import State, thaw
from schema.codec import encode, us_of_text
from schema.events import AnyEvent, Note

SCHEMA_VERSION: Final = 1
"""The version of the events' shape, told in the first line of an export."""


class BadExport(ValueError):
    """A line of an export cannot be taken. Names the line, from 1, and what is wrong with it."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


_NONE: Final = msgspec.Raw(b"null")


class Header(msgspec.Struct):
    """The first line. `state_hash` is that of the whole log, where the export is one.

    An export of a log whose beginning is no longer kept is whole as well: `base` is what everything up to `after` folds
    to, as `State.freeze` gives it.
    """

    board: str
    epoch: str
    head: int
    schema_version: int
    after: int = 0
    state_hash: str | None = None
    base: msgspec.Raw = _NONE


class _Beside(msgspec.Struct):
    detail: str = ""
    key: str = ""
    key_digest: str = ""


_beside: Final = msgspec.json.Decoder(_Beside)
_event: Final = msgspec.json.Decoder(AnyEvent)


class Reader:
    """Reads an export line by line and folds it into `state`, so that what is wrong is found before it is stored."""

    def __init__(self, state: State) -> None:
        self.header: Header | None = None
        self.state = state
        self._lines = 0

    def take(self, line: bytes) -> Record | None:
        """Give the record of a line, None for the header and empty lines. Raises BadExport."""
        self._lines += 1
        if not line.strip():
            return None
        try:
            return self._record(line) if self.header is not None else self._take_header(line)
        except (msgspec.MsgspecError, ValueError, AssertionError) as error:
            raise BadExport(self._lines, str(error)) from error

    def finish(self) -> None:
        """Check that the whole log was there. Raises BadExport."""
        if self.header is None:
            raise BadExport(self._lines + 1, "the header is missing")
        if self.state.seq != self.header.head:
            raise BadExport(self._lines, f"the export ends at {self.state.seq}; its header says {self.header.head}")
        if self.header.state_hash and self.state.state_hash() != self.header.state_hash:
            raise BadExport(self._lines, "the events do not fold to the state that the header says")

    def _take_header(self, line: bytes) -> None:
        header = msgspec.json.decode(line, type=Header)
        if header.schema_version > SCHEMA_VERSION:
            raise BadExport(self._lines, f"schema version {header.schema_version} is newer than {SCHEMA_VERSION}")
        self._take_base(header)
        self.header = header

    def _take_base(self, header: Header) -> None:
        if header.base != _NONE:
            self.state = thaw(header.base, self.state.settings)
        if header.after != self.state.seq:
            raise BadExport(self._lines, f"the export begins after {header.after}; only a whole log can be imported")

    def _record(self, line: bytes) -> Record:
        event, beside = _event.decode(line), _beside.decode(line)
        digest = bytes.fromhex(beside.key_digest)
        record = Record(event, us_of_text(event.at), encode(event), beside.detail, beside.key, digest)
        _check(record)
        replay(self.state, (record,))
        return record


def _check(record: Record) -> None:
    size = record.event.detail_bytes if isinstance(record.event, Note) else 0
    if len(record.detail.encode()) != size:
        msg = f"event {record.seq} has {len(record.detail.encode())} bytes of detail; it says {size}"
        raise BrokenLog(msg)


def header_of(
    board: str, epoch: str, state: State, *, after: int, head: int, base: bytes | None = None
) -> dict[str, Any]:
    """Make the first line of an export that covers the events after `after`, which fold to `base`, up to `head`."""
    whole = (after == 0 or base is not None) and head == state.seq
    header: dict[str, Any] = {
        "board": board,
        "epoch": epoch,
        "head": head,
        "after": after,
        "schema_version": SCHEMA_VERSION,
        "settings": state.settings,
        "state_hash": state.state_hash() if whole else None,
    }
    return header if base is None else header | {"base": msgspec.Raw(base)}
