"""Scope algebra: the places a target stands for, and where two targets overlap.

A *place* is a file, a directory, or a free key. A target stands for a set of places:

* a path or a free key `p`: `p` and everything below it, by whole segments;
  A path that ends as files do (`FILE_EXTENSIONS`) is taken for a file beside a glob: `src/a.h` could be a directory
  that holds `x.c`, but a claim on `**/*.c` that stopped every claim on a header would help nobody;
* a glob: exactly the paths it matches, and nothing below them (`src/*` is what lies directly in `src`; what lies deeper
  is `src/**`). `**/` stands for any number of directories, none included; a `**` at the end for everything below, the
  directory itself not included, as in a `.gitignore`. `*`, `?` and classes match a leading dot as any other character;
* alternatives `{x,y}`: what each of them would stand for if it were written alone, so `src/{app,lib}` covers all below;
* lines or a symbol of `p`: a part of `p` alone. `p` is then a file, so nothing lies below it.

Two targets overlap when these sets meet. Both questions that are asked of patterns, "do they meet" and "does one
contain the other", are answered by running one as the input of the other's automaton (`Automaton`), first over the
segments of a path, then over the characters of a segment. That costs a product of lengths at the worst; to try each
length of a `*` in turn would cost an exponential of the number of stars.

Source of the rules: contract, section 3 (scope).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeAlias, TypeVar, get_args

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Kind = Literal["file", "task", "issue", "pr", "branch", "test", "key"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""Every kind of target, as it is written before the colon."""


FILE_EXTENSIONS: Final = frozenset(
    [
        "adoc",
        "asm",
        "bat",
        "bib",
        "bmp",
        "c",
        "cabal",
        "cc",
        "cfg",
        "cjs",
        "class",
        "clj",
        "cmake",
        "cmd",
        "coffee",
        "conf",
        "cpp",
        "cs",
        "css",
        "csv",
        "cu",
        "cxx",
        "dart",
        "diff",
        "el",
        "elm",
        "erl",
        "ex",
        "exs",
        "f90",
        "fish",
        "gif",
        "go",
        "gradle",
        "graphql",
        "groovy",
        "h",
        "hh",
        "hpp",
        "hrl",
        "hs",
        "htm",
        "html",
        "hxx",
        "ico",
        "in",
        "ini",
        "ipynb",
        "java",
        "jpeg",
        "jpg",
        "js",
        "json",
        "jsonl",
        "jsx",
        "kt",
        "kts",
        "less",
        "lhs",
        "lock",
        "log",
        "lua",
        "m4",
        "map",
        "md",
        "mdx",
        "mjs",
        "ml",
        "mli",
        "mm",
        "nim",
        "nix",
        "o",
        "org",
        "patch",
        "pdf",
        "php",
        "pl",
        "plist",
        "pm",
        "png",
        "po",
        "pot",
        "properties",
        "proto",
        "ps1",
        "py",
        "pyi",
        "pyx",
        "r",
        "rb",
        "rs",
        "rst",
        "sass",
        "scala",
        "scm",
        "scss",
        "sh",
        "snap",
        "so",
        "sql",
        "stack",
        "styl",
        "svelte",
        "svg",
        "swift",
        "t",
        "tcl",
        "tex",
        "tf",
        "toml",
        "ts",
        "tsv",
        "tsx",
        "txt",
        "v",
        "vb",
        "vim",
        "vue",
        "wasm",
        "woff2",
        "xml",
        "xsd",
        "xsl",
        "yaml",
        "yml",
        "zig",
        "zsh",
    ]
)
"""Endings that name a file wherever they stand. `d`, `io`, `app` and the like are not here: directories end so too."""


class Star(Enum):
    """The one value `STAR`: any number of letters, none included. `*` among characters, `**` among segments."""

    STAR = "*"


STAR: Final = Star.STAR

Chars: TypeAlias = tuple[tuple[int, int], ...]
"""A set of two or more characters: disjoint ranges of code points, ascending, both ends included."""

Atom: TypeAlias = str | Chars | Star
"""What a segment's pattern is made of: one character, one of several, or any number of any."""


