"""Every promise of the store's contract, on every store."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from board.core.spelling import spell
from board.core.words import parse
from board.store.contract import (
    Acks,
    BoardExists,
    Filter,
    Head,
    HeadMoved,
    KeyUse,
    LogTrimmed,
    StoreUnavailable,
    TokenRow,
    Wanted,
    WorkerRow,
)
from schema.limits import Settings
from tests.harness.logs import (
    append,
    conflicted,
    invalidated,
    note,
    notes,
    renewed,
    retracted,
    superseded,
    transferred,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from board.store.contract import Found, Row, Store

pytestmark = pytest.mark.anyio


def seqs(rows: Iterable[Row]) -> list[int]:
    """Name the rows."""
    return [row.seq for row in rows]


async def kept(store: Store, where: Filter) -> list[int]:
    """Name all rows of `main` that a filter keeps."""
    rows, more = await store.page("main", limit=1000, where=where)
    assert not more
    return seqs(rows)


async def lookup(store: Store, wanted: Wanted) -> Found:
    """Ask what a decision would ask."""
    row = await store.board("main")
    assert row is not None
    async with store.begin("main", row.head) as transaction:
        return await transaction.lookup(wanted)


# Boards


async def test_main_exists(store: Store) -> None:
    """The board `main` is there from the start, empty, with the default settings."""
    (main,) = await store.boards()
    assert (main.name, main.head, main.oldest, main.settings) == ("main", 0, 1, Settings())
    assert await store.board("main") == main


async def test_boards_are_listed_by_name(store: Store) -> None:
    """Boards come by name, each with its own epoch and settings, however they were made."""
    made = [await store.create_board(name, Settings(text_chars=len(name))) for name in ("zebra", "ant")]
    assert [row.name for row in await store.boards()] == ["ant", "main", "zebra"]
    assert await store.board("zebra") == made[0]
    assert len({row.epoch for row in await store.boards()}) == 3


async def test_a_board_is_made_once(store: Store) -> None:
    """Making a board again is refused, and changes nothing."""
    made = await store.create_board("ant", Settings())
    with pytest.raises(BoardExists):
        await store.create_board("ant", Settings(text_chars=1))
    assert await store.board("ant") == made


async def test_a_missing_board_is_the_callers_fault(store: Store) -> None:
    """A board that is not there is None to `board`, and a KeyError to everything else."""
    assert await store.board("nowhere") is None
    with pytest.raises(KeyError):
        await store.page("nowhere", limit=1)
    with pytest.raises(KeyError):
        await store.save_checkpoint("nowhere", 1, b"")
    with pytest.raises(KeyError):
        async with store.begin("nowhere", 0):
            pass


async def test_boards_keep_apart(store: Store) -> None:
    """Nothing that is written to one board shows on another."""
    await store.create_board("other", Settings())
    await append(store, notes(1, 3, scope=("src",), to=("w2",), task="t", key=""), "other")
    await store.ack("other", "w1", through=2, seqs=[])
    assert (await store.page("main", limit=10))[0] == []
    assert (await store.page("main", limit=10, after=-1, before=10**15, descending=True))[0] == []
    assert await store.records("main", after=-1, limit=10) == []
    assert await store.rows("main", [1, 2, 10**15, -1]) == {}
    assert await store.overlapping("main", [spell("src/a")], ["FACT"], limit=5) == []
    assert (await store.search("main", parse("text"), before=None, limit=5))[0] == []
    assert await kept(store, Filter(to="w2")) == []
    assert await store.acks("main", "w1") == Acks()
    assert (await store.board("main")).head == 0  # pyright: ignore[reportOptionalMemberAccess]


# Writing


async def test_a_commit_is_there_when_it_returns(store: Store) -> None:
    """A committed record is read back byte for byte, with everything beside it, and the head has moved."""
    said = note(1, detail="long\x00 text\x1e", key="k", digest=b"\x00\xff", text='quote " and \x1e')
    await append(store, [said, *notes(2, 3)])
    first, second, _ = await store.records("main", after=0, limit=10)
    assert (first.seq, first.body, first.detail, first.key, first.digest) == (
        1,
        said.body,
        said.detail,
        said.key,
        said.digest,
    )
    assert (second.detail, second.key, second.digest) == ("", "", b"")
    board = await store.board("main")
    assert board is not None
    assert board.head == 3


async def test_leaving_without_a_commit_stores_nothing(store: Store) -> None:
    """A block that ends without a commit leaves the log as it was, and lets the next writer in."""
    async with store.begin("main", 0):
        pass
    with suppress(ZeroDivisionError):
        async with store.begin("main", 0):
            raise ZeroDivisionError
    await append(store, notes(1, 1))
    assert await kept(store, Filter()) == [1]


@pytest.mark.parametrize("numbers", [(5,), (3,), (4, 6), (4, 4), (6, 5), (1, 2, 3)], ids=str)
async def test_a_hole_and_a_reuse_are_refused(store: Store, numbers: tuple[int, ...]) -> None:
    """Seqs that do not follow the head one by one are refused as a whole."""
    await append(store, notes(1, 3))
    with pytest.raises(HeadMoved):
        async with store.begin("main", 3) as transaction:
            await transaction.commit([note(seq) for seq in numbers])
    assert await kept(store, Filter()) == [1, 2, 3]
    await append(store, notes(4, 4))


async def test_a_key_cannot_be_used_twice(store: Store) -> None:
    """A second note of an author under one key fails the whole commit; another author's key is its own."""
    await append(store, [note(1, key="k", author="w1"), note(2, key="k", author="w2")])
    with pytest.raises(AssertionError):
        await append(store, [note(3), note(4, key="k", author="w1")])
    assert await kept(store, Filter()) == [1, 2]
    await append(store, notes(3, 3))


