"""A server with what the official MCP conformance suite asks for beside the board's own tools.

The suite calls tools, resources and prompts of fixed names (`test_simple_text`, `test://static-text`), which show every
part of the protocol. They are added here to the handlers of the real server, which is then run as it always is:

    python -m tests.harness.mcp_fixtures serve --port 8599 --store memory: [--sessions]

With `--sessions` the SDK's manager keeps sessions: the suite of 2025-11-25 asks for what only those can carry (sampling
and elicitation in the middle of a call), and the board itself has no use for.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import json
import sys
from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types as types
import msgspec
import uvloop
from mcp.shared.exceptions import MCPError

from board.app import Server
from board.logs import configure
from board.service.clock import SystemClock
from board.settings import read

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.lowlevel import Server as McpServer

Plain = dict[str, Any]

_IMAGE: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
_SOUND: Final = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
_STEP_S: Final = 0.05
_KEY: Final = b"a key of this process"


class Call(msgspec.Struct, frozen=True):
    """One call of a fixture: the request, what the client sent, and what it answered to earlier questions."""

    context: Any
    arguments: Plain
    responses: Plain
    state: str

    @classmethod
    def of(cls, context: Any) -> Call:
        """Read a request."""
        said = context.params or {}
        return cls(
            context, said.get("arguments") or {}, said.get("inputResponses") or {}, said.get("requestState") or ""
        )


def text(said: str, **more: Any) -> Plain:
    """A result of one text."""
    return {"resultType": "complete", "content": [{"type": "text", "text": said}], **more}


def content(*parts: Plain) -> Plain:
    """A result of these parts."""
    return {"resultType": "complete", "content": list(parts)}


IMAGE: Final[Plain] = {"type": "image", "data": _IMAGE, "mimeType": "image/png"}
SOUND: Final[Plain] = {"type": "audio", "data": _SOUND, "mimeType": "audio/wav"}


def embedded(uri: str, media: str, said: str) -> Plain:
    """A resource inside of a result."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": media, "text": said}}


# What is answered at once


async def simple_text(_call: Call) -> Plain:
    return text("This is a simple text response for testing.")


async def image(_call: Call) -> Plain:
    return content(IMAGE)


async def sound(_call: Call) -> Plain:
    return content(SOUND)


async def resource(_call: Call) -> Plain:
    return content(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))


async def mixed(_call: Call) -> Plain:
    first = {"type": "text", "text": "Multiple content types test:"}
    return content(
        first, IMAGE, embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    )


async def failing(_call: Call) -> Plain:
    return text("This tool intentionally returns an error for testing", isError=True)


async def reconnecting(call: Call) -> Plain:
    if call.context.close_sse_stream is not None:
        await call.context.close_sse_stream()
    await anyio.sleep(4 * _STEP_S)
    return text("Reconnection test completed")


# What speaks in the middle of a call


async def logging(call: Call) -> Plain:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await call.context.session.send_log_message("info", said, related_request_id=call.context.request_id)
        await anyio.sleep(_STEP_S)
    return text("Tool with logging executed successfully")


async def progress(call: Call) -> Plain:
    for done in (0, 50, 100):
        await call.context.session.report_progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(_STEP_S)
    return text("Progress reported")


async def sampling(call: Call) -> Plain:
    prompt = types.SamplingMessage(role="user", content=types.TextContent(text=call.arguments["prompt"]))
    answer = await call.context.session.create_message(
        [prompt], max_tokens=100, related_request_id=call.context.request_id
    )
    return text(f"LLM response: {answer.content.text}")


async def elicit(call: Call, message: str, schema: Plain) -> Plain:
    answer = await call.context.session.elicit_form(message, schema, related_request_id=call.context.request_id)
    return text(f"action={answer.action}, content={json.dumps(answer.content or {})}")


async def elicitation(call: Call) -> Plain:
    response = {"type": "string", "description": "User's response"}
    return await elicit(call, call.arguments["message"], _object({"response": response}, "response"))


async def elicitation_defaults(call: Call) -> Plain:
    members = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await elicit(call, "Please provide user information", _object(members))


async def elicitation_enums(call: Call) -> Plain:
    plain, titled = (
        ["option1", "option2", "option3"],
        [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)],
    )
    members = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await elicit(call, "Please select options", _object(members))


# What asks by its result, and is called again with the answers (2026-07-28)


def _object(members: Plain, *required: str) -> Plain:
    return {"type": "object", "properties": members, **({"required": list(required)} if required else {})}


def asked(message: str, name: str, kind: str = "string") -> Plain:
    """A question for a form with one member."""
    schema = _object({name: {"type": kind}}, name)
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def prompted(question: str) -> Plain:
    """A question for the client's model."""
    messages = [{"role": "user", "content": {"type": "text", "text": question}}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 100}}


ROOTS: Final[Plain] = {"method": "roots/list", "params": {}}


