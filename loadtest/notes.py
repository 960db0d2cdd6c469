"""The notes that loads are made of: about 290 bytes as events, each with a mark that readers find without parsing.

A mark is `~~P:IIIIIIII:TTTTTTTTTTTTTTTT~`, in hexadecimal: the phase of the experiment, the index of the note in it,
and when it was begun to be posted, in nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share. No other
`~` occurs in a note.
"""

from __future__ import annotations

from typing import Final

PHASES: Final = 16
"""Phases are numbered from 0 to 15."""

_END: Final = (
    b" table rows end at a line of dashes, and what follows the dashes belongs to the next table;"
    b'","scope":["src/readers/tables.c:10-40"],"task":"tables"}'
)
_DRAFT: Final = b'{"type":"FACT","text":"'
_EVENT: Final = (
    b'{"kind":"note","num":1234567,"at":"2026-12-01T10:00:00.123456Z","author":"poster","type":"FACT","text":"'
)


def mark(phase: int, index: int, at_ns: int) -> bytes:
    """Mark a note that begins to be posted at `at_ns`."""
    return b"~~%x:%08x:%016x~" % (phase, index, at_ns)


def draft(mark_: bytes) -> bytes:
    """Give the note as a caller sends it."""
    return _DRAFT + mark_ + _END


def event(mark_: bytes) -> bytes:
    """Give what a board would send of the note, but for its seq, for servers that only pass on what they are given."""
    return _EVENT + mark_ + _END


def batch(marks: list[bytes]) -> bytes:
    """Give the body of a batch, one note a mark."""
    return b'{"notes":[' + b",".join(map(draft, marks)) + b"]}"
