"""PostgreSQL going wrong under the store: cut, held, frozen, restarted; and nodes that do what they must not."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg
import pytest

from board.core.spelling import spell
from board.core.words import parse
from board.store.commons import Sockets
from board.store.contract import HeadMoved, OutcomeUnknown, StoreDamaged, StoreNewer, StoreUnavailable, WorkerRow
from board.store.postgres import PostgresStore
from board.store.postgres.connections import session_settings
from board.store.postgres.transaction import LOCKED_EVENTS
from schema.events import ClaimExpired, ClaimGranted, ClaimReleased
from tests.harness.logs import append, note, notes, record
from tests.harness.postgres import Postgres
from tests.harness.proxy import Proxy
from tests.harness.team import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
    from pathlib import Path

    from board.store.contract import Record

pytestmark = pytest.mark.anyio

WAIT_S = 0.5
LONG_S = 30.0
"""A bound on what must end by itself. It measures nothing."""

AT = "2027-01-15T08:00:00.000000Z"


@asynccontextmanager
async def opened(dsn: str, *, wait_s: float = 5.0) -> AsyncGenerator[PostgresStore]:
    """Give a node's store."""
    store = PostgresStore(dsn, wait_s=wait_s)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def place(postgres_server: Postgres) -> str:
    """An empty schema."""
    return await postgres_server.new_place()


@pytest.fixture
async def store(place: str) -> AsyncIterator[PostgresStore]:
    """One node's store on it."""
    async with opened(place) as store:
        yield store


@pytest.fixture
async def other(place: str, store: PostgresStore) -> AsyncIterator[PostgresStore]:
    """Another node's store on the same."""
    async with opened(place, wait_s=WAIT_S) as other:
        yield other


