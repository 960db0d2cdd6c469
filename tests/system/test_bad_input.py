"""Bad input of every kind, as bytes on the wire: each is a clear refusal with a stable code, and stores nothing."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx
import msgspec
import pytest
from anyio import to_thread

from tests.harness.node import Node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.anyio

NOTES: Final = "/v1/boards/main/notes"
JSON: Final = {"Content-Type": "application/json"}
FACT: Final = {"type": "FACT", "text": "rows end at a dash"}
PATCH: Final = {"type": "PATCH_SUMMARY", "files": ["src/a.c"], "idea": "rows", "evidence": "14 of 14 pass"}
BODY_BYTES: Final = 1_048_576


class Board:
    """A board that must be at its end what it was at its beginning."""

    def __init__(self, node: Node, http: httpx.AsyncClient) -> None:
        self.node = node
        self.http = http
        self.before: Any = None

    async def state(self) -> Any:
        """The head of the log, and the hash of what it folds to."""
        answer = (await self.http.get("/v1/boards/main")).json()
        return answer["head"], answer["state_hash"]

    async def refused(self, method: str, url: str, status: int, code: str, **named: Any) -> dict[str, Any]:
        """Send a request; it must be refused like this, and must leave the board as it was."""
        answer = await self.http.request(method, url, **named)
        return await self.is_refusal(answer.status_code, answer.headers, answer.content, status, code)

    async def is_refusal(self, said: int, headers: Any, body: bytes, status: int, code: str) -> dict[str, Any]:
        """Check that an answer is this refusal, and that the board is as it was."""
        document = msgspec.json.decode(body)
        assert (said, document.get("code")) == (status, code), document
        assert headers["content-type"] == "application/problem+json"
        assert {"type", "title", "status", "detail", "code", "action"} <= document.keys()
        assert "$." not in document["detail"], "the sentence is a library's, not ours"
        assert len(body) < 4096
        assert await self.state() == self.before
        return document


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Give one server for all: every test finds the board that the one before it left."""
    node = Node(tmp_path_factory.mktemp("node"))
    anyio.run(node.start)
    yield node
    node.close()


@pytest.fixture
async def board(node: Node) -> AsyncIterator[Board]:
    async with httpx.AsyncClient(base_url=node.url, trust_env=False, headers={"X-Board-Worker": "w1"}) as http:
        board = Board(node, http)
        await http.post(NOTES, json=FACT)
        board.before = await board.state()
        yield board


