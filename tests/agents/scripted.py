"""A model API on loopback that plays one turn from a script: claim, write, release, and a last word.

It speaks both dialects that the agents speak: Anthropic's messages and OpenAI's responses. It keeps nothing between
requests: how many tool results a request carries says how far the turn is. What an agent offers its model as tools, and
what it gives its model of their results, is recorded.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
import uvicorn

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

Plain = dict[str, Any]

SCOPE: Final = ["src/readers/tables.c"]
LAST_WORD: Final = "The turn is done."

_SEQ: Final = re.compile(r'"seq"\s*:\s*(\d+)|#(\d+)')


class Step(msgspec.Struct, frozen=True):
    """One tool call: the tool's own name, and its arguments made of the results before."""

    tool: str
    arguments: Callable[[list[str]], Plain]


def claim_of(results: list[str]) -> int:
    """The seq of the claim, as a model would read it in the first result."""
    found = _SEQ.search(results[0])
    assert found is not None, results[0]
    return int(found[1] or found[2])


SCRIPT: Final = (
    Step("board_claim", lambda _: {"scope": SCOPE, "text": "parse escaped bars", "ttl_s": 600}),
    Step("board_write", lambda _: {"type": "FACT", "text": "rows end at dashes", "scope": SCOPE}),
    Step("board_release", lambda results: {"claim": claim_of(results), "outcome": "done"}),
)
"""The turn."""


class Seen:
    """What the agent let its model see."""

    def __init__(self) -> None:
        self.tools: set[str] = set()
        self.results: list[str] = []
        self.requests: list[tuple[str, Plain]] = []

    def take(self, path: str, body: Plain, tools: list[Plain], results: list[str]) -> Plain | None:
        """Record a request, and give the next call of the script: the tool as the agent names it, None at the end.

        A side question, such as for a title, carries no tools and is answered with the last word.
        """
        self.requests.append((path, body))
        names = {tool["name"]: tool for tool in tools if "board_" in tool["name"]}
        self.tools |= {".".join(filter(None, (tool.get("namespace"), name))) for name, tool in names.items()}
        if not names or len(results) >= len(SCRIPT):
            self.results = results if len(results) > len(self.results) else self.results
            return None
        step = SCRIPT[len(results)]
        tool = next(tool for name, tool in names.items() if name.endswith(step.tool))
        return {**tool, "arguments": step.arguments(results)}


# Anthropic's dialect


def _anthropic_results(body: Plain) -> list[str]:
    blocks = [block for message in body["messages"] for block in _list(message["content"])]
    return [_joined(block.get("content", "")) for block in blocks if block.get("type") == "tool_result"]


def _list(content: Any) -> list[Plain]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _joined(content: Any) -> str:
    return "\n".join(block.get("text", "") for block in _list(content))


def _anthropic(body: Plain, seen: Seen) -> Iterator[tuple[str, Plain]]:
    call = seen.take("messages", body, body.get("tools") or [], _anthropic_results(body))
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    yield "message_start", {"message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    if call is None:
        yield "content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}
        yield "content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": LAST_WORD}}
    else:
        block = {"type": "tool_use", "id": f"toolu_{len(seen.requests)}", "name": call["name"], "input": {}}
        yield "content_block_start", {"index": 0, "content_block": block}
        arguments = msgspec.json.encode(call["arguments"]).decode()
        yield "content_block_delta", {"index": 0, "delta": {"type": "input_json_delta", "partial_json": arguments}}
    yield "content_block_stop", {"index": 0}
    reason = "end_turn" if call is None else "tool_use"
    yield "message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield "message_stop", {}


# OpenAI's dialect


def _openai_tools(body: Plain) -> list[Plain]:
    tools: list[Plain] = []
    for tool in body.get("tools") or []:
        if tool.get("type") == "namespace":
            tools += [{**one, "namespace": tool["name"]} for one in tool["tools"]]
        elif tool.get("type") == "function":
            tools.append(tool)
    return tools


def _openai_results(body: Plain) -> list[str]:
    outputs = [item["output"] for item in body["input"] if item.get("type") == "function_call_output"]
    return [output if isinstance(output, str) else _joined(output) for output in outputs]


def _openai(body: Plain, seen: Seen) -> Iterator[tuple[str, Plain]]:
    call = seen.take("responses", body, _openai_tools(body), _openai_results(body))
    item: Plain
    if call is None:
        content = [{"type": "output_text", "text": LAST_WORD, "annotations": []}]
        item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": content}
    else:
        named = {name: call[name] for name in ("name", "namespace") if name in call}
        arguments = msgspec.json.encode(call["arguments"]).decode()
        item = {"type": "function_call", "call_id": f"call_{len(seen.requests)}", "arguments": arguments, **named}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    response = {"id": "r1", "object": "response", "status": "completed", "output": [item], "usage": usage}
    yield "response.created", {"response": {**response, "status": "in_progress", "output": []}}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield "response.completed", {"response": response}


_DIALECTS: Final = {"/v1/messages": _anthropic, "/v1/responses": _openai}


@asynccontextmanager
async def scripted_model() -> AsyncGenerator[tuple[str, Seen]]:
    """Give the address of the model, and what it sees."""
    seen = Seen()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        dialect = _DIALECTS.get(scope["path"])
        if dialect is None:
            seen.requests.append((scope["path"], {}))
            await _send(send, b'{"input_tokens":1,"data":[],"models":[]}', b"application/json")
            return
        events = dialect(msgspec.json.decode(body), seen)
        frames = [
            b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode({"type": name, **event}))
            for name, event in events
        ]
        await _send(send, b"".join(frames), b"text/event-stream")

    config = uvicorn.Config(app, port=0, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", seen
    finally:
        server.should_exit = True
        await task


async def _send(send: Any, body: bytes, media: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", media)]})
    await send({"type": "http.response.body", "body": body})
