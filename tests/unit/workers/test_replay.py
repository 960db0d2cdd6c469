"""A recording done again: order, names, pace, and everything counted. The board is a scripted one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import pytest

from schema.codes import ProblemError
from tests.unit.workers.exports import BEGAN_US, Log
from workers.acts import Act, Unread
from workers.client import Backoff, BoardClient
from workers.recording import UnknownRecording, read_recording
from workers.replay import Replay

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Replaying is asyncio's."""
    return "asyncio"


class Board:
    """Answers as a board would, with seqs from 101 on; `refuse` names texts that it refuses."""

    def __init__(self, *refuse: str) -> None:
        self.refuse = refuse
        self.calls: list[tuple[str, str, Any]] = []
        self._seq = 100

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one call."""
        body = msgspec.json.decode(request.content) if request.content else None
        path = request.url.path.removeprefix("/v1/boards/main")
        self.calls.append((request.headers["X-Board-Worker"], path, body))
        if path != "/notes":
            return httpx.Response(200, json={"board": "main", "claim": 1})
        if body.get("text") in self.refuse:
            return httpx.Response(409, json={"code": "claim_conflict", "detail": "taken"})
        self._seq += 1
        note = {name: value for name, value in body.items() if name not in ("key", "detail")}
        posted = {"kind": "note", "seq": self._seq, "at": "", "author": "w", **note}
        return httpx.Response(201, json={"seq": self._seq, "at": "", "note": posted})

    def of(self, worker: str) -> list[Any]:
        """Give the texts that a worker posted, in order."""
        return [body["text"] for who, path, body in self.calls if who == worker and path == "/notes"]

    async def play(self, acts: Iterable[Act | Unread], **more: Any) -> Replay:
        """Play acts onto this board."""
        client = BoardClient("http://board.example", transport=httpx.MockTransport(self), backoff=Backoff(tries=1))
        async with client:
            replay = Replay(client, **more)
            await replay.run(acts)
            return replay


def recorded(log: Log) -> Iterable[Act | Unread]:
    """Read a log as a recording."""
    return read_recording(log.export(), text_chars=400)


async def test_notes_are_posted_by_their_authors_in_their_order() -> None:
    """Each author's notes arrive in the order that they were written in."""
    log = Log()
    for number in range(60):
        log.note("OBSERVED", f"w{number % 3}", text=str(number))
    board = Board()
    replay = await board.play(recorded(log))
    for worker in range(3):
        assert board.of(f"w{worker}") == [str(number) for number in range(60) if number % 3 == worker]
    assert replay.tally.posted == {"OBSERVED": 60}


async def test_seqs_of_the_recording_become_those_of_the_board() -> None:
    """References, the claim of a patch and the claim of a release mean the notes that were posted for them."""
    log = Log()
    claim = log.note("CLAIM", "w1", scope=["a"], ttl_s=60, state="held", expires_at="2026-12-01T10:00:00Z")
    log.note("PATCH_SUMMARY", "w1", files=["a"], idea="i", evidence="e", claim=claim)
    log.note("FAIL", "w2", refs=[{"rel": "refutes", "seq": 2}])
    log.add("claim.released", "w1", claim=claim, holder="w1", outcome="done")
    board = Board()
    replay = await board.play(recorded(log))
    bodies = {body["type"]: body for _, path, body in board.calls if path == "/notes"}
    assert "state" not in bodies["CLAIM"]
    assert bodies["PATCH_SUMMARY"]["claim"] == 101
    assert bodies["FAIL"]["refs"] == [{"rel": "refutes", "seq": 102}]
    assert ("w1", "/claims/101/release", {"outcome": "done"}) in board.calls
    assert replay.tally.done == {"release": 1}


async def test_everything_is_counted() -> None:
    """What is refused, what depends on it, and what the board does by itself: each line is somewhere in the tally."""
    log = Log()
    claim = log.note("CLAIM", "w1", text="taken", scope=["a"], state="held")
    log.add("claim.renewed", "w1", claim=claim, holder="w1", expires_at="2026-12-01T10:00:00Z")
    log.add("claim.released", "w1", claim=claim, holder="w1", outcome="done")
    log.add("note.translated", note=1)
    tally = (await Board("taken").play(recorded(log))).tally
    assert tally.refused == {"claim_conflict": 1}
    assert tally.refusals == ["line 2, w1: claim_conflict: taken"]
    assert tally.left_out == {
        "claim.renewed is the board's own doing": 1,
        "release about a note that was not posted": 1,
        "note.translated is of an unknown kind": 1,
    }
    assert tally.posted == Counter()


async def test_a_refused_claim_hides_no_earlier_one() -> None:
    """A release ends the claim that stands, although another worker's claim of the same name was refused since."""
    events = [("claimed", "w1", ""), ("claimed", "w2", "mine now"), ("closed", "w1", "done")]
    lines = [
        msgspec.json.encode({"t": at, "event": event, "issue": "x", "by": by, "reason": reason})
        for at, (event, by, reason) in enumerate(events)
    ]
    board = Board("mine now")
    tally = (await board.play(read_recording(lines, text_chars=400))).tally
    assert ("w1", "/claims/101/release", {"outcome": "done"}) in board.calls
    assert tally.done == {"release": 1}
    assert tally.refused == {"claim_conflict": 1}


async def test_addressed_workers_are_made_known_first() -> None:
    """A worker that a note is addressed to has called before, once."""
    log = Log()
    for _ in range(2):
        log.note("OBSERVED", "w1", to=["w2"])
    board = Board()
    await board.play(recorded(log))
    assert [who for who, path, _ in board.calls if path == ""] == ["w2"]


async def test_the_pace_is_kept() -> None:
    """With a speed, a note waits until its time has come, divided by the speed."""
    log = Log()
    for _ in range(3):
        log.note("OBSERVED")
    slept: list[float] = []
    clock = [0.0]

    async def sleep(delay_s: float) -> None:
        slept.append(round(delay_s, 6))
        clock[0] += delay_s

    await Board().play(recorded(log), speed=10.0, sleep=sleep, now=lambda: clock[0])
    assert slept == [0.1, 0.1]


async def test_a_board_that_is_gone_ends_it() -> None:
    """When the board cannot be reached any more, replaying stops and says so."""

    def gone(_request: httpx.Request) -> httpx.Response:
        msg = "refused"
        raise httpx.ConnectError(msg)

    log = Log()
    for number in range(100):
        log.note("OBSERVED", f"w{number % 7}")
    client = BoardClient("http://board.example", transport=httpx.MockTransport(gone), backoff=Backoff(tries=1))
    async with client:
        with pytest.raises(ProblemError, match="unreachable"):
            await Replay(client).run(recorded(log))


def test_long_texts_and_times_survive_the_reading() -> None:
    """A note keeps its detail, and its time in seconds."""
    log = Log()
    log.note("OBSERVED", detail="long", key="k", key_digest="00")
    (act,) = recorded(log)
    assert isinstance(act, Act)
    assert act.at_s == BEGAN_US / 1e6 + 1
    assert msgspec.to_builtins(act.deed)["draft"]["detail"] == "long"


@pytest.mark.parametrize("first", [b"", b"{}", b"[1]", b"nonsense"])
def test_a_strange_file_is_refused(first: bytes) -> None:
    """A file that is neither an export nor a trace is refused by its first line."""
    with pytest.raises(UnknownRecording):
        read_recording([first], text_chars=400)
