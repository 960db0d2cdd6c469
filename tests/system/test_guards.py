"""Who may do what, for every route that there is: the table of routes against a table of its own, and a live server."""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import anyio
import httpx
import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from board.http.app import make_app
from board.http.metrics import Metrics
from board.http.routes import ROUTES
from board.mcp.http import PATHS
from board.stream.protocol import Op
from tests.harness.mcp import call, send
from tests.harness.node import Node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.anyio

BOARD: Final = "/v1/boards/{board}"

GUARDS: Final[dict[str, set[str]]] = {
    "open": {"GET /healthz", "GET /readyz"},
    "reader": {
        "GET /",
        "GET /page/{name}",
        "GET /metrics",
        "GET /openapi.json",
        "GET /v1/boards",
        f"GET {BOARD}",
        f"GET {BOARD}/claims",
        f"GET {BOARD}/conflicts",
        f"GET {BOARD}/events",
        f"GET {BOARD}/export",
        f"GET {BOARD}/notes",
        f"GET {BOARD}/notes/{{seq}}",
        f"GET {BOARD}/notes/{{seq}}/detail",
        f"GET {BOARD}/search",
        f"GET {BOARD}/snapshot",
        f"GET {BOARD}/stream",
        f"GET {BOARD}/unread",
        f"GET {BOARD}/wait",
        f"GET {BOARD}/workers",
        f"POST {BOARD}/claims/check",
        f"POST {BOARD}/unread/ack",
        "POST /v1/tickets",
    },
    "worker": {
        f"POST {BOARD}/claims/{{seq}}/narrow",
        f"POST {BOARD}/claims/{{seq}}/release",
        f"POST {BOARD}/claims/{{seq}}/renew",
        f"POST {BOARD}/claims/{{seq}}/transfer",
        f"POST {BOARD}/notes",
        f"POST {BOARD}/notes/batch",
        f"POST {BOARD}/notes/{{seq}}/retract",
        f"PUT {BOARD}/workers/me",
    },
    "admin": {
        f"POST {BOARD}/import",
        "POST /v1/boards",
        "GET /v1/tokens",
        "POST /v1/tokens",
        "DELETE /v1/tokens",
        "DELETE /v1/tokens/{id}",
    },
}
"""The least role of every route, written down a second time: a route that is added must be added here."""

TOOL_GUARDS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "reader": {
        "board_read": {},
        "board_check": {"scope": ["src/a.c"]},
        "board_grep": {"q": "rows"},
        "board_unfold": {"seq": 1},
        "board_wait": {"timeout_s": 0},
    },
    "worker": {
        "board_write": {"type": "FACT", "text": "rows end at a dash"},
        "board_claim": {"scope": ["src/a.c"], "text": "rows"},
        "board_release": {"claim": 1, "outcome": "done"},
    },
}
"""The least role of every MCP tool, with arguments that it takes."""

OP_GUARDS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "reader": {"ack": {"seqs": []}, "filter": {}},
    "worker": {"post": {"note": {"type": "FACT", "text": "rows end at a dash"}}},
}
"""The least role of everything that a client may ask of a stream."""

RANK: Final = {"reader": 0, "worker": 1, "admin": 2}
QUERIES: Final = {f"GET {BOARD}/wait": "?timeout_s=0", f"GET {BOARD}/search": "?q=a", "DELETE /v1/tokens": "?worker=w9"}


class Team(msgspec.Struct):
    """A server with tokens, and a way to call it."""

    url: str
    log: Path
    tokens: dict[str, str]
    http: httpx.AsyncClient

    async def call(self, route: str, caller: str | None, board: str = "main") -> httpx.Response:
        """Call a route with the token of a caller, or with none; writes have an empty body, which none of them takes."""
        method, _, path = route.partition(" ")
        filled = path.format(board=board, seq=999_999, id="ffffffff", name="app.js")
        headers = {"Authorization": f"Bearer {self.tokens[caller]}"} if caller else {}
        body = "[]" if method in ("POST", "PUT") else None
        if body:
            headers["Content-Type"] = "application/x-ndjson" if path.endswith("/import") else "application/json"
        return await self.http.request(
            method, self.url + filled + QUERIES.get(route, ""), headers=headers, content=body
        )


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Give one server for all, with a second board."""
    node = Node(tmp_path_factory.mktemp("node"))
    anyio.run(node.start)
    httpx.post(f"{node.url}/v1/boards", json={"board": "other"}, trust_env=False).raise_for_status()
    yield node
    node.close()


@pytest.fixture(scope="module")
def tokens(node: Node) -> dict[str, str]:
    """Give a token of each role for `main`, and one of a worker of the other board."""
    # The first token ends open mode, so it is an admin's: it makes the others.
    admin = make(node.url, {}, role="admin", worker="w2")
    by_admin = {"Authorization": f"Bearer {admin}"}
    return {
        "admin": admin,
        "reader": make(node.url, by_admin, role="reader", worker="w0"),
        "worker": make(node.url, by_admin, role="worker", worker="w1"),
        "stranger": make(node.url, by_admin, role="worker", worker="w1", board="other"),
    }


def make(url: str, headers: dict[str, str], **wanted: str) -> str:
    answer = httpx.post(f"{url}/v1/tokens", json=wanted, headers=headers, trust_env=False)
    return answer.raise_for_status().json()["token"]


@pytest.fixture
async def team(node: Node, tokens: dict[str, str]) -> AsyncIterator[Team]:
    async with httpx.AsyncClient(trust_env=False) as http:
        yield Team(node.url, node.log, tokens, http)


def code_of(answer: httpx.Response) -> Any:
    return answer.json().get("code") if answer.headers["content-type"] == "application/problem+json" else None


def facts_of(answer: httpx.Response) -> dict[str, Any]:
    """Give a refusal without what is the request's own."""
    return {name: fact for name, fact in answer.json().items() if name not in ("instance", "request_id")}