@pytest.fixture
async def proxy(postgres_server: Postgres) -> AsyncIterator[Proxy]:
    """A proxy before the server."""
    async with Proxy(postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
async def proxied(place: str, store: PostgresStore, proxy: Proxy) -> AsyncIterator[PostgresStore]:
    """A store on the same, through the proxy."""
    direct = str(urlsplit(place).port)
    async with opened(place.replace(direct, str(proxy.port), 1), wait_s=WAIT_S) as proxied:
        yield proxied


@pytest.fixture(scope="module")
def own_server(server_folder: Path) -> Iterator[Postgres]:
    """A PostgreSQL that these tests may stop and freeze."""
    with Postgres(server_folder / "own-postgres") as server:
        yield server


async def seqs(store: PostgresStore) -> list[int]:
    """Name all events of `main`."""
    rows, _ = await store.page("main", limit=1000)
    return [row.seq for row in rows]


async def ended_by_itself(call: Awaitable[object]) -> Exception | None:
    """Wait for a call, and give how the store refused it, if it did."""
    async with asyncio.timeout(LONG_S):
        try:
            await call
        except StoreUnavailable as error:
            return error
    return None


# The commit in doubt


async def test_a_commit_whose_answer_was_lost_is_found(
    store: PostgresStore, proxied: PostgresStore, proxy: Proxy
) -> None:
    """A commit that was carried out, and whose answer never came, returns as if the answer had come."""
    proxy.lose_answer_to(b"COMMIT")
    writing = asyncio.create_task(append(proxied, notes(1, 3)))

    async def is_stored() -> bool:
        return await seqs(store) == [1, 2, 3]

    await until(is_stored)
    proxy.cut()
    proxy.allow()
    await writing
    await append(proxied, notes(4, 4))
    assert await seqs(store) == [1, 2, 3, 4]


async def test_a_commit_that_never_arrived_stored_nothing(
    store: PostgresStore, proxied: PostgresStore, proxy: Proxy
) -> None:
    """A commit that was lost on its way is an error that says so truly, and the next one takes the same seqs."""
    proxy.lose(b"COMMIT")
    with pytest.raises(StoreUnavailable) as failed:
        await append(proxied, notes(1, 3))
    assert not isinstance(failed.value, OutcomeUnknown)
    assert await seqs(store) == []
    await append(proxied, notes(1, 2))
    assert await seqs(store) == [1, 2]


async def test_a_doubt_that_cannot_be_settled_is_told(
    store: PostgresStore, proxied: PostgresStore, proxy: Proxy
) -> None:
    """Where the server stays away after the commit, the error says that the outcome is open; the log then shows it."""
    proxy.lose_answer_to(b"COMMIT")
    with pytest.raises(OutcomeUnknown):
        await append(proxied, notes(1, 3))
    proxy.cut()
    proxy.allow()
    async with proxied.begin("main", 0) as transaction:
        assert [one.seq for one in transaction.missed] in ([], [1, 2, 3])
    assert await seqs(store) == [1, 2, 3]


async def test_a_connection_that_was_kept_and_died(proxied: PostgresStore, proxy: Proxy) -> None:
    """Connections that died while nobody used them fail neither a read nor a write."""
    await append(proxied, notes(1, 1))
    proxy.cut()
    await append(proxied, notes(2, 2))
    proxy.cut()
    assert await seqs(proxied) == [1, 2]


# The server away


async def test_a_server_that_is_away_is_said_so_in_bounded_time(proxied: PostgresStore, proxy: Proxy) -> None:
    """While nothing is reached every call fails by itself, as unavailable; afterwards all goes on by itself."""
    await append(proxied, notes(1, 1))
    for away in (proxy.refuse, proxy.hold_answers, proxy.hold_requests):
        away()
        for call in (proxied.boards(), append(proxied, notes(2, 2)), proxied.ping(), seqs(proxied)):
            assert await ended_by_itself(call) is not None
        proxy.cut()
        proxy.allow()
        assert await seqs(proxied) == [1]
    await append(proxied, notes(2, 2))


async def test_a_restart_of_the_server(own_server: Postgres) -> None:
    """What was committed before a crash is there after it, and the store goes on without being opened again."""
    async with opened(await own_server.new_place(), wait_s=WAIT_S) as store:
        await append(store, notes(1, 3))
        own_server.kill9()
        assert await ended_by_itself(append(store, notes(4, 4))) is not None
        assert await ended_by_itself(store.boards()) is not None
        own_server.start()
        await append(store, notes(4, 4))
        assert await seqs(store) == [1, 2, 3, 4]


async def test_a_frozen_server(own_server: Postgres) -> None:
    """A server that answers nothing at all is waited for no longer than for one that is away."""
    async with opened(await own_server.new_place(), wait_s=WAIT_S) as store:
        await append(store, notes(1, 1))
        own_server.freeze()
        try:
            assert await ended_by_itself(append(store, notes(2, 2))) is not None
            assert await ended_by_itself(store.workers("main")) is not None
        finally:
            own_server.thaw()
        async with store.begin("main", 1) as transaction:
            head = 1 + len(transaction.missed)
        await append(store, notes(head + 1, head + 1))
        assert await seqs(store) == list(range(1, head + 2))


async def test_opening_without_a_server() -> None:
    """A store whose server is not there says so when it is opened."""
    store = PostgresStore("postgresql://nobody@127.0.0.1:9/none", wait_s=WAIT_S)
    assert await ended_by_itself(store.open()) is not None
    await store.close()


# Several nodes


async def test_the_order_of_commits_is_the_order_of_the_log(store: PostgresStore, place: str) -> None:
    """Whoever opened its transaction first commits first; the other waits, sees that, and follows without a hole."""
    async with opened(place) as other, store.begin("main", 0) as first:

        async def second() -> None:
            async with other.begin("main", 0) as transaction:
                assert [one.seq for one in transaction.missed] == [1, 2]
                await transaction.commit(notes(3, 3))

        waiting = asyncio.create_task(second())
        await asyncio.sleep(0.05)
        await first.commit(notes(1, 2))
        await waiting
    assert await seqs(store) == [1, 2, 3]


async def test_a_write_that_was_rolled_back_leaves_no_hole(store: PostgresStore, other: PostgresStore) -> None:
    """A transaction that ends without a commit gave out no seq."""
    async with store.begin("main", 0):
        pass
    with pytest.raises(AssertionError):
        await append(store, [note(1, key="k"), note(2, key="k")])
    await append(other, notes(1, 1))
    assert await seqs(store) == [1]


async def test_a_node_that_stopped_in_its_turn(store: PostgresStore, other: PostgresStore) -> None:
    """A node that holds the right to write and does nothing is thrown out; what it then tries stores nothing."""
    async with other.begin("main", 0) as stopped:

        async def is_written() -> bool:
            with suppress(StoreUnavailable):
                await append(store, notes(1, 1))
                return True
            return False

        await until(is_written)
        with pytest.raises(StoreUnavailable):
            await stopped.commit([note(1, text="too late")])
    assert (await store.rows("main", [1]))[1].body == note(1).body
    assert await seqs(other) == [1]


async def test_far_behind_reads_on_without_the_lock(store: PostgresStore, other: PostgresStore) -> None:
    """A writer that missed more than it may read under the lock still gets all of it, in order."""
    count = LOCKED_EVENTS + 700
    await append(store, notes(1, count))
    async with other.begin("main", 0) as transaction:
        assert [one.seq for one in transaction.missed] == list(range(1, count + 1))
        await transaction.commit(notes(count + 1, count + 1))


async def test_writers_on_two_nodes(store: PostgresStore, place: str) -> None:
    """However many write on two nodes at once, the log has no hole and each saw all that came before it."""
    async with opened(place) as other:

        async def write(node: PostgresStore, author: str) -> None:
            for _ in range(10):
                async with node.begin("main", 0) as transaction:
                    await transaction.commit([note(len(transaction.missed) + 1, author=author)])

        await asyncio.gather(*(write(node, f"w{index}") for index, node in enumerate((store, other) * 4)))
        assert await seqs(store) == await seqs(other) == list(range(1, 81))


async def test_two_nodes_open_a_new_database_at_once(postgres_server: Postgres) -> None:
    """Nodes that start at once on an empty schema make it once, and all of them serve it."""
    place = await postgres_server.new_place()
    stores = [PostgresStore(place) for _ in range(5)]
    await asyncio.gather(*(store.open() for store in stores))
    assert len({(await store.boards())[0].epoch for store in stores}) == 1
    for store in stores:
        await store.close()


# A node with a fault meets the database's own rules


EVENT = "INSERT INTO events (board, seq, at_us, kind, author, body) SELECT id, {}, 1, 'note', 'x', '' FROM boards"


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        (EVENT.format(5), "40001"),
        (EVENT.format("unnest(ARRAY[4, 6])"), "40001"),
        (EVENT.format("unnest(ARRAY[4, 5, 5])"), "23505"),
        (EVENT.format(3), "23505"),
        (EVENT.format(0), "23514"),
        ("UPDATE events SET author = 'x' WHERE seq = 2", "23000"),
        ("DELETE FROM events WHERE seq = 3", "23000"),
        ("TRUNCATE events", "23000"),
        ("UPDATE boards SET head = 2", "23000"),
        ("UPDATE boards SET head = head + 1", "23000"),
    ],
    ids=["hole", "hole in a batch", "double in a batch", "reuse", "zero", "change", "loss", "wipe", "back", "ahead"],
)
async def test_the_database_refuses_what_no_node_may_do(
    store: PostgresStore, place: str, postgres_server: Postgres, statement: str, code: str
) -> None:
    """A hole, a reuse, a change and a head that moves by itself are refused, and leave the log as it was."""
    await append(store, notes(1, 3))
    with pytest.raises(asyncpg.PostgresError) as refused:
        await postgres_server.run(statement, dsn=place)
    assert refused.value.sqlstate == code
    assert await seqs(store) == [1, 2, 3]
    await append(store, notes(4, 4))


