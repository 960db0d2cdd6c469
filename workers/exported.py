"""The lines of an export, read: a header, then every event with what the log keeps beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from schema.codec import decode_event
from schema.events import EVENT_KINDS, AnyEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class NotAnExport(ValueError):
    """The lines are not those of an export; the sentence names the line and says why."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


class Header(msgspec.Struct, frozen=True):
    """The first line: which board with which settings, which life of its log, what follows (`after` to `head`)."""

    board: str
    epoch: str
    head: int
    after: int = 0
    settings: dict[str, Any] = {}
    state_hash: str | None = None


class Beside(msgspec.Struct, frozen=True):
    """What a line holds beside its event: a note's long text, its idempotency key, and the hash of what was sent."""

    seq: int
    kind: str
    detail: str = ""
    key: str = ""
    key_digest: str = ""


class Exported(msgspec.Struct, frozen=True):
    """One event of an export; `event` is None where its kind is not known to this version."""

    line: int
    event: AnyEvent | None
    beside: Beside


_header_decoder: Final = msgspec.json.Decoder(Header)
_beside_decoder: Final = msgspec.json.Decoder(Beside)


def header_of(line: bytes) -> Header | None:
    """Read the first line; None where it is not an export's."""
    try:
        return _header_decoder.decode(line)
    except msgspec.DecodeError:
        return None


def read_export(lines: Iterable[bytes]) -> Iterator[Exported]:
    """Read the events below the header, in order. Raises NotAnExport at the first line that cannot be read."""
    for number, line in enumerate(lines, start=1):
        if number == 1:
            _check_header(line)
        elif line.strip():
            yield _exported(number, line)


def _check_header(line: bytes) -> None:
    if header_of(line) is None:
        raise NotAnExport(1, "it is not the header of an export (board, epoch, head)")


def _exported(number: int, line: bytes) -> Exported:
    try:
        beside = _beside_decoder.decode(line)
        event = decode_event(line) if beside.kind in EVENT_KINDS else None
    except msgspec.DecodeError as error:
        raise NotAnExport(number, str(error)) from error
    return Exported(number, event, beside)