def test_every_route_has_the_guard_that_is_written_down() -> None:
    """The table of routes says of each what this file says of it."""
    found: dict[str, set[str]] = {guard: set() for guard in GUARDS}
    for route in ROUTES:
        found[route.guard].add(f"{route.method} {route.path}")
    assert found == GUARDS


async def test_every_guard_holds(team: Team) -> None:
    """A caller passes exactly where its role reaches; without a token only the open routes answer."""
    for guard, routes in GUARDS.items():
        for route in routes:
            nobody = await team.call(route, None)
            assert (nobody.status_code == 401) == (guard != "open"), route
            for caller in RANK:
                answer = await team.call(route, caller)
                passes = guard == "open" or RANK[caller] >= RANK[guard]
                assert (answer.status_code not in (401, 403)) == passes, (route, caller, answer.text)
                assert passes or code_of(answer) == "forbidden", (route, caller, answer.text)


def test_the_application_has_no_route_beside_the_tables() -> None:
    """What the server answers at all is the routes that are written down, and the MCP endpoint."""
    nothing: Any = None
    app = make_app(nothing, Metrics(), dict.fromkeys(PATHS, nothing))
    paths = {route.partition(" ")[2] for routes in GUARDS.values() for route in routes}
    assert {route.path.replace(":str}", "}") for route in app.routes} == {*paths, *PATHS}


async def test_every_tool_has_the_guard_that_is_written_down(team: Team) -> None:
    """The MCP endpoint lists the tools of this file's table, and each passes exactly where the caller's role reaches."""
    listed = (await send(team.url, "tools/list", token=team.tokens["reader"])).json()["result"]["tools"]
    assert {tool["name"] for tool in listed} == {name for tools in TOOL_GUARDS.values() for name in tools}
    for guard, tools in TOOL_GUARDS.items():
        for name, arguments in tools.items():
            for caller in RANK:
                answer = await call(team.url, name, arguments, token=team.tokens[caller])
                refused = answer["isError"] and answer["structuredContent"]["code"] == "forbidden"
                assert refused == (RANK[caller] < RANK[guard]), (name, caller, answer)


async def test_the_mcp_endpoint_is_guarded(team: Team) -> None:
    """Without a token no MCP method is answered, nor does a token of one board reach another, or one that is not there."""
    for path in ("/mcp", "/mcp/main", "/mcp/other", "/mcp/nobodys"):
        for method in ("initialize", "tools/list", "resources/list", "ping"):
            assert (await send(team.url, method, path=path)).status_code == 401, (path, method)
    for path in ("/mcp", "/mcp/main", "/mcp/nobodys"):
        answer = await send(team.url, "tools/list", path=path, token=team.tokens["stranger"])
        assert (answer.status_code, code_of(answer)) == (403, "forbidden"), path
    snapshot = {"uri": "board://main/snapshot"}
    read = await send(team.url, "resources/read", snapshot, path="/mcp/other", token=team.tokens["stranger"])
    assert "result" not in read.json()


async def first_word(team: Team, caller: str, *said: dict[str, Any], board: str = "main") -> tuple[int, Any]:
    """Open a stream; give the status of the reply to what was said (200 for the hello), or the code of its close."""
    url = f"{team.url.replace('http', 'ws')}/v1/boards/{board}/stream"
    headers = {"Authorization": f"Bearer {team.tokens[caller]}"} if caller else {}
    async with connect(url, additional_headers=headers, proxy=None) as stream:
        with suppress(ConnectionClosed):
            found = {"status": 200, **msgspec.json.decode(await stream.recv())}
            for op in said:
                await stream.send(msgspec.json.encode(op).decode())
                while (found := msgspec.json.decode(await stream.recv()))["op"] != "reply":
                    pass
            return found["status"], found.get("body", {}).get("code")
        return stream.close_code or 0, msgspec.json.decode(stream.close_reason or "{}").get("code")


async def test_a_stream_is_guarded(team: Team) -> None:
    """A stream opens for every role of its board, for nobody without a token, and for nobody of another board."""
    for caller in RANK:
        assert await first_word(team, caller) == (200, None), caller
    assert await first_word(team, "") == (4401, "unauthorized")
    for board in ("main", "nobodys"):
        assert await first_word(team, "stranger", board=board) == (4403, "forbidden")