async def test_two_commits_in_one_transaction(store: Store) -> None:
    """A transaction may commit again, and an empty commit is nothing."""
    async with store.begin("main", 0) as transaction:
        await transaction.commit([])
        await transaction.commit(notes(1, 2))
        await transaction.commit(notes(3, 3))
        assert set((await transaction.lookup(Wanted(seqs=frozenset({3})))).heads) == {3}
    assert await kept(store, Filter()) == [1, 2, 3]


async def test_missed_events_are_given(store: Store) -> None:
    """A writer that is behind gets exactly what it missed, as it was committed, and in order."""
    written = [note(1), note(2, detail="d", key="k", digest=b"x"), retracted(3, 1)]
    await append(store, written)
    async with store.begin("main", 1) as transaction:
        assert list(transaction.missed) == written[1:]
    async with store.begin("main", 3) as transaction:
        assert list(transaction.missed) == []


async def test_one_writer_at_a_time(store: Store) -> None:
    """Writers of one board wait for each other, and each sees what the one before it stored."""

    async def write() -> None:
        async with store.begin("main", 0) as transaction:
            await transaction.commit([note(len(transaction.missed) + 1)])

    await asyncio.gather(*(write() for _ in range(20)))
    assert await kept(store, Filter()) == list(range(1, 21))


async def test_writers_of_several_boards_do_not_fail_each_other(store: Store) -> None:
    """Of commits to several boards at once, one that is refused takes no other with it."""
    names = [f"board-{number}" for number in range(8)]
    for name in names:
        await store.create_board(name, Settings())
    outcomes = await asyncio.gather(
        *(append(store, notes(1, 2), name) for name in names),
        append(store, [note(1), note(3)], "main"),
        store.create_board("main", Settings()),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes[-2:]] == [HeadMoved, BoardExists]
    assert [row.head for row in await store.boards()] == [2] * 8 + [0]


async def test_a_cancelled_commit_is_whole_or_nothing(store: Store) -> None:
    """Whatever the moment at which a commit is cancelled, the next writer finds all of it or nothing."""
    head = 0
    for turns in range(12):
        writing = asyncio.create_task(append(store, notes(head + 1, head + 50)))
        for _ in range(turns):
            await asyncio.sleep(0)
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing
        async with store.begin("main", head) as transaction:
            assert len(transaction.missed) in (0, 50)
            head += len(transaction.missed)
            await transaction.commit(notes(head + 1, head + 1))
            head += 1
    assert await kept(store, Filter()) == list(range(1, head + 1))


# Pages


