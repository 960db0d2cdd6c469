"""JSON from callers to values, and what is wrong with it in words: the one place that every surface decodes through.

Beyond what msgspec refuses, a member that is given twice is refused: JSON parsers disagree on which of the two counts,
so to take either would drop what somebody wrote without a word.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from board.service.explaining import explain, shown
from schema.codec import decode_batch, decode_draft, encode
from schema.codes import Problem, ProblemError, problem
from schema.notes import Batch, Draft

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


class _Doubled(ValueError):
    """A member is given twice; `args[0]` is its name."""


def read_draft(data: bytes | msgspec.Raw) -> Draft:
    """Decode a note's draft. Raises ProblemError `malformed_json` or `invalid_field`, which names the member."""
    return _decoded(bytes(data), decode_draft, Draft)


def read_batch(data: bytes) -> Batch:
    """Decode a batch of drafts. Raises ProblemError `malformed_json` or `invalid_field`, which names the member."""
    return _decoded(data, decode_batch, Batch)


def read(data: bytes, kind: type[T]) -> T:
    """Decode any struct. Raises ProblemError `malformed_json` or `invalid_field`, which names the member."""
    return _decoded(data, lambda body: msgspec.json.decode(body, type=kind), kind)


def _decoded(data: bytes, decode: Callable[[bytes], T], kind: Any) -> T:  # noqa: ANN401 -- a type, or a union of them
    try:
        value = decode(data)
        if not (kind in _TERSE and _is_terse(data, value)):
            _pairs_decoder.decode(data.decode())
    except msgspec.ValidationError as error:
        raise ProblemError(_refusal(data, str(error), kind)) from error
    except msgspec.DecodeError as error:
        raise ProblemError(problem("malformed_json", _why_malformed(data))) from error
    except _Doubled as error:
        name = shown(error.args[0])
        sentence = f"The member {name!r} is given twice in one object, and only one of them can count."
        raise ProblemError(problem("invalid_field", sentence, field=name)) from None
    except RecursionError as error:
        raise ProblemError(problem("malformed_json", "The JSON is nested too deeply.")) from error
    return value


def _refusal(data: bytes, said: str, kind: Any) -> Problem:  # noqa: ANN401
    try:
        return explain("invalid_field", said, msgspec.json.decode(data), kind)
    except msgspec.ValidationError:
        return explain("invalid_field", said, None, kind)
    except (msgspec.DecodeError, RecursionError):
        return problem("malformed_json", _why_malformed(data))


_TERSE: Final = (Draft, Batch)
"""Types that are encoded without what has its default."""


def _is_terse(data: bytes, value: Any) -> bool:  # noqa: ANN401
    r"""Say whether the JSON has no more quotation marks than what was read takes: then no member was given twice.

    Every member and every text that was read has its own in the JSON too, so a member too many shows, unless some are
    escaped as `\u0022`. It takes a third of the time of looking at every member, which is still done where this fails.
    """
    return b"\\u" not in data and data.count(b'"') == encode(value).count(b'"')


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) != len(dict(pairs)):
        names = [name for name, _ in pairs]
        raise _Doubled(next(name for name in names if names.count(name) > 1))


# Numbers stay text: neither decoder is asked for their values, and Python refuses to read very long ones.
_plain_decoder: Final = json.JSONDecoder(parse_int=str, parse_float=str)
_pairs_decoder: Final = json.JSONDecoder(object_pairs_hook=_refuse_doubles, parse_int=str, parse_float=str)


def _why_malformed(data: bytes) -> str:
    if not data:
        return "There is no body; send one JSON document."
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return f"The JSON is not UTF-8: byte {error.start} is {data[error.start]:#04x}."
    try:
        value = _plain_decoder.decode(text)
    except json.JSONDecodeError as error:
        return f"The body is no JSON: {error.msg} at line {error.lineno}, column {error.colno}."
    except RecursionError:
        return "The JSON is nested too deeply."
    held = _SURROGATE.search(json.dumps(value, ensure_ascii=False))
    if held is None:
        return "The body is no JSON that can be read: a number or an escape in it stands for nothing."
    return f"The JSON holds a lone surrogate, \\u{ord(held[0]):04x}, which is no character; send the text as UTF-8."
