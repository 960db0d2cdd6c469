"""The client's calls: what is tried again and what is not, how refusals, pages and lines are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import pytest

from schema.codes import ProblemError
from schema.notes import Fact
from workers.client import Backoff, BoardClient
from workers.client.answers import conflicts_of, free_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from _pytest.mark import ParameterSet

    from workers.client.board import Order

pytestmark = pytest.mark.anyio

POSTED = {"seq": 1, "at": "", "note": {"seq": 1, "at": "", "author": "w1", "type": "FACT", "text": "a"}, "new": True}
FACT = Fact(text="a")


@pytest.fixture
def anyio_backend() -> str:
    """One loop is enough: nothing here depends on which."""
    return "asyncio"


class Server:
    """Answers each request with the next of `answers`; the last one stays."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.slept: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer."""
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, **more: Any) -> BoardClient:
        """Give a client whose network is this server and whose clock only counts."""

        async def sleep(delay_s: float) -> None:
            self.slept.append(delay_s)

        return BoardClient(
            "http://board.example", transport=httpx.MockTransport(self), sleep=sleep, chance=lambda: 1.0, **more
        )

    def bodies(self) -> list[dict[str, Any]]:
        """Give the JSON that was sent."""
        return [msgspec.json.decode(request.content) for request in self.requests]


def refused(status: int, code: str, **facts: object) -> httpx.Response:
    """Give a problem document."""
    return httpx.Response(status, json={"code": code, "detail": "no", "status": status, **facts})


async def test_a_note_gets_a_key_and_keeps_it_over_all_tries() -> None:
    """Connection failures, 429, 503 and a proxy's 502 are tried again with one key, each wait within its bound."""
    server = Server(
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("late"),
        refused(503, "store_unavailable"),
        refused(429, "rate_limited"),
        httpx.Response(502, text="<h1>Bad Gateway</h1>"),
        httpx.Response(201, json=POSTED),
    )
    async with server.client() as board:
        assert (await board.post(FACT)).seq == 1
    assert len({body["key"] for body in server.bodies()}) == 1
    assert server.slept == [0.2, 0.4, 0.8, 1.6, 3.2]


async def test_a_callers_own_key_is_kept() -> None:
    """A key that the caller chose is sent as it is."""
    server = Server(httpx.Response(201, json=POSTED))
    async with server.client() as board:
        await board.post(Fact(text="a", key="mine"))
    assert server.bodies()[0]["key"] == "mine"


async def test_every_note_of_a_batch_gets_a_key_of_its_own() -> None:
    """A batch is as safe to repeat as its notes are."""
    server = Server(httpx.Response(201, json={"first": 1, "last": 2, "notes": [POSTED, POSTED]}))
    async with server.client() as board:
        await board.post_batch([FACT, FACT])
    notes = server.bodies()[0]["notes"]
    assert len({note["key"] for note in notes}) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 500, 501, 507])
async def test_other_refusals_are_not_tried_again(status: int) -> None:
    """What the board refused it would refuse again: one try, and the refusal is raised."""
    server = Server(refused(status, "forbidden"))
    async with server.client() as board:
        with pytest.raises(ProblemError):
            await board.post(FACT)
    assert len(server.requests) == 1


async def test_tries_are_bounded() -> None:
    """After the last try the failure itself is raised."""
    server = Server(refused(503, "going_away"))
    async with server.client(backoff=Backoff(tries=3)) as board:
        with pytest.raises(ProblemError, match="going_away"):
            await board.post(FACT)
    assert len(server.requests) == 3


async def test_retry_after_is_honoured() -> None:
    """The wait is never shorter than what the server asked for."""
    busy = refused(429, "rate_limited")
    busy.headers["Retry-After"] = "7"
    server = Server(busy, httpx.Response(201, json=POSTED))
    async with server.client() as board:
        await board.post(FACT)
    assert server.slept == [7.0]


