"""Who may do what, what nobody may learn, and what nobody may use up, through the public doors of a real server."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from schema.notes import Observed
from tests.harness.clocked import ClockedNode
from tests.harness.guarded import Guarded
from tests.harness.listener import Listener
from tests.harness.node import Node, run_board
from tests.harness.team import refusal, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

TEXT = 1


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    """A server with an admin and a worker."""
    async with Guarded(tmp_path) as guarded:
        await guarded.make_token("w1")
        yield guarded


async def open_stream(guarded: Guarded, who: str, board: str = "main", **query: Any) -> Listener:
    """Open a stream as somebody."""
    worker = who.partition("@")[0]
    return await Listener.open(guarded.node.url, board, worker, headers=guarded.line(who), **query)


async def closing(listener: Listener) -> tuple[int, str]:
    """Wait for the end of a stream; give its code, and the code of the problem."""
    await listener.until(lambda one: one.closed)
    assert listener.closed is not None
    return listener.closed[0], listener.closed[1]["code"]


# Tokens


async def test_a_token_is_told_to_nobody(guarded: Guarded, tmp_path: Path) -> None:
    """However tokens are used and misused, none is in a log, a metric, an export, an error, a file or a command line."""
    secrets = {name: token.removeprefix("bt_").partition("_")[2][:24] for name, token in guarded.tokens.items()}
    token = guarded.tokens["w1"]
    listener = await open_stream(guarded, "w1", after=0)
    await listener.until(lambda one: one.live)
    cmdlines = [Path(f"/proc/{guarded.node.pid}/cmdline").read_bytes()]
    answers = [
        await guarded.call("POST", "/v1/boards/main/notes", "w1", json={"type": "FACT", "text": "x"}),
        await guarded.call("POST", "/v1/boards/main/notes", "w1", json={"type": "FACT", "text": f"see {token}"}),
        await guarded.call("POST", "/v1/boards/main/notes", "w1", json={"type": "FACT", "text": "x", "detail": token}),
        await guarded.call("POST", "/v1/boards/main/notes", "w1", json={token: token}),
        await guarded.call("GET", f"/v1/boards?token={token}", "w1"),
        await guarded.call("GET", f"/v1/boards/main/notes?{token}=1", "w1"),
        await guarded.call("GET", f"/v1/boards/{token}", "w1"),
        await guarded.call("GET", f"/v1/nowhere/{token}", "w1"),
        await guarded.call("GET", f"/v1/boards/main/notes/{token}", "w1"),
        await guarded.call("DELETE", f"/v1/tokens/{token}", "ops"),
        await guarded.call("GET", "/v1/boards", headers={"X-Board-Worker": token}, who="w1"),
        await guarded.call("GET", "/v1/boards", headers={"Authorization": f"Digest {token}"}, who=""),
        await guarded.call("GET", "/v1/boards", headers={"Authorization": f"Bearer {token}x"}, who=""),
        await guarded.call("GET", "/v1/boards", headers={"Origin": f"http://{token}"}, who="w1"),
        await guarded.call("GET", "/v1/tokens"),
        await guarded.call("GET", "/metrics"),
        await guarded.call("GET", "/v1/boards/main/export"),
        await guarded.call("GET", "/v1/boards/main/workers"),
    ]
    assert [answer.status_code for answer in answers[:3]] == [201, 422, 422]
    listener.send(TEXT, b'{"op":"post","id":1,"note":{"type":"FACT","text":"' + token.encode() + b'"}}')
    listener.send(TEXT, b'{"op":"' + token.encode() + b'","id":2}')
    refused = await Listener.open(guarded.node.url, "main", headers=f"Authorization: Basic {token}\r\n")
    in_url = await Listener.open(guarded.node.url, "main", token=token)
    await asyncio.gather(closing(refused), closing(in_url))
    ran = guarded.node.run("read", environ={"BOARD_TOKEN": token})
    assert ran.status == 0
    await guarded.call("DELETE", f"/v1/tokens/{guarded.ids['w1']}")
    assert await closing(listener) == (4401, "unauthorized")
    await guarded.node.terminate()

    said = b"".join([answer.content + str(answer.headers).encode() for answer in answers])
    said += repr([refused.closed, in_url.closed, listener.closed]).encode() + ran.out.encode() + ran.err.encode()
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for name, secret in secrets.items():
        assert secret.encode() not in said, name
        assert secret.encode() not in files, name
        assert secret.encode() not in b"".join(cmdlines), name


async def test_an_end_of_a_token_ends_what_it_opened(tmp_path: Path) -> None:
    """Streams and long polls end with their token, whether it is revoked, expires by the server's clock, or open mode ends."""
    node = ClockedNode(tmp_path)
    await node.start()
    anonymous = await Listener.open(node.url, "main", "w0")
    await anonymous.until(lambda one: one.live)
    guarded = Guarded(tmp_path, node=node)
    try:
        await guarded.make_token("ops", role="admin")
        assert await closing(anonymous) == (4401, "unauthorized")
        await guarded.make_token("w1", expires_s=3600)
        await guarded.make_token("w2")
        short, long = await open_stream(guarded, "w1"), await open_stream(guarded, "w2")
        for listener in (short, long):
            await listener.until(lambda one: one.live)
        poll = asyncio.create_task(guarded.call("GET", "/v1/boards/main/wait?timeout_s=60&after=0", "w1"))
        await until(lambda: asyncio.sleep(0.1, True))
        node.clock.move(3601)
        assert await closing(short) == (4401, "unauthorized")
        posted = await guarded.call("POST", "/v1/boards/main/notes", "w2", json={"type": "FACT", "text": "x"})
        assert posted.status_code == 201
        assert (await poll).status_code == 401
        assert (await guarded.call("GET", "/v1/boards", "w1")).status_code == 401
        await long.reach(posted.json()["seq"])
        await guarded.call("DELETE", "/v1/tokens?worker=w2")
        assert await closing(long) == (4401, "unauthorized")
    finally:
        node.close()


