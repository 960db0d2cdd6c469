"""How long to wait before the next try: exponential, with full jitter.

Full jitter, since a thousand workers lose the same server in the same instant: a wait that is random from zero to its
bound spreads them evenly over it, where one that is merely lengthened brings them all back at once.
"""

from __future__ import annotations

import msgspec

_DOUBLINGS = 30


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """How often to try, and how long to wait in between.

    `tries` counts the first one. `cap_s` bounds a wait of our own; `longest_s` bounds what the server may ask for: a
    caller who would have to wait longer is told at once.
    """

    tries: int = 6
    base_s: float = 0.1
    cap_s: float = 5.0
    longest_s: float = 60.0

    def delay_s(self, failures: int, chance: float) -> float:
        """Give the wait after so many failures in a row (1 or more); `chance` is random, from 0 to 1."""
        return chance * min(self.cap_s, self.base_s * 2 ** min(failures, _DOUBLINGS))

    def next_delay_s(self, failures: int, chance: float, asked_s: float = 0.0) -> float | None:
        """Give the wait before the next try, at least what the server asked for; None when there is none."""
        if failures >= self.tries or asked_s > self.longest_s:
            return None
        return max(asked_s, self.delay_s(failures, chance))