async def test_pages_go_both_ways(store: Store) -> None:
    """Pages after and before a seq hold the next rows in their direction, and say whether more follow."""
    await append(store, notes(1, 10))

    async def page(**asked: int) -> tuple[list[int], bool]:
        descending = bool(asked.pop("descending", 0))
        rows, more = await store.page("main", descending=descending, **asked)  # pyright: ignore[reportArgumentType]
        return seqs(rows), more

    assert await page(limit=3) == ([1, 2, 3], True)
    assert await page(after=7, limit=3) == ([8, 9, 10], False)
    assert await page(after=10, limit=3) == ([], False)
    assert await page(limit=3, descending=1) == ([10, 9, 8], True)
    assert await page(before=3, limit=3, descending=1) == ([2, 1], False)
    assert await page(after=2, before=6, limit=2) == ([3, 4], True)
    assert await page(after=2, before=6, limit=3, descending=1) == ([5, 4, 3], False)
    assert await page(before=0, limit=3) == ([], False)
    assert await page(before=1, limit=3, descending=1) == ([], False)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "where",
    [Filter(), Filter(notes_only=True), Filter(types=("FACT", "FAIL")), Filter(scope=(spell("src"),)), Filter(to="w2")],
    ids=["all", "notes", "types", "scope", "to"],
)
async def test_long_pages_leave_nothing_out(store: Store, where: Filter, descending: bool) -> None:
    """Paging through a log that is longer than any inner round gives every row once, in order."""
    await append(store, notes(1, 1200, scope=("src/a.c", "lib"), to=("w2",)))
    given: list[int] = []
    more = True
    while more:
        after, before = (0, given[-1] if given else None) if descending else (given[-1] if given else 0, None)
        rows, more = await store.page("main", after=after, before=before, limit=500, descending=descending, where=where)
        given += seqs(rows)
    assert given == sorted(range(1, 1201), reverse=descending)


async def test_a_row_tells_what_it_is(store: Store) -> None:
    """A row has the kind and author of its event, and the type where it is a note."""
    await append(store, [note(1, "FAIL", author="w2"), retracted(2, 1, "w1")])
    first, second = (await store.page("main", limit=5))[0]
    assert (first.kind, first.type, first.author) == ("note", "FAIL", "w2")
    assert (second.kind, second.type, second.author) == ("note.retracted", "", "w1")


async def test_a_page_ends_by_bytes(store: Store) -> None:
    """With `max_bytes` a page ends before it gets longer, but holds one row at least."""
    await append(store, notes(1, 9))
    one = len(note(1).body)
    for limit_bytes, count in ((0, 1), (one, 1), (3 * one - 1, 2), (3 * one, 3), (9 * one, 9)):
        rows, more = await store.page("main", limit=100, max_bytes=limit_bytes)
        assert (len(rows), more) == (count, count < 9)
    rows, more = await store.page("main", limit=2, max_bytes=3 * one)
    assert (len(rows), more) == (2, True)


async def test_filters(store: Store) -> None:
    """Each field of a filter keeps what it says, and together they must all hold."""
    await append(
        store,
        [
            note(1, "FACT", author="w1", task="a", to=("w2", "w3"), scope=("src/a.c",)),
            note(2, "FAIL", author="w1", task="b", scope=("src/b.c:10-20",)),
            note(3, "CLAIM", author="w2", task="a", to=("w1",), scope=("src",)),
            note(4, "PATCH_SUMMARY", author="w2", files=("src/a.c", "README.md"), work="x"),
            renewed(5, 3, "w2"),
            note(6, "OBSERVED", author="w3", scope=("task:a/b",)),
            retracted(7, 2),
        ],
    )
    assert await kept(store, Filter(types=("FACT",))) == [1]
    assert await kept(store, Filter(types=("FAIL", "CLAIM", "FAIL"))) == [2, 3]
    assert await kept(store, Filter(types=("FAIL", "note.retracted", "claim.renewed"))) == [2, 5, 7]
    assert await kept(store, Filter(types=("claim.renewed",), author="w2")) == [5]
    assert await kept(store, Filter(types=("claim.renewed",), notes_only=True)) == []
    assert await kept(store, Filter(author="w2")) == [3, 4, 5]
    assert await kept(store, Filter(author="w2", notes_only=True)) == [3, 4]
    assert await kept(store, Filter(author="w2", types=("CLAIM",), task="a", to="w1")) == [3]
    assert await kept(store, Filter(task="a")) == [1, 3]
    assert await kept(store, Filter(to="w2")) == [1]
    assert await kept(store, Filter(notes_only=True)) == [1, 2, 3, 4, 6]
    assert await kept(store, Filter(live_only=True)) == [1, 3, 4, 5, 6, 7]
    assert await kept(store, Filter(live_only=True, notes_only=True, author="w1")) == [1]
    assert await kept(store, Filter(scope=(spell("src/a.c"),))) == [1, 3, 4]
    assert await kept(store, Filter(scope=(spell("src/b.c:15"), spell("README.md")))) == [2, 3, 4]
    assert await kept(store, Filter(scope=(spell("**/*.c"),), types=("FACT", "FAIL"), live_only=True)) == [1]
    assert await kept(store, Filter(scope=(spell("task:a"),))) == [6]
    assert await kept(store, Filter(scope=(spell("src"),), to="w1", author="w2")) == [3]


