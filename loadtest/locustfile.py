"""A team of 1,024 on one board, in one process: subscribers, writers over HTTP, and writers through MCP.

    python -m loadtest team                                        # with a server of its own
    locust -f loadtest/locustfile.py --headless -u 1024 --host http://127.0.0.1:8420 --csv team --html team.html

What a writer does next is drawn as often as a real team did it: `MIX` counts the 3,944 events of the trace of a team of
coding agents over several months (created → OBSERVED; closed, comment and depends → FACT; reopened → FAIL; claimed and
hooked → CLAIM, and its release with a PATCH_SUMMARY after the work). Which door each of them used is not in the trace:
here half of the users hold a stream, three eighths write over HTTP, and an eighth through MCP.

The shape: everybody comes in a ramp; a hold; then every stream is cut at once, and they all come back (the storm); a
second hold. The board's promises are checked all the while: a hole, a double or an error makes the exit status 1.
"""

from __future__ import annotations

import http.client
import itertools
import logging
import random
import re
import socket
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import msgspec
import websocket
from locust import FastHttpUser, LoadTestShape, events, task
from locust.exception import StopUser

from loadtest.notes import mark

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from locust.env import Environment

log = logging.getLogger("team")

BOARD: Final = "/v1/boards/main"
MIX: Final = {"OBSERVED": 1685, "FACT": 2005, "FAIL": 45, "CLAIM": 209}
"""How often the real team did what; 3,944 in all."""

WORK_S: Final = 5.0
"""How long a claim is held: the work itself, much compressed."""

_PLACES: Final = 500
_MARK: Final = re.compile(r"~~1:[0-9a-f]{8}:([0-9a-f]{16})~")
_MCP: Final = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
_names: Final = itertools.count()
_notes: Final = itertools.count()


class Promises:
    """What the board must not break, counted over all users."""

    def __init__(self) -> None:
        self.broken: Counter[str] = Counter()
        self.sockets: set[websocket.WebSocket] = set()
        self.mcp = True

    def take(self, last: int | None, seq: int) -> int:
        """Count a hole or a double between two seqs of one stream; give where the stream stands."""
        if last is not None and seq > last + 1:
            self.broken["holes"] += seq - last - 1
        if last is not None and seq <= last:
            self.broken["doubles"] += 1
            return last
        return seq

    def cut_all(self) -> None:
        """Cut every stream, as a network would."""
        for stream in list(self.sockets):
            with suppress(OSError):
                cast("socket.socket", stream.sock).shutdown(socket.SHUT_RDWR)


PROMISES: Final = Promises()


class Event(msgspec.Struct):
    """What is read of an event."""

    seq: int
    text: str = ""


class Frame(msgspec.Struct):
    """What is read of a frame."""

    op: str
    after: int = 0
    events: tuple[Event, ...] = ()


_frames: Final = msgspec.json.Decoder(Frame)


def fire(kind: str, name: str, taken_ms: float, size: int = 0, error: Exception | None = None) -> None:
    """Tell locust of something that it did not send itself."""
    events.request.fire(
        request_type=kind, name=name, response_time=taken_ms, response_length=size, exception=error, context={}
    )


def text_of(what: str) -> str:
    """Make a text that no other note has, and that says when it was begun."""
    return f"{mark(1, next(_notes) & 0xFFFFFFFF, time.monotonic_ns()).decode()} {what}"


def place() -> str:
    """Choose something to work on; now and then somebody else is at it."""
    return f"src/part{random.randrange(_PLACES)}.c"


class Member(FastHttpUser):
    """One of the team."""

    abstract = True
    connection_timeout = network_timeout = 30.0

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.worker = f"worker-{next(_names):04}"

    def wait_time(self) -> float:
        """Pause as a worker does who thinks and works between two calls."""
        pace_s = float(getattr(self.environment.parsed_options, "pace_s", 30.0))
        return random.uniform(0.5, 1.5) * pace_s

    def call(self, path: str, body: dict[str, Any], name: str, *allowed: int) -> dict[str, Any]:
        """Post JSON; any other answer than the allowed ones is a failure. Gives what was answered."""
        headers = {"X-Board-Worker": self.worker, **_MCP}
        with self.client.post(path, json=body, headers=headers, name=name, catch_response=True) as response:
            found = response.json() if response.content else None
            if response.status_code not in allowed:
                code = cast("dict[str, Any]", found or {}).get("code", "")
                response.failure(f"{response.status_code} {code}")
                return {}
            response.success()
            return cast("dict[str, Any]", found or {})


class Subscriber(Member):
    """Holds a stream and comes back when it is cut."""

    weight = 4

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.seq: int | None = None

    def wait_time(self) -> float:
        """Come back at once."""
        return 0.0

    @task
    def follow(self) -> None:
        """Read the stream until it is cut."""
        stream = self._connect()
        try:
            while True:
                self._take(stream.recv())
        except (OSError, websocket.WebSocketException):
            pass  # cut; the next round of this task comes back with `after`
        finally:
            PROMISES.sockets.discard(stream)
            stream.close()

    def _connect(self) -> websocket.WebSocket:
        begun_s = time.monotonic()
        query = "" if self.seq is None else f"?after={self.seq}"
        url = f"{(self.host or '').replace('http', 'ws', 1)}{BOARD}/stream{query}"
        try:
            stream = websocket.create_connection(url, header=[f"X-Board-Worker: {self.worker}"], timeout=60)
            hello = _frames.decode(stream.recv())
        except (OSError, websocket.WebSocketException) as error:
            fire("WS", "connect", _since_ms(begun_s), error=error)
            time.sleep(1)
            raise
        self.seq = hello.after if self.seq is None else self.seq
        PROMISES.sockets.add(stream)
        fire("WS", "connect", _since_ms(begun_s))
        return stream

    def _take(self, message: str | bytes) -> None:
        if not message:
            raise websocket.WebSocketConnectionClosedException("cut")
        frame = _frames.decode(message)
        for event in frame.events:
            self.seq = PROMISES.take(self.seq, event.seq)
        # The oldest note of the frame waited longest.
        found = next((found for event in frame.events if (found := _MARK.search(event.text))), None)
        if found is not None:
            fire("WS", "delivery", (time.monotonic_ns() - int(found[1], 16)) / 1e6, len(message))


