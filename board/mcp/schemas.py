"""JSON Schemas of the tools, made from the structs: objects without references, as every client can read them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from board.mcp.answers import Refused, Urgent
from board.mcp.arguments import Ack

_REF: Final = "#/$defs/"
_EXPLAINING: Final = frozenset({"description", "default"})


def input_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of what a tool takes: the struct's members and `ack`; nothing else is allowed."""
    schema = _plain(kind)
    members: dict[str, Any] = schema["properties"] | {"ack": _plain(Ack) | {"default": []}}
    return {
        "type": "object",
        "properties": {name: _without_null(member) for name, member in members.items()},
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


def output_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of what a tool answers: the struct, or an error; urgent notes beside either.

    Clients hold the content of an error to the schema as well, so it must admit both.
    """
    return {
        "type": "object",
        "description": kind.__doc__,
        "properties": {"urgent": _bare(_plain(Urgent))},
        "anyOf": [_bare(_plain(kind)), _bare(_plain(Refused))],
    }


def _bare(node: Any) -> Any:  # noqa: ANN401 -- any part of a schema
    """Leave out what only explains: a third of the list of tools, which every client loads."""
    if isinstance(node, list):
        return [_bare(part) for part in node]
    if not isinstance(node, dict):
        return node
    return {name: _bare(part) for name, part in node.items() if name not in _EXPLAINING or isinstance(part, dict)}


def _without_null(member: dict[str, Any]) -> dict[str, Any]:
    """Leave out that a member may be null: null says the same as nothing, and plain types serve models better."""
    if "anyOf" not in member:
        return member
    types = [one for one in member["anyOf"] if one != {"type": "null"}]
    beside = {name: part for name, part in member.items() if name != "anyOf" and part is not None}
    return beside | (types[0] | beside if len(types) == 1 else {"anyOf": types})


def _plain(kind: Any) -> dict[str, Any]:  # noqa: ANN401 -- a type, or an annotated one
    (schema,), components = msgspec.json.schema_components([kind], ref_template=_REF + "{name}")
    return _inlined(schema, components)


def _inlined(node: Any, components: dict[str, Any]) -> Any:  # noqa: ANN401 -- any part of a schema
    if isinstance(node, list):
        return [_inlined(part, components) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        beside = {name: part for name, part in node.items() if name != "$ref"}
        return _inlined(components[node["$ref"].removeprefix(_REF)], components) | beside
    typed = {"type": "string"} if "enum" in node else {}
    # A `title` that is text is the name of a class of ours.
    kept = {name: part for name, part in node.items() if name != "title" or isinstance(part, dict)}
    return typed | {name: _inlined(part, components) for name, part in kept.items()}