# Lookups


async def test_rows_by_seq(store: Store) -> None:
    """Rows are found by seq; those that are not there are left out."""
    await append(store, notes(1, 4))
    found = await store.rows("main", {2, 4, 5, 0, -3})
    assert sorted(found) == [2, 4]
    assert found[2].body == note(2).body
    assert await store.rows("main", []) == {}


async def test_detail(store: Store) -> None:
    """The long text of a note is read by its seq, and None where there is none."""
    await append(store, [note(1, detail="at length"), note(2)])
    assert [await store.detail("main", seq) for seq in (1, 2, 3, -1)] == ["at length", None, None, None]


async def test_records_come_in_order(store: Store) -> None:
    """Export reads on after a seq, at most so many, in order."""
    await append(store, [note(seq, detail="d" * (seq % 3)) for seq in range(1, 201)])
    assert [row.seq for row in await store.records("main", after=50, limit=100)] == list(range(51, 151))
    assert [len(row.detail) for row in await store.records("main", after=197, limit=9)] == [0, 1, 2]
    assert await store.records("main", after=200, limit=5) == []


async def test_events_about_a_note(store: Store) -> None:
    """Events about a seq are found by it in order, and a conflict by either claim, once."""
    await append(
        store,
        [note(1, "CLAIM"), note(2, "CLAIM"), conflicted(3, 1, 2), renewed(4, 2), retracted(5, 1), conflicted(6, 2, 4)],
    )
    assert seqs(await store.about("main", [1])) == [3, 5]
    assert seqs(await store.about("main", [2])) == [3, 4, 6]
    assert seqs(await store.about("main", {1, 2, 99})) == [3, 4, 5, 6]
    assert await store.about("main", []) == []


async def test_lookup_of_notes(store: Store) -> None:
    """A decision learns type, author, state and holder of notes, and nothing of other kinds or unknown seqs."""
    await append(
        store,
        [
            note(1, "CLAIM", author="w1"),
            note(2, "CLAIM", author="w1"),
            transferred(3, 2, "w2"),
            transferred(4, 2, "w3"),
            note(5, "PATCH_SUMMARY", author="w1"),
            superseded(6, 5, 9),
            invalidated(7, 5, 9),
            note(8, "PATCH_SUMMARY"),
            invalidated(9, 8, 1),
            superseded(10, 8, 5),
            note(11, "PATCH_SUMMARY"),
            retracted(12, 11),
            superseded(13, 11, 5),
        ],
    )
    found = await lookup(store, Wanted(seqs=frozenset({1, 2, 3, 5, 8, 11, 99, -4})))
    assert found.heads == {
        1: Head(1, "CLAIM", "w1", "", "w1"),
        2: Head(2, "CLAIM", "w1", "", "w3"),
        5: Head(5, "PATCH_SUMMARY", "w1", "invalidated"),
        8: Head(8, "PATCH_SUMMARY", "w1", "superseded"),
        11: Head(11, "PATCH_SUMMARY", "w1", "retracted"),
    }


async def test_lookup_of_keys(store: Store) -> None:
    """A key is found for its author alone, with the digest of what was sent under it."""
    await append(store, [note(1, author="w1", key="k", digest=b"\x00d"), note(2, author="w2", key="k")])
    found = await lookup(store, Wanted(keys=frozenset({("w1", "k"), ("w2", "k"), ("w3", "k"), ("w1", "other")})))
    assert found.keys == {("w1", "k"): KeyUse(1, b"\x00d"), ("w2", "k"): KeyUse(2, b"")}


