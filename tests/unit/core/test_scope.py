"""Overlaps, by written examples, each checked in both orders, and the index on the cases that its walk tells apart."""

from __future__ import annotations

import pytest

from board.core.scope import Overlap, overlap, scopes_overlap
from board.core.scope_index import ScopeIndex
from board.core.spelling import spell, spell_all

MEETING = [
    # Equal and nested paths.
    ("src/a.c", "src/a.c", "src/a.c"),
    ("src", "src/a.c", "src/a.c"),
    ("src", "src/lib/deep/a.c", "src/lib/deep/a.c"),
    ("lib/skills", "lib/skills/flow/run.sh", "lib/skills/flow/run.sh"),
    ("lib/skills/", "lib/skills/flow/run.sh", "lib/skills/flow/run.sh"),
    ("docs/Cafe\u0301.md", "docs\\Caf\u00e9.md", "docs/Caf\u00e9.md"),
    ("./docs//Caf\u00e9.md", "docs/Caf\u00e9.md", "docs/Caf\u00e9.md"),
    # A glob and a path.
    ("src/**", "src/app.rs", "src/app.rs"),
    ("src/**", "src/a/b/c.rs", "src/a/b/c.rs"),
    ("src/**", "src", "src/**"),
    ("src/*/test.py", "src/backend/test.py", "src/backend/test.py"),
    ("src/*/test.py", "src", "src/*/test.py"),
    ("src/*/test.py", "src/a", "src/a"),
    ("src/**/*.c", "src/a.c", "src/a.c"),
    ("src/**/*.c", "src/x/y/a.c", "src/x/y/a.c"),
    ("src/**/*.c", "src/x", "src/x"),
    ("**/*.c", "src", "src"),
    ("**/*.c", "a.c", "a.c"),
    ("**/test", "a/test", "a/test"),
    ("**/*.c", "src/conf.d", "src/conf.d"),  # may be a directory that holds x.c
    ("src/*", "src/app", "src/app"),
    ("src/[ab].c", "src/a.c", "src/a.c"),
    ("src/[!ab].c", "src/c.c", "src/c.c"),
    ("src/[^ab].c", "src/c.c", "src/c.c"),
    ("src/[a-c]?.c", "src/bz.c", "src/bz.c"),
    ("src/[]a].c", "src/].c", "src/].c"),
    ("src/[a-].c", "src/-.c", "src/-.c"),
    ("*", ".gitignore", ".gitignore"),
    ("a*b*c", "aXbYbZc", "aXbYbZc"),
    ("app/[id]/page.tsx", "app/i/page.tsx", "app/i/page.tsx"),
    ("app/[[]id]", "app/[[]id]/page.tsx", "app/[[]id]/page.tsx"),
    # Alternatives are what each of them is alone.
    ("src/{x,y}.py", "src/x.py", "src/x.py"),
    ("src/{app,lib}", "src/app/x.rs", "src/app/x.rs"),
    ("src/{app,lib}", "src", "src/{app,lib}"),
    ("{a,b}/x", "a", "a/x"),
    ("{a,b}/x", "{b,c}/x", "b/x"),
    ("{a/b,c}/x", "a/b/x/y", "a/b/x/y"),
    ("src/{a,*.c}", "src/b.c", "src/b.c"),
    # Two globs.
    ("src/*.c", "src/*.c", "src/*.c"),
    ("src/*.c", "src/a*", "src/*.c"),
    ("src/**", "src/*.c", "src/*.c"),
    ("src/**/*.c", "src/app/*.c", "src/app/*.c"),
    ("src/**/*.c", "src/app/*", "src/app/*"),
    ("*/test.py", "src/*", "src/*"),
    ("**/a/**", "b/**/c", "b/**/c"),
    ("src/a?.c", "src/*b.c", "src/*b.c"),
    ("[a-m]*", "[h-z]*", "[a-m]*"),
    ("*.[ch]", "*.[!c]", "*.[!c]"),
    ("x/{a*,b*}", "x/*b", "x/*b"),
    # Lines.
    ("src/a.c:10-40", "src/a.c:20-50", "src/a.c:20-40"),
    ("src/a.c:10-40", "src/a.c:40-50", "src/a.c:40"),
    ("src/a.c:10-40", "src/a.c:12", "src/a.c:12"),
    ("src/a.c:10-40", "src/a.c", "src/a.c:10-40"),
    ("src/a.c:10-40", "src", "src/a.c:10-40"),
    ("src/a.c:10-40", "src/*.c", "src/a.c:10-40"),
    ("src/a.c:10-40", "**/a.c", "src/a.c:10-40"),
    ("src/a.c:10-40", "src/{a,b}.c", "src/a.c:10-40"),
    # Symbols.
    ("r.ts::Router", "r.ts::Router.handleAuth", "r.ts::Router.handleAuth"),
    ("r.ts::Router::handleAuth", "r.ts::Router.handleAuth", "r.ts::Router.handleAuth"),
    ("r.ts::Router.handleAuth", "r.ts", "r.ts::Router.handleAuth"),
    ("src/r.ts::Router", "src/*.ts", "src/r.ts::Router"),
    # Free keys.
    ("task:tables", "task:tables/rows", "task:tables/rows"),
    ("issue:#12", "issue:12", "issue:12"),
    ("pr:org/app", "pr:org/app#12", "pr:org/app/12"),
    ("test:tests/a.py::test_b", "test:tests", "test:tests/a.py::test_b"),
]

