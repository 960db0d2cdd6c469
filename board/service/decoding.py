"""JSON from callers to values, and what is wrong with it in words: the one place that every surface decodes through.

Beyond what msgspec refuses, a member that is given twice is refused: JSON parsers disagree on which of the two counts,
so to take either would drop what somebody wrote without a word.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from schema.codec import decode_batch, decode_draft
from schema.codes import Problem, ProblemError, problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from schema.notes import Batch, Draft

T = TypeVar("T")

_SHOWN_CHARS: Final = 60
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
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


class _Doubled(ValueError):
    """A member is given twice; `args[0]` is its name."""


def read_draft(data: bytes | msgspec.Raw) -> Draft:
    """Decode a note's draft. Raises ProblemError `malformed_json` or `invalid_field`, which names the member."""
    return _decoded(bytes(data), decode_draft)


def read_batch(data: bytes) -> Batch:
    """Decode a batch of drafts. Raises ProblemError `malformed_json` or `invalid_field`, which names the member."""
    return _decoded(data, decode_batch)


def read(data: bytes, kind: type[T]) -> T:
    """Decode any struct. Raises ProblemError `malformed_json` or `invalid_field`, which names the member."""
    return _decoded(data, lambda body: msgspec.json.decode(body, type=kind))


def _decoded(data: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        value = decode(data)
        _pairs_decoder.decode(data.decode())
    except msgspec.ValidationError as error:
        raise ProblemError(explain("invalid_field", str(error), _value_of(data))) from error
    except msgspec.DecodeError as error:
        raise ProblemError(problem("malformed_json", _why_malformed(data))) from error
    except _Doubled as error:
        name = _shown(error.args[0])
        sentence = f"The member {name!r} is given twice in one object; which of them counts is not said."
        raise ProblemError(problem("malformed_json", sentence, field=name)) from None
    except RecursionError as error:
        raise ProblemError(problem("malformed_json", "The JSON is nested too deeply.")) from error
    return value


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) != len(dict(pairs)):
        names = [name for name, _ in pairs]
        raise _Doubled(next(name for name in names if names.count(name) > 1))


_pairs_decoder: Final = json.JSONDecoder(object_pairs_hook=_refuse_doubles)


def _value_of(data: bytes) -> Any:  # noqa: ANN401 -- any JSON value
    return msgspec.json.decode(data)


def _why_malformed(data: bytes) -> str:
    if not data:
        return "There is no body; send one JSON document."
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return f"The JSON is not UTF-8: byte {error.start} is {data[error.start]:#04x}."
    try:
        held = _SURROGATE.search(json.dumps(json.loads(text), ensure_ascii=False))
    except json.JSONDecodeError as error:
        return f"The body is no JSON: {error.msg} at line {error.lineno}, column {error.colno}."
    except RecursionError:
        return "The JSON is nested too deeply."
    if held is None:
        return "The body is no JSON that can be read: a number or an escape in it stands for nothing."
    return f"The JSON holds a lone surrogate, \\u{ord(held[0]):04x}, which is no character; send the text as UTF-8."


def explain(code: str, said: str, whole: Any) -> Problem:  # noqa: ANN401 -- any JSON value
    """Make a problem of msgspec's sentence: the member, its value and what it must be, apart and in words.

    msgspec gives all of that in its sentence alone, so the sentence is taken apart here and nowhere else.
    """
    what, _, path = said.partition(" - at `$")
    field = path.rstrip("`").lstrip(".")
    match what.partition(" `")[0]:
        case "Object missing required field":
            return _about(code, _below(field, _quoted(what)), "is missing")
        case "Object contains unknown field":
            return _about(code, _below(field, _quoted(what)), "is not known; leave it out, or correct its name")
        case _:
            value = _at(whole, field)
            return _about(code, field or "body", f"is {_json(value)}; {_must(what)}", value=_json(value))


def _about(code: str, field: str, what: str, **facts: Any) -> Problem:  # noqa: ANN401
    return problem(code, f"`{field}` {what}.", field=field, **facts)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _quoted(what: str) -> str:
    return what.partition("`")[2].rstrip("`")


def _at(whole: Any, path: str) -> Any:  # noqa: ANN401 -- any JSON value
    for index, name in _STEP.findall(path):
        if name == "...":
            break
        whole = whole[int(index)] if index else whole[name]
    return whole


def _must(what: str) -> str:
    if not what.startswith("Expected"):
        return "that is none of the values that are allowed" if "alue" in what else what.casefold()
    kind, _, bound = what.removeprefix("Expected `").partition("`")
    names = [_TYPE_NAMES.get(name, name) for name in kind.split(" | ")]
    bound = bound.partition(", got")[0].replace("of length", "of a length")
    return f"it must be {' or '.join(names)}{bound}"


def _json(value: Any) -> str:  # noqa: ANN401 -- any JSON value
    return _shown(msgspec.json.encode(value).decode())


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}… ({len(text)} characters)"