async def test_a_decision_on_an_older_log_cannot_be_stored(
    store: PostgresStore, place: str, postgres_server: Postgres
) -> None:
    """A claim that was granted by a node which had not read the newest event has a seq that is taken by now."""
    await append(store, notes(1, 1))
    seen = await postgres_server.run("SELECT head FROM boards", dsn=place)
    await append(store, [note(2, "CLAIM", author="w1", scope=("a",))])
    with pytest.raises(asyncpg.UniqueViolationError):
        await postgres_server.run(EVENT.format(seen[0][0] + 1), dsn=place)


def ended(seq: int, claim: int) -> Record:
    """Make the record of a release."""
    return record(ClaimReleased(seq=seq, at=AT, author="w1", claim=claim, holder="w1", outcome="done"))


def expired(seq: int, claim: int) -> Record:
    """Make the record of an expiry."""
    return record(ClaimExpired(seq=seq, at=AT, author="board", claim=claim, holder="w1", expires_at=AT))


def granted(seq: int, claim: int) -> Record:
    """Make the record of a grant."""
    return record(ClaimGranted(seq=seq, at=AT, author="board", claim=claim, holder="w1", expires_at=AT))


@pytest.mark.parametrize("pair", [(ended, expired), (expired, ended), (expired, expired), (granted, granted)])
async def test_a_claim_ends_once_and_is_granted_once(store: PostgresStore, pair: tuple) -> None:  # type: ignore[type-arg]
    """A second end of a claim, or a second grant, is refused, even by a node that holds the right to write."""
    first, second = pair
    await append(store, [note(1, "CLAIM"), first(2, 1)])
    with pytest.raises(AssertionError):
        await append(store, [second(3, 1)])
    await append(store, notes(3, 3))


