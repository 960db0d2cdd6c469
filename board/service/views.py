"""What callers are shown: the log and the state put into the shapes of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from board.core import claims
from board.core.scope import overlap
from board.core.selection import Filter
from schema.codec import decode_event, text_of_us, with_fields
from schema.events import (
    ClaimExpired,
    ClaimNarrowed,
    ClaimReleased,
    ClaimTransferred,
    ConflictClosed,
    ConflictOpened,
    NoteRetracted,
    PatchInvalidated,
    PatchSuperseded,
)
from schema.notes import NOTE_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from board.core.scope import Target
    from board.core.snapshot import Snapshot
    from board.service import questions
    from board.service.boards import OpenBoard
    from board.store.contract import FullRow, Row, Store, TokenRow

__all__ = ["text_of_us"]


class _At(msgspec.Struct):
    at: str


class ClaimNote(msgspec.Struct):
    """The part of a CLAIM note that listings show."""

    seq: int
    at: str
    author: str
    text: str
    scope: tuple[str, ...]
    expires_at: str = ""
    task: str = ""


_at_decoder: Final = msgspec.json.Decoder(_At)
_claim_decoder: Final = msgspec.json.Decoder(ClaimNote)


def at_of(body: bytes) -> str:
    """The time of an encoded event."""
    return _at_decoder.decode(body).at


def ending_of(history: Sequence[Row]) -> dict[str, Any]:
    """How and when a claim ended, told by the events about it; empty while it has not."""
    for row in reversed(history):
        event = decode_event(row.body)
        if isinstance(event, ClaimExpired):
            last = {"last_seen": event.last_seen} if event.last_seen else {}
            return {
                "state": "expired",
                "holder": event.holder,
                "expires_at": event.expires_at,
                "ended_at": event.at,
                **last,
            }
        if isinstance(event, ClaimReleased):
            facts = {"outcome": event.outcome, "ended_at": event.at}
            return {"state": "released", "holder": event.holder, **facts}
    return {}


async def with_marks(store: Store, board: str, rows: Sequence[Row]) -> list[bytes]:
    """Give encoded notes with what became of them: `retracted`, `superseded_by`, `invalidated_by`, a claim's state."""
    markable = [row.seq for row in rows]
    marks: dict[int, dict[str, Any]] = {}
    for about in await store.about(board, markable) if markable else ():
        for seq, fields in _marks_of(decode_event(about.body)):
            marks.setdefault(seq, {}).update(fields)
    return [with_fields(row.body, marks.get(row.seq, {})) for row in rows]


def _marks_of(event: Any) -> list[tuple[int, dict[str, Any]]]:  # noqa: ANN401 -- any event
    match event:
        case NoteRetracted():
            why = {"reason": event.reason} if event.reason else {}
            return [(event.note, {"retracted": {"by": event.author, "at": event.at, **why}})]
        case PatchSuperseded():
            return [(event.note, {"superseded_by": event.by})]
        case PatchInvalidated():
            return [(event.note, {"invalidated_by": event.by})]
        case ClaimReleased():
            return [(event.claim, {"ended": {"how": event.outcome, "at": event.at}})]
        case ClaimExpired():
            return [(event.claim, {"ended": {"how": "expired", "at": event.at}})]
        case _:
            return []


