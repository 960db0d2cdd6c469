"""How much a caller may use of what is shared: a bucket of tokens, as a value that is told the time.

A bucket holds at most `burst` and fills by `rate` a second. What is taken is taken whole: a batch that is larger than
the bucket passes when the bucket is full, and leaves a debt that the rate pays off; so over any time nobody gets more
than `burst + rate × seconds`, but for one such batch.
"""

from __future__ import annotations

import math
import zlib
from typing import Final

import msgspec

NO_WAIT: Final = 0.0


class Rate(msgspec.Struct, frozen=True):
    """So many a second, and so many at once. No limit where `per_s` is 0."""

    per_s: float
    burst: float

    @property
    def unlimited(self) -> bool:
        """Whether nothing is ever refused."""
        return self.per_s <= 0

    @property
    def fill_s(self) -> float:
        """Seconds in which an empty bucket is full."""
        return 0.0 if self.unlimited else self.burst / self.per_s


class Bucket:
    """One bucket, full at first. Times are seconds by a clock that never goes back; one that does counts as still."""

    __slots__ = ("_at_s", "_level", "_rate")

    def __init__(self, rate: Rate, now_s: float) -> None:
        self._rate = rate
        self._level = rate.burst
        self._at_s = now_s

    def wait_s(self, count: float, now_s: float) -> float:
        """Give the seconds until `count` may be taken; 0 when it may be now. Takes nothing."""
        if self._rate.unlimited:
            return NO_WAIT
        missing = min(count, self._rate.burst) - self.level(now_s)
        return max(NO_WAIT, missing / self._rate.per_s)

    def take(self, count: float, now_s: float) -> None:
        """Take, whether it may be taken or not: ask `wait_s` first."""
        self._level = self.level(now_s) - count
        self._at_s = max(self._at_s, now_s)

    def level(self, now_s: float) -> float:
        """How much is in it; below zero while a debt is paid off."""
        grown = self._rate.per_s * max(0.0, now_s - self._at_s)
        return min(self._rate.burst, self._level + grown)

    def idle(self, now_s: float) -> bool:
        """Whether it is full, and thus no different from a new one."""
        return self.level(now_s) >= self._rate.burst


class Buckets:
    """One bucket for each name that was used lately. Those that are full again are forgotten now and then."""

    SWEEP_AT: Final = 1024
    """Buckets from which on the full ones are looked for, each time that their number has doubled."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._buckets: dict[str, Bucket] = {}
        self._sweep_at = self.SWEEP_AT

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_s(self, name: str, count: float, now_s: float) -> float:
        """Give the seconds until `count` may be taken in this name."""
        bucket = self._buckets.get(name)
        return NO_WAIT if bucket is None else bucket.wait_s(count, now_s)

    def take(self, name: str, count: float, now_s: float) -> None:
        """Take in this name."""
        if self._rate.unlimited or not count:
            return
        bucket = self._buckets.get(name)
        if bucket is None:
            self._sweep(now_s)
            bucket = self._buckets[name] = Bucket(self._rate, now_s)
        bucket.take(count, now_s)

    def _sweep(self, now_s: float) -> None:
        if len(self._buckets) < self._sweep_at:
            return
        self._buckets = {name: bucket for name, bucket in self._buckets.items() if not bucket.idle(now_s)}
        self._sweep_at = max(self.SWEEP_AT, 2 * len(self._buckets))


class Tally:
    """How many of a thing each name has open at once. A name with none takes no room."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}

    def of(self, name: str) -> int:
        """How many this name has."""
        return self._open.get(name, 0)

    def add(self, name: str) -> None:
        """One more."""
        self._open[name] = self.of(name) + 1

    def drop(self, name: str) -> None:
        """One less."""
        left = self._open[name] - 1
        if left:
            self._open[name] = left
        else:
            del self._open[name]


class Haste:
    """Who comes back before it was told to: the names that were refused lately, and until when."""

    SWEEP_AT: Final = 1024
    """Names from which on those are looked for that may come again, each time that their number has doubled."""

    def __init__(self) -> None:
        self._until_s: dict[str, float] = {}
        self._sweep_at = self.SWEEP_AT

    def refused(self, name: str, wait_s: float, now_s: float) -> bool:
        """Note that a name was told to wait; tell whether it had been told so before, and did not."""
        hasty = now_s < self._until_s.get(name, now_s)
        self._until_s[name] = now_s + wait_s
        if len(self._until_s) >= self._sweep_at:
            self._until_s = {one: until_s for one, until_s in self._until_s.items() if now_s < until_s}
            self._sweep_at = max(self.SWEEP_AT, 2 * len(self._until_s))
        return hasty


def retry_after_s(wait_s: float) -> int:
    """Give whole seconds after which a caller should come again: at least one, never too few."""
    return max(1, math.ceil(wait_s))


def spread_s(wait_s: int, name: str) -> int:
    """Give the whole seconds after which the caller of this name should come again, where `wait_s` would be enough.

    Never less than that, half as much more at the most, and each in between for as many names: who was refused in one
    instant does not come back in one. The same name is always told the same.
    """
    return wait_s + zlib.crc32(name.encode()) % (wait_s // 2 + 1)