async def test_a_wait_that_is_too_long_is_the_callers_to_decide() -> None:
    """A server that asks for more than `longest_s` is not waited for."""
    busy = refused(429, "rate_limited")
    busy.headers["Retry-After"] = "3600"
    server = Server(busy)
    async with server.client() as board:
        with pytest.raises(ProblemError, match="rate_limited"):
            await board.post(FACT)
    assert server.slept == []


@pytest.mark.parametrize(("failure", "tries"), [(httpx.ReadError("cut"), 1), (httpx.ConnectError("refused"), 6)])
async def test_what_is_not_safe_to_repeat_is_not(failure: Exception, tries: int) -> None:
    """A call without a key is only tried again when it cannot have reached the server."""
    server = Server(failure)
    async with server.client() as board:
        with pytest.raises(ProblemError, match="unreachable"):
            await board.create_token("worker", worker="w1")
    assert len(server.requests) == tries


async def test_an_unknown_code_is_kept() -> None:
    """A refusal of a newer board keeps its code, its sentence, its advice and its facts."""
    server = Server(refused(418, "teapot", title="Short and stout.", action="Tip it over.", spout=1))
    async with server.client() as board:
        with pytest.raises(ProblemError) as raised:
            await board.board()
    problem = raised.value.problem
    assert (problem.code, problem.detail) == ("teapot", "no")
    assert problem.facts == {"spout": 1, "title": "Short and stout.", "action": "Tip it over.", "status": 418}


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(502, text="<html>Bad Gateway</html>"),
        httpx.Response(404, json=["not", "a", "board"]),
        httpx.Response(301, headers={"Location": "https://elsewhere.example"}),
        httpx.Response(200, text="<html>Welcome</html>"),
    ],
)
async def test_what_is_no_board_is_unreachable(answer: httpx.Response) -> None:
    """An answer that no board gives means that none was reached."""
    async with Server(answer).client() as board:
        with pytest.raises(ProblemError, match="unreachable"):
            await board.board()


async def test_a_claim_conflict_can_be_read() -> None:
    """A refused claim names who holds what and what is free."""
    conflict = {"claim": 7, "holder": "w2", "text": "mine", "overlap": ["b.py"], "expires_at": "", "later": 1}
    server = Server(refused(409, "claim_conflict", conflicts=[conflict], free=["a.py"]))
    async with server.client() as board:
        with pytest.raises(ProblemError) as raised:
            await board.claim(["a.py", "b.py"], "both")
    (found,) = conflicts_of(raised.value.problem)
    assert (found.claim, found.holder, found.overlap) == (7, "w2", ("b.py",))
    assert free_of(raised.value.problem) == ("a.py",)


def page(seqs: list[int], following: int | None) -> httpx.Response:
    """Give one page of notes."""
    notes = [{"kind": "note", "seq": seq, "at": "", "author": "w1", "type": "FACT", "text": "a"} for seq in seqs]
    return httpx.Response(200, json={"notes": notes, "next": following, "head": 9, "epoch": "e"})


@pytest.mark.parametrize(("order", "cursor"), [("asc", "after"), ("desc", "before")])
async def test_pages_are_read_to_the_end(order: Order, cursor: str) -> None:
    """Every page is asked for with the cursor of the one before it, with the same filter."""
    server = Server(page([1, 2], 2), page([3], None))
    async with server.client() as board:
        seqs = [note.seq async for note in board.each_note(order=order, types=["FACT", "FAIL"], scope=["src"])]
    assert seqs == [1, 2, 3]
    assert server.requests[1].url.params[cursor] == "2"
    assert server.requests[1].url.params.get_list("type") == ["FACT", "FAIL"]


async def test_an_export_is_split_at_line_ends_only() -> None:
    """A line separator of Unicode inside of a text does not end the line."""
    lines = ['{"board":"main"}', '{"text":"a\u2028b\x85c"}']
    server = Server(httpx.Response(200, content="\n".join([*lines, ""]).encode()))
    async with server.client() as board, board.export() as exported:
        assert [line.decode() async for line in exported] == lines


