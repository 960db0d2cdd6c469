"""The notes that loads are made of: about 290 bytes as events, each with a mark that readers find without parsing.

A mark is `~~P:IIIIIIII:TTTTTTTTTTTTTTTT~`, in hexadecimal: the phase of the experiment, the index of the note in it,
and when it was begun to be posted, in nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share. No other
`~` occurs in a note.
"""

from __future__ import annotations

import time
from typing import Final

PHASES: Final = 16
"""Phases are numbered from 0 to 15."""

_PLACE: Final = b"@"
_MARK_BYTES: Final = 30
_TEXT: Final = b"table rows end at a line of dashes, and what follows the dashes belongs to the next table;"
_DRAFT: Final = b'{"type":"FACT","text":"' + _PLACE + b" " + _TEXT + b'","scope":["src/readers/tables.c:10-40"],"task":"tables"}'
_EVENT: Final = b'{"kind":"note","seq":123456,"at":"2026-12-01T10:00:00.123456Z","author":"poster","type":"FACT","text":"' + _PLACE
_EVENT_END: Final = b" " + _TEXT + b'","scope":["src/readers/tables.c:10-40"],"task":"tables"}'


def mark(phase: int, index: int, at_ns: int) -> bytes:
    """Mark a note that begins to be posted at `at_ns`."""
    return b"~~%x:%08x:%016x~" % (phase, index, at_ns)


def draft(mark_: bytes) -> bytes:
    """Give the note as a caller sends it."""
    return _DRAFT.replace(_PLACE, mark_)


def event(mark_: bytes) -> bytes:
    """Give what a board would send of the note, for servers that pass on what they are given."""
    return _EVENT + mark_ + _EVENT_END