BAD_JSON: Final[dict[bytes, tuple[int, str, str]]] = {
    b"": (400, "malformed_json", "no body"),
    b"{": (400, "malformed_json", "column 2"),
    b"null": (422, "invalid_field", "must be an object"),
    b"[]": (422, "invalid_field", "must be an object"),
    b'"text"': (422, "invalid_field", "must be an object"),
    b'\xef\xbb\xbf{"type":"FACT","text":"a"}': (400, "malformed_json", "line 1"),
    b'{"type":"FACT","text":"a"} {}': (400, "malformed_json", "Extra data"),
    b'{"type":"FACT","text":NaN}': (400, "malformed_json", "no JSON"),
    b"{'type':'FACT'}": (400, "malformed_json", "double quotes"),
    b'{"type":"FACT","text":"\\ud800"}': (400, "malformed_json", "lone surrogate, \\ud800"),
    b'{"type":"FACT","text":"\\udfff b"}': (400, "malformed_json", "lone surrogate, \\udfff"),
    b'{"type":"FACT","text":"\xed\xa0\x80"}': (400, "malformed_json", "byte 23"),
    b'{"type":"FACT","text":"\xff"}': (400, "malformed_json", "0xff"),
    b'{"type":"FACT","text":"a\\u0000"}': (422, "invalid_field", "NUL"),
    b'{"type":"FACT","text":"a\x00"}': (400, "malformed_json", "control character"),
    b'{"type":"FACT","text":"a","text":"b"}': (422, "invalid_field", "'text' is given twice"),
    b'{"type":"FACT","text":"a","run":{"command":"a","exit_code":1,"exit_code":0}}': (
        *(422, "invalid_field"),
        "'exit_code' is given twice",
    ),
    b'{"type":"FACT"}': (422, "invalid_field", "`text` is missing"),
    b'{"text":"a"}': (422, "invalid_field", "`type` is missing"),
    b'{"type":"NOTE","text":"a"}': (422, "invalid_field", "OBSERVED, FACT, FAIL, CLAIM, PATCH_SUMMARY"),
    b'{"type":"FACT","text":" \\t"}': (422, "invalid_field", "`text` is empty"),
    b'{"type":"FACT","text":1}': (422, "invalid_field", "`text` is 1; it must be a text"),
    b'{"type":"FACT","text":null}': (422, "invalid_field", "`text` is null"),
    b'{"type":"FACT","text":"a","author":"w2"}': (422, "invalid_field", "`author` is not known"),
    b'{"type":"FACT","text":"a","seq":7}': (422, "invalid_field", "`seq` is not known"),
    b'{"type":"FACT","text":"a","scope":"src/a.c"}': (422, "invalid_field", '`scope` is "src/a.c"; it must be a list'),
    b'{"type":"FACT","text":"a","refs":[{"rel":"likes","seq":1}]}': (422, "invalid_field", "supersedes, supports"),
    b'{"type":"FACT","text":"a","refs":[{"rel":"supports","seq":%d}]}' % 10**30: (
        *(422, "invalid_field"),
        "`refs[0].seq` is 1000000000000000000000000000000; it must be a whole number <= 9007199254740992",
    ),
    b'{"type":"FACT","text":"a","refs":[{"rel":"supports","seq":-1}]}': (422, "invalid_field", ">= 0"),
    b'{"type":"FACT","text":"a","refs":[{"rel":"supports","seq":99}]}': (422, "unknown_ref", "no note 99"),
    b'{"type":"FACT","text":"a","run":{"command":"a","exit_code":%d}}' % 10**40: (422, "invalid_field", "4294967295"),
    b'{"type":"FACT","text":"a","run":{"command":"a","exit_code":%s}}' % (b"9" * 5000): (
        *(422, "invalid_field"),
        "`run.exit_code`",
    ),
    b'{"type":"FACT","text":"a","run":{"command":"a","exit_code":1.0}}': (
        422,
        "invalid_field",
        "must be a whole number",
    ),
    b'{"type":"FACT","text":"a","run":{"command":"a","exit_code":1e400}}': (422, "invalid_field", "`run.exit_code`"),
    b'{"type":"FACT","text":"a","run":{"command":"a","exit_code":true}}': (422, "invalid_field", "is true"),
    b'{"type":"CLAIM","text":"a","scope":["a"],"ttl_s":0}': (422, "over_limit", "from 1 to 21600 seconds"),
    b'{"type":"CLAIM","text":"a","scope":["a"],"ttl_s":21601}': (422, "over_limit", "from 1 to 21600 seconds"),
    b'{"type":"CLAIM","text":"a","scope":["a"],"ttl_s":%d}' % 10**30: (422, "invalid_field", "`ttl_s`"),
    b'{"type":"CLAIM","text":"a","scope":[]}': (422, "invalid_field", "one target or more"),
    b'{"type":"CLAIM","text":"a","scope":["../../etc/passwd"]}': (422, "bad_target", "root"),
    b'{"type":"CLAIM","text":"a","scope":["a\\u0000"]}': (422, "bad_target", "control character"),
    b'{"type":"FACT","text":"a","to":["w9"]}': (422, "unknown_recipient", "'w9'"),
    b'{"type":"FACT","text":"a","task":"a\\nb"}': (422, "invalid_field", "control character"),
    b'{"type":"FACT","text":"a","scope":%s}' % (b"[" * 100_000 + b"]" * 100_000): (400, "malformed_json", "too deeply"),
    b"[" * 500_000: (400, "malformed_json", "too deeply"),
    b'{"type":"FACT","text":"a","%s":1}' % (b"x" * 100_000): (422, "invalid_field", "(100000 characters)"),
}


