"""The fold: how each event moves the state. Replaying the log from 1 gives the live state, at every seq.

Nothing here asks a clock or decides: what happened is in the event, and `apply` only writes it down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from xxhash import xxh3_128_digest

from board.core.history import Record
from board.core.state import US, Conflict, Lease, State
from schema.codec import encode, us_of_text
from schema.events import (
    AnyEvent,
    ClaimExpired,
    ClaimGranted,
    ClaimNarrowed,
    ClaimReleased,
    ClaimRenewed,
    ClaimTransferred,
    ConflictClosed,
    ConflictOpened,
    Note,
    NoteRetracted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SAME_TEXT_TYPES: Final = frozenset(("FACT", "FAIL"))


class BrokenLog(ValueError):
    """The log cannot be folded: a hole, a double, or an event that the state does not allow. Names the seq."""


def record_of(event: AnyEvent) -> Record:
    """Make the record of an event that was read back from the log."""
    return Record(event, us_of_text(event.at), encode(event))


def apply(state: State, record: Record) -> None:
    """Move the state by one event.

    Within one batch the notes come before what followed from them, so `seq` only ever grows to the highest seen.
    Raises BrokenLog where an event is about a claim or conflict that is not open.
    """
    event = record.event
    if event.seq > state.seq:  # noqa: PLR1730 -- max() takes three times as long, for every event
        state.seq = event.seq
    if record.at_us > state.at_us:  # noqa: PLR1730
        state.at_us = record.at_us
    if type(event) is Note:
        state.counts[event.type] = state.counts.get(event.type, 0) + 1
        _note(state, event, record)
    else:
        kind = _KINDS[type(event)]
        state.counts[kind] = state.counts.get(kind, 0) + 1
        _move(state, event, record)


def _move(state: State, event: AnyEvent, record: Record) -> None:
    move = _MOVES.get(type(event))
    if move is None:
        return
    try:
        move(state, event, record)
    except KeyError as error:
        msg = f"event {event.seq} ({_KINDS[type(event)]}) is about {error}, which is not open"
        raise BrokenLog(msg) from error


def same_text_digest(body: bytes) -> bytes:
    """Give what an identical FACT or FAIL of the same author shares: all but seq and time.

    `body` is an encoded note; its first members are kind, seq and at, in that order, and then the author. The hash is a
    fast one that can be forged (XXH3): who would forge it could only have notes of its own taken for repeated ones.
    """
    return xxh3_128_digest(body[body.index(b'"author"') :])


def _note(state: State, event: Note, record: Record) -> None:
    if event.type in SAME_TEXT_TYPES:
        state.texts.add(record.same_text or same_text_digest(record.body), event.seq, record.at_us)
    elif event.type == "CLAIM":
        _claim(state, event, record.at_us)


def _claim(state: State, event: Note, at_us: int) -> None:
    assert event.ttl_s is not None
    state.put_lease(
        Lease(
            claim=event.seq,
            holder=event.author,
            text=event.text,
            scope=event.scope,
            task=event.task,
            state="waiting" if event.state == "waiting" else "held",
            at_us=at_us,
            since_us=at_us,
            ttl_s=event.ttl_s,
            renewed_us=at_us,
            expires_us=us_of_text(event.expires_at),
        )
    )


def _granted(state: State, event: ClaimGranted, record: Record) -> None:
    lease = state.leases[event.claim]
    now_us, expires_us = record.at_us, us_of_text(event.expires_at)
    held = msgspec.structs.replace(lease, state="held", since_us=now_us, renewed_us=now_us, expires_us=expires_us)
    state.put_lease(held)


def _renewed(state: State, event: ClaimRenewed, record: Record) -> None:
    # A renewal that is made up for when the lease was due counts from when the holder called, not from then: it would
    # be renewed from itself again and again, and outlive a dead holder.
    lease, expires_us = state.leases[event.claim], us_of_text(event.expires_at)
    called_us = min(record.at_us, expires_us - lease.ttl_s * US)
    state.extend_lease(lease, renewed_us=called_us, expires_us=expires_us)


def _narrowed(state: State, event: ClaimNarrowed, _record: Record) -> None:
    state.put_lease(msgspec.structs.replace(state.leases[event.claim], scope=event.scope))


def _ended(state: State, event: ClaimReleased | ClaimExpired, _record: Record) -> None:
    if state.drop_lease(event.claim) is None:
        raise KeyError(event.claim)


def _transferred(state: State, event: ClaimTransferred, _record: Record) -> None:
    state.put_lease(msgspec.structs.replace(state.leases[event.claim], holder=event.holder))
    for conflict in state.conflicts_about(event.claim):
        first, second = (state.leases[claim].holder for claim in conflict.claims)
        state.put_conflict(msgspec.structs.replace(conflict, holders=(first, second)))


def _opened(state: State, event: ConflictOpened, record: Record) -> None:
    state.put_conflict(Conflict(event.seq, event.claims, event.holders, event.overlap, record.at_us))


def _closed(state: State, event: ConflictClosed, _record: Record) -> None:
    state.drop_conflict(event.conflict)


def _retracted(state: State, event: NoteRetracted, _record: Record) -> None:
    state.texts.drop(event.note)


_MOVES: Final[Mapping[type, Callable[[State, Any, Record], None]]] = {
    ClaimGranted: _granted,
    ClaimRenewed: _renewed,
    ClaimNarrowed: _narrowed,
    ClaimReleased: _ended,
    ClaimExpired: _ended,
    ClaimTransferred: _transferred,
    ConflictOpened: _opened,
    ConflictClosed: _closed,
    NoteRetracted: _retracted,
}
_KINDS: Final[Mapping[type, str]] = {kind: str(kind.__struct_config__.tag) for kind in AnyEvent.__args__}

TRANSITIONS: Final[Mapping[tuple[Literal["held", "waiting"], type], Literal["held", "waiting", "ended"]]] = {
    ("held", ClaimRenewed): "held",
    ("held", ClaimNarrowed): "held",
    ("held", ClaimTransferred): "held",
    ("held", ClaimReleased): "ended",
    ("held", ClaimExpired): "ended",
    ("waiting", ClaimGranted): "held",
    ("waiting", ClaimRenewed): "waiting",
    ("waiting", ClaimNarrowed): "waiting",
    ("waiting", ClaimTransferred): "waiting",
    ("waiting", ClaimReleased): "ended",
    ("waiting", ClaimExpired): "ended",
}
"""The life of a claim: what each event makes of it. A pair that is not here is a broken log (`claim.refused` and
`claim.queued` are about claims but move none)."""


def replay(state: State, records: Sequence[Record]) -> None:
    """Fold records that follow the state without a hole. Raises BrokenLog at the first that does not."""
    for record in records:
        if record.seq != state.seq + 1:
            msg = f"event {record.seq} follows {state.seq}: the log has a hole or a double"
            raise BrokenLog(msg)
        check_transition(state, record.event)
        apply(state, record)


def check_transition(state: State, event: AnyEvent) -> None:
    """Raise BrokenLog where the event is none that the claim it is about may see in its state."""
    if type(event) in _CLAIM_MOVES:
        lease = state.leases.get(event.claim)  # type: ignore[union-attr] -- all of _CLAIM_MOVES have a claim
        if lease is None or (lease.state, type(event)) not in TRANSITIONS:
            msg = f"event {event.seq} moves a claim that is {'ended' if lease is None else lease.state}"
            raise BrokenLog(msg)


_CLAIM_MOVES: Final = frozenset(kind for _, kind in TRANSITIONS)
