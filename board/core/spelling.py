r"""The one written spelling rule: raw text to `Target`, applied before anything is compared or shown.

Every target: NFC; `\` becomes `/`; `.` segments, `//` and a trailing `/` go; `..` takes the segment before it away.
What comes out spells to itself.

Files, `file:` optional: `path`, `path:12`, `path:10-40`, `path::Outer.inner`.

* An absolute path (`/srv/app/a.c`, `C:\app\a.c`, `file:///srv/app/a.c`) loses the worker's registered root.
* Globs: `*` and `?` within a segment (a run of stars inside a name is one star); `**` as a whole segment; classes
  `[ab]`, `[a-z]`, `[!a]` (or `[^a]`); alternatives `{x,y}`, which may be empty, nest and hold `/`. `?` and a class
  stand for one code point of the NFC form (on a board where case does not matter, of its casefold: `ß` is two, `ss`).
* There is no escape character, since `\` is `/`. A class of one character is that character: `[[]` is a plain `[`, and
  `app/[[]id]/page.tsx` is a literal path, with lines and symbols if need be. `app/[id]/page.tsx` is a glob. Braces
  without a comma are plain characters, as in a shell: `{{cookiecutter.slug}}`.
* A single colon in the last segment starts lines; anything else after it is refused, since a mistyped range that is
  taken for a file's name protects nothing. For the same reason `word:` in front is refused unless the word is a kind:
  `dir:src` would be a file that nobody has. A colon in a name is written `[:]`; a name with a dot or slash before the
  colon is no word, and a letter before `:/` is a drive. `Makefile:12` is lines, `task:12` is a task,
  `task::X` is a symbol of a file.
* A file whose spelling would read as another kind (`file:test:12`, lines of a file named `test`) has its first letter
  bracketed: `[t]est:12`.
* Symbols nest by `.` or `::`, spelt with `.`. Their case always matters: it is a program's, not the file system's.

Other kinds are free keys, nested by `/`, without globs, lines or roots. In `issue` and `pr` a `#` reads as `/`, so
`issue:#12` is `issue:12`, and `issue:org/app#12` lies below `issue:org/app`.

Source of the rule: contract, section 3 (scope).
"""

from __future__ import annotations

import re
import sys
import unicodedata
from bisect import bisect_left, bisect_right
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, NoReturn