async def test_the_key_of_the_hash_is_kept_beside_the_store(tmp_path: Path) -> None:
    """The command line and the server hash alike without being told a key; where the key is lost no token counts."""
    store = f"sqlite:{tmp_path / 'board.db'}"
    made = run_board("token", "create", "--role", "admin", "--worker", "ops", "--store", store, "--json").json
    key = tmp_path / "board.db.key"
    assert key.stat().st_mode & 0o777 == 0o600
    headers = {"Authorization": f"Bearer {made['token']}"}
    async with Node(tmp_path) as node:
        assert httpx.get(f"{node.url}/v1/boards", headers=headers, trust_env=False).status_code == 200
        await node.terminate()
        key.rename(tmp_path / "lost.key")
        await node.restart()
        await node.wait_logged("tokens.key_missing")
        for said in ({}, headers, {"X-Board-Worker": "w1"}):
            assert httpx.get(f"{node.url}/v1/boards", headers=said, trust_env=False).status_code == 401


# Teams


async def test_two_teams_on_one_server(guarded: Guarded) -> None:
    """Both teams have a w1 and a src/a.py: nothing of one shows in, or touches, what the other sees."""
    for board in ("crimson", "blue"):
        assert (await guarded.call("POST", "/v1/boards", json={"board": board})).status_code == 201
        await guarded.make_token("w1", board=board, name=f"w1@{board}")
        await guarded.make_token(f"only-{board}", board=board)
    listener = await open_stream(guarded, "w1@blue", "blue")
    await listener.until(lambda one: one.live)
    claim = {"type": "CLAIM", "text": "crimson's plan", "scope": ["src/a.py"], "ttl_s": 600}
    red = await guarded.call("POST", "/v1/boards/crimson/notes", "w1@crimson", json=claim)
    blue = await guarded.call("POST", "/v1/boards/blue/notes", "w1@blue", json={**claim, "text": "blue's plan"})
    assert [one.json()["claim"]["state"] for one in (red, blue)] == ["held", "held"]
    assert [one.json()["seq"] for one in (red, blue)] == [1, 1]
    await guarded.call(
        "POST", "/v1/boards/crimson/notes", "only-crimson", json={"type": "FACT", "text": "a secret of crimson"}
    )
    shown = [
        await guarded.call("GET", path, "w1@blue")
        for path in (
            "/v1/boards",
            "/v1/boards/blue",
            "/v1/boards/blue/events",
            "/v1/boards/blue/claims?state=all",
            "/v1/boards/blue/workers",
            "/v1/boards/blue/snapshot",
            "/v1/boards/blue/unread",
            "/v1/boards/blue/search?q=secret",
            "/v1/boards/blue/export",
            "/metrics",
        )
    ]
    assert {one.status_code for one in shown} == {200}
    assert not [one.url for one in shown if "crimson" in one.text]
    assert "board_events 1.0" in shown[-1].text
    refused = [
        await guarded.call(method, path, "w1@blue", **said)
        for method, path, said in (
            ("GET", "/v1/boards/crimson", {}),
            ("GET", "/v1/boards/nowhere", {}),
            ("GET", "/v1/boards/crimson/notes", {}),
            ("POST", "/v1/boards/crimson/notes", {"json": claim}),
            ("POST", "/v1/boards/crimson/claims/1/release", {"json": {}}),
            ("POST", "/mcp/crimson", {"json": {}}),
            ("GET", "/v1/tokens", {}),
        )
    ]
    assert {one.status_code for one in refused} == {403}
    there, nowhere = (one.json() for one in refused[:2])
    assert there | {"instance": ""} | {"request_id": ""} == nowhere | {"instance": ""} | {"request_id": ""}
    foreign = await open_stream(guarded, "w1@blue", "crimson")
    assert await closing(foreign) == (4403, "forbidden")
    unknown = {"type": "FACT", "text": "to whom?", "to": ["only-crimso"]}
    addressed = await guarded.call("POST", "/v1/boards/blue/notes", "w1@blue", json=unknown)
    assert addressed.status_code == 422
    assert "only-crimson" not in addressed.text
    assert listener.seqs == [1]