async def test_lookup_of_works(store: Store) -> None:
    """The newest patch of an author and work is found that is not retracted."""
    patches = [note(seq, "PATCH_SUMMARY", author=f"w{seq % 2}", work="parser") for seq in range(1, 7)]
    await append(store, [*patches, retracted(7, 6), superseded(8, 4, 6)])
    found = await lookup(store, Wanted(works=frozenset({("w0", "parser"), ("w1", "parser"), ("w0", "other")})))
    assert found.works == {("w0", "parser"): 4, ("w1", "parser"): 5}


# Finding


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ("POL-358", [1]),
        ("pol", [1]),
        ("src/a.py", [2]),
        ("don't", [3]),
        ('"open quote', [4]),
        ("OR", [5]),
        ("*", [6, 5, 4, 3, 2, 1]),
        ("", [6, 5, 4, 3, 2, 1]),
        ("strasse", [6]),
        ("STRAẞE, pol", [6, 1]),
        ("quote & open", [4]),
        ('"quote open"', []),
        ("nothing", []),
        ("tagged", [3]),
        ("x" * 40_000, []),
        ("y" * 400, [5]),
        (" ".join(["open"] * 3000), [4]),
        (",".join(["open"] * 3000), [4]),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_search(store: Store, q: str, found: list[int]) -> None:
    """What people type finds the notes that hold it, newest first, and is never an error."""
    texts = [
        "see POL-358 there",
        "table",
        "I don't know",
        "an open quote",
        f"this or that {'y' * 400}",
        "die Straße é",
    ]
    await append(
        store,
        [
            note(seq, text=text, scope=("src/a.py",) if seq == 2 else (), tags=("tagged",) if seq == 3 else ())
            for seq, text in enumerate(texts, start=1)
        ],
    )
    rows, more = await store.search("main", parse(q), before=None, limit=10)
    assert (seqs(rows), more) == (found, False)


async def test_search_pages_backwards(store: Store) -> None:
    """Search gives the newest first, goes on before a seq, leaves out retracted notes, and says if more follow."""
    await append(store, [*notes(1, 600, text="needle"), retracted(601, 599), note(602, text="hay")])
    rows, more = await store.search("main", parse("needle"), before=None, limit=3)
    assert (seqs(rows), more) == ([600, 598, 597], True)
    rows, more = await store.search("main", parse("needle"), before=597, limit=1000)
    assert (seqs(rows), more) == (list(range(596, 0, -1)), False)


async def test_finding_sees_every_commit(store: Store) -> None:
    """A note is found by words, place and recipient as soon as its commit has returned."""
    for seq in range(1, 20):
        await append(store, [note(seq, text=f"word{seq}", scope=(f"src/f{seq}",), to=(f"w{seq}",))])
        assert seqs((await store.search("main", parse(f"word{seq}"), before=None, limit=2))[0]) == [seq]
        assert seqs(await store.overlapping("main", [spell(f"src/f{seq}")], ["FACT"], limit=2)) == [seq]
        assert await kept(store, Filter(to=f"w{seq}")) == [seq]


async def test_overlapping(store: Store) -> None:
    """The newest live notes of the asked types come that overlap: above, at, below, by glob and by file."""
    await append(
        store,
        [
            note(1, scope=("src",)),
            note(2, scope=("src/a.c:1-10",)),
            note(3, scope=("src/*.c",)),
            note(4, "PATCH_SUMMARY", files=("src/a.c",)),
            note(5, "OBSERVED", scope=("src/a.c",)),
            note(6, scope=("**/a.c", "lib")),
            note(7, scope=("src-old/a.c", "src/a.cc")),
            note(8, scope=("{src,lib}/a.c",)),
            note(9, scope=("src/a.c",)),
            retracted(10, 9),
        ],
    )
    types = ["FACT", "PATCH_SUMMARY"]
    assert seqs(await store.overlapping("main", [spell("src/a.c")], types, limit=10)) == [8, 6, 4, 3, 2, 1]
    assert seqs(await store.overlapping("main", [spell("src/a.c")], types, limit=2)) == [8, 6]
    assert seqs(await store.overlapping("main", [spell("src/a.c:20")], types, limit=10)) == [8, 6, 4, 3, 1]
    assert seqs(await store.overlapping("main", [spell("**/*.cc")], types, limit=10)) == [7, 6, 1]
    assert seqs(await store.overlapping("main", [spell("lib"), spell("src-old")], types, limit=10)) == [8, 7, 6]
    assert await store.overlapping("main", [spell("task:lib")], types, limit=10) == []
    assert await store.overlapping("main", [], types, limit=10) == []
    assert await store.overlapping("main", [spell("src")], [], limit=10) == []