from board.core.scope import (
    ANY_NAME,
    BELOW,
    KINDS,
    STAR,
    Atom,
    Chars,
    Item,
    Kind,
    Pattern,
    Segment,
    Target,
    Wild,
    leading_letters,
    lines_suffix,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Ranges = Sequence[tuple[int, int]]

Reason = Literal[
    "empty",
    "too_long",
    "surrogate",
    "control_character",
    "unknown_kind",
    "leaves_root",
    "outside_root",
    "bad_root",
    "bare_glob",
    "bad_glob",
    "too_many_alternatives",
    "part_of_glob",
    "bad_lines",
    "bad_symbol",
]

MAX_CHARS: Final = 512
"""Characters of a target where the board's settings name no other limit."""

MAX_ROOT_CHARS: Final = 4096
"""Characters of a root: Linux's PATH_MAX."""

MAX_ALTERNATIVES: Final = 32
"""The most paths that the braces of one target may make. Two targets are compared path by path: the square counts."""

_SHOWN_CHARS: Final = 80

_SENTENCES: Final[dict[Reason, str]] = {
    "empty": "names nothing; write a path, a glob or kind:value",
    "too_long": "is longer than {limit} characters; name a directory or a shorter glob",
    "surrogate": "holds a lone surrogate, which is no character; send the name as valid Unicode",
    "control_character": "holds a control character or a line separator; leave it out",
    "unknown_kind": (
        f"starts with a word and a colon that are no kind; the kinds are {', '.join(KINDS)}; "
        "write a colon that belongs to a name as [:]"
    ),
    "leaves_root": "leaves the root by '..'; write a path inside of the repository",
    "outside_root": "is an absolute path outside of your registered root; register the root or write a relative path",
    "bad_root": "is no absolute path; register the root as /path/to/checkout or C:/path/to/checkout",
    "bare_glob": "stands for the whole repository; name a directory, or a glob with a name in it",
    "bad_glob": (
        "has a class or braces that do not close, a class that matches nothing, a range written backwards, or '..' "
        "next to a wildcard; correct it, or write a plain [ as [[] and a plain {{ as [{{]"
    ),
    "too_many_alternatives": "makes more than {limit} paths of its braces; write a wider glob or several targets",
    "part_of_glob": "asks for lines or a symbol of a glob; name one file, and write a plain [ as [[]",
    "bad_lines": (
        "has a colon that starts no range of lines; write :12 or :10-40, counted from 1, first not past last, and not "
        "beside a symbol; write a colon that belongs to a name as [:]"
    ),
    "bad_symbol": "has an empty name in its symbol; write path::Outer.inner",
}


class BadTarget(ValueError):
    """A target, or a root, that the spelling rule refuses.

    `target` is the text as it was given (it may hold lone surrogates, which no UTF-8 encoder takes), `reason` a stable
    slug, `limit` the number that was exceeded (None where the reason has none). `str()` is a sentence that names the
    text (cut to 80 characters, with its length, if it is longer), the limit, and the way out.
    """

    def __init__(self, target: str, reason: Reason, limit: int | None = None) -> None:
        super().__init__(target, reason, limit)
        self.target = target
        self.reason: Reason = reason
        self.limit = limit

    def __str__(self) -> str:
        return f"{_shown(self.target)} {_SENTENCES[self.reason].format(limit=self.limit)}"


def spell(
    raw: str,
    *,
    root: str | None = None,
    case_insensitive: bool = False,
    max_chars: int = MAX_CHARS,
) -> Target:
    """Spell one target by the rule of this module.

    `root` is the worker's registered root, an absolute path; without one every absolute path is refused.
    `case_insensitive` makes paths and keys compare by casefold; the text keeps its case. `max_chars` bounds the text as
    it is given and its NFC form, inclusive. Raises BadTarget.
    """
    return _spelt(raw, root, case_insensitive, max_chars)


@lru_cache(maxsize=16_384)
def _spelt(raw: str, root: str | None, case_insensitive: bool, max_chars: int) -> Target:  # noqa: FBT001 -- a cache's key
    # A team names the same few thousand places over and over, each when asked, decided and folded: 7 µs, or 0.3 known.
    case = _CASE_FOLDED if case_insensitive else _CASE_MATTERS
    try:
        kind, value = _split_kind(_checked(raw, max_chars))
        return _file(value, root, case) if kind == "file" else _key(kind, value, case)
    except _Refusal as refusal:
        raise BadTarget(raw, refusal.reason, refusal.limit) from None


def spell_all(
    raw: Sequence[str],
    *,
    root: str | None = None,
    case_insensitive: bool = False,
    max_chars: int = MAX_CHARS,
) -> tuple[Target, ...]:
    """Spell a scope in its order, without targets whose text came before. Raises BadTarget for the first bad one."""
    spelt = [_spelt(text, root, case_insensitive, max_chars) for text in raw]
    return tuple(spelt) if len(spelt) == 1 else tuple({target.text: target for target in spelt}.values())


@lru_cache(maxsize=1024)
def spell_root(raw: str) -> str:
    """Spell a worker's root: an absolute path, without `.`, `..` and a trailing `/`. Raises BadTarget."""
    try:
        text = _checked(raw, MAX_ROOT_CHARS)
        if not _ABSOLUTE.match(text):
            _refuse("bad_root")
        anchor, *segments = _absolute_segments(text)
        return anchor + "/".join(segments)
    except _Refusal as refusal:
        raise BadTarget(raw, refusal.reason, refusal.limit) from None


class _Refusal(Exception):
    def __init__(self, reason: Reason, limit: int | None = None) -> None:
        super().__init__(reason)
        self.reason: Reason = reason
        self.limit = limit


def _refuse(reason: Reason, limit: int | None = None) -> NoReturn:
    raise _Refusal(reason, limit)


def _shown(text: str) -> str:
    if len(text) <= _SHOWN_CHARS:
        return ascii(text) if _SURROGATE.search(text) else repr(text)
    return f"{_shown(text[:_SHOWN_CHARS])}… ({len(text)} characters)"


_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:/")
_KIND: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):(?!:)")
_LINES: Final = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_LINES_AT_END: Final = re.compile(r":([0-9]+)(?:-([0-9]+))?\Z")
_WILD: Final = re.compile(r"[\[{*?]")

