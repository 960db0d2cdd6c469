"""Peers that mean harm, on the bare socket of a real server: it survives, says why, and disturbs nobody else."""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
import msgspec
import pytest

from schema.notes import Observed
from tests.harness.listener import Listener
from tests.harness.node import Node
from tests.harness.raw import HANDSHAKE, Raw, frame

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

TEXT, BINARY, CONTINUATION, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
MESSAGE_BYTES: Final = 1_048_576 + 4096
GROWTH_BYTES: Final = 48 * 1_048_576
"""What a server may keep of a flood: allocators keep what they once had, so this is no tight bound; the floods are larger."""

SHORT = {"BOARD_REQUEST_S": "1", "BOARD_PING_S": "1", "BOARD_STALL_S": "1"}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """A server with little patience."""
    async with Node(tmp_path, environ=SHORT) as node:
        yield node


class Bystander:
    """A well-behaved subscriber, and notes that it must get."""

    def __init__(self, node: Node, listener: Listener) -> None:
        self._node = node
        self._listener = listener

    @classmethod
    async def join(cls, node: Node) -> Bystander:
        """Open its stream."""
        listener = await Listener.open(node.url, "main", "bystander")
        await listener.until(lambda one: one.live)
        return cls(node, listener)

    async def is_served(self) -> None:
        """Post, and wait until it comes; nothing was lost or doubled on the way."""
        async with self._node.client("poster") as board:
            posted = await board.post(Observed(text="x"))
        await self._listener.reach(posted.seq)
        assert self._listener.seqs == list(range(1, posted.seq + 1))


def resident_bytes(node: Node) -> int:
    """The memory of the server."""
    return int(Path(f"/proc/{node.pid}/statm").read_text().split()[1]) * 4096


WRONG: dict[str, tuple[bytes, set[int]]] = {
    "an unmasked frame": (frame(TEXT, b"{}", masked=False), {1002}),
    "a reserved bit": (frame(TEXT, b"{}", reserved=4), {1002}),
    "all reserved bits": (frame(TEXT, b"{}", reserved=7), {1002}),
    "an unknown opcode": (frame(3, b"{}"), {1002}),
    "an unknown control opcode": (frame(11), {1002}),
    "a huge ping": (frame(PING, bytes(126)), {1002}),
    "a ping in parts": (frame(PING, fin=False), {1002}),
    "a part of nothing": (frame(CONTINUATION, b"{}"), {1002}),
    "a message inside of another": (frame(TEXT, b"{", fin=False) + frame(TEXT, b"}"), {1002}),
    "a close of one byte": (frame(CLOSE, b"\x03"), {1002}),
    "a close with no such code": (frame(CLOSE, b"\x03\xe6"), {1002}),
    "a close whose reason is no text": (frame(CLOSE, b"\x03\xe8\xff"), {1007, 1002}),
    "a length of 2^63": (b"\x81\xff" + b"\xff" * 8 + bytes(4), {1002, 1009}),
    "a message that is too long": (b"\x81\xff" + (MESSAGE_BYTES + 1).to_bytes(8, "big") + bytes(4), {1009}),
    "parts that are too long": (
        frame(TEXT, b"x" * 600_000, fin=False) + frame(CONTINUATION, b"x" * 600_000, fin=False),
        {1009},
    ),
    "bytes": (frame(BINARY, b"{}"), {4400}),
    "no JSON": (frame(TEXT, b"{"), {4400}),
    "no UTF-8": (frame(TEXT, b'"\xff"'), {4400, 1007}),
    "HTTP again": (HANDSHAKE, {1002}),
}


async def test_wrong_frames_are_answered_by_a_close(node: Node) -> None:
    """Every kind of frame that the protocol forbids ends its own stream with the right code, and nothing else."""
    bystander = await Bystander.join(node)
    for name, (data, codes) in WRONG.items():
        async with Raw(node.url) as raw:
            await raw.shake_hands()
            await raw.send(data)
            code = await raw.close_code()
            assert code in codes, (name, code)
        await bystander.is_served()
    assert not [line for line in node.logged() if line["level"] == "error"]


