"""Who is next: a queue in which everybody waits behind their own, and nobody behind a crowd of another's.

Each name has a line of its own; lines take turns, one item each. So an item waits for at most one item of each other
name for each of its own before it, however long their lines are. Where everyone has one item it is first come, first
served.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """The lines. Items have a weight, which only counts for the totals."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[tuple[T, int]]] = {}
        self._weights: dict[str, int] = {}
        self.weight = 0
        """The weight of all that waits."""

    def __bool__(self) -> bool:
        return bool(self._lines)

    def weight_of(self, name: str) -> int:
        """The weight of what waits in one line."""
        return self._weights.get(name, 0)

    def add(self, name: str, item: T, weight: int) -> None:
        """Put an item at the end of a line."""
        self._lines.setdefault(name, deque()).append((item, weight))
        self._weights[name] = self.weight_of(name) + weight
        self.weight += weight

    def take(self, weight: int) -> list[T]:
        """Take items in turn, as many as have this weight together; one at least, where there is one."""
        taken: list[T] = []
        while self._lines:
            name = next(iter(self._lines))
            item, heavy = self._lines[name][0]
            if taken and heavy > weight:
                break
            self._drop(name, heavy)
            taken.append(item)
            weight -= heavy
        return taken

    def _drop(self, name: str, weight: int) -> None:
        line = self._lines.pop(name)
        line.popleft()
        self.weight -= weight
        self._weights[name] -= weight
        if line:
            self._lines[name] = line  # at the end: its next turn comes after everybody else's
        else:
            del self._weights[name]