APART = [
    ("src/a.c", "src/b.c"),
    ("lib/skills", "lib/skills-old/run.sh"),
    ("lib/skills", "lib/skill"),
    ("Config.yaml", "config.yaml"),
    ("src/*/test.py", "src/a/b/test.py"),
    ("src/*", "src/app/x.rs"),
    ("src/*.c", "src/a.h"),
    ("**/*.c", "src/a.h"),  # could be a directory that holds x.c, but nobody names one so
    ("src/**/test_*.py", "src/app.py"),
    ("src/**/*.c", "lib/a.c"),
    ("src/**", "*"),
    ("src/**", "srcs/a"),
    ("src/?.c", "src/.c"),
    ("src/[!ab].c", "src/a.c"),
    ("src/[a-c].c", "src/d.c"),
    ("a*b*c", "aXbYbZ"),
    ("app/[id]/page.tsx", "app/[[]id]/page.tsx"),
    ("src/{x,y}.py", "src/z.py"),
    ("src/*.c", "src/*.h"),
    ("src/*.c", "lib/*.c"),
    ("src/a*", "src/b*"),
    ("a/*/c", "a/*/d"),
    ("*/a", "*/*/a"),
    ("**/a/b", "**/b/a"),
    ("[a-m]", "[n-z]"),
    ("*.[ch]", "*.[!ch]"),
    ("src/a.c:10-40", "src/a.c:41-50"),
    ("src/a.c:10-40", "src/b.c:10-40"),
    ("src/a.c:10-40", "src/a.c/x"),
    ("src/a.c:10-40", "src/*.h"),
    ("src/a.c:10-40", "src/*/a.c"),
    ("src/a.c:10-40", "src/a.c/**"),
    ("r.ts::Router.handleAuth", "r.ts::Router.handleLogout"),
    ("r.ts::Router", "r.ts::Rout"),
    ("r.ts::Router", "r.ts::router"),
    ("r.ts::Router", "s.ts::Router"),
    ("r.ts::Router", "r.ts/x"),
    ("r.ts::Router", "s.ts:3"),
    ("task:tables", "task:tables-old"),
    ("task:tables", "key:tables"),
    ("task:a/*", "task:a/b"),
    ("src", "key:src"),
]


@pytest.mark.parametrize(("x", "y", "text"), MEETING)
def test_targets_that_share_a_place_overlap_there(x: str, y: str, text: str) -> None:
    """The overlap has the written text, whoever asks first, and its text spells to itself."""
    assert overlap(spell(x), spell(y)) == overlap(spell(y), spell(x)) == Overlap(text)
    assert spell(text).text == text