def asking(state: str = "", **requests: Plain) -> Plain:
    """A result that asks, with a state that only this process can have made."""
    signed = {"requestState": f"{state}.{_sign(state)}"} if state else {}
    return {"resultType": "input_required", "inputRequests": requests, **signed}


def _sign(state: str) -> str:
    return hmac.new(_KEY, state.encode(), hashlib.sha256).hexdigest()


def told(call: Call) -> str:
    """The state that came back. Raises MCPError for one that was changed on the way."""
    state, _, signature = call.state.rpartition(".")
    if not hmac.compare_digest(signature, _sign(state)):
        raise MCPError(types.INVALID_PARAMS, "The request state was tampered with")
    return state


def form(call: Call, key: str) -> Plain | None:
    """What was filled in, or None where that question has not been answered."""
    answer = call.responses.get(key)
    return answer.get("content") if isinstance(answer, dict) else None


async def ask_name(call: Call) -> Plain:
    filled = form(call, "user_name")
    return text(f"Hello, {filled['name']}!") if filled else asking(user_name=asked("What is your name?", "name"))


async def ask_model(call: Call) -> Plain:
    answer = call.responses.get("capital_question")
    if not isinstance(answer, dict):
        return asking(capital_question=prompted("What is the capital of France?"))
    return text(json.dumps(answer.get("content")))


async def ask_roots(call: Call) -> Plain:
    answer = call.responses.get("client_roots")
    return text(json.dumps(answer["roots"])) if isinstance(answer, dict) else asking(client_roots=ROOTS)


async def ask_with_state(call: Call) -> Plain:
    if not call.state:
        return asking("waiting", confirm=asked("Please confirm", "ok", "boolean"))
    return text(f"state-ok: {told(call)}")


async def ask_many(call: Call) -> Plain:
    if not call.state:
        greeting = prompted("Generate a greeting")
        return asking("many", user_name=asked("What is your name?", "name"), greeting=greeting, client_roots=ROOTS)
    return text(f"All of {sorted(call.responses)} for {told(call)}")


async def ask_twice(call: Call) -> Plain:
    if not call.state:
        return asking("one", step1=asked("Step 1: What is your name?", "name"))
    if told(call) == "one":
        return asking("two", step2=asked("Step 2: What is your favorite color?", "color"))
    return text("Both steps are done")


async def ask_what_is_offered(call: Call) -> Plain:
    offered = (call.context.params or {})["_meta"][types.CLIENT_CAPABILITIES_META_KEY]
    questions = {"elicitation": asked("What is your name?", "name"), "sampling": prompted("Say hello"), "roots": ROOTS}
    requests = {name: question for name, question in questions.items() if name in offered}
    return text("Done") if call.responses else asking(**requests)


async def need_sampling(call: Call) -> Plain:
    offered = (call.context.params or {})["_meta"][types.CLIENT_CAPABILITIES_META_KEY]
    if "sampling" not in offered:
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Sampling is required", needed)
    return text("The client offers sampling")


_NOTHING: Final[Plain] = _object({})
_RICH: Final[Plain] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

Fixture = tuple["Callable[[Call], Awaitable[Plain]]", Plain]

FIXTURES: Final[dict[str, Fixture]] = {
    "test_simple_text": (simple_text, _NOTHING),
    "test_image_content": (image, _NOTHING),
    "test_audio_content": (sound, _NOTHING),
    "test_embedded_resource": (resource, _NOTHING),
    "test_multiple_content_types": (mixed, _NOTHING),
    "test_error_handling": (failing, _NOTHING),
    "test_reconnection": (reconnecting, _NOTHING),
    "test_tool_with_logging": (logging, _NOTHING),
    "test_logging_tool": (logging, _NOTHING),
    "test_tool_with_progress": (progress, _NOTHING),
    "test_sampling": (sampling, _object({"prompt": {"type": "string"}}, "prompt")),
    "test_elicitation": (elicitation, _object({"message": {"type": "string"}}, "message")),
    "test_elicitation_sep1034_defaults": (elicitation_defaults, _NOTHING),
    "test_elicitation_sep1330_enums": (elicitation_enums, _NOTHING),
    "json_schema_2020_12_tool": (simple_text, _RICH),
    "test_headers": (simple_text, _object({"region": {"type": "string", "x-mcp-header": "Region"}})),
    "test_input_required_result_elicitation": (ask_name, _NOTHING),
    "test_streaming_elicitation": (ask_name, _NOTHING),
    "test_input_required_result_sampling": (ask_model, _NOTHING),
    "test_input_required_result_list_roots": (ask_roots, _NOTHING),
    "test_input_required_result_request_state": (ask_with_state, _NOTHING),
    "test_input_required_result_tampered_state": (ask_with_state, _NOTHING),
    "test_input_required_result_multiple_inputs": (ask_many, _NOTHING),
    "test_input_required_result_multi_round": (ask_twice, _NOTHING),
    "test_input_required_result_capabilities": (ask_what_is_offered, _NOTHING),
    "test_missing_capability": (need_sampling, _NOTHING),
}
"""Every tool of the suite: what it does, and its input schema."""

