"""The spelling rule: what each kind of text becomes, and what is refused with which reason."""

from __future__ import annotations

import pytest

from board.core.spelling import MAX_ALTERNATIVES, BadTarget, Reason, spell, spell_all, spell_root

SPELT = [
    ("src/a.c", "src/a.c"),
    ("file:src/a.c", "src/a.c"),
    ("./src//a.c", "src/a.c"),
    ("src/lib/", "src/lib"),
    ("src\\win\\a.c", "src/win/a.c"),
    ("src/x/../a.c", "src/a.c"),
    ("src/./a.c", "src/a.c"),
    ("docs/Cafe\u0301.md", "docs/Caf\u00e9.md"),
    (" a b.txt", " a b.txt"),
    ("src/a.c:10-40", "src/a.c:10-40"),
    ("src/a.c:12", "src/a.c:12"),
    ("src/a.c:12-12", "src/a.c:12"),
    ("src/a.c:007", "src/a.c:7"),
    ("file:Makefile:3", "Makefile:3"),
    ("Makefile:10-40", "Makefile:10-40"),
    ("src/a.py::Parser.read", "src/a.py::Parser.read"),
    ("src/a.py::Parser::read", "src/a.py::Parser.read"),
    ("task::Queue", "task::Queue"),
    ("View.m::View.initWith:style:", "View.m::View.initWith:style:"),
    ("src/**/*.c", "src/**/*.c"),
    ("src//[ab]/*.ts", "src/[ab]/*.ts"),
    ("./src/{x,y}.py", "src/{x,y}.py"),
    ("app/[[]id]/page.tsx:3", "app/[[]id]/page.tsx:3"),
    ("{{cookiecutter.slug}}/x.py", "{{cookiecutter.slug}}/x.py"),
    ("a[:]b", "a[:]b"),
    ("file:test:12", "[t]est:12"),
    ("./a:b/c", "[a]:b/c"),
    ("a.b:c/d", "a.b:c/d"),
    ("task:tables/rows", "task:tables/rows"),
    ("task:tables//rows/", "task:tables/rows"),
    ("task:Tables", "task:Tables"),
    ("key:a*[b", "key:a*[b"),
    ("branch:feature/x:y", "branch:feature/x:y"),
    ("test:tests/a.py::test_b", "test:tests/a.py::test_b"),
    ("issue:#12", "issue:12"),
    ("pr:org/app#12", "pr:org/app/12"),
]

REFUSED: list[tuple[str, Reason]] = [
    ("", "empty"),
    ("  ", "empty"),
    ("./ ", "empty"),
    ("file:", "empty"),
    ("task:", "empty"),
    ("issue:#", "empty"),
    (":12", "empty"),
    ("::X", "empty"),
    (".", "bare_glob"),
    ("src/..", "bare_glob"),
    ("**", "bare_glob"),
    ("**/", "bare_glob"),
    ("./**", "bare_glob"),
    ("**/**", "bare_glob"),
    ("**/*", "bare_glob"),
    ("*/**", "bare_glob"),
    ("{src,**}", "bare_glob"),
    ("{,src}", "bare_glob"),
    ("../a.c", "leaves_root"),
    ("src/../../etc/passwd", "leaves_root"),
    ("task:../x", "leaves_root"),
    ("/etc/passwd", "outside_root"),
    ("C:\\work\\a.c", "outside_root"),
    ("a\x00b", "control_character"),
    ("a\nb", "control_character"),
    ("a\x85b", "control_character"),
    ("a\u2028b", "control_character"),
    ("a\ud800b", "surrogate"),
    ("dir:src", "unknown_kind"),
    ("Task:x", "unknown_kind"),
    ("a:b", "unknown_kind"),
    ("https://host/a.c", "unknown_kind"),
    ("Makefile:10-", "unknown_kind"),
    ("src/a.c:0", "bad_lines"),
    ("src/a.c:40-10", "bad_lines"),
    ("src/a.c:10-", "bad_lines"),
    ("src/a.c:L10", "bad_lines"),
    ("src/a.c:10:5", "bad_lines"),
    ("src/a.c:\u0661", "bad_lines"),
    ("src/a:b/", "bad_lines"),
    ("src/a.py:3::X", "bad_lines"),
    ("src/a.py::X:3-4", "bad_lines"),
    ("src/a.py::", "bad_symbol"),
    ("src/a.py::X..y", "bad_symbol"),
    ("src/*.c:12", "part_of_glob"),
    ("src/*.py::X", "part_of_glob"),
    ("src/{a,b}.c:1", "part_of_glob"),
    ("src/[ab", "bad_glob"),
    ("src/[]", "bad_glob"),
    ("src/[a/b]", "bad_glob"),
    ("src/[z-a]", "bad_glob"),
    ("src/[!\x20-\U0010ffff]", "bad_glob"),
    ("src/{a,b", "bad_glob"),
    ("src/{a,../b}", "bad_glob"),
    ("src/**/../x", "bad_glob"),
    ("src/{a/b,c}/../x", "bad_glob"),
]


@pytest.mark.parametrize(("raw", "text"), SPELT)
def test_each_spelling_becomes_the_canonical_one(raw: str, text: str) -> None:
    """A text is spelt by the written rule, and what comes out spells to itself."""
    assert spell(raw).text == text
    assert spell(text) == spell(raw)


@pytest.mark.parametrize(("raw", "reason"), REFUSED)
def test_each_bad_text_is_refused_with_its_reason(raw: str, reason: Reason) -> None:
    """A text that names no place is refused, with a reason that stays and a sentence that can be printed."""
    with pytest.raises(BadTarget) as refusal:
        spell(raw)
    assert (refusal.value.target, refusal.value.reason, refusal.value.limit) == (raw, reason, None)
    assert str(refusal.value).encode().decode()


