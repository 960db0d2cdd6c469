"""What operators do to a server, and what happens to it: handed sockets, stops, full disks, jumping clocks, damage."""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import httpx
import msgspec
import pytest

from schema.events import ClaimExpired
from schema.notes import Claim, Observed
from tests.harness.clocked import ClockedNode
from tests.harness.listener import Listener
from tests.harness.mcp import call
from tests.harness.node import ROOT, Node, NodeFailed, run_board
from tests.harness.team import Team, until

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.harness.postgres import Postgres

pytestmark = pytest.mark.anyio


async def get(url: str, **headers: str) -> httpx.Response:
    """Call once, on a connection of its own."""
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        return await http.get(url, headers=headers)


async def post(node: Node, worker: str = "w1", **said: Any) -> httpx.Response:
    """Post a note."""
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        url = f"{node.url}/v1/boards/main/notes"
        return await http.post(url, json={"type": "OBSERVED", "text": "x", **said}, headers={"X-Board-Worker": worker})


# Requests and their ids


async def test_a_request_can_be_followed_by_its_id(node: Node) -> None:
    """The caller's id, or a new one, is in the answer, in a refusal's document and in the log, with who called."""
    mine = await get(f"{node.url}/v1/boards/main", **{"X-Request-Id": "abc-1", "X-Board-Worker": "w1"})
    assert mine.headers["x-request-id"] == "abc-1"
    refused = await get(f"{node.url}/v1/boards/nowhere", **{"X-Request-Id": "abc-2", "X-Board-Worker": "w1"})
    assert refused.headers["x-request-id"] == refused.json()["request_id"] == "abc-2"
    strange = await get(f"{node.url}/nowhere", **{"X-Request-Id": "a b\t{}"})
    made = strange.json()["request_id"]
    assert made == strange.headers["x-request-id"] != "a b\t{}"
    logged = await until(lambda: lines_of(node, "abc-1", "abc-2", made))
    assert [logged[one]["worker"] for one in ("abc-1", "abc-2")] == ["w1", "w1"]


async def lines_of(node: Node, *ids: str) -> dict[str, Any] | None:
    """Give the lines about requests by their ids, once all of these are there: a line follows its answer."""
    lines = {line.get("request_id", ""): line for line in node.logged() if line["event"] == "http.request"}
    return lines if lines.keys() >= set(ids) else None


async def test_every_bound_has_a_figure(node: Node) -> None:
    """The metrics show the loop's lag, and each queue and limit with how often it was met."""
    await post(node)
    shown = {line.split()[0].partition("{")[0] for line in (await get(f"{node.url}/metrics")).text.splitlines()}
    assert {
        "board_loop_lag_seconds",
        "board_tasks",
        "board_writer_queue_notes",
        "board_writer_queue_limit_notes",
        "board_writer_overflows_total",
        "board_store_failures_total",
        "board_tail_bytes",
        "board_streams_behind",
        "board_streams_stalled",
        "board_streams_silent_total",
        "board_streams_waiting_bytes",
        "board_connections_open",
        "board_connections_refused_total",
        "board_connections_lingering",
        "board_connections_cut_total",
        "board_requests_late_total",
        "board_answers_unread_total",
        "board_waits_open",
        "board_workers_known",
        "board_workers_refused_total",
    } <= shown


# Starting and stopping


@contextmanager
def server_on(listener: socket.socket, folder: Path, *flags: str) -> Generator[subprocess.Popen[bytes]]:
    """Run a server on a socket that is handed to it."""
    command = [sys.executable, "-m", "board", "serve", "--fd", str(listener.fileno()), *flags]
    store = f"sqlite:{folder / 'board.db'}"
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--store", store], cwd=ROOT, stdout=log, stderr=log, pass_fds=(listener.fileno(),)
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(20)