class Wild(msgspec.Struct, frozen=True):
    """The pattern of one segment that can match more than one name."""

    atoms: tuple[Atom, ...]
    head: str
    """The literal characters it starts with; with `tail`, they settle most questions without an automaton."""
    tail: str
    """The literal characters it ends with."""

    @classmethod
    def of(cls, atoms: Sequence[Atom]) -> Wild:
        """Make the pattern; at least one atom is no literal, and no two stars stand side by side."""
        tail = "".join(leading_letters(reversed(atoms)))
        return cls(tuple(atoms), "".join(leading_letters(atoms)), tail[::-1])


Segment: TypeAlias = str | Wild
Item: TypeAlias = Segment | Star
"""What a path's pattern is made of: a name, a pattern of names, or any number of directories."""

ANY_NAME: Final = Wild((STAR,), "", "")
"""The segment `*`."""

BELOW: Final[tuple[Item, ...]] = (STAR,)
"""What follows the prefix of a path that stands for itself and everything below it."""


class Pattern(msgspec.Struct, frozen=True):
    """A set of places: a literal prefix, then the rest. Folded on a board where case does not matter."""

    text: str
    """Canonical spelling of a target that stands for just these places."""
    prefix: tuple[str, ...]
    rest: tuple[Item, ...]
    """Empty for the one place `prefix`, `BELOW` for it and all below; else it starts with a star or a `Wild`."""


class Target(msgspec.Struct, frozen=True):
    """One target of a scope, as `spelling.spell` makes it. Immutable and hashable.

    `text` is its canonical spelling, and re-spells to itself. Two targets whose `text` differs may stand for the same
    places: `Config.yaml` and `config.yaml` on a board where case does not matter.
    """

    kind: Kind
    text: str
    path: str
    """`text` without lines and symbol."""
    patterns: tuple[Pattern, ...]
    """One for each alternative that `{x,y}` makes; a single one otherwise."""
    lines: tuple[int, int] | None = None
    """First and last line, from 1, both included."""
    symbol: tuple[str, ...] = ()
    """The names from the outermost to the innermost."""

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def is_part(self) -> bool:
        """Whether this is lines or a symbol of a file, not a whole place."""
        return self.lines is not None or bool(self.symbol)


class Overlap(msgspec.Struct, frozen=True):
    """Where two targets meet."""

    text: str
    """Canonical spelling of the common part, or of the narrower target where the exact part has no spelling."""
    possible: bool = False
    """True where it cannot be told whether they meet: a symbol and a range of lines of the same file."""


def overlap(x: Target, y: Target) -> Overlap | None:
    """Say where two targets overlap, or None when no place can belong to both.

    Symmetric, the text included. The text is the deeper of two nested paths, keys or symbols; the lines common to two
    ranges; the symbol, of a symbol and lines. Of a glob and another target it is the one that the other contains; where
    neither is seen to contain the other, the one with more literal segments in front, then the longer one (of the
    alternatives that meet, where there are braces).
    """
    if x.kind != y.kind:
        return None
    meeting = [(p, q) for p in x.patterns for q in y.patterns if _patterns_meet(p, q)]
    if not meeting:
        return None
    if x.is_part and y.is_part:
        return _parts_overlap(x, y)
    return Overlap(_common_text(x, y, meeting))


def meet(x: Target, y: Target) -> bool:
    """Tell whether two targets overlap. `overlap` spends two thirds of its time on where."""
    if x.kind != y.kind or not any(_patterns_meet(p, q) for p in x.patterns for q in y.patterns):
        return False
    return not (x.is_part and y.is_part) or _parts_overlap(x, y) is not None


def scopes_overlap(xs: Iterable[Target], ys: Sequence[Target]) -> tuple[Overlap, ...]:
    """List where two scopes overlap: each text once, in the order of `distinct`. Symmetric."""
    return distinct(met for x in xs for y in ys if (met := overlap(x, y)))


def distinct(overlaps: Iterable[Overlap]) -> tuple[Overlap, ...]:
    """Put overlaps in the order of their texts, each text once; what is certain once is not merely possible."""
    possible: dict[str, bool] = {}
    for met in overlaps:
        possible[met.text] = met.possible and possible.get(met.text, True)
    return tuple(Overlap(text, possible[text]) for text in sorted(possible))


Compound = TypeVar("Compound")