@pytest.mark.parametrize(("x", "y"), APART)
def test_targets_that_share_no_place_do_not_overlap(x: str, y: str) -> None:
    """There is no overlap, whoever asks first."""
    assert overlap(spell(x), spell(y)) is None
    assert overlap(spell(y), spell(x)) is None


def test_a_symbol_and_lines_of_one_file_overlap_possibly() -> None:
    """What cannot be told apart is an overlap, marked as possible, with the symbol's text."""
    symbol, lines = spell("a.py::Parser"), spell("a.py:3-9")
    assert overlap(symbol, lines) == overlap(lines, symbol) == Overlap("a.py::Parser", possible=True)


@pytest.mark.parametrize(
    ("x", "y", "text"),
    [
        ("Config.yaml", "config.yaml", "Config.yaml"),
        ("SRC", "src/a.c", "src/a.c"),
        ("SRC/*.C", "src/a.c", "src/a.c"),
        ("src/[A-F].c", "SRC/b.C", "SRC/b.C"),
        ("src/[a-f].c", "SRC/B.C", "SRC/B.C"),
        ("a.c:3-9", "A.c:5-12", "A.c:5-9"),
        ("Stra\u00dfe", "STRASSE/x", "STRASSE/x"),
        ("task:Tables", "task:tables", "task:Tables"),
    ],
)
def test_case_does_not_matter_where_the_board_says_so(x: str, y: str, text: str) -> None:
    """Targets that differ in case alone overlap on a case-insensitive board, and the text keeps a written case."""
    one, other = spell(x, case_insensitive=True), spell(y, case_insensitive=True)
    assert overlap(one, other) == overlap(other, one) == Overlap(text)


@pytest.mark.parametrize(("x", "y"), [("[!a].c", "A.c"), ("[A-Z].md", "[!a-z].md"), ("a.py::Router", "a.py::router")])
def test_what_case_still_tells_apart(x: str, y: str) -> None:
    """A negated class excludes both cases of a letter, and a program's names keep their case on any board."""
    one, other = spell(x, case_insensitive=True), spell(y, case_insensitive=True)
    assert overlap(one, other) is overlap(other, one) is None


def test_absolute_meets_relative() -> None:
    """A path given with the worker's root meets the same path given without."""
    assert overlap(spell("/srv/wt-17/app/src/a.py", root="/srv/wt-17/app"), spell("src/a.py")) == Overlap("src/a.py")


def test_patterns_full_of_stars_are_answered_as_written() -> None:
    """Hundreds of stars on both sides are told apart by what follows them."""
    many = "**/a/" * 100
    assert overlap(spell(f"{many}x", max_chars=600), spell(f"{'a/**/' * 100}x", max_chars=700)) is not None
    assert overlap(spell(f"{many}b/x", max_chars=600), spell(f"{'a/**/' * 100}a/x", max_chars=700)) is None
    assert overlap(spell("*a" * 200 + "bx"), spell("a*" * 200 + "ax")) is None
    assert overlap(spell("*a" * 200 + "bx"), spell("a*" * 200 + "?x")) is not None


def test_scopes_overlap_once_at_each_text_in_the_order_of_the_texts() -> None:
    """Two scopes give each common part once, sorted, and the same whoever asks first."""
    xs, ys = spell_all(["src", "b.py", "src/a.c:1-9"]), spell_all(["src/a.c:5-20", "b.py", "c.py"])
    expected = (Overlap("b.py"), Overlap("src/a.c:5-20"), Overlap("src/a.c:5-9"))
    assert scopes_overlap(xs, ys) == scopes_overlap(ys, xs) == expected


def test_a_certain_overlap_wins_over_a_possible_one_of_the_same_text() -> None:
    """A text that is certain by one pair of targets is not reported as merely possible for another."""
    assert scopes_overlap(spell_all(["a.py:3", "a.py"]), [spell("a.py::X")]) == (Overlap("a.py::X"),)


