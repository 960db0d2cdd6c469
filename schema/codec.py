"""Bytes to values and back: JSON through msgspec, encoders and decoders made once; times to text and back."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from schema.events import AnyEvent
from schema.notes import Batch, Draft

_encoder: Final = msgspec.json.Encoder()
_draft_decoder: Final = msgspec.json.Decoder(Draft)
_batch_decoder: Final = msgspec.json.Decoder(Batch)
_event_decoder: Final = msgspec.json.Decoder(AnyEvent)

encode: Final = _encoder.encode
"""Any value of the schema to JSON bytes, UTF-8, without blanks."""

decode_draft: Final = _draft_decoder.decode
"""JSON to a draft. Raises msgspec.ValidationError (wrong shape) or msgspec.DecodeError (no JSON)."""

decode_batch: Final = _batch_decoder.decode
"""JSON to a batch of drafts. Raises as `decode_draft`."""

decode_event: Final = _event_decoder.decode
"""One line of the log to its event. Raises msgspec.ValidationError on a kind that this version does not know."""


def decode_any(data: bytes | str) -> Any:  # noqa: ANN401 -- JSON of a shape that the caller checks
    """JSON to plain values. Raises msgspec.DecodeError."""
    return msgspec.json.decode(data)


@lru_cache(maxsize=64)
def text_of_us(at_us: int) -> str:
    """Microseconds since 1970 to RFC 3339, UTC, always six digits: `2026-12-01T10:00:00.123456Z`."""
    seconds, micros = divmod(at_us, 1_000_000)
    return f"{_text_of_s(seconds)}.{micros:06d}Z"


@lru_cache(maxsize=64)
def _text_of_s(at_s: int) -> str:
    # Formatting costs 3.5 µs and happens for every event; events come many to a second.
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M:%S}"


def us_of_text(text: str) -> int:
    """RFC 3339 to microseconds since 1970. Raises ValueError on anything else, or on a time without a zone."""
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        msg = f"{text!r} has no time zone"
        raise ValueError(msg)
    since = when - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def with_fields(body: bytes, fields: dict[str, Any]) -> bytes:
    """Add members to an encoded JSON object without decoding it; the object must not be empty."""
    return body[:-1] + b"," + encode(fields)[1:] if fields else body