class ClaimsView:
    """The claims of one board, live ones from the state and ended ones from the log."""

    def __init__(self, board: OpenBoard, store: Store, now_us: int) -> None:
        self._board = board
        self._store = store
        self._now_us = now_us

    async def page(self, query: questions.ClaimsQuery, targets: Sequence[Target]) -> dict[str, Any]:
        """Claims by seq, after `after`; `next` continues where there are more."""
        if query.state in ("live", "waiting"):
            entries = self._leases(query, targets)
            return _cut(entries, query.limit)
        return await self._from_log(query, targets)

    def _leases(self, query: questions.ClaimsQuery, targets: Sequence[Target]) -> list[dict[str, Any]]:
        state = self._board.state
        wanted = "held" if query.state == "live" else "waiting"
        index = state.held if wanted == "held" else state.waiting
        chosen = sorted(index.overlapping(targets)) if targets else sorted(state.leases)
        return [
            claims.claim_entry(state, lease, self._now_us)
            for claim in chosen
            if (lease := state.leases[claim]).state == wanted
            and claim > query.after
            and query.holder in ("", lease.holder)
        ]

    async def _from_log(self, query: questions.ClaimsQuery, targets: Sequence[Target]) -> dict[str, Any]:
        entries: list[dict[str, Any]] = []
        after, more = query.after, True
        where = Filter(types=("CLAIM",), notes_only=True)
        while more and len(entries) <= query.limit:
            rows, more = await self._store.page(self._board.name, after=after, limit=500, where=where)
            after = rows[-1].seq if rows else after
            entries += await self._entries(query, targets, rows)
        return _cut(entries, query.limit)

    async def _entries(
        self, query: questions.ClaimsQuery, targets: Sequence[Target], rows: Sequence[Row]
    ) -> list[dict[str, Any]]:
        history: dict[int, list[Row]] = {}
        for about in await self._store.about(self._board.name, [row.seq for row in rows]):
            event = decode_event(about.body)
            if isinstance(event, (ClaimReleased, ClaimExpired, ClaimTransferred, ClaimNarrowed)):
                history.setdefault(event.claim, []).append(about)
        made = [self._entry(query, row, history.get(row.seq, [])) for row in rows]
        return [one for one in made if one and self._kept(query, targets, one)]

    def _entry(self, query: questions.ClaimsQuery, row: Row, history: list[Row]) -> dict[str, Any] | None:
        lease = self._board.state.leases.get(row.seq)
        if lease is not None:
            return claims.claim_entry(self._board.state, lease, self._now_us) if query.state == "all" else None
        ending = ending_of(history)
        if not ending:
            return None  # it ends in an event that this page was read before
        note = _claim_decoder.decode(row.body)
        entry: dict[str, Any] = {
            "claim": note.seq,
            "holder": note.author,
            "text": note.text,
            "scope": _last_scope(note.scope, history),
            "at": note.at,
            "expires_at": note.expires_at,
            **ending,
        }
        return entry | ({"task": note.task} if note.task else {})

    def _kept(self, query: questions.ClaimsQuery, targets: Sequence[Target], entry: dict[str, Any]) -> bool:
        if query.holder not in ("", entry["holder"]):
            return False
        spell = self._board.spell
        return not targets or any(overlap(spell(text), target) for text in entry["scope"] for target in targets)


def _last_scope(scope: tuple[str, ...], history: Sequence[Row]) -> tuple[str, ...]:
    for row in reversed(history):
        if row.kind == "claim.narrowed":
            event = decode_event(row.body)
            assert isinstance(event, ClaimNarrowed)
            return event.scope
    return scope


def _cut(entries: list[dict[str, Any]], limit: int) -> dict[str, Any]:
    page = entries[:limit]
    return {"claims": page, "next": page[-1]["claim"] if len(entries) > limit else None}


async def conflicts(board: OpenBoard, store: Store, query: questions.ConflictsQuery) -> dict[str, Any]:
    """Conflicts by seq: the open ones from the state, the closed ones from the log."""
    if query.state == "open":
        state = board.state
        found = [_open_conflict(one) for seq, one in sorted(state.conflicts.items()) if seq > query.after]
        more = len(found) > query.limit
        return {"conflicts": found[: query.limit], "next": found[query.limit - 1]["conflict"] if more else None}
    where = Filter(types=("conflict.opened",))
    rows, more = await store.page(board.name, after=query.after, limit=query.limit, where=where)
    closed = await _closed_by_conflict(store, board.name, rows)
    made = [_logged_conflict(decode_event(row.body), closed.get(row.seq)) for row in rows]
    kept = [one for one in made if query.state == "all" or one["state"] == "closed"]
    return {"conflicts": kept, "next": rows[-1].seq if more else None}


def _open_conflict(conflict: Any) -> dict[str, Any]:  # noqa: ANN401 -- board.core.state.Conflict
    return {
        "conflict": conflict.seq,
        "claims": conflict.claims,
        "holders": conflict.holders,
        "overlap": conflict.overlap,
        "state": "open",
        "at": text_of_us(conflict.at_us),
    }


async def _closed_by_conflict(store: Store, board: str, rows: Sequence[Row]) -> dict[int, ConflictClosed]:
    claim_seqs: set[int] = set()
    for row in rows:
        event = decode_event(row.body)
        assert isinstance(event, ConflictOpened)
        claim_seqs |= set(event.claims)
    events = [decode_event(row.body) for row in await store.about(board, claim_seqs)] if claim_seqs else []
    return {event.conflict: event for event in events if isinstance(event, ConflictClosed)}


