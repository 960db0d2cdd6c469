"""Lines of exports, made for tests."""

from __future__ import annotations

from typing import Any

import msgspec

from schema.codec import text_of_us

BEGAN_US = 1_796_119_200_000_000


class Log:
    """A log that grows by one second with every event."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def add(self, kind: str, author: str = "w1", **fields: Any) -> int:
        """Add an event, and give its seq."""
        seq = len(self.lines) + 1
        event = {"kind": kind, "seq": seq, "at": text_of_us(BEGAN_US + seq * 1_000_000), "author": author, **fields}
        self.lines.append(msgspec.json.encode(event))
        return seq

    def note(self, type_: str, author: str = "w1", **fields: Any) -> int:
        """Add a note."""
        said = {} if type_ == "PATCH_SUMMARY" else {"text": type_.lower()}
        return self.add("note", author, type=type_, **said | fields)

    def export(self) -> list[bytes]:
        """Give the lines of an export, the header first."""
        header = {"board": "main", "epoch": "e", "head": len(self.lines), "after": 0, "schema_version": 1}
        return [msgspec.json.encode(header), *self.lines]