async def test_every_op_has_the_guard_that_is_written_down(team: Team) -> None:
    """Each op that a stream takes is in this file's table, and passes exactly where the caller's role reaches."""
    taken = {kind.__struct_config__.tag for kind in get_args(Op)}
    assert taken == {name for ops in OP_GUARDS.values() for name in ops}
    for guard, ops in OP_GUARDS.items():
        for name, said in ops.items():
            for caller in RANK:
                status, code = await first_word(team, caller, {"op": name, "id": 1, **said})
                assert (status == 403) == (RANK[caller] < RANK[guard]), (name, caller)
                assert status < 400 or code == "forbidden", (name, caller, code)


async def test_another_teams_board_looks_like_none(team: Team) -> None:
    """To a token of one board, a board that is another's and one that does not exist are told apart by nothing."""
    for guard, routes in GUARDS.items():
        for route in routes:
            if "{board}" not in route or guard == "admin" or route.endswith("/stream"):
                continue
            theirs = await team.call(route, "stranger", "main")
            nobodys = await team.call(route, "stranger", "nobodys")
            assert theirs.status_code == nobodys.status_code, route
            assert theirs.status_code in (403, 422), (route, theirs.text)
            assert facts_of(theirs) == facts_of(nobodys), route


async def test_a_list_shows_only_the_callers_own_board(team: Team) -> None:
    """Lists and figures of a token for one board hold nothing of another's."""
    boards = (await team.call("GET /v1/boards", "stranger")).json()["boards"]
    assert [board["board"] for board in boards] == ["other"]
    await team.http.post(
        f"{team.url}/v1/boards/main/notes",
        json={"type": "FACT", "text": "rows end at a dash"},
        headers={"Authorization": f"Bearer {team.tokens['worker']}"},
    )
    figures = (await team.call("GET /metrics", "stranger")).text
    assert "board_events 0.0" in figures
    assert "board_http_requests" not in figures
    assert "board_events 0.0" not in (await team.call("GET /metrics", "admin")).text


async def test_what_is_not_there_is_told_only_to_those_who_may_call(team: Team) -> None:
    """Without a token an unknown path, a wrong method and OPTIONS are answered 401; with one, with what they are."""
    asked = {"GET /v1/nothing": 404, "PATCH /v1/boards": 405, "OPTIONS /v1/boards": 200, "GET /v1": 404}
    for route, status in asked.items():
        assert (await team.call(route, None)).status_code == 401, route
        assert (await team.call(route, "reader")).status_code == status, route


async def test_a_browser_may_send_the_token_as_a_password(team: Team) -> None:
    """Basic with a token as the password is that token's worker; another name beside it, or no token, is not."""
    url, token = f"{team.url}/v1/boards/main", team.tokens["worker"]
    for user, status in {"": 200, "w1": 200, "w2": 401}.items():
        credential = b64encode(f"{user}:{token}".encode()).decode()
        answer = await team.http.get(url, headers={"Authorization": f"Basic {credential}"})
        assert answer.status_code == status, user
    for bad in ("Basic", "Basic !", "Basic " + b64encode(b"\xff:\xff").decode(), "Digest x", token):
        answer = await team.http.get(url, headers={"Authorization": bad})
        assert answer.status_code == 401
        assert token not in answer.text


async def test_only_the_page_asks_for_a_password(team: Team) -> None:
    """A 401 says `Bearer`; that of `/` says `Basic` beside it, so that a browser asks."""
    page = await team.http.get(f"{team.url}/")
    assert page.status_code == 401
    assert page.headers.get_list("www-authenticate") == ["Bearer", 'Basic realm="board", charset="UTF-8"']
    api = await team.http.get(f"{team.url}/v1/boards")
    assert api.headers.get_list("www-authenticate") == ["Bearer"]


async def test_an_identity_comes_from_the_token_alone(team: Team) -> None:
    """A header that names another worker is refused, also an empty one; the token's own worker may be named."""
    headers = {"Authorization": f"Bearer {team.tokens['worker']}"}
    for worker, code in {"w2": "identity_mismatch", "": "identity_mismatch", "w1": None}.items():
        answer = await team.http.get(f"{team.url}/v1/boards/main", headers={**headers, "X-Board-Worker": worker})
        assert code_of(answer) == code, worker


async def test_a_token_in_the_url_is_refused_and_not_repeated(team: Team) -> None:
    """No route takes a token from its URL, whatever the parameter is called; neither answer nor log repeats it."""
    token = team.tokens["worker"]
    for name in ("token", "access_token", "Authorization", "API_KEY"):
        for path in ("/v1/boards", "/v1/boards/main/notes", "/v1/boards/main/notes/1", "/metrics"):
            headers = {"Authorization": f"Bearer {token}"}
            answer = await team.http.get(f"{team.url}{path}", params={name: token}, headers=headers)
            assert (answer.status_code, code_of(answer)) == (401, "token_in_url"), (name, path)
            assert token not in answer.text
    assert token not in team.log.read_text()