async def test_a_seq_that_is_taken_is_a_head_that_moved(
    store: PostgresStore, place: str, postgres_server: Postgres
) -> None:
    """A commit whose seqs were taken by somebody who took no lock is told as what it is, and may be tried again."""
    async with store.begin("main", 0) as transaction:
        await transaction._let_go()
        await postgres_server.run(EVENT.format(1), dsn=place)
        with pytest.raises(HeadMoved):
            await transaction.commit(notes(1, 1))


# The shape of the database


async def test_a_newer_database_is_left_alone(postgres_server: Postgres, place: str) -> None:
    """A database of a newer version is refused, and one whose migration was changed since as well."""
    async with opened(place):
        pass
    await postgres_server.run("INSERT INTO migrations VALUES (9999, 'later', '', 0)", dsn=place)
    with pytest.raises(StoreNewer):
        await PostgresStore(place).open()
    await postgres_server.run("DELETE FROM migrations WHERE number = 9999", dsn=place)
    await postgres_server.run("UPDATE migrations SET checksum = 'x' WHERE number = 1", dsn=place)
    with pytest.raises(StoreDamaged):
        await PostgresStore(place).open()


async def test_the_indexes_are_made_again(store: PostgresStore, place: str, postgres_server: Postgres) -> None:
    """Indexes that were emptied are made again from the log, by whoever needs them, and give what they gave."""
    await append(store, [note(seq, text=f"word{seq}", scope=(f"src/f{seq}",), to=("w2",)) for seq in range(1, 150)])
    await postgres_server.run("TRUNCATE words, filings, indexed", dsn=place)
    rows, _ = await store.search("main", parse("word77"), before=None, limit=5)
    assert [row.seq for row in rows] == [77]
    found = await asyncio.gather(
        *(store.overlapping("main", [spell(f"src/f{seq}")], ["FACT"], limit=5) for seq in range(1, 150))
    )
    assert [row.seq for rows in found for row in rows] == list(range(1, 150))