INDEXED = {
    1: ["src"],
    2: ["src/a.c", "lib/b.c"],
    3: ["src/**/*.c"],
    4: ["src/a.c:10-40", "src/a.c:1000-1001"],
    5: ["src/a.c::Parser.read"],
    6: ["{lib,src}/*.h"],
    7: ["task:src"],
    8: ["**/README.md"],
}


@pytest.mark.parametrize(
    ("query", "owners"),
    [
        ("src/a.c", [1, 2, 3, 4, 5]),
        ("src/a.c:40-50", [1, 2, 3, 4, 5]),
        ("src/a.c:41-50", [1, 2, 3, 5]),
        ("src/a.c:1-2000", [1, 2, 3, 4, 5]),
        ("src/a.c::Parser", [1, 2, 3, 4, 5]),
        ("src/a.c::Parser.write", [1, 2, 3, 4]),
        ("src/a.c::Parser.read.x", [1, 2, 3, 4, 5]),
        ("src/?.c", [1, 2, 3, 4, 5]),
        ("src/*.h", [1, 6]),
        ("*/a.c", [1, 2, 3, 4, 5]),
        ("*/b.c", [1, 2, 3]),
        ("lib", [2, 6, 8]),
        ("lib/x/y", [8]),
        ("docs/README.md", [8]),
        ("task:src/x", [7]),
        ("key:src", []),
    ],
)
def test_the_index_finds_the_owners_that_a_scan_finds(query: str, owners: list[int]) -> None:
    """A query gives exactly the owners that overlap, in order, with the overlaps of `scopes_overlap`."""
    index = ScopeIndex()
    for owner, scope in reversed(INDEXED.items()):
        index.add(owner, spell_all(scope))
    found = index.overlapping([spell(query)])
    assert list(found) == owners
    assert all(found[owner] == scopes_overlap(spell_all(INDEXED[owner]), [spell(query)]) for owner in owners)


def test_an_index_is_true_while_it_holds_a_scope() -> None:
    """An index without owners is false, so that nothing is looked for where nothing is."""
    index = ScopeIndex()
    assert not index
    index.add(1, [spell("a.py")])
    assert index
    index.discard(1)
    assert not index


def test_the_index_forgets_an_owner_whole() -> None:
    """An owner that was discarded, even twice, is found no more, and the others still are."""
    index = ScopeIndex()
    for owner, scope in INDEXED.items():
        index.add(owner, spell_all(scope))
    for owner in (1, 3, 4, 5, 6, 4):
        index.discard(owner)
    assert list(index.overlapping(spell_all(["src", "lib"]))) == [2, 8]


def test_what_is_added_to_an_owner_joins_what_it_has() -> None:
    """Two adds for one owner make one scope."""
    index = ScopeIndex()
    index.add(1, [spell("a.c")])
    index.add(1, [spell("b.c")])
    assert index.overlapping(spell_all(["a.c", "b.c"])) == {1: (Overlap("a.c"), Overlap("b.c"))}


def test_the_index_holds_paths_deeper_than_python_recurses() -> None:
    """A path of thousands of segments is kept, found from above, and forgotten."""
    index = ScopeIndex()
    index.add(1, [spell("/".join("a" * 2000), max_chars=4096)])
    assert list(index.overlapping([spell("a")])) == [1]
    index.discard(1)
    assert index.overlapping([spell("a")]) == {}


def test_many_lines_in_one_file_are_told_apart() -> None:
    """Of a thousand ranges and one over all of them, a query finds those that share a line with it."""
    index = ScopeIndex()
    for owner in range(1000):
        index.add(owner, [spell(f"a.c:{owner * 10 + 1}-{owner * 10 + 10}")])
    index.add(1000, [spell("a.c:1-10000")])
    assert list(index.overlapping([spell("a.c:55-61")])) == [5, 6, 1000]
    assert len(index.overlapping([spell("a.c:1-5000")])) == 501