async def test_wrong_ops_are_answered_and_the_stream_goes_on(node: Node) -> None:
    """What is JSON and no op gets a reply with a code and the op's id; then the same stream still works."""
    for said in (
        b"{}",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"op":"nope","id":7}',
        b'{"op":"post","id":7}',
        b'{"op":"ack","seqs":[-1],"id":7}',
        b'{"op":"ack","through":99999999999999999999,"id":7}',
    ):
        async with Raw(node.url) as raw:
            await raw.shake_hands()
            await raw.send(frame(TEXT, said) + frame(TEXT, b'{"op":"filter","id":"then"}'))
            answers = await raw.text_with(b'"id":"then","status":200')
            assert b'"status":422' in answers, said
            assert (b'"id":7' in answers) == (b'"id":7' in said), said


async def test_random_bytes(node: Node) -> None:
    """Whatever 300 peers send after the handshake, or in place of it, the server goes on, and logs no fault of its own."""
    bystander = await Bystander.join(node)
    chance = random.Random(27)

    async def babble(number: int) -> None:
        async with Raw(node.url) as raw:
            if number % 3:
                await raw.shake_hands()
            pieces = [chance.randbytes(chance.randrange(1, 200)) for _ in range(chance.randrange(1, 5))]
            if number % 2:
                pieces = [frame(chance.randrange(16), one, fin=chance.random() < 0.7) for one in pieces]
            for piece in pieces:
                await raw.send(piece)

    for start in range(0, 300, 20):
        await asyncio.gather(*(babble(number) for number in range(start, start + 20)))
    await bystander.is_served()
    assert not [line for line in node.logged() if line["level"] == "error"]


async def flood(node: Node, data: bytes, times: int) -> None:
    """Send the same again and again, and read nothing, until the server takes no more."""
    async with Raw(node.url) as raw:
        await raw.shake_hands()
        for _ in range(times):
            if not await raw.send(data):
                return


FLOODS: dict[str, bytes] = {
    "empty parts": frame(TEXT, b'{"op":', fin=False) + frame(CONTINUATION, fin=False) * 20_000,
    "pings": frame(PING, bytes(125)) * 2000,
    "pongs": frame(PONG, bytes(125)) * 2000,
    "bad ops": frame(TEXT, b'{"op":"nope","id":"' + b"x" * 500 + b'"}') * 500,
    "filters": frame(TEXT, b'{"op":"filter","id":1,"author":"a"}') * 2000,
}


async def test_floods_that_read_no_answer(node: Node) -> None:
    """Peers that send without end and read nothing cost bounded memory, and the others are served meanwhile."""
    bystander = await Bystander.join(node)
    before = resident_bytes(node)
    for name, data in FLOODS.items():
        flooding = [asyncio.create_task(flood(node, data, 40)) for _ in range(3)]
        await bystander.is_served()
        await asyncio.gather(*flooding)
        assert resident_bytes(node) - before < GROWTH_BYTES, name
    await bystander.is_served()


async def test_handshakes_in_pieces_and_halves(node: Node) -> None:
    """A handshake may come byte by byte; one that stops half-way is refused in time, and so is one that never begins."""
    async with Raw(node.url) as slow:
        for byte in HANDSHAKE[:-1]:
            await slow.send(bytes([byte]))
        await slow.shake_hands_end(HANDSHAKE[-1:])
    for said in (
        HANDSHAKE[:-2],
        b"GET / HT",
        b"POST /v1/boards/main/notes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
    ):
        async with Raw(node.url) as half:
            await half.send(said)
            answer = await half.answer()
            assert b"408" in answer.split(b"\r\n")[0]
            assert msgspec.json.decode(answer.partition(b"\r\n\r\n")[2])["code"] == "request_timeout"
    async with Raw(node.url) as mute:
        assert await mute.answer() == b""


async def test_a_body_may_take_its_time(node: Node) -> None:
    """A body that flows is waited for, however long it is on its way; one that trickles is not."""
    body = b'{"type": "FACT", "text": "x", "detail": "' + b"y" * 8000 + b'"}'
    head = b"POST /v1/boards/main/notes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    async with Raw(node.url) as flowing:
        await flowing.send(head % len(body))
        for start in range(0, len(body), 700):
            await flowing.send(body[start : start + 700])
            await asyncio.sleep(0.2)
        assert (await flowing.answer()).startswith(b"HTTP/1.1 201")
    async with Raw(node.url) as trickling:
        await trickling.send(head % len(body))
        while await trickling.send(b" ") and not trickling.at_end:
            await asyncio.sleep(0.2)
        assert b"request_timeout" in await trickling.answer()