RESOURCES: Final[dict[str, Plain]] = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": _IMAGE},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched resource content"},
    "test://template/123/data": {"mimeType": "application/json", "text": '{"id":"123","templateTest":true}'},
}

_ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


def _message(part: Plain) -> Plain:
    return {"role": "user", "content": part}


def _said(words: str) -> Plain:
    return _message({"type": "text", "text": words})


def prompt_of(name: str, call: Call) -> Plain:
    """The messages of a prompt."""
    given = call.arguments
    match name:
        case "test_simple_prompt":
            messages = [_said("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            messages = [_said(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
        case "test_prompt_with_embedded_resource":
            part = embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing.")
            messages = [_message(part), _said("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            messages = [_message(IMAGE), _said("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            filled = form(call, "user_context")
            if not filled:
                return asking(user_context=asked("What context should the prompt use?", "context"))
            messages = [_said(f"Context: {filled['context']}")]
        case _:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {name}")
    return {"resultType": "complete", "messages": messages}


class Fixtures:
    """Stands before the handlers of a server, and leaves to them what it does not know."""

    def __init__(self, server: McpServer[Any]) -> None:
        self._server = server
        self._before = {
            method: server.get_request_handler(method) for method in ("tools/list", "tools/call", *_RESOURCE_METHODS)
        }

    def add(self) -> None:
        """Add everything."""
        add = self._server.add_request_handler
        add("tools/list", types.PaginatedRequestParams, self._tools)
        add("tools/call", types.RequestParams, self._call)
        add("resources/list", types.PaginatedRequestParams, self._resources)
        add("resources/templates/list", types.PaginatedRequestParams, self._templates)
        add("resources/read", types.ReadResourceRequestParams, self._read)
        add("prompts/list", types.PaginatedRequestParams, self._prompts)
        add("prompts/get", types.RequestParams, self._prompt)
        add("completion/complete", types.RequestParams, self._completion)
        for method in ("logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
            add(method, types.RequestParams, self._nothing)
        headed = {name: schema for name, (_, schema) in FIXTURES.items() if "x-mcp-header" in json.dumps(schema)}
        self._server.get_tool_input_schema = headed.get

    async def _board(self, method: str, context: Any, params: Any) -> Plain:
        entry = self._before[method]
        assert entry is not None
        result = await entry.handler(context, params)
        assert isinstance(result, dict)
        return result

    async def _tools(self, context: Any, params: Any) -> Plain:
        listed = await self._board("tools/list", context, params)
        extra = [
            {"name": name, "description": f"The fixture {name}", "inputSchema": schema}
            for name, (_, schema) in FIXTURES.items()
        ]
        return {**listed, "tools": [*listed["tools"], *extra]}

    async def _call(self, context: Any, params: Any) -> Plain:
        fixture = FIXTURES.get(context.params["name"])
        return await (fixture[0](Call.of(context)) if fixture else self._board("tools/call", context, params))

    async def _resources(self, context: Any, params: Any) -> Plain:
        listed = await self._board("resources/list", context, params)
        extra = [{"uri": uri, "name": uri, "mimeType": part["mimeType"]} for uri, part in RESOURCES.items()]
        return {**listed, "resources": [*listed["resources"], *extra]}

    async def _templates(self, context: Any, params: Any) -> Plain:
        listed = await self._board("resources/templates/list", context, params)
        extra = {"uriTemplate": "test://template/{id}/data", "name": "template"}
        return {**listed, "resourceTemplates": [*listed["resourceTemplates"], extra]}

    async def _read(self, context: Any, params: types.ReadResourceRequestParams) -> Plain:
        part = RESOURCES.get(params.uri)
        if part is None:
            return await self._board("resources/read", context, params)
        return {"resultType": "complete", "contents": [{"uri": params.uri, **part}]}

    async def _prompts(self, _context: Any, _params: Any) -> Plain:
        prompts = [
            {
                "name": name,
                "description": f"The fixture {name}",
                "arguments": [{"name": one, "required": True} for one in names],
            }
            for name, names in _ARGUMENTS.items()
        ]
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "prompts": prompts}

    async def _prompt(self, context: Any, _params: Any) -> Plain:
        return prompt_of(context.params["name"], Call.of(context))

    async def _completion(self, _context: Any, _params: Any) -> Plain:
        return {"resultType": "complete", "completion": {"values": [], "total": 0, "hasMore": False}}

    async def _nothing(self, _context: Any, _params: Any) -> Plain:
        return {}


_RESOURCE_METHODS: Final = ("resources/list", "resources/templates/list", "resources/read")


def main(arguments: list[str]) -> int:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--store", default="memory:")
    parser.add_argument("--sessions", action="store_true")
    said = parser.parse_args(arguments)

    settings = read(port=said.port, store=said.store, log_format="json")
    configure(settings)
    server = Server(settings, SystemClock())
    Fixtures(server.mcp.server).add()
    if said.sessions:
        server.mcp.streams.stateless = False
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(server.run())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