async def test_says_who_calls() -> None:
    """Token, worker and root go into headers; a root may be any path."""
    server = Server(httpx.Response(200, json={"board": "main"}))
    async with server.client(token="secret", worker="w1", root="/srv/é") as board:
        await board.board()
        await board.acting_as("w2").board()
    first, second = server.requests
    assert first.headers["Authorization"] == "Bearer secret"
    assert (first.headers["X-Board-Worker"], second.headers["X-Board-Worker"]) == ("w1", "w2")
    assert dict(first.headers.raw)[b"X-Board-Root"] == "/srv/é".encode()


async def test_every_answer_can_be_seen_as_it_came() -> None:
    """`on_answer` gets the very bytes of each answer."""
    seen: list[bytes] = []
    async with Server(httpx.Response(200, content=b'{ "board": "main" }')).client(on_answer=seen.append) as board:
        await board.board()
    assert seen == [b'{ "board": "main" }']


def answers_of_one(call: Callable[[BoardClient], Awaitable[object]], path: str) -> ParameterSet:
    """Name a call and the request line that it makes."""
    return pytest.param(call, path, id=path)


@pytest.mark.parametrize(
    ("call", "path"),
    [
        answers_of_one(lambda board: board.retract(5, "wrong"), "POST /v1/boards/main/notes/5/retract"),
        answers_of_one(lambda board: board.check(["a"]), "POST /v1/boards/main/claims/check"),
        answers_of_one(lambda board: board.renew(5), "POST /v1/boards/main/claims/5/renew"),
        answers_of_one(lambda board: board.release(5), "POST /v1/boards/main/claims/5/release"),
        answers_of_one(lambda board: board.narrow(5, ["a"]), "POST /v1/boards/main/claims/5/narrow"),
        answers_of_one(lambda board: board.transfer(5, "w2"), "POST /v1/boards/main/claims/5/transfer"),
        answers_of_one(lambda board: board.claims(), "GET /v1/boards/main/claims?state=live"),
        answers_of_one(lambda board: board.conflicts(), "GET /v1/boards/main/conflicts?state=open"),
        answers_of_one(lambda board: board.unread(limit=5), "GET /v1/boards/main/unread?limit=5"),
        answers_of_one(lambda board: board.ack([1]), "POST /v1/boards/main/unread/ack"),
        answers_of_one(lambda board: board.wait(after=3), "GET /v1/boards/main/wait?after=3&timeout_s=25"),
        answers_of_one(lambda board: board.search("a & b"), "GET /v1/boards/main/search?q=a+%26+b"),
        answers_of_one(lambda board: board.events(after=3), "GET /v1/boards/main/events?after=3"),
        answers_of_one(lambda board: board.register("/srv"), "PUT /v1/boards/main/workers/me"),
        answers_of_one(lambda board: board.workers(), "GET /v1/boards/main/workers"),
        answers_of_one(lambda board: board.boards(), "GET /v1/boards"),
        answers_of_one(lambda board: board.tokens(), "GET /v1/tokens"),
        answers_of_one(lambda board: board.revoke_token("t/1"), "DELETE /v1/tokens/t%2F1"),
        answers_of_one(lambda board: board.revoke_tokens_of("w1"), "DELETE /v1/tokens?worker=w1"),
        answers_of_one(lambda board: board.ticket(), "POST /v1/tickets"),
    ],
)
async def test_every_call_asks_for_its_path(call: Callable[[BoardClient], Awaitable[object]], path: str) -> None:
    """Each method makes the one request that the board names for it."""
    answer: dict[str, object] = {"claim": 5, "ticket": "x", "notes": [], "events": []}
    server = Server(httpx.Response(200, json=answer))
    async with server.client() as board:
        await call(board)
    (request,) = server.requests
    assert f"{request.method} {request.url.raw_path.decode()}" == path