async def test_case_is_the_boards(store: Store) -> None:
    """On a board where case does not matter, a scope is found whatever its case."""
    await store.create_board("folded", Settings(case_insensitive=True))
    await append(store, [note(1, scope=("Src/Config.yaml",))], "folded")
    await append(store, [note(1, scope=("Src/Config.yaml",))], "main")
    folded = [spell("src/config.YAML", case_insensitive=True)]
    assert seqs(await store.overlapping("folded", folded, ["FACT"], limit=5)) == [1]
    assert await store.overlapping("main", [spell("src/config.YAML")], ["FACT"], limit=5) == []


# What is kept beside the log


async def test_only_a_newer_checkpoint_is_kept(store: Store) -> None:
    """A checkpoint replaces an older one, and never a newer or an equal one."""
    assert await store.checkpoint("main") is None
    for seq, state in ((5, b"\x00five"), (3, b"three"), (5, b"again"), (9, b"nine"), (8, b"eight")):
        await store.save_checkpoint("main", seq, state)
    assert await store.checkpoint("main") == (9, b"nine")


# Trimming


async def trimmed(store: Store, seq: int, state: bytes = b"base") -> None:
    """Trim `main`, and take away all of what is no longer kept."""
    assert await store.trim("main", seq, state)
    while await store.sweep("main"):
        pass


async def test_a_trim_takes_the_beginning_away(store: Store) -> None:
    """What comes up to the seq is gone from every read; what follows is there as before, and the head stays."""
    await append(store, notes(1, 9, scope=("src/a.c",), to=("w2",), detail="long", task="t"))
    await append(store, [note(10, "PATCH_SUMMARY", files=("src/b.c",), work="p"), retracted(11, 2), note(12)])
    await trimmed(store, 4)
    assert [(row.oldest, row.head) for row in await store.boards()] == [(5, 12)]
    assert await store.base("main") == (4, b"base")
    assert await kept(store, Filter()) == list(range(5, 13))
    assert [row.seq for row in await store.records("main", after=0, limit=99)] == list(range(5, 13))
    assert list(await store.rows("main", range(1, 7))) == [5, 6]
    assert seqs(await store.about("main", [2, 4])) == [11]
    assert [await store.detail("main", seq) for seq in (4, 5)] == [None, "long"]
    assert seqs((await store.search("main", parse("text"), before=None, limit=99))[0]) == [12, 10, 9, 8, 7, 6, 5]
    assert seqs(await store.overlapping("main", [spell("src/a.c")], ["FACT"], limit=99)) == [9, 8, 7, 6, 5]
    assert await kept(store, Filter(to="w2")) == [5, 6, 7, 8, 9]
    async with store.begin("main", 4) as transaction:
        assert [one.seq for one in transaction.missed] == list(range(5, 13))
    await append(store, notes(13, 13))


async def test_a_writer_that_is_too_far_behind_is_told(store: Store) -> None:
    """Whoever has not folded what is no longer kept cannot write, and the next writer can."""
    await append(store, notes(1, 9))
    await trimmed(store, 9)
    with pytest.raises(LogTrimmed):
        async with store.begin("main", 8):
            pass
    await append(store, notes(10, 10))


async def test_a_decision_is_told_where_the_log_begins(store: Store) -> None:
    """From the moment of the trim, notes that are no longer kept are not there, swept or not."""
    patches = [note(seq, "PATCH_SUMMARY", files=("a",), work="p") for seq in (1, 2)]
    await append(store, [*patches, *notes(3, 5)])
    assert await store.trim("main", 2, b"")
    for _ in range(2):
        found = await lookup(store, Wanted(seqs=frozenset({1, 2, 3}), works=frozenset({("w1", "p")})))
        assert (set(found.heads), found.works, found.oldest) == ({3}, {}, 3)
        while await store.sweep("main"):
            pass


