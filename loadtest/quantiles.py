"""Latencies, summed up: the middle, the tail and the worst."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence


class Quantiles(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long something took, in milliseconds, over `count` times; `pN` is what N percent stayed within."""

    count: int = 0
    p50: float = math.nan
    p95: float = math.nan
    p99: float = math.nan
    max: float = math.nan


def quantiles_of(taken_ns: Sequence[int]) -> Quantiles:
    """Sum up times in nanoseconds."""
    if not taken_ns:
        return Quantiles()
    ordered = sorted(taken_ns)
    return Quantiles(
        count=len(ordered),
        p50=_at(ordered, 0.50),
        p95=_at(ordered, 0.95),
        p99=_at(ordered, 0.99),
        max=ordered[-1] / 1e6,
    )


def _at(ordered: Sequence[int], share: float) -> float:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] / 1e6