_PIECE: Final = re.compile(r"\[[!^]?+\]?+[^\]/]*+\]|::|[^\[\]{},/*?:]+|.", re.DOTALL)
"""A class, a `::`, a run of plain characters, or one other. A lone `[` is a class that does not close."""

_NESTING: Final = {"{": 1, "}": -1}
_MEMBER: Final = re.compile(r"(.)-(.)|(.)", re.DOTALL)


def _checked(raw: str, max_chars: int) -> str:
    if not raw.strip():
        _refuse("empty")
    if len(raw) > max_chars:
        _refuse("too_long", max_chars)
    if _SURROGATE.search(raw):
        _refuse("surrogate")
    if _CONTROL.search(raw):
        _refuse("control_character")
    text = unicodedata.normalize("NFC", raw)
    # Not implied by the check above: the NFC form of some characters is up to three times as long.
    if len(text) > max_chars:
        _refuse("too_long", max_chars)
    return text.replace("\\", "/")


def _split_kind(text: str) -> tuple[Kind, str]:
    if _ABSOLUTE.match(text) or _reads_as_file(text):
        return "file", text
    word, _, rest = text.partition(":")
    for kind in KINDS:
        if kind == word:
            return kind, rest
    _refuse("unknown_kind")


def _reads_as_file(text: str) -> bool:
    found = _KIND.match(text)
    return found is None or (found[1] not in KINDS and bool(_LINES.fullmatch(text, found.end())))


def _key(kind: Kind, value: str, case: _Case) -> Target:
    if kind in ("issue", "pr"):
        value = value.replace("#", "/")
    segments = _clean(value.split("/"))
    if not segments:
        _refuse("empty")
    if segments[0].startswith(":"):
        _refuse("bad_symbol")
    text = f"{kind}:{'/'.join(segments)}"
    return Target(kind, text, text, (Pattern(text, tuple(map(case.text, segments)), BELOW),))


def _file(value: str, root: str | None, case: _Case) -> Target:
    path, symbol = _split_symbol(value)
    path, lines = (path, None) if symbol else _split_lines(path)
    path = _relative(path, root, case)
    patterns = tuple(_pattern(text, case) for text in _alternatives(path))
    suffix = f"::{'.'.join(symbol)}" if symbol else lines_suffix(*lines) if lines else ""
    path = _unlike_a_kind(path, suffix)
    if suffix:
        patterns = (_one_file(path, patterns),)
    return Target("file", path + suffix, path, patterns, lines, symbol)


def _one_file(path: str, patterns: Sequence[Pattern]) -> Pattern:
    if len(patterns) > 1 or patterns[0].rest != BELOW:
        _refuse("part_of_glob")
    return Pattern(path, patterns[0].prefix, ())


def _unlike_a_kind(path: str, suffix: str = "") -> str:
    return path if _reads_as_file(path + suffix) else f"[{path[0]}]{path[1:]}"


def _split_symbol(value: str) -> tuple[str, tuple[str, ...]]:
    at = next((found.start() for found in _PIECE.finditer(value) if found[0] == "::"), None)
    if at is None:
        return value, ()
    names = tuple(re.split(r"::|\.", value[at + 2 :]))
    if not all(names):
        _refuse("bad_symbol")
    if _LINES_AT_END.search(names[-1]):
        _refuse("bad_lines")
    return value[:at], names


def _split_lines(path: str) -> tuple[str, tuple[int, int] | None]:
    found = _LINES_AT_END.search(path)
    if found is None:
        return path, None
    first = int(found[1])
    last = int(found[2] or first)
    if not 1 <= first <= last:
        _refuse("bad_lines")
    return path[: found.start()], (first, last)