async def test_a_socket_that_is_handed_over(tmp_path: Path) -> None:
    """A supervisor's socket is served; whoever connects before, between and after two servers is answered."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/boards/main"
        early = asyncio.create_task(get(url))
        with server_on(listener, tmp_path) as first:
            assert (await early).json()["head"] == 0
            first.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(first.wait, 20) == 0
        between = asyncio.create_task(get(url))
        with server_on(listener, tmp_path):
            assert (await between).status_code == 200


async def test_open_mode_is_for_loopback_however_the_socket_came(tmp_path: Path) -> None:
    """A socket of another address that is handed over is refused without a token, as such an address is."""
    with socket.create_server(("0.0.0.0", 0)) as listener, server_on(listener, tmp_path) as process:
        assert await asyncio.to_thread(process.wait, 20) == 2


async def test_a_stop_lets_everyone_end(node: Node) -> None:
    """On SIGTERM long polls are answered, streams close with 1001 and the last seq, what was posted is stored, status 0."""
    await post(node)
    listener = await Listener.open(node.url, "main", after=0)
    await listener.until(lambda one: one.live)
    poll = asyncio.create_task(get(f"{node.url}/v1/boards/main/wait?timeout_s=60"))
    await until(lambda: waiting(node))
    posts = [asyncio.create_task(post(node)) for _ in range(20)]
    ended = asyncio.create_task(node.terminate())
    assert (await poll).json()["timed_out"] is False or (await poll).json()["events"] == []
    await listener.until(lambda one: one.closed)
    code, reason = listener.closed or (0, {})
    assert (code, reason["seq"]) == (1001, listener.seqs[-1])
    assert await ended == 0
    stored = [
        one.result().json()["seq"] for one in posts if one.done() and not one.exception() and one.result().is_success
    ]
    await asyncio.gather(*posts, return_exceptions=True)
    await node.restart()
    head = (await get(f"{node.url}/v1/boards/main")).json()["head"]
    assert head >= max([1, *stored])


async def test_a_stop_takes_what_is_on_its_way(node: Node) -> None:
    """A connection that is kept takes one more request when the server no longer listens, and is told that it ends."""
    request = b"GET /v1/boards/main HTTP/1.1\r\nHost: localhost\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port)

    async def asked() -> bytes:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split()[0])
        await reader.readexactly(size)
        return head

    assert b"connection: close" not in await asked()
    ended = asyncio.create_task(node.terminate())
    await until(lambda: refuses(node))
    head = await asked()
    assert head.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in head
    assert await reader.read() == b""
    assert await ended == 0
    writer.close()


async def refuses(node: Node) -> bool:
    """Tell whether nobody listens any more."""
    with socket.socket() as peer:
        return peer.connect_ex(("127.0.0.1", node.port)) != 0


async def waiting(node: Node) -> bool:
    """Tell whether a long poll waits."""
    return "board_waits_open 1.0" in (await get(f"{node.url}/metrics")).text


# Who it talks to


class Socket(msgspec.Struct, frozen=True):
    """One socket of a process: its kind, and the ports of its two ends; of a socket in the file system, its path."""

    kind: str
    here: int = 0
    there: int = 0
    path: str = ""


def sockets_of(pid: int) -> set[Socket]:
    """Give the sockets that a process has open now."""
    links: set[str] = set()
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            links.add(str(one.readlink()))
    lines = [
        (kind, line.split())
        for kind in ("tcp", "tcp6", "udp", "udp6", "unix")
        for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]
    ]
    return {_socket(kind, at) for kind, at in lines if f"socket:[{at[6 if kind == 'unix' else 9]}]" in links}


def _socket(kind: str, at: list[str]) -> Socket:
    if kind == "unix":
        return Socket(kind, path=at[7] if len(at) > 7 else "")
    here, there = (int(end.rpartition(":")[2], 16) for end in at[1:3])
    return Socket(kind, here, there)


async def use(node: Node) -> set[Socket]:
    """Do what workers do, on every surface, and give the sockets that the server had meanwhile."""
    seen: set[Socket] = set()
    listener = await Listener.open(node.url, "main")
    for number in range(10):
        await post(node, type="CLAIM", scope=[f"src/{number}.c"], to=["w1"])
        await call(node.url, "board_read", {}, worker="w2")
        await get(f"{node.url}/v1/boards/main/snapshot")
        seen |= sockets_of(node.pid)
    listener.close()
    return seen


async def test_the_server_calls_nobody_but_its_stores(tmp_path: Path, postgres_server: Postgres) -> None:
    """Beside its own port, the server has no socket but to PostgreSQL: it looks up no name and waits for no third party."""
    async with Node(tmp_path) as alone:
        assert {one for one in await use(alone) if one.kind != "unix" and one.here != alone.port} == set()
        assert {one.path for one in sockets_of(alone.pid)} == {""}
    dsn = await postgres_server.new_place()
    async with Node(tmp_path, name="shared", store=dsn) as shared:
        others = {one for one in await use(shared) if one.kind != "unix" and one.here != shared.port}
        assert {(one.kind, one.there) for one in others} == {("tcp", postgres_server.port)}


# Misfortunes


async def test_a_full_disk(node: Node) -> None:
    """While files cannot grow, writes answer 507 with the reason and reads go on; then writes go on by themselves."""
    first = await post(node, text="before")
    size = Path(node.store.removeprefix("sqlite:") + "-wal").stat().st_size
    free = resource.prlimit(node.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (size // 4, free[1]))
    refused = await post(node, detail="x" * 60_000)
    assert (refused.status_code, refused.json()["code"]) == (507, "store_full")
    assert int(refused.headers["retry-after"]) >= 1
    assert (await get(f"{node.url}/readyz")).status_code in (503, 507)
    page = (await get(f"{node.url}/v1/boards/main/notes")).json()
    assert [one["text"] for one in page["notes"]] == ["before"]
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, free)

    async def stored() -> httpx.Response | None:
        answer = await post(node, text="after")
        return answer if answer.is_success else None

    assert (await until(stored)).json()["seq"] == first.json()["seq"] + 1
    assert (await get(f"{node.url}/readyz")).status_code == 200


async def test_a_clock_that_jumps(tmp_path: Path) -> None:
    """Back a day: seqs and times go on upwards and nothing expires. Forward a day: leases end, once, before anything else."""
    async with ClockedNode(tmp_path) as node, Team(node) as team:
        async with node.client("w1", board=team.board) as board:
            claim = await board.post(Claim(text="mine", scope=("src/a.c",), ttl_s=600))
            node.clock.move(-86_400)
            await board.post(Observed(text="later"))
            assert await team.live("src/a.c") == [(claim.seq, "w1")]
            log = await team.log()
            assert [one.seq for one in log] == list(range(1, len(log) + 1))
            assert [one.at for one in log] == sorted(one.at for one in log)
            node.clock.move(2 * 86_400)
            (expired,) = await team.logged(ClaimExpired)
            assert expired.claim == claim.seq
            await board.post(Observed(text="much later"))
            assert len(await team.logged(ClaimExpired)) == 1
        await node.terminate()
        report = run_board("verify", "--store", node.store)
        assert (report.status, report.out.splitlines()[-1]) == (0, "nothing is wrong")


async def test_a_stopped_process_wakes_up_in_order(tmp_path: Path) -> None:
    """After SIGSTOP a lease that ended meanwhile is ended before what came in is decided: its scope is free."""
    async with ClockedNode(tmp_path) as node:
        held = await post(node, "w1", type="CLAIM", text="mine", scope=["src/a.c"], ttl_s=60)
        node.freeze()
        second = asyncio.create_task(post(node, "w2", type="CLAIM", text="mine now", scope=["src/a.c"]))
        node.clock.move(61)
        node.thaw()
        answer = (await second).json()
        assert answer["claim"]["state"] == "held"
        assert answer["seq"] > held.json()["seq"] + 1


async def test_a_kill_under_load_leaves_nothing_to_mend(node: Node) -> None:
    """After kill -9 in the middle of writes everything acknowledged is there, and `verify` finds nothing wrong."""
    posts = [asyncio.create_task(post(node, f"w{number % 8}")) for number in range(100)]
    await until(lambda: some_done(posts))
    await node.kill9()
    answers = await asyncio.gather(*posts, return_exceptions=True)
    acknowledged = {one.json()["seq"] for one in answers if isinstance(one, httpx.Response) and one.is_success}
    report = run_board("verify", "--store", node.store, "--json").json
    assert report["findings"] == []
    assert acknowledged
    assert report["boards"][0]["head"] >= max(acknowledged)


async def some_done(tasks: list[asyncio.Task[httpx.Response]]) -> bool:
    """Tell whether enough of them have ended."""
    return sum(task.done() for task in tasks) >= 20


async def test_a_damaged_file_is_said_so(node: Node) -> None:
    """A corrupt page ends in a clear sentence: what is wrong, and what to do, from the server, and from `verify`."""
    async with node.client("w1") as board:
        for _ in range(3):
            await board.post_batch([Observed(text="x" * 300)] * 500)
    await node.terminate()
    path = Path(node.store.removeprefix("sqlite:"))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3] + b"\xff" * 65_536 + whole[len(whole) // 3 + 65_536 :])
    checked = run_board("verify", "--store", node.store)
    assert checked.status in (1, 3)
    assert "board verify" in await reason_of_damage(node)


async def reason_of_damage(node: Node) -> str:
    """Start on a damaged file, and read on until the damage shows: in the log of the start, or in an answer."""
    with suppress(NodeFailed):
        await node.restart()
        answer = await get(f"{node.url}/v1/boards/main/events?limit=1000&after=300")
        assert answer.status_code == 503
        return answer.json()["detail"]
    return node.log.read_text()


async def test_damage_of_one_board_is_not_the_others(node: Node) -> None:
    """A board whose log does not fold answers 503 with the reason; the boards beside it are served."""
    async with httpx.AsyncClient(trust_env=False, base_url=node.url) as http:
        await http.post("/v1/boards", json={"board": "other"})
    for _ in range(3):
        await post(node)
    await node.kill9()
    damaged = apsw.Connection(node.store.removeprefix("sqlite:"))
    damaged.execute("DROP TRIGGER events_never_change")
    damaged.execute("DELETE FROM checkpoints")
    damaged.execute("DELETE FROM events WHERE id & 0xFF = 2")
    damaged.close()
    await node.restart()
    refused = await get(f"{node.url}/v1/boards/main")
    assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
    assert "hole" in refused.json()["detail"]
    assert "board verify" in refused.json()["detail"]
    assert (await get(f"{node.url}/v1/boards/other")).status_code == 200
    logged = await node.wait_logged("board.damaged")
    assert logged["board"] == "main"


# Copies


async def test_a_backup_is_put_back(node: Node, tmp_path: Path) -> None:
    """A backup of a running server is put back under a new epoch: whoever knows the later log is told to start again."""
    await post(node)
    before = (await get(f"{node.url}/v1/boards/main")).json()
    made = node.run("backup", str(tmp_path / "backup.db"), "--store", node.store)
    assert made.status == 0, made.err
    assert node.run("backup", str(tmp_path / "backup.db"), "--store", node.store).status == 3
    for _ in range(3):
        await post(node)
    await node.terminate()
    assert run_board("restore", str(tmp_path / "backup.db"), "--store", node.store).status == 3
    path = Path(node.store.removeprefix("sqlite:"))
    path.rename(tmp_path / "old.db")
    assert run_board("restore", str(tmp_path / "backup.db"), "--store", node.store).status == 0
    await node.restart()
    after = (await get(f"{node.url}/v1/boards/main")).json()
    assert (after["head"], after["state_hash"]) == (1, before["state_hash"])
    assert after["epoch"] != before["epoch"]
    for query in ({"after": 4}, {"after": 1, "epoch": before["epoch"]}):
        listener = await Listener.open(node.url, "main", **query)
        await listener.until(lambda one: one.closed)
        assert (listener.closed or (0,))[0] == 4409
