"""The scope algebra against brute force: every place of a small universe, listed by a naive matcher of its own.

The matcher reads the raw text with `re`, and shares nothing with the product but the meaning of a target. A universe is
large enough when two targets that meet at all meet in it, so the targets are made of few, short pieces.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from board.core.scope import Target, meet, overlap, scopes_overlap
from board.core.scope_index import ScopeIndex
from board.core.spelling import BadTarget, spell

PATHS = tuple("/".join(names) for depth in range(1, 6) for names in product(("a", "b", "ab", "bb"), repeat=depth))
TREE = tuple("/".join(names) for depth in range(1, 4) for names in product(("a", "b", "c", "ab"), repeat=depth))
WORDS = tuple("".join(letters) for length in range(1, 7) for letters in product("abc", repeat=length))
PARTS = ("", ":1", ":2", ":3", "::X", "::X.y", "::X.y.z", "::Z")


def naive_alternatives(text: str) -> list[str]:
    """Write out the braces, the innermost first."""
    found = re.search(r"\{([^{}]*)\}", text)
    if found is None:
        return [text]
    return [
        one
        for middle in found[1].split(",")
        for one in naive_alternatives(text[: found.start()] + middle + text[found.end() :])
    ]


def naive_regex(glob: str) -> str:
    """Translate a glob without braces."""
    pieces: list[str] = re.findall(r"^\*\*/|(?<=/)\*\*/|/\*\*$|\*+|\?|\[[^]]*\]|.", glob)
    return "".join(map(naive_piece, pieces))


def naive_piece(piece: str) -> str:
    """Translate a piece of a glob."""
    if piece == "**/":
        return "(?:[^/]+/)*"
    if piece == "/**":
        return "/.+"
    if piece[0] == "*":
        return "[^/]*"
    if piece == "?":
        return "[^/]"
    return f"(?!/){piece.replace('[!', '[^')}" if piece[0] == "[" else re.escape(piece)


@lru_cache(maxsize=4096)
def naive_paths(text: str, universe: tuple[str, ...] = PATHS) -> frozenset[str]:
    """List the paths of a file target without lines and symbol."""
    found: set[str] = set()
    for one in naive_alternatives(text):
        below = "" if re.search(r"[*?\[]", one) else "(?:/.*)?"
        found.update(filter(re.compile(naive_regex(one) + below).fullmatch, universe))
    return frozenset(found)


def naive_parts(text: str) -> frozenset[str]:
    """List the parts of a file that lines or a symbol, or nothing behind its path, stand for."""
    if "::" in text:
        return frozenset(part for part in PARTS if part == text or part.startswith(f"{text}."))
    if ":" in text:
        first, _, last = text[1:].partition("-")
        return frozenset(f":{line}" for line in range(int(first), int(last or first) + 1))
    return frozenset(PARTS)


def naive_places(text: str) -> frozenset[tuple[str, str]]:
    """List the places, with their parts, of a file target whose lines or symbol follow a literal path."""
    path = text.partition(":")[0]
    part = text[len(path) :]
    paths = [path] if part else naive_paths(path, TREE)
    return frozenset(product(paths, naive_parts(part)))


segments = st.sampled_from(["a", "b", "ab", "*", "**", "?", "a*", "*b", "a?", "[ab]", "[!a]b", "{a,b}", "{a,*b}"])
slashed = st.sampled_from(["{a/b,b}", "{,b/}a", "{*/a,{a,b}/b}", "{**/a,ab}"])
paths = st.one_of(
    st.lists(segments, min_size=1, max_size=3),
    st.tuples(segments, slashed),
    st.tuples(slashed, segments),
).map("/".join)
atoms = st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]", "[b-c]", "{a,}", "{b*,c}"])
words = st.lists(atoms, min_size=1, max_size=3).map("".join)
parts = st.sampled_from(["", "", ":1", ":1-2", ":2-3", "::X", "::X.y", "::X.y.z", "::Z"])
plain = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=2).map("/".join)
globs = st.sampled_from(["a/*", "*/b", "a*", "?", "a/**", "**/b", "[!b]/a*", "{a,b/a}"])
mixed = st.one_of(st.builds(str.__add__, plain, parts), globs)
others = st.sampled_from(["task:a", "task:a/b", "task:b", "key:a"])
written = st.text(st.sampled_from("ab./\\:[]{},*?!-^#1 e\u0301\u00e9A"), min_size=1, max_size=12)
prefixed = st.builds(str.__add__, st.sampled_from(["", "file:", "task:", "issue:", "./", "a.c:", "a.py::"]), written)


def refusal_of(text: str) -> BadTarget | None:
    """Give the refusal of a text, or None when it is spelt."""
    try:
        spell(text)
    except BadTarget as refusal:
        return refusal
    return None


def is_spelt(text: str) -> bool:
    """Say whether the rule takes this text; a glob for everything, say, is refused."""
    return refusal_of(text) is None


def all_pairs(texts: list[str]) -> list[tuple[str, str]]:
    """Pair the spelt texts, each with each and itself, in both orders."""
    spelt = list(filter(is_spelt, texts))
    return [(x, y) for x in spelt for y in spelt]


@settings(max_examples=300, deadline=None)
@given(st.lists(paths, min_size=6, max_size=6))
def test_paths_and_globs_agree_with_the_places_of_a_small_tree(texts: list[str]) -> None:
    """Two targets overlap exactly when some path of the universe belongs to both, whoever asks first."""
    for x, y in all_pairs(texts):
        met = overlap(spell(x), spell(y))
        assert (met is not None) == bool(naive_paths(x) & naive_paths(y)), (x, y)
        assert met == overlap(spell(y), spell(x))
        assert meet(spell(x), spell(y)) == (met is not None)


@settings(max_examples=200, deadline=None)
@given(st.lists(words, min_size=6, max_size=6))
def test_patterns_of_one_segment_agree_with_all_short_words(texts: list[str]) -> None:
    """Two patterns of one segment overlap exactly when some word matches both."""
    for x, y in all_pairs(texts):
        assert (overlap(spell(x), spell(y)) is not None) == bool(naive_paths(x, WORDS) & naive_paths(y, WORDS)), (x, y)


@settings(max_examples=200, deadline=None)
@given(st.lists(mixed, min_size=6, max_size=6))
def test_lines_and_symbols_agree_with_the_parts_of_files(texts: list[str]) -> None:
    """A certain overlap is a common part of a file; a possible one is lines and a symbol of the same path."""
    for x, y in all_pairs(texts):
        one, other = spell(x), spell(y)
        met = overlap(one, other)
        certain = met is not None and not met.possible
        assert certain == bool(naive_places(x) & naive_places(y)), (x, y)
        kinds = {bool(one.lines) - bool(one.symbol), bool(other.lines) - bool(other.symbol)}
        assert (one.path == other.path and kinds == {1, -1}) == (met is not None and met.possible), (x, y)


@settings(max_examples=300, deadline=None)
@given(st.one_of(paths, words, mixed), st.one_of(paths, words, mixed))
def test_the_text_of_an_overlap_is_a_target_that_overlaps_both(x: str, y: str) -> None:
    """What is said to be common can be claimed as it is written, spells to itself, and meets both."""
    for one, other in all_pairs([x, y]):
        if (met := overlap(spell(one), spell(other))) is not None:
            common = spell(met.text)
            assert common.text == met.text
            assert overlap(common, spell(one)) is not None
            assert overlap(common, spell(other)) is not None


@settings(max_examples=1000, deadline=None)
@given(prefixed)
def test_a_canonical_text_spells_to_the_same_target(raw: str) -> None:
    """Whatever is typed is refused, or its canonical text spells to the very same target."""
    if is_spelt(raw):
        target = spell(raw)
        assert spell(target.text) == target
        assert not re.match("file:(?!:)", target.text)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_spelt_or_refused(raw: str) -> None:
    """No text makes the rule fail in any other way than by refusing it, and no refusal fails to be printed."""
    if (refusal := refusal_of(raw)) is not None:
        assert str(refusal).encode()
    else:
        assert spell(spell(raw).text) == spell(raw)


scopes = st.lists(st.one_of(paths, mixed, others).filter(is_spelt).map(spell), max_size=3)
steps = st.lists(st.tuples(st.sampled_from(["add", "discard", "query"]), st.integers(0, 5), scopes), max_size=20)


@settings(max_examples=300, deadline=None)
@given(steps)
def test_the_index_agrees_with_a_scan(steps: list[tuple[str, int, list[Target]]]) -> None:
    """After any adds and discards, a query finds what comparing with every scope finds."""
    index, scanned = ScopeIndex(), dict[int, list[Target]]()
    for step, owner, targets in [*steps, ("query", 0, [spell("a"), spell("*/b"), spell("task:a")])]:
        if step == "add":
            index.add(owner, targets)
            scanned.setdefault(owner, []).extend(targets)
        elif step == "discard":
            index.discard(owner)
            scanned.pop(owner, None)
        else:
            met = {owner: scopes_overlap(scope, targets) for owner, scope in sorted(scanned.items())}
            assert index.overlapping(targets) == {owner: overlaps for owner, overlaps in met.items() if overlaps}
            assert index.touching(targets) == {owner for owner, overlaps in met.items() if overlaps}
