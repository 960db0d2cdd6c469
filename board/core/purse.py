"""What fits into a number of tokens: lines are bought in order from a purse, and make a section."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from board.core.tokens import cost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from schema.events import Note

MISSES: Final = 8
"""How many lines in a row may be too dear before a section is full: to try the rest would cost more than it finds."""

_PRICES: Final = 16_384


def heading(title: str) -> str:
    """The heading of a section."""
    return f"\n## {title}\n"


@lru_cache(maxsize=_PRICES)
def price(line: str) -> int:
    """What a line costs, its end included. The lines of a board are priced for every reader, and are the same."""
    return cost(f"{line}\n")


class Section(msgspec.Struct, frozen=True):
    """One part of the view: what it is, its heading, and its lines, each with the seq that it is about."""

    name: str
    title: str
    rows: tuple[tuple[int, str], ...] = ()

    @property
    def seqs(self) -> tuple[int, ...]:
        """What its lines are about."""
        return tuple(seq for seq, _ in self.rows)

    @property
    def text(self) -> str:
        """The section as it is shown: nothing where it has no line."""
        return heading(self.title) + "".join(f"{line}\n" for _, line in self.rows) if self.rows else ""

    @property
    def cost(self) -> int:
        """What the text costs."""
        return cost(heading(self.title)) + sum(price(line) for _, line in self.rows) if self.rows else 0


class Purse:
    """What is left to be spent on text, in the units of `board.core.tokens.cost`."""

    def __init__(self, left: int) -> None:
        self.left = left

    def spends(self, amount: int) -> bool:
        """Spend so much, if there is enough."""
        if amount > self.left:
            return False
        self.left -= amount
        return True

    def pays(self, text: str) -> bool:
        """Spend what a text costs, if there is enough."""
        return self.spends(cost(text))

    def buy(self, notes: Iterable[Note], line: Callable[[Note], str]) -> list[Note]:
        """Buy the lines of those notes that fit, in order, until several in a row did not."""
        bought: list[Note] = []
        misses = 0
        for note in notes:
            if self.spends(price(line(note))):
                bought.append(note)
                misses = 0
            elif (misses := misses + 1) == MISSES:
                break
        return bought

    def fill(self, name: str, title: str, rows: Iterable[tuple[int, str]], *, share: float = 1.0) -> Section:
        """Buy a section of those rows that fit, in order, for at most a share of what is left."""
        part = Purse(int(self.left * share))
        self.left -= part.left
        kept: list[tuple[int, str]] = []
        opening = cost(heading(title))
        misses = 0
        for seq, line in rows:
            if part.spends(price(line) + (0 if kept else opening)):
                kept.append((seq, line))
            elif (misses := misses + 1) == MISSES:
                break
        self.left += part.left
        return Section(name, title, tuple(kept))