async def test_the_real_defaults(tmp_path: Path) -> None:
    """Started as the README says: on loopback alone, closed to foreign pages and names, with every route documented."""
    async with Node(tmp_path) as node:
        sockets = Path(f"/proc/{node.pid}/net/tcp").read_text().splitlines()[1:]
        port = f"{node.port:04X}"
        listening = [line.split()[1] for line in sockets if line.split()[3] == "0A" and line.split()[1].endswith(port)]
        assert listening == [f"0100007F:{port}"]
        get = lambda path, **headers: httpx.get(node.url + path, headers=headers, trust_env=False)  # noqa: E731
        assert get("/v1/boards").status_code == 200
        assert get("/v1/boards", Origin="https://evil.example").json()["code"] == "foreign_origin"
        assert get("/v1/boards", Origin="null").json()["code"] == "foreign_origin"
        assert get("/v1/boards", Host="evil.example").json()["code"] == "foreign_origin"
        assert get("/nowhere").json()["code"] == "route_not_found"
        document = get("/openapi.json").json()
        for path, methods in document["paths"].items():
            filled = re.sub("{[a-z]+}", "1", path.replace("{board}", "main"))
            allowed = httpx.options(node.url + filled, trust_env=False).headers["allow"]
            assert set(map(str.upper, methods)) == set(allowed.split(", ")) - {"HEAD", "OPTIONS"}, path
    for host in ("0.0.0.0", "::"):
        refused = run_board("serve", "--host", host, "--port", "0", "--store", f"sqlite:{tmp_path / 'other.db'}")
        assert refused.status == 2


# Quotas

TIGHT = {
    "BOARD_WORKER_NOTES_PER_S": "0.001",
    "BOARD_WORKER_NOTES_BURST": "6",
    "BOARD_BOARD_NOTES_PER_S": "0.001",
    "BOARD_BOARD_NOTES_BURST": "9",
    "BOARD_WORKER_DETAIL_BYTES_PER_S": "0.001",
    "BOARD_WORKER_DETAIL_BYTES_BURST": "100",
    "BOARD_WORKER_CLAIMS": "2",
    "BOARD_WORKER_STREAMS": "2",
    "BOARD_WORKER_WAITS": "1",
}


