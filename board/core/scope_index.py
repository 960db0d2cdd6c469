"""An index of many scopes, to find those that overlap a given one without looking at the rest.

A trie of segments: each kind, then each literal segment in front of a target's first wildcard, is one step down. What
overlaps a query lies

* at the nodes above: a directory that contains it, or a glob that starts there and may match it;
* at its own node: the same path, its lines, its symbols, globs that start there;
* below, where the query is a path: everything; where it is a glob: the nodes that its automaton can reach.

What is found that way is checked by `overlap`, which also gives the text. So a query costs its own depth and what lies
on its way, whatever else is in the index. Globs whose first segment is a wildcard (`**/*.c`) lie at the top and are on
everybody's way: each costs one check in each query.

Lines lie in a grid (`_LineGrid`), symbols in a trie of their names below the node of their file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from board.core.scope import BELOW, Automaton, Overlap, Target, Wild, distinct, meet, overlap, segments_meet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from board.core.scope import Item


class ScopeIndex:
    """Scopes by owner (the seq of a claim, say), mutable, in memory. Not safe for concurrent use."""

    __slots__ = ("_entries", "_top")

    def __init__(self) -> None:
        self._top = _Node()
        self._entries: dict[int, list[_Entry]] = {}

    def __bool__(self) -> bool:
        """Whether any owner has a scope here."""
        return bool(self._entries)

    def add(self, owner: int, targets: Iterable[Target]) -> None:
        """Add targets to the scope of `owner`, beside those it has."""
        entries = [_Entry(owner, target) for target in targets]
        for entry in entries:
            for steps in _routes(entry.target):
                self._top.trail(steps)[-1].keep(entry)
        self._entries.setdefault(owner, []).extend(entries)

    def discard(self, owner: int) -> None:
        """Forget the whole scope of `owner`; nothing happens if it has none."""
        for entry in self._entries.pop(owner, ()):
            for steps in _routes(entry.target):
                trail = self._top.trail(steps)
                trail[-1].drop(entry)
                _prune(trail, steps)

    def overlapping(self, targets: Iterable[Target]) -> dict[int, tuple[Overlap, ...]]:
        """Find every owner whose scope overlaps `targets`, in ascending order.

        The overlaps of each are those of `scopes_overlap`: each text once, in their order.
        """
        found: dict[int, list[Overlap]] = {}
        for target in targets:
            for entry in self._candidates(target):
                if (met := overlap(target, entry.target)) is not None:
                    found.setdefault(entry.owner, []).append(met)
        return {owner: distinct(found[owner]) for owner in sorted(found)}

    def touching(self, targets: Iterable[Target]) -> set[int]:
        """Find every owner whose scope overlaps `targets`; in no order, and not where."""
        found: set[int] = set()
        for target in targets:
            for entry in self._candidates(target):
                if entry.owner not in found and meet(target, entry.target):
                    found.add(entry.owner)
        return found

    def _candidates(self, target: Target) -> set[_Entry]:
        found: set[_Entry] = set()
        for pattern, steps in zip(target.patterns, _routes(target), strict=True):
            if (node := self._top.walk(steps, found)) is None:
                continue
            if target.is_part:
                found.update(node.here)
                node.collect_parts(target, found)
            elif pattern.rest == BELOW:
                found.update(node.everything())
            else:
                found.update(_matching(node, pattern.rest))
        return found


def _routes(target: Target) -> list[tuple[str, ...]]:
    return [(target.kind, *pattern.prefix) for pattern in target.patterns]


def _matching(top: _Node, rest: Sequence[Item]) -> Iterator[_Entry]:
    automaton = Automaton[Wild](rest, segments_meet)
    reached = [(top, automaton.start)]
    while reached:
        node, places = reached.pop()
        yield from node.here
        if automaton.accepts(places):
            yield from node.parts()
        names = automaton.only_letters(places)
        for name, child in node.children(names):
            if moved := automaton.step(places, name):
                reached.append((child, moved))


def _prune(trail: Sequence[_Node], steps: Sequence[str]) -> None:
    for node, step in zip(reversed(trail[:-1]), reversed(steps), strict=True):
        if node.below[step].is_used:
            return
        del node.below[step]


class _Entry:
    """One target of one owner. Compared by identity, which is cheaper than by target and all that is needed."""

    __slots__ = ("owner", "target")

    def __init__(self, owner: int, target: Target) -> None:
        self.owner = owner
        self.target = target


class _LineGrid:
    """Ranges of lines, in cells as wide as the range, rounded up to a power of two.

    A range lies in the cell of its first line, so it reaches into the next cell at most, and a query looks at the cells
    it touches and one before, for each width there is (as many as a number of lines has bits). A sorted list would do
    until one range from line 1 to the end comes in front of a thousand short ones.
    """

    __slots__ = ("_widths",)

    def __init__(self) -> None:
        self._widths: dict[int, dict[int, dict[_Entry, None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._widths)

    def __iter__(self) -> Iterator[_Entry]:
        for cells in self._widths.values():
            for cell in cells.values():
                yield from cell

    def add(self, lines: tuple[int, int], entry: _Entry) -> None:
        width, cell = _place(lines)
        self._widths.setdefault(width, {}).setdefault(cell, {})[entry] = None

    def remove(self, lines: tuple[int, int], entry: _Entry) -> None:
        width, cell = _place(lines)
        cells = self._widths[width]
        del cells[cell][entry]
        if not cells[cell]:
            del cells[cell]
        if not cells:
            del self._widths[width]

    def near(self, lines: tuple[int, int]) -> Iterator[_Entry]:
        """Give all that meet `lines`, and some of their neighbours."""
        for width, cells in self._widths.items():
            first, last = (lines[0] >> width) - 1, lines[1] >> width
            if last - first < len(cells):
                touched = [cell for at in range(first, last + 1) if (cell := cells.get(at))]
            else:
                touched = [cell for at, cell in cells.items() if first <= at <= last]
            for cell in touched:
                yield from cell


def _place(lines: tuple[int, int]) -> tuple[int, int]:
    width = (lines[1] - lines[0]).bit_length()
    return width, lines[0] >> width


class _Node:
    """One step of the trie. `here` are whole paths and globs whose literal prefix ends here."""

    __slots__ = ("below", "here", "lines", "symbols")

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.here: dict[_Entry, None] = {}
        self.lines: _LineGrid | None = None
        self.symbols: _Node | None = None

    @property
    def is_used(self) -> bool:
        return bool(self.below or self.here or self.lines or self.symbols)

    def trail(self, steps: Iterable[str]) -> list[_Node]:
        """Walk down, making the nodes that are missing; gives every node on the way, this one first."""
        trail: list[_Node] = [self]
        for step in steps:
            trail.append(trail[-1].below.setdefault(step, _Node()))
        return trail

    def walk(self, steps: Iterable[str], found: set[_Entry]) -> _Node | None:
        """Walk down, collecting what lies above the end; None when the way ends before."""
        node: _Node | None = self
        for step in steps:
            found.update(node.here)
            if (node := node.below.get(step)) is None:
                return None
        return node

    def children(self, names: Iterable[str] | None) -> Iterator[tuple[str, _Node]]:
        """Give the children of these names, or all where it is None."""
        if names is None:
            yield from self.below.items()
        else:
            yield from ((name, self.below[name]) for name in names if name in self.below)

    def everything(self) -> Iterator[_Entry]:
        """Give all that lies here and below. A loop, since a path may be deeper than Python recurses."""
        nodes: list[_Node] = [self]
        while nodes:
            node = nodes.pop()
            yield from node.here
            yield from node.parts()
            nodes.extend(node.below.values())

    def parts(self) -> Iterator[_Entry]:
        """Give all lines and symbols of this file."""
        if self.lines:
            yield from self.lines
        if self.symbols:
            yield from self.symbols.everything()

    def collect_parts(self, part: Target, found: set[_Entry]) -> None:
        """Collect the lines and symbols of this file that may overlap `part`."""
        if part.symbol:
            found.update(self.lines or ())
            end = self.symbols.walk(part.symbol, found) if self.symbols else None
            found.update(end.everything() if end else ())
        elif part.lines:
            found.update(self.lines.near(part.lines) if self.lines else ())
            found.update(self.symbols.everything() if self.symbols else ())

    def keep(self, entry: _Entry) -> None:
        if entry.target.lines:
            self.lines = self.lines or _LineGrid()
            self.lines.add(entry.target.lines, entry)
        elif entry.target.symbol:
            self.symbols = self.symbols or _Node()
            self.symbols.trail(entry.target.symbol)[-1].here[entry] = None
        else:
            self.here[entry] = None

    def drop(self, entry: _Entry) -> None:
        if entry.target.lines and self.lines:
            self.lines.remove(entry.target.lines, entry)
        elif entry.target.symbol and self.symbols:
            self._drop_symbol(self.symbols, entry)
        else:
            # Two alternatives may share a prefix, and then this node, so the entry may be gone already.
            self.here.pop(entry, None)

    def _drop_symbol(self, symbols: _Node, entry: _Entry) -> None:
        trail = symbols.trail(entry.target.symbol)
        del trail[-1].here[entry]
        _prune(trail, entry.target.symbol)
        self.symbols = symbols if symbols.is_used else None
