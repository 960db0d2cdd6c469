"""Every measurement runs, in small; and what it measures with finds what is wrong when something is."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pytest

from loadtest.lanes import Lanes, encode_request
from loadtest.notes import mark
from loadtest.quantiles import quantiles_of
from loadtest.readers import Readers, Received, Subscribing
from loadtest.vitals import family

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

ROOT: Final = Path(__file__).parents[2]

MEASUREMENTS: Final = {
    "write": ("--seconds 0.3 --warm-s 0.1", "Writing"),
    "open": ("--notes 2000 --small 100 --starts 1", "Opening"),
    "fanout": ("--subscribers 16 --rate 50 --seconds 0.5 --warm-s 0.1", "Fan-out to 16 subscribers"),
    "claims": ("--team 8 --speed 21600", "Claims of a team"),
    "check": ("--claims 100 --asked 30", "claims/check beside live claims"),
    "catchup": ("--readers 16 --behind 20 --seconds 0.5", "Coming back at once"),
    "stalled": ("--readers 10 --stall 2 --seconds 0.5", "2 of 10 readers stall"),
    "mcp": ("--clients 20 --subscribers 4 --gap-s 0.2 --filled 40 --seconds 1 --warm-s 0.2", "20 MCP clients"),
    "listeners": ("--listeners 16 --tellings 1", "16 listeners of MCP"),
    "soak": ("--minutes 0.05 --subscribers 8", "slope an hour"),
    "team": ("--users 8 --ramp-s 1 --hold-s 1.5 --pace-s 0.3", "board_read"),
}


def environ(**said: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", **said}


def measured(name: str, flags: str, folder: Path) -> subprocess.CompletedProcess[str]:
    more = ["--out", str(folder / "team")] if name == "team" else ["--json", str(folder / "results.json")]
    return subprocess.run(
        [sys.executable, "-m", "loadtest", name, *flags.split(), *more],
        cwd=folder,
        env=environ(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_each_measurement_prints_its_table_and_writes_its_results(name: str, tmp_path: Path) -> None:
    flags, title = MEASUREMENTS[name]
    finished = measured(name, flags, tmp_path)
    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert title in finished.stdout + finished.stderr
    if name == "team":
        assert (tmp_path / "team" / "team_stats.csv").exists()
        assert (tmp_path / "team" / "team.html").exists()
    else:
        results = msgspec.json.decode((tmp_path / "results.json").read_bytes())
        assert results
        if name == "soak":
            assert all(look["tasks"] >= 1 for result in results for look in result["looks"])


def test_an_interrupted_measurement_leaves_no_process_behind(tmp_path: Path) -> None:
    words = ["fanout", "--subscribers", "4", "--rate", "5", "--seconds", "60", "--dir", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "loadtest", *words],
        env=environ(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        members = wait_for_family(process.pid, 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) != 0
        assert not [member for member in members if is_alive(member)]
    finally:
        process.kill()


def wait_for_family(pid: int, size: int) -> list[int]:
    deadline = time.monotonic() + 20
    while len(members := family(pid)) < size:
        assert time.monotonic() < deadline, f"only {members} were started"
        time.sleep(0.02)
    return members


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_load_goes_to_loopback_only(tmp_path: Path) -> None:
    finished = measured("check", "--url http://192.0.2.1:8420", tmp_path)
    assert finished.returncode == 2
    assert "not on loopback" in finished.stderr


# --- The subscribers -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["native", "plain"])
def reader(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setenv("CC", "no-such-compiler")
    return request.param


def event(seq: int, index: int, *, late_ms: int = 0) -> bytes:
    text = mark(2, index, time.monotonic_ns() - late_ms * 1_000_000).decode()
    at = "2026-12-01T10:00:00.000000Z"
    refs = [{"rel": "supports", "seq": 3}]
    return msgspec.json.encode({"kind": "note", "seq": seq, "at": at, "text": f"{text} a note", "refs": refs})


def frame(*payloads: bytes, opcode: int = 1) -> bytes:
    body = b'{"op":"events","events":[' + b",".join(payloads) + b"]}" if opcode == 1 else b"".join(payloads)
    head = bytes((0x80 | opcode,))
    size = len(body)
    return head + (bytes((size,)) if size < 126 else b"\x7e" + size.to_bytes(2, "big")) + body


LIVE: Final = b'\x81\x15{"op":"live","seq":0}'


Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(handle: Handle) -> AsyncGenerator[int]:
    """Give the port of a server that handles connections so; at the end each has been handled to its end."""
    served: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await handle(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*served)


@asynccontextmanager
async def peer(sent: bytes, chunk_bytes: int) -> AsyncGenerator[tuple[Subscribing, list[bytes]]]:
    """Serve a websocket that sends these frames in pieces to whoever comes, and keep what it hears."""
    heard: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        whole = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n" + sent
        for first in range(0, len(whole), chunk_bytes):
            writer.write(whole[first : first + chunk_bytes])
            await writer.drain()
            await asyncio.sleep(0.001)
        while data := await reader.read(65_536):
            heard.append(data)

    async with listening(handle) as port:
        yield Subscribing(port=port, request="GET /{n}{query} HTTP/1.1\r\n\r\n", ready='"op":"live"'), heard


async def what_came(sent: bytes, chunk_bytes: int, *, expected: int, published: int) -> tuple[Received, list[bytes]]:
    async with peer(sent, chunk_bytes) as (subscribing, heard), Readers(subscribing, 3) as readers:
        await readers.begin(2, 100)
        ready = await readers.connect("?after=0")
        assert (ready.ready, ready.failed) == (3, 0)
        await readers.wait_received(expected, 0.5)
        return await readers.report(published), heard


@pytest.mark.parametrize("chunk_bytes", [7, 100, 100_000])
def test_subscribers_count_each_note_once_however_the_stream_is_cut(reader: str, chunk_bytes: int) -> None:
    frames = [frame(*(event(first + at, first + at - 1) for at in range(3))) for first in range(1, 31, 3)]
    sent = LIVE + b"".join(frames)
    received, _ = asyncio.run(what_came(sent, chunk_bytes, expected=30, published=30))
    assert (received.expected, received.received, received.each.count, received.last.count) == (90, 90, 90, 30)
    assert (received.holes, received.doubles, received.seq_gaps, received.seq_repeats) == (0, 0, 0, 0)
    assert received.closed == {}


def test_subscribers_find_holes_and_doubles(reader: str) -> None:
    sent = LIVE + frame(event(1, 0), event(2, 1)) + frame(event(2, 1)) + frame(event(4, 3), event(5, 4))
    received, _ = asyncio.run(what_came(sent, 1000, expected=4, published=5))
    assert (received.holes, received.doubles) == (3, 3)
    assert (received.seq_gaps, received.seq_repeats) == (3, 3)


def test_subscribers_tell_how_late_a_note_was(reader: str) -> None:
    sent = LIVE + frame(event(1, 0, late_ms=5000)) + frame(event(2, 1))
    received, _ = asyncio.run(what_came(sent, 1000, expected=2, published=2))
    assert 5000 <= received.each.max < 7000
    assert received.each.p50 < 2500


def test_subscribers_answer_pings_and_tell_close_codes(reader: str) -> None:
    sent = LIVE + frame(b"are you there", opcode=9) + frame(event(1, 0)) + frame(b"\x11\x4dtoo slow", opcode=8)
    received, heard = asyncio.run(what_came(sent, 1000, expected=1, published=1))
    assert received.closed == {"4429": 3}
    assert heard == [b"\x8a\x8d\x00\x00\x00\x00are you there"] * 3


def test_subscribers_that_are_refused_have_failed(reader: str) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\n\r\n")

    async def refused() -> int:
        request = "GET / HTTP/1.1\r\n\r\n"
        async with listening(handle) as port, Readers(Subscribing(port=port, request=request, ready="x"), 2) as readers:
            return (await readers.connect()).failed

    assert asyncio.run(refused()) == 2


# --- The lean client ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_bytes", [1, 20, 1000])
def test_answers_are_read_however_they_are_cut(chunk_bytes: int) -> None:
    bodies = [b"", b"x" * 300, b'{"seq":1}']

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for body in itertools.cycle(bodies):
            await reader.readuntil(b"\r\n\r\n")
            answer = b"HTTP/1.1 201 Created\r\ndate: now\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            for first in range(0, len(answer), chunk_bytes):
                writer.write(answer[first : first + chunk_bytes])
                await asyncio.sleep(0)

    async def ask() -> list[tuple[int, bytes]]:
        async with listening(handle) as port, Lanes("127.0.0.1", port, 1) as lanes:
            return await asyncio.gather(*(lanes.call(encode_request("GET", "/")) for _ in range(6)))

    assert asyncio.run(ask()) == [(201, body) for body in bodies * 2]


def test_an_idle_connection_that_the_server_closed_is_opened_again() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async def ask() -> list[tuple[int, bytes]]:
        async with listening(handle) as port, Lanes("127.0.0.1", port, 2) as lanes:
            answers: list[tuple[int, bytes]] = []
            for _ in range(6):
                answers.append(await lanes.call(encode_request("GET", "/")))
                await asyncio.sleep(0.05)
            return answers

    assert asyncio.run(ask()) == [(200, b"ok")] * 6


def test_a_request_that_is_never_answered_is_a_failure() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async def ask() -> None:
        async with listening(handle) as port, Lanes("127.0.0.1", port, 1) as lanes:
            lanes.submit(encode_request("GET", "/"), lambda status, body: None)
            await lanes.drained()

    with pytest.raises(ConnectionError, match="before it answered"):
        asyncio.run(ask())


def test_quantiles_are_values_that_were_measured() -> None:
    found = quantiles_of([number * 1_000_000 for number in range(1, 101)])
    assert (found.count, found.p50, found.p95, found.p99, found.max) == (100, 50.0, 95.0, 99.0, 100.0)