async def test_a_bad_body_is_refused_in_words(board: Board) -> None:
    """What is no note is refused with the member, its value and the way out."""
    for body, (status, code, words) in BAD_JSON.items():
        document = await board.refused("POST", NOTES, status, code, content=body, headers=JSON)
        assert words in document["detail"], (body[:80], document["detail"])


async def test_a_bad_note_of_a_batch_is_named(board: Board) -> None:
    """A batch with one bad note is refused whole, and the refusal says which it is."""
    notes = [FACT | {"text": "one"}, FACT | {"text": 2}]
    document = await board.refused("POST", f"{NOTES}/batch", 422, "invalid_field", json={"notes": notes})
    assert document["field"] == "notes[1].text"
    document = await board.refused("POST", f"{NOTES}/batch", 422, "over_limit", json={"notes": []})
    assert (document["limit"], document["unit"]) == (1000, "notes")


def sized(field: str, size: int) -> dict[str, Any]:
    """Give a note with this much of a field."""
    files = [f"src/{index}.c" for index in range(size)]
    notes: dict[str, dict[str, Any]] = {
        "idea": PATCH | {"idea": "é" * size},
        "risk": PATCH | {"risk": "é" * size},
        "files": PATCH | {"files": files},
        "scope": FACT | {"scope": files},
        "target": FACT | {"scope": ["a" * size]},
        "refs": FACT | {"refs": [{"rel": "supports", "seq": 1}] * size},
        "tags": FACT | {"tags": ["t"] * size},
        "tag": FACT | {"tags": ["t" * size]},
        "to": FACT | {"to": ["w1"] * size},
        "detail": FACT | {"text": f"detail {size}", "detail": "a" * size},
    }
    return notes.get(field, FACT | {"text": f"{field} {size}", field: "é" * size})


LIMITS: Final = {
    "text": (400, "characters"),
    "evidence": (400, "characters"),
    "idea": (400, "characters"),
    "risk": (400, "characters"),
    "detail": (65_536, "bytes"),
    "scope": (64, "targets"),
    "target": (512, "characters"),
    "files": (200, "files"),
    "refs": (32, "refs"),
    "tags": (32, "tags"),
    "tag": (64, "characters"),
    "to": (64, "workers"),
    "task": (128, "characters"),
    "commit": (128, "characters"),
    "pr": (128, "characters"),
    "key": (128, "characters"),
}


async def test_every_limit_is_inclusive(board: Board) -> None:
    """One above a limit is refused with the limit and its unit, nothing is stored; at the limit it is admitted."""
    for field, (limit, unit) in LIMITS.items():
        code = "bad_target" if field == "target" else "over_limit"
        document = await board.refused("POST", NOTES, 422, code, json=sized(field, limit + 1))
        assert (document["limit"], document["unit"]) == (limit, unit), field
        answer = await board.http.post(NOTES, json=sized(field, limit))
        assert answer.status_code == 201, (field, answer.text)
        board.before = await board.state()


async def test_a_claim_of_ten_thousand_targets_is_refused_by_count(board: Board) -> None:
    """A scope of far too many targets is refused by their number, before any of them is looked at."""
    scope = [f"../{index}" for index in range(10_000)]
    document = await board.refused("POST", NOTES, 422, "over_limit", json=FACT | {"type": "CLAIM", "scope": scope})
    assert (document["value"], document["limit"]) == (10_000, 64)
    await board.refused("POST", "/v1/boards/main/claims/check", 422, "over_limit", json={"scope": scope})


def padded(size: int) -> bytes:
    body = b'{"type":"OBSERVED","text":"large"}'
    return body[:-1] + b" " * (size - len(body)) + b"}"


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 65_536):
        yield body[start : start + 65_536]


