"""Copies of a file in use, files that were put back, and what `verify` finds in damaged ones."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING

import apsw
import pytest

from board.core.words import parse
from board.store.contract import StoreUnavailable
from board.store.sqlite import SqliteStore
from board.store.sqlite.copies import copy_file
from board.store.sqlite.verify import verify
from board.store.verify import verify as verify_store
from tests.harness.logs import append, note, notes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is."""
    return tmp_path / "board.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    """An open store."""
    opened = SqliteStore(str(path))
    await opened.open()
    yield opened
    await opened.close()


async def epoch_of(path: Path) -> str:
    """Open a file as a server does, and give the epoch of its board."""
    store = SqliteStore(str(path))
    await store.open()
    board = await store.board("main")
    await store.close()
    assert board is not None
    return board.epoch


async def test_a_copy_of_a_file_in_use_is_whole(path: Path, store: SqliteStore) -> None:
    """While notes are written, a copy holds all up to some commit, is right from its pages up, and delays nobody."""
    await append(store, notes(1, 500, to=("w2",), scope=("src/a.c",)))

    async def write() -> None:
        for head in range(500, 3000, 50):
            await append(store, notes(head + 1, head + 50))

    writing = asyncio.create_task(write())
    copies = [path.with_name(f"copy-{number}.db") for number in range(3)]
    for copy in copies:
        await asyncio.to_thread(copy_file, str(path), str(copy))
    await writing
    for copy in copies:
        report = await asyncio.to_thread(verify, str(copy))
        assert report.findings == ()
        assert report.boards[0].head % 50 == 0
        assert [one.name for one in copy.parent.iterdir() if one.name.startswith(copy.name)] == [copy.name]
    assert (await asyncio.to_thread(verify, str(path))).boards[0].head == 3000


async def test_a_copy_gets_new_epochs_when_it_is_served(path: Path, store: SqliteStore) -> None:
    """The epoch changes the first time that a copy is opened, not after that; two from one copy have different ones."""
    await append(store, notes(1, 3))
    before = (await store.boards())[0].epoch
    copy, first, second = (path.with_name(f"{name}.db") for name in ("copy", "first", "second"))
    copy_file(str(path), str(copy))
    for target in (first, second):
        target.write_bytes(copy.read_bytes())
    epochs = [await epoch_of(one) for one in (first, second, first, second)]
    assert epochs[:2] == epochs[2:]
    assert len({before, *epochs}) == 3
    assert (await store.boards())[0].epoch == before


async def test_a_copy_takes_the_key_of_the_tokens_along(path: Path, store: SqliteStore) -> None:
    """Tokens count in a copy too, since their key goes with it, for its owner's eyes alone."""
    key = await store.token_key(make=True)
    copy = path.with_name("copy.db")
    copy_file(str(path), str(copy))
    beside = copy.with_name("copy.db.key")
    assert bytes.fromhex(beside.read_text()) == key
    assert beside.stat().st_mode & 0o777 == 0o600


async def test_a_copy_never_writes_over_a_file(path: Path, store: SqliteStore) -> None:
    """A file of the copy's name, or of its key's, is left as it is; one that is not there is not copied."""
    copy = path.with_name("copy.db")
    for taken in (copy, copy.with_name("copy.db.key")):
        taken.write_text("mine")
        with pytest.raises(StoreUnavailable, match="is there already"):
            copy_file(str(path), str(copy))
        assert taken.read_text() == "mine"
        taken.unlink()
    with pytest.raises(StoreUnavailable, match="there is no file"):
        copy_file(str(path.with_name("nowhere.db")), str(copy))
    with pytest.raises(StoreUnavailable, match=r"cannot be written|unable to open"):
        copy_file(str(path), str(path.with_name("nowhere") / "copy.db"))


DAMAGE = [
    ("DELETE FROM events WHERE id & 0xFF = 5", 6, "a hole or a double"),
    ("UPDATE events SET author = 'w9' WHERE id & 0xFF = 5", 5, "author is 'w9', not 'w1'"),
    ("UPDATE events SET body = CAST('{' AS BLOB) WHERE id & 0xFF = 5", 5, "cannot be decoded"),
    ("UPDATE events SET digest = NULL WHERE key = 'k'", 2, "to tell what was sent under it"),
    ("UPDATE details SET text = 'song'", 1, "another detail"),
    ("DELETE FROM details", 1, "0 bytes of detail"),
    ("INSERT INTO details VALUES (1 << 40 | 77, 'x')", 77, "an event that is not there"),
    ("UPDATE boards SET head = 7", 0, "the board's head is 7"),
    ("INSERT INTO checkpoints VALUES (1, 4, CAST('{}' AS BLOB))", 4, "not what the log folds to"),
    ("INSERT INTO acks VALUES (1, 'w2', 99)", 99, "beyond the head"),
    ("DELETE FROM filings WHERE event & 0xFF = 3", 3, "filed under other places"),
    (
        "INSERT INTO filings SELECT id, 1 << 40 | 6 FROM labels WHERE name = 'file:src/a.c'",
        6,
        "filed under other places",
    ),
    ("INSERT INTO words (rowid, text) VALUES (1 << 40 | 4, 'strange')", 4, "found by other words"),
    ("UPDATE indexed SET seq = 50", 0, "beyond its head"),
]


@pytest.mark.parametrize(("sql", "seq", "words"), DAMAGE)
async def test_what_is_wrong_is_found(path: Path, store: SqliteStore, sql: str, seq: int, words: str) -> None:
    """Each kind of damage that somebody could do by hand is named with its place; before it there is none."""
    long = note(1, detail="long", detail_bytes=4, detail_hash=sha256(b"long").hexdigest()[:16], scope=("src/a.c",))
    keyed = note(2, key="k", digest=b"d" * 16)
    await append(store, [long, keyed, *notes(3, 9, scope=("src/b.c",))])
    assert (await store.search("main", parse("text"), before=None, limit=50))[0]
    await store.close()
    assert verify(str(path)).findings == ()
    damaged = apsw.Connection(str(path))
    damaged.execute("DROP TRIGGER events_never_change")
    damaged.execute(sql)
    damaged.close()
    found = verify(str(path)).findings
    assert any(one.seq == seq and words in one.what for one in found), found


async def test_a_corrupt_page_is_found(path: Path, store: SqliteStore) -> None:
    """A page that was overwritten is found, whatever was on it, and nothing crashes."""
    await append(store, notes(1, 2000, scope=("src/a.c",)))
    await store.close()
    whole = path.read_bytes()
    for place in range(4096, len(whole), 5 * 4096):
        path.write_bytes(whole[:place] + b"\xff" * 4096 + whole[place + 4096 :])
        try:
            findings = len(verify(str(path)).findings)
        except StoreUnavailable:
            findings = 1
        assert findings, place


async def test_any_store_is_checked_through_its_contract(store: SqliteStore) -> None:
    """What needs no file is found through the contract alone."""
    await append(store, notes(1, 9))
    await store.ack("main", "w2", through=4, seqs=[6])
    assert (await verify_store(store)).findings == ()
    await store.save_checkpoint("main", 9, b"{}")
    (finding,) = (await verify_store(store)).findings
    assert str(finding) == "main event 9: the checkpoint is not what the log folds to there"