async def test_indexes_of_boards_keep_apart_where_hashes_meet(
    store: PostgresStore, place: str, postgres_server: Postgres
) -> None:
    """A label or a word that shares its hash with another is told apart from it."""
    await append(store, [note(1, text="needle", scope=("src/a",), to=("w2",)), note(2, text="hay", scope=("lib",))])
    await store.search("main", parse("needle"), before=None, limit=5)
    await store.overlapping("main", [spell("lib")], ["FACT"], limit=5)
    await postgres_server.run("INSERT INTO filings SELECT label, 2 FROM filings ON CONFLICT DO NOTHING", dsn=place)
    await postgres_server.run("INSERT INTO filings SELECT label, 99 FROM filings ON CONFLICT DO NOTHING", dsn=place)
    await postgres_server.run(
        "UPDATE words SET hashes = hashes || (SELECT hashes FROM words WHERE seq = 1) WHERE seq = 2", dsn=place
    )
    assert [row.seq for row in (await store.search("main", parse("needle"), before=None, limit=5))[0]] == [1]
    assert [row.seq for row in await store.overlapping("main", [spell("src")], ["FACT"], limit=5)] == [1]


async def test_what_the_address_says_of_a_session_wins() -> None:
    """Settings in the DSN replace ours, but for the one that makes a commit durable."""
    said = session_settings("postgresql://h/d?lock_timeout=9&sslmode=require&synchronous_commit=off", 2.0)
    assert "lock_timeout" not in said
    assert said["statement_timeout"] == "2000"
    assert said["synchronous_commit"] == "on"


# What nodes share beside the log


async def test_a_ticket_is_taken_once(store: PostgresStore, other: PostgresStore) -> None:
    """Of many who show a ticket at once, on two nodes, one gets in; nobody gets in with one that is over."""
    assert await store.keep_ticket(b"t", b"w1", end_us=100, now_us=50, limit=2)
    assert await store.keep_ticket(b"old", b"w1", end_us=60, now_us=50, limit=2)
    assert not await store.keep_ticket(b"third", b"w1", end_us=100, now_us=50, limit=2)
    taken = await asyncio.gather(*(node.take_ticket(b"t", now_us=70) for node in (store, other) * 8))
    assert [one for one in taken if one is not None] == [b"w1"]
    assert await other.take_ticket(b"old", now_us=70) is None
    assert await other.take_ticket(b"none", now_us=70) is None
    assert await store.keep_ticket(b"third", b"w1", end_us=100, now_us=80, limit=2)


async def test_sockets_are_added_up_over_the_other_nodes(store: PostgresStore) -> None:
    """Sockets on other nodes add up; those of a node that fell silent count as closed since."""
    await store.report_sockets("main", "n1", [Sockets("w1", 2, 0), Sockets("w2", 0, 30)], now_us=100)
    await store.report_sockets("main", "n2", [Sockets("w1", 1, 0), Sockets("w2", 1, 0)], now_us=200)
    assert await store.sockets_elsewhere("main", "n3", alive_us=50) == [Sockets("w1", 3, 0), Sockets("w2", 1, 30)]
    assert await store.sockets_elsewhere("main", "n1", alive_us=50) == [Sockets("w1", 1, 0), Sockets("w2", 1, 0)]
    assert await store.sockets_elsewhere("main", "n3", alive_us=150) == [Sockets("w1", 1, 100), Sockets("w2", 1, 30)]
    await store.report_sockets("main", "n2", [Sockets("w1", 0, 250)], now_us=7_200_000_000)
    assert await store.sockets_elsewhere("main", "n3", alive_us=0) == [Sockets("w1", 0, 250), Sockets("w2", 1, 0)]


async def test_workers_saved_on_two_nodes_at_once(store: PostgresStore, place: str) -> None:
    """Nodes that save the same workers in any order wait for each other, and do not fail each other."""
    rows = [WorkerRow(f"w{number}", "", 1, number) for number in range(200)]
    async with opened(place) as other:
        saving = (node.save_workers("main", rows[::step]) for node, step in ((store, 1), (other, -1)) * 10)
        await asyncio.gather(*saving)
        assert len(await other.workers("main")) == 200