async def test_the_size_of_a_body_is_bounded(board: Board) -> None:
    """A body of 1 MiB is taken, one byte more is not; it does not matter how it is sent."""
    for content in (padded(BODY_BYTES + 1), pieces(padded(BODY_BYTES + 1))):
        document = await board.refused("POST", NOTES, 413, "body_too_large", content=content, headers=JSON)
        assert (document["limit"], document["unit"]) == (BODY_BYTES, "bytes")
    for content in (padded(BODY_BYTES), pieces(padded(BODY_BYTES))):
        answer = await board.http.post(NOTES, content=content, headers=JSON)
        assert answer.status_code == 201, answer.text


async def test_the_type_of_a_body_is_checked(board: Board) -> None:
    """Another type than JSON is refused and the right one named; its parameters and its case do not matter."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp", "multipart/form-data"):
        headers = {"Content-Type": kind}
        document = await board.refused("POST", NOTES, 415, "unsupported_media_type", json=FACT, headers=headers)
        assert document["allowed"] == ["application/json"]
    for kind in ("Application/JSON; charset=utf-8", "application/json"):
        answer = await board.http.post(NOTES, json=FACT | {"text": kind}, headers={"Content-Type": kind})
        assert answer.status_code == 201


BAD_QUERIES: Final[dict[str, tuple[str, str]]] = {
    "notes?limit=0": ("limit", ">= 1"),
    "notes?limit=1001": ("limit", "<= 1000"),
    "notes?limit=": ("limit", "whole number"),
    "notes?limit=1e2": ("limit", "whole number"),
    "notes?limit=5.0": ("limit", "whole number"),
    "notes?limit=1&limit=2": ("limit", "given twice"),
    "notes?after=-1": ("after", ">= 0"),
    f"notes?after={10**30}": ("after", "<= 9007199254740992"),
    f"notes?after={'9' * 5000}": ("after", "(5000 characters)"),
    "notes?before=null": ("before", "whole number"),
    "notes?order=up": ("order", "asc, desc"),
    "notes?type=FACTS": ("type[0]", "FACT"),
    "notes?typ=FACT": ("typ", "the names are"),
    "notes?author=a%00b": ("author", "NUL"),
    "notes?author=%zz": ("query", "%25"),
    "notes?author=%": ("query", "%25"),
    "notes?author=%ff": ("query", "UTF-8"),
    f"notes?author={'a' * 513}": ("author", "512"),
    "notes?" + "&".join(["scope=a"] * 5000): ("query", "4096"),
    "notes/1?limit=1": ("limit", "nothing is taken here"),
    "search": ("q", "is missing"),
    "wait?timeout_s=61": ("timeout_s", "<= 60"),
    "wait?timeout_s=nan": ("timeout_s", "number"),
    "wait?type=claim.lost": ("type[0]", "claim.expired"),
    "notes/1.5": ("seq", "whole number"),
    "notes/-1": ("seq", "whole number"),
    f"notes/{10**30}": ("seq", "15 digits"),
    "notes/%D9%A1": ("seq", "whole number"),
}


async def test_a_bad_parameter_is_named(board: Board) -> None:
    """What a call does not take is refused with the parameter, its value and what it may be."""
    for path, (field, words) in BAD_QUERIES.items():
        document = await board.refused("GET", f"/v1/boards/main/{path}", 400, "invalid_parameter")
        assert document["field"] == field, document
        assert words in document["detail"], document


async def test_a_search_takes_what_people_type(board: Board) -> None:
    """No text is a bad search."""
    for q in ("POL-358", "src/a.py", "don't", '"open quote', "OR", "*", "", "a&", ",,&", "%", "\u2028", "🙂" * 500):
        answer = await board.http.get("/v1/boards/main/search", params={"q": q})
        assert answer.status_code == 200, q


async def test_a_path_is_what_it_says(board: Board) -> None:
    """A name that is no board's, an escaped slash and an unknown path are not found; a trailing slash is no other path."""
    for path in ("Main", "ma%69n%20", "m%C3%A4in", "-", "a" * 64, "a" * 60_000, "%2E%2E", "%00", "other"):
        await board.refused("GET", f"/v1/boards/{path}/notes", 404, "board_not_found")
    for path in ("/v1/boards/main%2Fnotes", "/v1/boards/main/notes/1/x", "/V1/boards", "/v1", "/metrics/x"):
        await board.refused("GET", path, 404, "route_not_found")
    for path in ("/v1/boards/main/notes/", "/v1//boards//main/notes", "/v1/boards/m%61in/notes"):
        assert (await board.http.get(path)).status_code == 200