def _logged_conflict(opened: Any, closed: ConflictClosed | None) -> dict[str, Any]:  # noqa: ANN401 -- ConflictOpened
    entry: dict[str, Any] = {
        "conflict": opened.seq,
        "claims": opened.claims,
        "holders": opened.holders,
        "overlap": opened.overlap,
        "state": "open" if closed is None else "closed",
        "at": opened.at,
    }
    return entry if closed is None else entry | {"closed_at": closed.at, "how": closed.how}


def board_body(board: OpenBoard) -> dict[str, Any]:
    """A board as `GET /v1/boards/{board}` shows it."""
    state = board.state
    return {
        "board": board.name,
        "epoch": board.row.epoch,
        "head": state.seq,
        "oldest": board.row.oldest,
        "settings": board.row.settings,
        "counts": {type_: state.counts.get(type_, 0) for type_ in NOTE_TYPES},
        "events": dict(sorted(state.counts.items())),
        "live_claims": sum(lease.state == "held" for lease in state.leases.values()),
        "waiting_claims": sum(lease.state == "waiting" for lease in state.leases.values()),
        "open_conflicts": len(state.conflicts),
        "state_hash": state.state_hash(),
    }


def export_line(row: FullRow) -> bytes:
    """One event of an export, with the long text and the key that the log keeps beside it."""
    beside: dict[str, Any] = {"detail": row.detail} if row.detail else {}
    if row.key:
        beside |= {"key": row.key, "key_digest": row.digest.hex()}
    return with_fields(row.body, beside) + b"\n"


def snapshot(board: OpenBoard, view: Snapshot, worker: str, budget_tokens: int) -> dict[str, Any]:
    """The selection behind the prompt view."""
    state = board.state
    return {
        "board": board.name,
        "worker": worker,
        "epoch": board.row.epoch,
        "head": view.head,
        "budget_tokens": budget_tokens,
        "tokens": view.tokens,
        "sections": [{"name": one.name, "title": one.title, "seqs": one.seqs} for one in view.sections],
        "notes": view.notes,
        "claims": [_unclocked(claims.claim_entry(state, state.leases[claim], 0)) for claim in view.claims],
        "conflicts": [_open_conflict(state.conflicts[seq]) for seq in view.conflicts],
        "corrections": view.corrections,
        "contradictions": [{"how": one.how, "notes": [one.newer, one.older]} for one in view.contradictions],
        "omitted": counted(view.omitted, exact=not view.at_least),
    }


def _unclocked(entry: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is counted from now: the same log must give the same bytes."""
    del entry["expires_in_s"]
    return entry


def counted(counts: Mapping[str, int], *, exact: bool, too_large: Sequence[int] = ()) -> dict[str, Any]:
    """What was left out of an answer, by type."""
    told: dict[str, Any] = {"total": sum(counts.values()), "by_type": counts}
    if not exact:
        told["at_least"] = True
    return told | ({"too_large": too_large} if too_large else {})


def workers(board: OpenBoard, unread: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Everyone ever seen on the board, by name; `unread` is what is told of each one's unread notes."""
    state = board.state
    return {
        "workers": [
            {
                "worker": worker.name,
                "first_seen": text_of_us(worker.first_seen_us),
                "last_seen": text_of_us(worker.last_seen_us),
                "sockets": board.presence.sockets_of(worker.name),
                "claims": [lease.claim for lease in state.leases_of(worker.name) if lease.state == "held"],
                "waiting": [lease.claim for lease in state.leases_of(worker.name) if lease.state == "waiting"],
                **unread.get(worker.name, {}),
                **({"root": worker.root} if worker.root else {}),
            }
            for worker in board.presence.workers()
        ],
        "head": state.seq,
    }


def token_body(row: TokenRow) -> dict[str, Any]:
    """A token as listings show it: everything but the token and its hash."""
    times = {"expires_at": row.expires_us, "revoked_at": row.revoked_us}
    body: dict[str, Any] = {
        "id": row.id,
        "role": row.role,
        "worker": row.worker,
        "board": row.board or None,
        "created_at": text_of_us(row.created_us),
    }
    return body | {name: text_of_us(at_us) for name, at_us in times.items() if at_us}