@pytest.fixture
async def tight(tmp_path: Path) -> AsyncIterator[Guarded]:
    """A server with next to no quotas, and two workers of one team."""
    async with Guarded(tmp_path, environ=TIGHT) as guarded:
        await guarded.make_token("w1")
        await guarded.make_token("w2")
        yield guarded


async def post(guarded: Guarded, who: str, **said: Any) -> httpx.Response:
    """Post a note as somebody."""
    return await guarded.call("POST", "/v1/boards/main/notes", who, json={"type": "OBSERVED", "text": "x", **said})


def quota(answer: httpx.Response) -> str:
    """Give the name of the quota that a call was refused by."""
    assert answer.status_code == 429
    assert answer.json()["code"] == "rate_limited"
    assert 1 <= answer.json()["retry_after_s"] <= int(answer.headers["retry-after"])
    return answer.json()["quota"]


async def test_what_one_worker_may_use(tight: Guarded) -> None:
    """Over a quota a call is refused with its name and when to come again, stores nothing, and is counted; others go on."""
    claims = [
        await post(tight, "w1", type="CLAIM", scope=[f"src/{name}.py"], on_conflict="contest")
        for name in ("a", "b", "c")
    ]
    assert [one.status_code for one in claims[:2]] == [201, 201]
    assert quota(claims[2]) == "worker_claims"
    assert (await post(tight, "w1", detail="x" * 60)).status_code == 201
    assert quota(await post(tight, "w1", detail="x" * 60)) == "worker_detail_bytes"
    assert [(await post(tight, "w1")).status_code for _ in range(3)] == [201, 201, 201]
    assert quota(await post(tight, "w1")) == "worker_notes"
    released = await tight.call("POST", f"/v1/boards/main/claims/{claims[0].json()['seq']}/release", "w1", json={})
    assert quota(released) == "worker_notes"
    batch = {"notes": [{"type": "OBSERVED", "text": "x"}] * 4}
    assert quota(await tight.call("POST", "/v1/boards/main/notes/batch", "w2", json=batch)) == "board_notes"
    assert [(await post(tight, "w2")).status_code for _ in range(3)] == [201, 201, 201]
    assert quota(await post(tight, "w2")) == "board_notes"
    head = (await tight.call("GET", "/v1/boards/main", "w2")).json()["head"]
    assert head == 9
    metrics = (await tight.call("GET", "/metrics")).text
    for name, count in (("worker_claims", 1), ("worker_notes", 2), ("board_notes", 2), ("worker_detail_bytes", 1)):
        assert f'board_quota_refusals_total{{quota="{name}"}} {count}.0' in metrics


async def test_who_comes_back_too_early_waits_for_the_refusal(tight: Guarded) -> None:
    """The second refusal of a worker that did not wait comes after the answer to what another asked later."""
    for _ in range(6):
        assert (await post(tight, "w1")).status_code == 201
    assert quota(await post(tight, "w1")) == "worker_notes"
    hasty = asyncio.create_task(post(tight, "w1"))
    other = asyncio.create_task(tight.call("GET", "/v1/boards/main", "w2"))
    first, _ = await asyncio.wait((hasty, other), return_when=asyncio.FIRST_COMPLETED)
    assert first == {other}
    assert quota(await hasty) == "worker_notes"


async def test_names_without_end_are_refused(tmp_path: Path) -> None:
    """Where a board remembers as many workers as it takes, one more is refused on every surface; the known ones go on."""
    async with Node(tmp_path, environ={"BOARD_BOARD_WORKERS": "3"}) as node:
        async with node.client("w1") as board:
            await asyncio.gather(*(board.acting_as(name).claims() for name in ("w1", "w2", "w3")))
            for call in (board.acting_as("w4").claims(), board.acting_as("w5").post(Observed(text="x"))):
                refused = await refusal(call)
                assert (refused.code, refused.row.status) == ("too_many_workers", 403)
                assert (refused.facts["limit"], refused.facts["setting"]) == (3, "board_workers")
            tool = httpx.post(f"{node.url}/mcp", json={}, headers={"X-Board-Worker": "w6"}, trust_env=False)
            assert (tool.status_code, tool.json()["code"]) == (403, "too_many_workers")
            stream = await Listener.open(node.url, "main", "w7")
            assert await closing(stream) == (4403, "too_many_workers")
            assert (await board.post(Observed(text="x"))).seq == 1
            await board.create_board("other")
        async with node.client("w4", board="other") as elsewhere:
            await elsewhere.claims()
        metrics = httpx.get(f"{node.url}/metrics", trust_env=False).text
        assert "board_workers_refused_total 4.0" in metrics
        assert "board_workers_known 4.0" in metrics
        await node.kill9()
        await node.restart()
        async with node.client("w3") as known:
            assert {one.worker for one in (await known.workers()).workers} == {"w1", "w2", "w3"}
            assert (await refusal(known.acting_as("w4").board())).code == "too_many_workers"