async def test_a_swept_key_may_be_used_again(store: Store) -> None:
    """A key is remembered for as long as its note is in the log, and free after that."""
    await append(store, [note(1, key="k"), note(2, key="l"), note(3)])
    await trimmed(store, 1)
    asked = frozenset({("w1", "k"), ("w1", "l")})
    assert set((await lookup(store, Wanted(keys=asked))).keys) == {("w1", "l")}
    await append(store, [note(4, key="k")])


async def test_the_oldest_seq_never_goes_back(store: Store) -> None:
    """A trim that is not further than the last one changes nothing; one past the head is the caller's fault."""
    await append(store, notes(1, 9))
    await trimmed(store, 5, b"five")
    assert not await store.trim("main", 5, b"again")
    assert not await store.trim("main", 3, b"three")
    assert await store.base("main") == (5, b"five")
    with pytest.raises(AssertionError):
        await store.trim("main", 10, b"ten")
    await trimmed(store, 9, b"nine")
    assert await store.base("main") == (9, b"nine")
    assert await kept(store, Filter()) == []
    await append(store, notes(10, 11))
    assert await kept(store, Filter()) == [10, 11]


async def test_a_trim_is_one_boards(store: Store) -> None:
    """Another board keeps everything, though it has the same seqs, words, places and keys."""
    await store.create_board("other", Settings())
    for board in ("main", "other"):
        await append(store, notes(1, 3, scope=("src/a.c",), to=("w2",), detail="d"), board)
        await store.ack(board, "w1", through=None, seqs=[1, 3])
    await trimmed(store, 3)
    assert await store.base("other") is None
    assert seqs((await store.page("other", limit=9, where=Filter(to="w2")))[0]) == [1, 2, 3]
    assert seqs(await store.overlapping("other", [spell("src")], ["FACT"], limit=9)) == [3, 2, 1]
    assert seqs((await store.search("other", parse("text"), before=None, limit=9))[0]) == [3, 2, 1]
    assert await store.acks("other", "w1") == Acks(0, frozenset({1, 3}))


async def test_an_older_checkpoint_goes_with_the_log(store: Store) -> None:
    """A checkpoint that the log does not reach back to is forgotten; a newer one stays."""
    await append(store, notes(1, 9))
    await store.save_checkpoint("main", 4, b"four")
    await trimmed(store, 4)
    assert await store.checkpoint("main") == (4, b"four")
    await trimmed(store, 5)
    assert await store.checkpoint("main") is None
    await store.save_checkpoint("main", 9, b"nine")
    await trimmed(store, 6)
    assert await store.checkpoint("main") == (9, b"nine")


async def test_acknowledged_seqs_go_with_the_log(store: Store) -> None:
    """Single seqs before the oldest are forgotten; what was acknowledged as a whole, or is kept, stays."""
    await append(store, notes(1, 9))
    await store.ack("main", "w1", through=1, seqs=[3, 4, 8])
    await trimmed(store, 6)
    assert await store.acks("main", "w1") == Acks(1, frozenset({8}))


async def test_writers_go_on_while_a_log_is_swept(store: Store) -> None:
    """Many notes are swept in pieces, in between of which others are written; a sweep that stops is gone on with."""
    await append(store, notes(1, 1000, scope=("src/a.c",)))
    assert await store.trim("main", 900, b"base")
    head, more = 1000, await store.sweep("main")
    while more:
        await append(store, notes(head + 1, head + 1))
        head, more = head + 1, await store.sweep("main")
    assert await kept(store, Filter()) == list(range(901, head + 1))
    assert not await store.sweep("main")


async def test_an_empty_log_may_begin_anywhere(store: Store) -> None:
    """An empty board can be told where its log begins; its first event follows, and is found. Any other refuses."""
    async with store.begin("main", 0) as transaction:
        await transaction.begin_at(1_000_000, b"base")
    row = await store.board("main")
    assert row is not None
    assert (row.oldest, row.head, await store.base("main")) == (1_000_001, 1_000_000, (1_000_000, b"base"))
    await append(store, notes(1_000_001, 1_000_002, scope=("src",)))
    assert seqs((await store.search("main", parse("text"), before=None, limit=9))[0]) == [1_000_002, 1_000_001]
    assert seqs(await store.overlapping("main", [spell("src/a")], ["FACT"], limit=9)) == [1_000_002, 1_000_001]
    with pytest.raises(HeadMoved):
        async with store.begin("main", 1_000_002) as transaction:
            await transaction.begin_at(2_000_000, b"again")
    await append(store, notes(1_000_003, 1_000_003))


