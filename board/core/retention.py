"""How far a log may be trimmed: what is kept, in days and in events, and what the state still needs.

A trim takes the beginning of a log away, never anything in its middle, and leaves in its place the state that it folds
to (the base), so that the fold of what is left gives the same state as ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from board.core.state import US
from schema.limits import SAME_TEXT_WINDOW_S

if TYPE_CHECKING:
    from board.core.state import State

_DAY_US = 86_400 * US


class Keep(msgspec.Struct, frozen=True):
    """What is kept: events of the last `days`, and the newest `events`; 0 of either sets no bound.

    Where both are set, an event goes as soon as one of them lets it go. False where everything is kept.
    """

    days: float = 0.0
    events: int = 0

    def __bool__(self) -> bool:
        return bool(self.days or self.events)

    def horizon_us(self, now_us: int) -> int:
        """Give the time before which events may go for their age; 0 where age does not count."""
        return max(0, now_us - round(self.days * _DAY_US)) if self.days else 0


def settled_us(state: State) -> int:
    """Give the time after which nothing goes: the last ten minutes of a log, by its own times, are always kept.

    A reader that lost its connection, a retry with its key, and the search for repeated texts look back so far.
    """
    return state.at_us - SAME_TEXT_WINDOW_S * US


def trimmable(state: State, upto: int) -> int:
    """Give the seq up to which a log may be trimmed, `upto` at the most; one before the log where nothing may go.

    The newest event stays, and everything that the state refers to: claims that are held or wait, open conflicts, and
    the texts that a repeated one would be answered with. Time can only take such references away, and new ones are to
    events that come later, so what was found trimmable stays so.
    """
    texts = (seq for _, seq, at_us in state.texts.rows() if at_us >= settled_us(state))
    return min((upto, state.seq - 1, *(seq - 1 for seq in (*state.leases, *state.conflicts, *texts))))