def test_a_text_at_the_limit_is_spelt_and_one_above_is_refused_with_the_limit() -> None:
    """The limit is inclusive, is named by the refusal, and the sentence shortens the text and says how long it is."""
    assert spell("a" * 512).text == "a" * 512
    with pytest.raises(BadTarget) as refusal:
        spell("a" * 5000)
    assert (refusal.value.reason, refusal.value.limit) == ("too_long", 512)
    assert "512 characters" in str(refusal.value)
    assert "(5000 characters)" in str(refusal.value)
    assert len(str(refusal.value)) < 240


def test_a_text_whose_normal_form_is_longer_is_held_to_the_limit_too() -> None:
    """A character that NFC takes apart counts as what it becomes."""
    with pytest.raises(BadTarget) as refusal:
        spell("\u0958" * 3, max_chars=5)
    assert refusal.value.limit == 5


@pytest.mark.parametrize(
    ("raw", "root", "text"),
    [
        ("/srv/wt-17/app/src/a.py", "/srv/wt-17/app", "src/a.py"),
        ("/srv/wt-17/app/src/a.py:3-4", "/srv/wt-17/app/", "src/a.py:3-4"),
        ("/srv//wt-17/./app/src/*.py", "/srv/wt-17/app", "src/*.py"),
        ("file:///srv/app/a.py::X", "/srv/app", "a.py::X"),
        ("/srv/app/lib/../a.py", "/srv/app", "a.py"),
        ("c:\\srv\\app\\a.py", "C:/srv/app", "a.py"),
        ("\\\\host\\share\\a.py", "//host/share", "a.py"),
        ("/a.py", "/", "a.py"),
        ("/srv/app/test:12", "/srv/app", "[t]est:12"),
        ("src/a.py", "/srv/app", "src/a.py"),
    ],
)
def test_the_registered_root_is_taken_from_an_absolute_path(raw: str, root: str, text: str) -> None:
    """An absolute path below the worker's root is spelt as seen from there."""
    assert spell(raw, root=root).text == text


@pytest.mark.parametrize(
    ("raw", "root", "reason"),
    [
        ("/srv/wt-18/app/a.py", "/srv/wt-17/app", "outside_root"),
        ("/srv/app-old/a.py", "/srv/app", "outside_root"),
        ("/srv/app/../a.py", "/srv/app", "outside_root"),
        ("/SRV/app/a.py", "/srv/app", "outside_root"),
        ("/srv/app", "/srv/app", "bare_glob"),
        ("/srv/app/**", "/srv/app", "bare_glob"),
        ("/srv/app/a.py", "srv/app", "bad_root"),
    ],
)
def test_an_absolute_path_elsewhere_is_refused(raw: str, root: str, reason: Reason) -> None:
    """A path outside of the root, and the root itself, are refused; so is a root that is no absolute path."""
    with pytest.raises(BadTarget) as refusal:
        spell(raw, root=root)
    assert refusal.value.reason == reason


def test_a_root_is_spelt_by_the_same_rule() -> None:
    """A root loses what a path loses, and has its drive in upper case."""
    assert spell_root("/srv//wt-17/./app/") == "/srv/wt-17/app"
    assert spell_root("c:\\srv\\app") == "C:/srv/app"


def test_the_root_is_found_in_any_case_where_case_does_not_matter() -> None:
    """A case-insensitive board takes the root away however it is written, and keeps the case of the rest."""
    assert spell("/SRV/App/Src/A.py", root="/srv/app", case_insensitive=True).text == "Src/A.py"


def test_a_class_of_one_character_is_that_character() -> None:
    """A bracketed character makes a literal path, which has lines and everything below it as any other."""
    target = spell("app/[[]id]/page.tsx:3")
    assert target.patterns[0].prefix == ("app", "[id]", "page.tsx")
    assert target.lines == (3, 3)


def test_braces_are_bounded_and_the_bound_is_named() -> None:
    """As many alternatives as the limit are spelt; more are refused with it, however short the text."""
    assert len(spell("{a,b}" * 5).patterns) == MAX_ALTERNATIVES
    for text in ("{a,b}" * 6, "{a,b}" * 100, "{" + ",".join(map(str, range(33))) + "}"):
        with pytest.raises(BadTarget) as refusal:
            spell(text)
        assert (refusal.value.reason, refusal.value.limit) == ("too_many_alternatives", MAX_ALTERNATIVES)


def test_nested_and_empty_alternatives_make_each_path_once() -> None:
    """Braces nest, may be empty, may hold slashes, and make no path twice."""
    texts = [pattern.text for pattern in spell("src/{a,b/{c,d},b/c,}/x{,.bak}").patterns]
    assert texts == [f"src/{stem}x{end}" for stem in ("a/", "b/c/", "b/d/", "") for end in ("", ".bak")]


def test_deeply_nested_braces_are_read_without_recursion() -> None:
    """The deepest nest that fits the limit is read as plain braces."""
    assert spell("{" * 256 + "}" * 256).patterns[0].prefix == ("{" * 256 + "}" * 256,)


def test_a_scope_keeps_its_order_and_drops_what_was_said_before() -> None:
    """A scope is spelt in order, each canonical text once."""
    assert [target.text for target in spell_all(["b.c", "./a.c", "b.c/", "a.c", "a.c:3"])] == ["b.c", "a.c", "a.c:3"]


def test_a_scope_with_one_bad_target_is_refused_by_that_target() -> None:
    """The refusal of a scope names the target at fault as it was written."""
    with pytest.raises(BadTarget) as refusal:
        spell_all(["a.c", "../b.c"])
    assert refusal.value.target == "../b.c"