def _relative(path: str, root: str | None, case: _Case) -> str:
    if not path.strip():
        _refuse("empty")
    segments = _inside_root(path, root, case) if _ABSOLUTE.match(path) else _clean(_split_path(path))
    if not segments:
        _refuse("bare_glob")
    if ":" in _pieces(segments[-1]):
        _refuse("bad_lines")
    if not (relative := "/".join(segments)).strip():
        _refuse("empty")
    return relative


def _inside_root(path: str, root: str | None, case: _Case) -> list[str]:
    inside = [] if root is None else _absolute_segments(spell_root(root))
    segments = _absolute_segments(path)
    depth = len(inside)
    if not inside or list(map(case.text, segments[:depth])) != list(map(case.text, inside)):
        _refuse("outside_root")
    return segments[depth:]


def _absolute_segments(path: str) -> list[str]:
    anchor = _anchor(path)
    return [anchor, *_clean(_split_path(path[len(anchor) :]))]


def _anchor(path: str) -> str:
    return "/" if path.startswith("/") else path[:3].upper()


def _clean(segments: Iterable[str]) -> list[str]:
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            _step_out(kept)
        elif segment not in ("", "."):
            kept.append(segment)
    return kept


def _step_out(kept: list[str]) -> None:
    if not kept:
        _refuse("leaves_root")
    # What `**/..` or `{a/b,c}/..` takes away depends on what was matched, so no text says it.
    if _WILD.search(kept.pop()):
        _refuse("bad_glob")


def _split_path(path: str) -> list[str]:
    """Split at the slashes outside of braces."""
    if "{" not in path:
        return path.split("/")
    segments, depth = [""], 0
    for piece in _pieces(path):
        depth = max(0, depth + _NESTING.get(piece, 0))
        if piece == "/" and not depth:
            segments.append("")
        else:
            segments[-1] += piece
    return segments


def _pieces(text: str) -> list[str]:
    pieces = [found[0] for found in _PIECE.finditer(text)]
    if "[" in pieces:
        _refuse("bad_glob")
    return pieces


class _Braces:
    """One open pair of braces, or the whole text around them: the alternatives made so far, and the open one."""

    __slots__ = ("_closed", "_open")

    def __init__(self) -> None:
        self._closed: list[str] = []
        self._open = [""]

    def append(self, texts: Sequence[str]) -> None:
        """Go on with each of `texts` after each text of the open alternative."""
        if len(self._closed) + len(self._open) * len(texts) > MAX_ALTERNATIVES:
            _refuse("too_many_alternatives", MAX_ALTERNATIVES)
        self._open = [before + text for before in self._open for text in texts]

    def comma(self) -> None:
        """Close an alternative and open the next."""
        self._closed += self._open
        self._open = [""]

    def close(self) -> list[str]:
        """Give the alternatives; braces without a comma are plain characters."""
        return self._closed + self._open if self._closed else [f"{{{text}}}" for text in self._open]

    @property
    def texts(self) -> list[str]:
        """What the open alternative stands for."""
        return self._open


def _alternatives(path: str) -> list[str]:
    if "{" not in path:
        return [path]
    nest = [_Braces()]
    for piece in _pieces(path):
        if piece == "{":
            nest.append(_Braces())
        elif piece == "}" and len(nest) > 1:
            texts = nest.pop().close()
            nest[-1].append(texts)
        elif piece == "," and len(nest) > 1:
            nest[-1].comma()
        else:
            nest[-1].append([piece])
    if len(nest) > 1:
        _refuse("bad_glob")
    return list(dict.fromkeys(nest[0].texts))


def _pattern(text: str, case: _Case) -> Pattern:
    names = [name for name in text.split("/") if name not in ("", ".")]
    if ".." in names:
        _refuse("bad_glob")
    items = _items(names, case)
    # `*/**` matches all but the files of the root itself, and would be as much in everyone's way as `**` and `**/*`.
    if not items or (STAR in items and all(item in (STAR, ANY_NAME) for item in items)):
        _refuse("bare_glob")
    prefix = leading_letters(items)
    rest = tuple(items[len(prefix) :])
    return Pattern(_unlike_a_kind("/".join(names)), prefix, rest or BELOW)