class Automaton(Generic[Compound]):
    """The positions in a pattern that reading some input can lead to, one bit of an int for each.

    A pattern is a sequence of letters, compound letters (sets of letters) and stars. The input is a sequence of letters
    and compound letters; `touch(input letter, pattern letter)` says whether the pattern's may stand for the input's.
    It is never asked of two plain letters, which match when they are equal. No two stars may stand side by side.
    """

    __slots__ = ("_compounds", "_end", "_letters", "_stars", "_touch", "start")

    def __init__(
        self,
        pattern: Iterable[str | Compound | Star],
        touch: Callable[[str | Compound, str | Compound], bool],
    ) -> None:
        self._touch = touch
        self._letters: dict[str, int] = {}
        self._compounds: dict[Compound, int] = {}
        self._stars = 0
        self._end = 1
        for item in pattern:
            if isinstance(item, str):
                self._letters[item] = self._letters.get(item, 0) | self._end
            elif isinstance(item, Star):
                self._stars |= self._end
            else:
                self._compounds[item] = self._compounds.get(item, 0) | self._end
            self._end <<= 1
        self.start: int = self._past_stars(1)

    def step(self, places: int, letter: str | Compound) -> int:
        """Read one letter; 0 when the pattern cannot go on."""
        moved = (places & self._touched_by(letter)) << 1
        return self._past_stars(moved | places & self._stars)

    def stretch(self, places: int) -> int:
        """Read whatever helps: any number of any letters."""
        lowest = places & -places
        return -lowest & (self._end << 1) - 1 if lowest else 0

    def hold(self, places: int) -> int:
        """Read letters that are all unknown: only a star may stand for them."""
        return self._past_stars(places & self._stars)

    def accepts(self, places: int) -> bool:
        """Say whether the pattern may end here."""
        return bool(places & self._end)

    def only_letters(self, places: int) -> list[str] | None:
        """List the letters that may come next, or None when others than plain ones may."""
        if places & self._stars or any(places & bits for bits in self._compounds.values()):
            return None
        return [letter for letter, bits in self._letters.items() if places & bits]

    def _touched_by(self, letter: str | Compound) -> int:
        bits = sum(bits for other, bits in self._compounds.items() if self._touch(letter, other))
        if isinstance(letter, str):
            return bits | self._letters.get(letter, 0)
        return bits | sum(bits for other, bits in self._letters.items() if self._touch(letter, other))

    def _past_stars(self, places: int) -> int:
        return places | (places & self._stars) << 1


def segments_meet(x: Segment, y: Segment) -> bool:
    """Say whether some name matches both, one of them at least a `Wild`."""
    if isinstance(x, Wild):
        return _wilds_meet(x, y) if isinstance(y, Wild) else _fits(y, x)
    return isinstance(y, Wild) and _fits(x, y)


def _segment_within(narrow: Segment, wide: Segment) -> bool:
    if not isinstance(wide, Wild):
        return False
    if not isinstance(narrow, Wild):
        return _fits(narrow, wide)
    automaton = Automaton[Chars](wide.atoms, _chars_within)
    return _accepts(automaton, narrow.atoms, automaton.hold)


def _fits(name: str, wild: Wild) -> bool:
    if not (name.startswith(wild.head) and name.endswith(wild.tail)):
        return False
    literals = len(wild.head) + len(wild.tail)
    if len(wild.atoms) == literals + 1 and wild.atoms[len(wild.head)] is STAR:
        return len(name) >= literals
    automaton = Automaton[Chars](wild.atoms, _chars_meet)
    return _accepts(automaton, name, automaton.stretch)


def _wilds_meet(x: Wild, y: Wild) -> bool:
    automaton = Automaton[Chars](y.atoms, _chars_meet)
    return _accepts(automaton, x.atoms, automaton.stretch)


def _accepts(
    automaton: Automaton[Compound],
    items: Iterable[str | Compound | Star],
    over_star: Callable[[int], int],
) -> bool:
    places = automaton.start
    for item in items:
        places = over_star(places) if isinstance(item, Star) else automaton.step(places, item)
        if not places:
            return False
    return automaton.accepts(places)


def _patterns_meet(x: Pattern, y: Pattern) -> bool:
    depth = min(len(x.prefix), len(y.prefix))
    if x.prefix[:depth] != y.prefix[:depth]:
        return False
    items, others = x.prefix[depth:] + _rest_beside(x, y), y.prefix[depth:] + _rest_beside(y, x)
    if BELOW in (items, others):
        return True
    if not (items and others and _items_meet(items[-1], others[-1])):
        return items == others
    automaton = Automaton[Wild](others, segments_meet)
    return _accepts(automaton, items, automaton.stretch)