async def figure(node: Node, name: str) -> float:
    """Read one of the server's figures."""
    async with httpx.AsyncClient(trust_env=False) as http:
        lines = (await http.get(f"{node.url}/metrics")).text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


async def reaches(node: Node, name: str, value: float) -> None:
    """Wait until a figure is this."""
    async with asyncio.timeout(30):
        while await figure(node, name) != value:
            await asyncio.sleep(0.05)


def sent_whole(node: Node, data: bytes) -> bytes:
    """Send everything, whatever the server says meanwhile, and only then read what it said."""
    with socket.create_connection(("127.0.0.1", node.port), timeout=30) as peer:
        peer.sendall(data)
        return b"".join(iter(lambda: peer.recv(65_536), b""))


REFUSED_UNREAD: Final = {
    b"413": b"POST /v1/boards/main/notes HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n",
    b"415": b"POST /v1/boards/main/notes HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/x\r\nContent-Length: %d\r\n",
    b"404": b"POST /v1/nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n",
    b"400": b"POST /v1/boards/main/notes HTTP/9.9\r\nContent-Length: %d\r\n",
}


async def test_a_refusal_outlives_the_body_that_it_refuses(node: Node) -> None:
    """A peer that goes on to send what was refused before it was read gets its answer all the same, and no reset."""
    body = b"x" * 8_000_000
    for status, head in REFUSED_UNREAD.items():
        sent = head % len(body) + b"Connection: close\r\n\r\n" + body
        answer = await asyncio.to_thread(sent_whole, node, sent)
        assert answer.split(b" ")[1] == status, answer[:200]
        assert answer.endswith(b"}")
    assert await figure(node, "board_connections_cut_total") == 0


async def test_a_refused_peer_is_not_listened_to_for_ever(node: Node) -> None:
    """Who goes on to send after a refusal without an end, or does not go, is closed at a bound, and counted."""
    head = b"POST /v1/boards/main/notes HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % 2**40
    async with Raw(node.url) as flooding:
        await flooding.send(head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        while await flooding.send(bytes(1_048_576)):
            pass
    await reaches(node, "board_connections_cut_total", 1)
    async with Raw(node.url) as staying:
        await staying.send(b"GET / HT")
        await reaches(node, "board_connections_cut_total", 2)
        assert b"request_timeout" in await staying.answer()
    await reaches(node, "board_connections_lingering", 0)


async def test_an_answer_without_a_body_is_sent_before_the_close(node: Node) -> None:
    """The answer to HEAD is its head alone, also where the connection ends with it."""
    async with Raw(node.url) as raw:
        await raw.send(b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await raw.answer()).startswith(b"HTTP/1.1 200")


async def test_an_answer_that_nobody_reads(node: Node) -> None:
    """Whoever asks for a large answer and takes nothing of it is dropped; the server keeps no part of it."""
    async with node.client("w1") as board:
        for _ in range(8):
            await board.post_batch([Observed(text="x" * 400, detail="y" * 3000)] * 250)
    async with Raw(node.url) as mute:
        await mute.send(b"GET /v1/boards/main/export HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4)
        await reaches(node, "board_answers_unread_total", 1)


async def test_one_connection_too_many(tmp_path: Path) -> None:
    """Over the bound a connection is answered 503 and closed; when one has ended there is room again."""
    async with Node(tmp_path, environ={"BOARD_CONNECTIONS": "4"}) as node:
        get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        async with Raw(node.url), Raw(node.url), Raw(node.url), Raw(node.url):
            async with Raw(node.url) as fifth:
                answer = await fifth.answer()
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"too_many_connections" in answer
            assert b"\r\nretry-after: " in answer
        async with asyncio.timeout(30):
            while True:
                async with Raw(node.url) as again:
                    await again.send(get)
                    if (await again.answer()).startswith(b"HTTP/1.1 200"):
                        return