class Writer(Member):
    """Writes over HTTP."""

    weight = 3

    @task
    def act(self) -> None:
        """Do what the team does next."""
        kind = random.choices(list(MIX), list(MIX.values()))[0]
        if kind == "CLAIM":
            self._work()
        else:
            note = {"type": kind, "text": text_of("table rows end at a line of dashes"), "scope": [place()]}
            self.call(f"{BOARD}/notes", note, kind, 201)

    def _work(self) -> None:
        where = place()
        note = {"type": "CLAIM", "text": text_of("work on this"), "scope": [where]}
        claimed = self.call(f"{BOARD}/notes", note, "CLAIM", 201, 409)
        if "claim" not in claimed or "code" in claimed:
            return
        time.sleep(WORK_S)
        summary = {"type": "PATCH_SUMMARY", "files": [where], "idea": text_of("made it so"), "claim": claimed["seq"]}
        self.call(f"{BOARD}/notes", {**summary, "evidence": "ran the tests, all passed"}, "PATCH_SUMMARY", 201)
        self.call(f"{BOARD}/claims/{claimed['seq']}/release", {"outcome": "done"}, "release", 200)


class McpCaller(Member):
    """Writes and reads through MCP."""

    weight = 1

    def on_start(self) -> None:
        """Read the board first, as an agent does; leave, where there is no such route."""
        if not PROMISES.mcp:
            raise StopUser
        self._tool("board_read", {"budget_tokens": 500})

    @task
    def act(self) -> None:
        """Do what the team does next, and read."""
        kind = random.choices(list(MIX), list(MIX.values()))[0]
        if kind == "CLAIM":
            self._work()
        else:
            note = {"type": kind, "text": text_of("rows end at a line of dashes"), "scope": [place()]}
            self._tool("board_write", note)
        self._tool("board_read", {"budget_tokens": 500})

    def _work(self) -> None:
        claimed = self._tool("board_claim", {"scope": [place()], "text": text_of("work on this")})
        if "seq" not in claimed:
            return
        time.sleep(WORK_S)
        self._tool("board_release", {"claim": claimed["seq"], "outcome": "done"})

    def _tool(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = self.call("/mcp/main", call_of(tool, arguments), tool, 200).get("result", {})
        found = cast("dict[str, Any]", result.get("structuredContent") or {})
        # A claim that is refused is an answer; any other error is not.
        if result.get("isError") and tool != "board_claim":
            fire("MCP", tool, 0.0, error=RuntimeError(found.get("code", "error")))
        return found


class TeamShape(LoadTestShape):
    """Ramp, hold, storm, hold."""

    use_common_options = True

    def __init__(self) -> None:
        super().__init__()
        self._struck = False

    def tick(self) -> tuple[int, float] | None:
        """Tell locust how many users there should be now."""
        options: Any = self.runner.environment.parsed_options if self.runner else None
        if options is None:
            return None
        passed_s, users = self.get_run_time(), int(options.num_users or 1024)
        storm_s = options.ramp_s + options.hold_s
        if passed_s > storm_s + options.hold_s:
            return None
        if passed_s > storm_s and not self._struck:
            self._struck = True
            log.info("the storm: %d streams are cut", len(PROMISES.sockets))
            PROMISES.cut_all()
        return users, max(1.0, users / max(options.ramp_s, 1.0))


def call_of(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Make the JSON-RPC request that calls a tool."""
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": next(_notes), "method": "tools/call", "params": params}


@events.init_command_line_parser.add_listener
def add_options(parser: ArgumentParser) -> None:
    """Add the options of the shape."""
    parser.add_argument("--ramp-s", type=float, default=30.0, help="Seconds until everybody is there")
    parser.add_argument("--hold-s", type=float, default=60.0, help="Seconds before and after the storm")
    parser.add_argument("--pace-s", type=float, default=30.0, help="Seconds between two acts of a writer, on average")


@events.test_start.add_listener
def look_for_mcp(environment: Environment, **_: object) -> None:
    """Find out whether the board serves MCP: where it does, a GET is refused as such."""
    connection = http.client.HTTPConnection(urlsplit(environment.host or "").netloc, timeout=30)
    connection.request("GET", "/mcp/main")
    PROMISES.mcp = connection.getresponse().status != 404
    connection.close()
    if not PROMISES.mcp:
        log.warning("the board serves no /mcp/main: an eighth of the team stays away")


@events.quitting.add_listener
def judge(environment: Environment, **_: object) -> None:
    """Turn what was broken into the exit status."""
    total = environment.stats.total
    broken = PROMISES.broken + Counter(errors=total.num_failures, silence=int(not total.num_requests))
    log.info("broken promises: %s", ", ".join(f"{count} {what}" for what, count in broken.items()) or "none")
    environment.process_exit_code = 1 if broken else 0


def _since_ms(begun_s: float) -> float:
    return (time.monotonic() - begun_s) * 1e3