def _rest_beside(pattern: Pattern, other: Pattern) -> tuple[Item, ...]:
    """Give the rest of a pattern, without what lies below a path that beside a glob is taken for a file."""
    if pattern.rest != BELOW or other.rest in (BELOW, ()) or not is_file_name(pattern.prefix[-1]):
        return pattern.rest
    return ()


def is_file_name(name: str) -> bool:
    """Say whether a name ends as source and text files do, so that nobody would take it for a directory."""
    stem, dot, extension = name.rpartition(".")
    return bool(stem and dot) and extension.casefold() in FILE_EXTENSIONS


def _items_meet(x: Item, y: Item) -> bool:
    return x == y or isinstance(x, Star) or isinstance(y, Star) or segments_meet(x, y)


def _pattern_within(narrow: Pattern, wide: Pattern) -> bool:
    """Say whether `wide` is seen to contain `narrow`; a False may be mistaken, a True is not.

    Each item of `narrow` must lie in one item of `wide`, whose last is a name unless it is a path: so no glob is seen
    to contain a path, which stands for all below it too. The exact answer takes exponential time in the worst case
    (inclusion of regular languages), and would only choose between two texts.
    """
    depth = len(wide.prefix)
    if narrow.prefix[:depth] != wide.prefix:
        return False
    if BELOW in (wide.rest, narrow.rest):
        return wide.rest == BELOW
    items = narrow.prefix[depth:] + narrow.rest
    if not (items and wide.rest and _items_meet(items[-1], wide.rest[-1])):
        return items == wide.rest
    automaton = Automaton[Wild](wide.rest, _segment_within)
    return _accepts(automaton, items, automaton.hold)


def _common_text(x: Target, y: Target, meeting: Sequence[tuple[Pattern, Pattern]]) -> str:
    in_y, in_x = _target_within(x, y), _target_within(y, x)
    if in_y and in_x:
        return min(x.text, y.text, key=_length_then_text)
    if in_y or in_x:
        return x.text if in_y else y.text
    return min((pattern for pair in meeting for pattern in pair), key=_vagueness).text


def _target_within(narrow: Target, wide: Target) -> bool:
    return not wide.is_part and all(any(_pattern_within(p, q) for q in wide.patterns) for p in narrow.patterns)


def _vagueness(pattern: Pattern) -> tuple[int, int, str]:
    return -len(pattern.prefix), -len(pattern.text), pattern.text


def _length_then_text(text: str) -> tuple[int, str]:
    return len(text), text


def _parts_overlap(x: Target, y: Target) -> Overlap | None:
    if x.lines and y.lines:
        return _lines_overlap(min(x.path, y.path), x.lines, y.lines)
    if x.symbol and y.symbol:
        return _symbols_overlap(x, y)
    return Overlap(x.text if x.symbol else y.text, possible=True)


def _lines_overlap(path: str, x: tuple[int, int], y: tuple[int, int]) -> Overlap | None:
    first, last = max(x[0], y[0]), min(x[1], y[1])
    return Overlap(path + lines_suffix(first, last)) if first <= last else None


def lines_suffix(first: int, last: int) -> str:
    """Spell a range of lines as it follows a path: `:10-40`, or `:12` for a single line."""
    return f":{first}" if first == last else f":{first}-{last}"


def _symbols_overlap(x: Target, y: Target) -> Overlap | None:
    depth = min(len(x.symbol), len(y.symbol))
    if x.symbol[:depth] != y.symbol[:depth]:
        return None
    return Overlap(min((x, y), key=lambda target: (-len(target.symbol), target.text)).text)


def _chars_meet(x: str | Chars, y: str | Chars) -> bool:
    return any(low <= last and first <= high for low, high in _ranges(x) for first, last in _ranges(y))


def _chars_within(narrow: str | Chars, wide: str | Chars) -> bool:
    return all(any(first <= low and high <= last for first, last in _ranges(wide)) for low, high in _ranges(narrow))


def _ranges(letter: str | Chars) -> Chars:
    return ((ord(letter), ord(letter)),) if isinstance(letter, str) else letter


def leading_letters(items: Iterable[object]) -> tuple[str, ...]:
    """Give the plain letters that a pattern starts with: its names, or its characters."""
    letters: list[str] = []
    for item in items:
        if not isinstance(item, str):
            break
        letters.append(item)
    return tuple(letters)