async def test_a_team_is_not_told_to_come_back_in_one_instant(tight: Guarded) -> None:
    """Workers who are refused together are told different seconds: the document's or more, half as much more at most."""
    assert [(await post(tight, "w2")).status_code for _ in range(6)] == [201] * 6
    assert [(await post(tight, "w1")).status_code for _ in range(3)] == [201] * 3
    told: set[float] = set()
    for number in range(20):
        await tight.make_token(f"late{number}")
        refused = await post(tight, f"late{number}")
        assert quota(refused) == "board_notes"
        needed_s, told_s = refused.json()["retry_after_s"], int(refused.headers["retry-after"])
        assert needed_s <= told_s <= 1.5 * needed_s
        told.add(told_s / needed_s)
    assert len(told) > 10


async def test_tickets_of_one_worker_leave_room_for_others(tight: Guarded) -> None:
    """Who makes tickets without end is refused after some, and others still get theirs."""
    async with asyncio.timeout(30):
        while (made := await tight.call("POST", "/v1/tickets", "w1")).status_code == 201:
            pass
    assert quota(made) == "worker_tickets"
    assert (await tight.call("POST", "/v1/tickets", "w2")).status_code == 201


async def test_what_one_worker_may_have_open(tight: Guarded) -> None:
    """One stream or long poll more than the quota is refused, and there is room again when one has ended."""
    opened = [await open_stream(tight, "w1") for _ in range(2)]
    for listener in opened:
        await listener.until(lambda one: one.live)
    assert await closing(await open_stream(tight, "w1")) == (4429, "rate_limited")
    opened[0].close()
    await opened[0].lost.wait()

    async def opens() -> bool:
        one = await open_stream(tight, "w1")
        await one.until(lambda one: one.live or one.closed)
        return one.live

    await until(opens)
    first = asyncio.create_task(tight.call("GET", "/v1/boards/main/wait?timeout_s=60", "w1"))

    async def waits() -> bool:
        return "board_waits_open 1.0" in (await tight.call("GET", "/metrics")).text

    await until(waits)
    assert quota(await tight.call("GET", "/v1/boards/main/wait?timeout_s=0", "w1")) == "worker_waits"
    assert (await tight.call("GET", "/v1/boards/main/wait?timeout_s=0", "w2")).status_code == 200
    await post(tight, "w2")
    assert (await first).status_code == 200
    assert (await tight.call("GET", "/v1/boards/main/wait?timeout_s=0", "w1")).status_code == 200


async def test_a_flood_of_one_does_not_hold_up_another(guarded: Guarded) -> None:
    """While one worker has many batches waiting, another's note is written before most of them, not behind them all."""
    await guarded.make_token("w2")
    batch = {"notes": [{"type": "OBSERVED", "text": "x" * 100}] * 1000}
    flood = [
        asyncio.create_task(guarded.call("POST", "/v1/boards/main/notes/batch", "w1", json=batch)) for _ in range(10)
    ]
    await until(lambda: any_done(flood))
    mine = await post(guarded, "w2")
    written = await asyncio.gather(*flood)
    assert max(one.json()["last"] for one in written if one.status_code == 201) > mine.json()["seq"]


async def any_done(tasks: list[asyncio.Task[httpx.Response]]) -> bool:
    """Tell whether one of them has ended."""
    return any(task.done() for task in tasks)