async def test_a_wrong_method_is_told_the_right_ones(board: Board) -> None:
    """405 lists the methods in Allow; OPTIONS gives the same list; HEAD is a GET without its body."""
    for method in ("DELETE", "PUT", "PATCH", "TRACE"):
        answer = await board.http.request(method, NOTES)
        assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"
        await board.refused(method, NOTES, 405, "method_not_allowed")
    options = await board.http.options(NOTES)
    assert sorted(options.headers["allow"].split(", ")) == ["GET", "HEAD", "OPTIONS", "POST"]
    for path in (NOTES, "/v1/boards/main/export", "/healthz"):
        head, whole = await board.http.head(path), await board.http.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == whole.headers["content-type"]
        assert head.headers.get("content-length") == whole.headers.get("content-length")


async def test_a_name_that_no_worker_may_have_is_refused(board: Board) -> None:
    """The board's own name, what looks like it, what is not ASCII, and nothing at all are no worker's names."""
    for name in ("board", "Board", "b0ard", "bo-ard", "BO4RD", "wörker", "w 1", "-w", "a" * 65, "", "w\u202e1"):
        headers = {"X-Board-Worker": name.encode()}
        await board.refused("POST", NOTES, 403, "reserved_name", json=FACT, headers=headers)


async def test_a_header_that_means_two_things_is_refused(board: Board) -> None:
    """A header that tells who calls, or from where, is sent once and is UTF-8; blanks around it do not count."""
    for name in ("Authorization", "X-Board-Worker", "X-Board-Root", "Origin", "Content-Type"):
        twice = httpx.Headers([(name, "a"), (name, "b")])
        document = await board.refused("POST", NOTES, 400, "invalid_parameter", content=b"{}", headers=twice)
        assert document["field"] == name.casefold()
    document = await board.refused("GET", NOTES, 400, "invalid_parameter", headers={"X-Board-Worker": b"w\xff"})
    assert document["field"] == "x-board-worker"
    for root in ("", "relative"):
        headers = {"X-Board-Root": root}
        await board.refused("POST", NOTES, 422, "bad_target", json=FACT, headers=headers)
    answer = await raw(
        board, b"POST /v1/boards/main/notes HTTP/1.1", b"X-Board-Worker:  w7 \t", b'{"type":"FACT","text":"b"}'
    )
    assert msgspec.json.decode(answer[2])["note"]["author"] == "w7"


async def test_a_foreign_page_is_refused(board: Board) -> None:
    """A request from another site's page, or under a name that is not this machine's, is refused."""
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}):
        await board.refused("POST", NOTES, 403, "foreign_origin", json=FACT, headers=headers)
    assert (await board.http.get(NOTES, headers={"Origin": board.node.url})).status_code == 200


async def test_a_listed_page_may_call(tmp_path: Any) -> None:
    """A page whose origin the settings list is told by its preflight, without a token, and by each answer, that it may."""
    origin = "https://board.example"
    async with Node(tmp_path, environ={"BOARD_ORIGINS": origin}) as node, httpx.AsyncClient(trust_env=False) as http:
        await http.post(f"{node.url}/v1/tokens", json={"role": "admin", "worker": "w1"})
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        preflight = await http.options(f"{node.url}{NOTES}", headers=asked)
        assert preflight.headers["access-control-allow-origin"] == origin
        assert "POST" in preflight.headers["access-control-allow-methods"]
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        answer = await http.get(f"{node.url}{NOTES}", headers={"Origin": origin})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (401, origin)
        foreign = await http.options(f"{node.url}{NOTES}", headers=asked | {"Origin": "https://evil.example"})
        assert foreign.status_code == 403
        assert "access-control-allow-origin" not in foreign.headers


