"""What travels over the stream: one JSON object a text frame, told apart by `op`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from schema.events import AnyEvent, EventType
from schema.limits import ACKED_AT_ONCE
from schema.notes import Draft, NoteSeq


class ClientOp(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", forbid_unknown_fields=True):
    """What a client sends. With an `id` the server answers it with a `reply` of the same."""

    id: str | int | None = None


class PostOp(ClientOp, frozen=True, kw_only=True, tag="post"):
    """Store a note; always answered. It is decoded apart, so that what is wrong with it can be answered."""

    note: msgspec.Raw


class PostedDraft(ClientOp, frozen=True, kw_only=True, tag="post"):
    """Store a note; always answered, as `POST …/notes` answers."""

    note: Draft


class AckOp(ClientOp, frozen=True, kw_only=True, tag="ack"):
    """Acknowledge just `seqs`, or everything up to `through`."""

    seqs: Annotated[tuple[NoteSeq, ...], msgspec.Meta(max_length=ACKED_AT_ONCE)] = ()
    through: NoteSeq | None = None


class FilterOp(ClientOp, frozen=True, kw_only=True, tag="filter"):
    """Replace the filter, from the next event on."""

    type: tuple[EventType, ...] = ()
    scope: tuple[str, ...] = ()
    author: Annotated[str, msgspec.Meta(max_length=512)] = ""
    to: Annotated[str, msgspec.Meta(max_length=512)] = ""


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="hello"):
    """The first thing on a stream: what it reads, how far the log goes, and after which seq it begins."""

    board: str
    epoch: str
    head: int
    after: int


class Events(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="events"):
    """One event or more, in seq order, each once, no hole among those that the filter keeps."""

    events: tuple[AnyEvent, ...]


class Live(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="live"):
    """History up to `seq` has been sent; what follows is live."""

    seq: int


class ReplyOp(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="reply"):
    """The answer to an op, as HTTP would have given it: status and body."""

    id: str | int | None
    status: int
    body: Any
