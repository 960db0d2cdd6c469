"""Spans of time as people write them: `45`, `45s`, `10m`, `6h`, `30d`, `2w`."""

from __future__ import annotations

import re
from typing import Final

_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN: Final = re.compile(r"(\d+)([smhdw]?)")


def seconds_of(text: str) -> int:
    """Give the seconds of a span. Raises ValueError on anything else."""
    span = _SPAN.fullmatch(text.strip())
    if span is None or int(span[1]) == 0:
        msg = f"{text!r} is no span of time: write a number and s, m, h, d or w, such as 30d"
        raise ValueError(msg)
    return int(span[1]) * _SECONDS[span[2]]


def span_of(seconds: float) -> str:
    """Say a span in its two largest units: `1 h 5 min`."""
    left = max(0, round(seconds))
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
