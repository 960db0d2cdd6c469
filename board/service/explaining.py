"""What msgspec refuses, in words that a caller can act on: the member, its value, what it must be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import inspect

from schema.codes import Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SHOWN_CHARS: Final = 60
_STEP: Final = re.compile(r"\[(\d+)\]|\.?([^.\[\]]+)")
_TYPE_NAMES: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def explain(code: str, said: str, whole: Any, kind: Any) -> Problem:  # noqa: ANN401 -- any JSON value, any type
    """Make a problem of msgspec's sentence: the member, its value and what it must be, apart and in words.

    msgspec gives all of that in its sentence alone, so the sentence is taken apart here and nowhere else. `whole` is
    what was decoded, plain, and `kind` the type that it was to be: they give the value and the bounds.
    """
    what, _, path = said.partition(" - at `$")
    field = path.rstrip("`").lstrip(".")
    match what.partition(" `")[0]:
        case "Object missing required field":
            return _about(code, _below(field, _quoted(what)), "is missing")
        case "Object contains unknown field":
            names = _member_names(_within(kind, field))
            way = f"is not known; the names are {', '.join(names)}" if names else "is not known; nothing is taken here"
            return _about(code, _below(field, _quoted(what)), way, allowed=names)
        case _:
            value = _json(_at(whole, field))
            bounds = _bounds(_within(kind, field))
            return _about(code, field or "body", f"is {value}; {_must(what, bounds)}", value=value, **bounds)


def _about(code: str, field: str, what: str, **facts: Any) -> Problem:  # noqa: ANN401
    return problem(code, f"`{shown(field)}` {what}.", field=shown(field), **facts)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _quoted(what: str) -> str:
    return what.partition("`")[2].rstrip("`")


def _at(whole: Any, path: str) -> Any:  # noqa: ANN401 -- any JSON value
    for index, name in _STEP.findall(path):
        if whole is not None:
            whole = whole[int(index)] if index else whole[name]
    return whole


def _within(kind: Any, path: str) -> list[inspect.Type]:  # noqa: ANN401
    kinds = [inspect.type_info(kind)]
    for index, name in _STEP.findall(path):
        kinds = [inner for one in _flat(kinds) for inner in _step(one, "" if index else name)]
    return list(_flat(kinds))


def _flat(kinds: Iterable[inspect.Type]) -> Iterator[inspect.Type]:
    for kind in kinds:
        if isinstance(kind, inspect.UnionType):
            yield from _flat(kind.types)
        else:
            yield kind


def _step(kind: inspect.Type, name: str) -> Iterator[inspect.Type]:
    match kind:
        case inspect.StructType():
            yield from (field.type for field in kind.fields if field.encode_name == name)
            if name == kind.tag_field:
                yield inspect.LiteralType((kind.tag,))
        case inspect.VarTupleType() | inspect.ListType():
            yield kind.item_type
        case _:
            return


def _member_names(kinds: Sequence[inspect.Type]) -> list[str]:
    structs = [kind for kind in kinds if isinstance(kind, inspect.StructType)]
    tags = [kind.tag_field for kind in structs if kind.tag_field]
    return list(dict.fromkeys([*tags, *(field.encode_name for kind in structs for field in kind.fields)]))


def _bounds(kinds: Sequence[inspect.Type]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for kind in kinds:
        match kind:
            case inspect.LiteralType():
                facts["allowed"] = list(dict.fromkeys([*facts.get("allowed", ()), *kind.values]))
            case inspect.IntType() | inspect.FloatType():
                facts |= {"limit": kind.le, "least": kind.ge}
            case inspect.StrType():
                facts |= {"limit": kind.max_length, "unit": "characters"}
            case inspect.VarTupleType():
                facts |= {"limit": kind.max_length, "unit": "items"}
            case _:
                pass
    return facts if facts.get("allowed") or facts.get("limit") is not None else {}


def _must(what: str, bounds: dict[str, Any]) -> str:
    if "allowed" in bounds:
        return f"it must be one of {', '.join(map(str, bounds['allowed']))}"
    if not what.startswith("Expected"):
        return what[:1].casefold() + what[1:]
    kind, _, bound = what.removeprefix("Expected `").partition("`")
    names = " or ".join(_TYPE_NAMES.get(name, name) for name in kind.split(" | "))
    return f"it must be {names}{bound.partition(', got')[0].replace('of length', 'of a length')}"


def _json(value: Any) -> str:  # noqa: ANN401 -- any JSON value
    return shown(msgspec.json.encode(value).decode())


def shown(text: str) -> str:
    """Shorten a text for a sentence; what is left out is said."""
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}… ({len(text)} characters)"