def _items(names: Iterable[str], case: _Case) -> list[Item]:
    items: list[Item] = []
    for name in names:
        if name != "**":
            items.append(_segment(name, case))
        elif items[-1:] != [STAR]:
            items.append(STAR)
    # A `**` at the end is what lies below, so at least one name.
    return [*items, ANY_NAME] if items[-1:] == [STAR] else items


def _segment(name: str, case: _Case) -> Segment:
    if not _WILD.search(name):
        return case.text(name)
    atoms = _atoms(name, case)
    letters = [atom for atom in atoms if isinstance(atom, str)]
    if len(letters) < len(atoms):
        return Wild.of(atoms)
    # `[e]` and a combining accent behind it are one letter only now.
    return case.text(unicodedata.normalize("NFC", "".join(letters)))


def _atoms(name: str, case: _Case) -> list[Atom]:
    atoms: list[Atom] = []
    for piece in _pieces(name):
        if piece == "?":
            atoms.append(_ANY_CHAR)
        elif piece == "*":
            atoms += [STAR] if atoms[-1:] != [STAR] else []
        elif piece[0] == "[":
            atoms.append(_class(piece[1:-1], case))
        else:
            atoms += case.text(piece)
    return atoms


@lru_cache(maxsize=512)
def _class(body: str, case: _Case) -> Atom:
    negated = body[0] in "!^"
    members = case.ranges([_member(found) for found in _MEMBER.finditer(body, int(negated))])
    chars = _complement([*(members if negated else _complement(members)), *_NEVER_IN_A_NAME])
    if not chars:
        _refuse("bad_glob")
    first, last = chars[0][0], chars[-1][1]
    return chr(first) if first == last else chars


def _member(found: re.Match[str]) -> tuple[int, int]:
    low, high = ord(found[1] or found[3]), ord(found[2] or found[3])
    if low > high:
        _refuse("bad_glob")
    return low, high


def _complement(ranges: Iterable[tuple[int, int]]) -> Chars:
    gaps: list[tuple[int, int]] = []
    at = 0
    for low, high in sorted(ranges):
        if low > at:
            gaps.append((at, low - 1))
        at = max(at, high + 1)
    return (*gaps, (at, sys.maxunicode)) if at <= sys.maxunicode else tuple(gaps)


_NEVER_IN_A_NAME: Final = (
    (0x00, 0x1F),
    (ord("/"), ord("/")),
    (ord("\\"), ord("\\")),
    (0x7F, 0x9F),
    (0x2028, 0x2029),
    (0xD800, 0xDFFF),
)
_ANY_CHAR: Final = _complement(_NEVER_IN_A_NAME)


def _fold_text(text: str) -> str:
    return unicodedata.normalize("NFC", text.casefold())


def _fold_ranges(ranges: Ranges) -> Ranges:
    """Put the folded form in the place of each character that has another one."""
    sources, folded = _folding_chars()
    gone: list[tuple[int, int]] = []
    come: list[tuple[int, int]] = []
    for low, high in _complement(_complement(ranges)):
        span = slice(bisect_left(sources, low), bisect_right(sources, high))
        gone += [(char, char) for char in sources[span]]
        come += [(char, char) for char in folded[span]]
    return [*_complement([*_complement(ranges), *gone]), *come]


@cache
def _folding_chars() -> tuple[list[int], list[int]]:
    """List the characters that fold to one other character, ascending, and what they fold to.

    Those that fold to several are no character of any folded text, so no class holds them. No plane past the second has
    letters with case.
    """
    pairs = [(code, _fold_text(chr(code))) for code in range(0x20000) if chr(code).casefold() != chr(code)]
    single = [(code, ord(text)) for code, text in pairs if len(text) == 1 and ord(text) != code]
    return [code for code, _ in single], [code for _, code in single]


def _same_text(text: str) -> str:
    return text


def _same_ranges(ranges: Ranges) -> Ranges:
    return ranges


class _Case(NamedTuple):
    """How names and classes are made comparable."""

    text: Callable[[str], str]
    ranges: Callable[[Ranges], Ranges]


_CASE_MATTERS: Final = _Case(_same_text, _same_ranges)
_CASE_FOLDED: Final = _Case(_fold_text, _fold_ranges)