async def raw(board: Board, line: bytes, *headers: bytes, close: bool = False) -> tuple[int, dict[str, str], bytes]:
    """Send bytes as they are (the last of them is the body) and read one answer."""
    *named, body = headers
    named = [b"Host: localhost", *named]
    if not any(b"ength" in name or b"ncoding" in name for name in named):
        named.append(b"Content-Length: %d" % len(body))
    sent = b"\r\n".join([line, *named, b"", body])
    return await to_thread.run_sync(exchange, board.node.port, sent, close)


def exchange(port: int, sent: bytes, close: bool) -> tuple[int, dict[str, str], bytes]:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        peer.sendall(sent)
        if close:
            peer.shutdown(socket.SHUT_WR)
        head, _, body = (received := read_head(peer)).partition(b"\r\n\r\n")
        assert head or not received
        if not head:
            return 0, {}, b""
        status, *lines = head.decode().split("\r\n")
        headers = {name.casefold(): value for name, _, value in (one.partition(": ") for one in lines)}
        while len(body) < int(headers["content-length"]):
            body += peer.recv(65_536)
        return int(status.split()[1]), headers, body


def read_head(peer: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received and (piece := peer.recv(65_536)):
        received += piece
    return received


POST: Final = b"POST /v1/boards/main/notes HTTP/1.1"
WHOLE: Final = b'{"type":"FACT","text":"b"}'


async def test_what_is_no_http_is_refused(board: Board) -> None:
    """A request that cannot be parsed, or whose end two readers would see in two places, is refused and ends it all."""
    for line, *rest in (
        (b"\x16\x03\x01\x02\x00", WHOLE),
        (b"POST /v1/boards/main/notes HTTP/9.9", WHOLE),
        (POST, b"Content-Length: x", WHOLE),
        (POST, b"Content-Length: 26", b"Content-Length: 27", WHOLE),
        (POST, b"Content-Length: 26", b"Transfer-Encoding: chunked", WHOLE),
        (POST, b"Bad Header: a", WHOLE),
        (POST, b"Transfer-Encoding: chunked", b"zz\r\n" + WHOLE),
    ):
        status, headers, body = await raw(board, line, *rest)
        await board.is_refusal(status, headers, body, 400, "malformed_request")
        assert headers["connection"] == "close"


async def test_a_head_without_end_is_cut_off(board: Board) -> None:
    """Headers, and a URL, of more than 64 KiB together are refused before they are whole; less is taken."""
    for line, header in ((POST, b"X-Large: " + b"a" * 400_000), (b"GET /" + b"a" * 400_000, b"A: b")):
        status, headers, body = await raw(board, line, header, b"")
        document = await board.is_refusal(status, headers, body, 431, "head_too_large")
        assert (document["limit"], document["unit"]) == (65_536, "bytes")
    status, _, _ = await raw(board, b"GET /healthz HTTP/1.1", b"X-Large: " + b"a" * 60_000, b"")
    assert status == 200


async def test_half_a_body_is_no_note(board: Board) -> None:
    """A peer that leaves before its body is whole has stored nothing; what follows a whole body is not part of it."""
    status, _, _ = await raw(board, POST, b"Content-Length: 4000", WHOLE, close=True)
    assert status == 0
    status, _, _ = await raw(board, POST, b"Transfer-Encoding: chunked", b"1a\r\n" + WHOLE, close=True)
    assert status == 0
    assert await board.state() == board.before
    status, headers, body = await raw(board, POST, b"Content-Length: 26", WHOLE + b"trailing")
    assert (status, msgspec.json.decode(body)["note"]["text"]) == (201, "b")
    assert headers["connection"] == "close"