# Workers, acknowledgements, tokens


async def test_workers(store: Store) -> None:
    """A worker is added once; what was seen last only moves forward, what was seen first never."""
    await store.save_workers("main", [WorkerRow("w2", "", 5, 5), WorkerRow("w1", "/srv/app", 3, 4)])
    await store.save_workers("main", [WorkerRow("w2", "/srv", 9, 9)])
    await store.save_workers("main", [WorkerRow("w2", "/srv", 1, 7)])
    await store.save_workers("main", [])
    assert await store.workers("main") == [WorkerRow("w1", "/srv/app", 3, 4), WorkerRow("w2", "/srv", 5, 9)]


async def test_acknowledging(store: Store) -> None:
    """Acknowledging twice changes nothing, `through` never goes back, and covers single seqs below it."""
    assert await store.acks("main", "w1") == Acks()
    assert await store.ack("main", "w1", through=None, seqs=[7, 3, 3]) == Acks(0, frozenset({3, 7}))
    assert await store.ack("main", "w1", through=None, seqs=[3]) == Acks(0, frozenset({3, 7}))
    assert await store.ack("main", "w1", through=5, seqs=[4, 9]) == Acks(5, frozenset({7, 9}))
    assert await store.ack("main", "w1", through=2, seqs=[1]) == Acks(5, frozenset({7, 9}))
    assert await store.acks("main", "w1") == Acks(5, frozenset({7, 9}))
    assert await store.acks("main", "w2") == Acks()


async def test_all_that_was_acknowledged(store: Store) -> None:
    """What every worker of a board acknowledged is given at once; who never did, and other boards, are left out."""
    await store.create_board("other", Settings())
    await store.ack("main", "w1", through=5, seqs=[9, 7])
    await store.ack("main", "w2", through=None, seqs=[3])
    await store.ack("main", "w3", through=4, seqs=[])
    await store.ack("other", "w4", through=1, seqs=[])
    found = await store.all_acks("main")
    assert found == {"w1": Acks(5, frozenset({7, 9})), "w2": Acks(0, frozenset({3})), "w3": Acks(4)}


async def test_tokens(store: Store) -> None:
    """Tokens come oldest first; revoking gives those that it revoked, and the second time none."""
    rows = [
        TokenRow("b", b"2", "worker", "w1", "main", 20),
        TokenRow("a", b"1", "admin", "", "main", 10),
        TokenRow("c", b"3", "worker", "w1", "main", 30, 99),
    ]
    for row in rows:
        await store.add_token(row)
    assert [row.id for row in await store.tokens()] == ["a", "b", "c"]
    assert await store.revoke_tokens(at_us=40) == []
    assert [row.revoked_us for row in await store.revoke_tokens(id="a", at_us=40)] == [40]
    assert [row.id for row in await store.revoke_tokens(worker="w1", at_us=50)] == ["b", "c"]
    assert await store.revoke_tokens(id="b", worker="w1", at_us=60) == []
    assert [row.revoked_us for row in await store.tokens()] == [40, 50, 50]
    assert (await store.tokens())[2].expires_us == 99


# Open and closed


async def test_ping_changes_nothing(store: Store) -> None:
    """A ping of a store that can be written returns, and leaves boards as they were."""
    before = await store.boards()
    await store.ping()
    assert await store.boards() == before


async def test_closing_twice(store: Store) -> None:
    """Closing twice is a no-op, and a closed store says that it cannot be used."""
    await store.close()
    await store.close()
    with pytest.raises(StoreUnavailable):
        await store.boards()
    with pytest.raises(StoreUnavailable):
        await store.ping()


async def test_the_key_of_the_tokens_is_made_once(store: Store) -> None:
    """There is no key until one is asked for; then every caller gets the same one, also those who ask at once."""
    assert await store.token_key(make=False) is None
    made = await asyncio.gather(*(store.token_key(make=True) for _ in range(8)))
    assert len(set(made)) == 1
    assert len(made[0] or b"") == 32
    assert await store.token_key(make=False) == made[0]
