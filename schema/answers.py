"""What a board answers, as typed values: the shapes that the OpenAPI document shows and that a client decodes.

A member without a default is always there; one with a default is left out where it is empty. A newer board may add
members, so a reader ignores those that it does not know.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from schema.events import AnyEvent, Note
from schema.limits import Settings
from schema.notes import NoteType

ClaimState = Literal["held", "contested", "waiting", "released", "expired"]


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all answers share."""


class Conflict(Answer, frozen=True, kw_only=True):
    """One live claim of another worker in the way, and where the two meet.

    `possible` marks a meeting that cannot be ruled out, such as a symbol and lines of the same file.
    """

    claim: int
    holder: str
    text: str
    scope: tuple[str, ...]
    overlap: tuple[str, ...]
    expires_at: str
    expires_in_s: float = 0
    possible: bool = False


class ClaimReply(Answer, frozen=True, kw_only=True):
    """What became of a CLAIM: `held`, `contested` or `waiting`, until when, and what is in its way."""

    state: ClaimState
    expires_at: str
    conflicts: tuple[Conflict, ...] = ()


class Posted(Answer, frozen=True, kw_only=True):
    """A note that was stored, or that had been (`duplicate`); `related` is what is known about a claim's scope."""

    seq: int
    at: str
    note: Note
    claim: ClaimReply | None = None
    related: tuple[Note, ...] = ()
    duplicate: bool = False


class PostedBatch(Answer, frozen=True, kw_only=True):
    """A batch that was stored whole: the new notes are `first` to `last`, without a hole; None when none was new."""

    first: int | None
    last: int | None
    notes: tuple[Posted, ...]


class Retraction(Answer, frozen=True, kw_only=True):
    """Who took a note back, when, and why."""

    by: str
    at: str
    reason: str = ""


class Ended(Answer, frozen=True, kw_only=True):
    """How and when a claim ended."""

    how: str
    at: str


class NoteView(Note, frozen=True, kw_only=True, tag="note"):
    """A note, with what became of it since."""

    retracted: Retraction | None = None
    superseded_by: int | None = None
    invalidated_by: int | None = None
    ended: Ended | None = None


class NotePage(Answer, frozen=True, kw_only=True):
    """Some notes in the order that was asked for; `next` is where the page after it begins, None at the end.

    The log is kept from `oldest` to `head`.
    """

    notes: tuple[NoteView, ...]
    next: int | None
    head: int
    oldest: int
    epoch: str


class EventPage(Answer, frozen=True, kw_only=True):
    """Some events in the order that was asked for; `next` is where the page after it begins, None at the end.

    The log is kept from `oldest` to `head`.
    """

    events: tuple[AnyEvent, ...]
    next: int | None
    head: int
    oldest: int
    epoch: str


class Waited(Answer, frozen=True, kw_only=True):
    """The first events that match after a position, or none in time; `next` is the position to wait from again."""

    events: tuple[AnyEvent, ...]
    next: int
    head: int
    epoch: str
    timed_out: bool


class SnapshotSection(Answer, frozen=True, kw_only=True):
    """One part of the prompt view, and the seqs that it shows, in order."""

    name: str
    title: str
    seqs: tuple[int, ...]


class CorrectionView(Answer, frozen=True, kw_only=True):
    """What became of a note that is shown: `how` is superseded, invalidated or refuted, `by` another note."""

    seq: int
    how: Literal["superseded", "invalidated", "refuted"]
    by: int
    since: int


class ContradictionView(Answer, frozen=True, kw_only=True):
    """Two notes that say the opposite, the newer first: one refutes the other, or both ran the same command."""

    how: Literal["refutes", "run"]
    notes: tuple[Note, Note]


class SnapshotView(Answer, frozen=True, kw_only=True):
    """The selection behind the prompt view, as structure; `tokens` is what its text counts as."""

    board: str
    worker: str
    epoch: str
    head: int
    budget_tokens: int
    tokens: int
    sections: tuple[SnapshotSection, ...]
    notes: tuple[Note, ...]
    claims: tuple[ClaimView, ...]
    conflicts: tuple[ConflictView, ...]
    corrections: tuple[CorrectionView, ...]
    contradictions: tuple[ContradictionView, ...]
    omitted: Omitted


class Detail(Answer, frozen=True, kw_only=True):
    """The long text of a note."""

    seq: int
    detail: str
    detail_bytes: int


class Retracted(Answer, frozen=True, kw_only=True):
    """The note is taken back, now or before."""

    seq: int
    retracted: bool


class Check(Answer, frozen=True, kw_only=True):
    """What stands in the way of a scope: others' claims, the targets that nobody holds, and what is known about it."""

    scope: tuple[str, ...]
    conflicts: tuple[Conflict, ...]
    free: tuple[str, ...]
    related: tuple[Note, ...]


class ClaimView(Answer, frozen=True, kw_only=True):
    """A claim as it stands; `conflicts` are the seqs of its open conflicts.

    An ended one says when (`ended_at`), with which `outcome` or when its holder was `last_seen`.
    """

    claim: int
    holder: str = ""
    text: str = ""
    scope: tuple[str, ...] = ()
    task: str = ""
    state: ClaimState
    at: str = ""
    expires_at: str = ""
    expires_in_s: float | None = None
    ttl_s: int | None = None
    conflicts: tuple[int, ...] = ()
    outcome: str = ""
    ended_at: str = ""
    last_seen: str = ""


class ClaimPage(Answer, frozen=True, kw_only=True):
    """Some claims; `next` is where the page after it begins, None at the end."""

    claims: tuple[ClaimView, ...]
    next: int | None


class ConflictView(Answer, frozen=True, kw_only=True):
    """Two claims of different holders that meet, the earlier first; `how` says how a closed one ended."""

    conflict: int
    claims: tuple[int, int]
    holders: tuple[str, str]
    overlap: tuple[str, ...]
    state: Literal["open", "closed"]
    at: str
    closed_at: str = ""
    how: str = ""


class ConflictPage(Answer, frozen=True, kw_only=True):
    """Some conflicts; `next` is where the page after it begins, None at the end."""

    conflicts: tuple[ConflictView, ...]
    next: int | None


class Omitted(Answer, frozen=True, kw_only=True):
    """What was left out, by type of note or kind of event; more than that where `at_least` is set.

    `too_large` are the seqs of those that are larger than the whole budget: read each by its seq.
    """

    total: int
    by_type: dict[str, int]
    at_least: bool = False
    too_large: tuple[int, ...] = ()


class Unread(Answer, frozen=True, kw_only=True):
    """What the calling worker has not acknowledged, most relevant first: notes, and events that concern it.

    `urgent` counts those that should not wait, shown or not; `through` acknowledges all that there was.
    """

    notes: tuple[AnyEvent, ...]
    omitted: Omitted
    urgent: int
    through: int
    head: int
    epoch: str


class Acked(Answer, frozen=True, kw_only=True):
    """What the calling worker has acknowledged now: everything up to `through`, and `seqs` beyond it."""

    through: int
    seqs: tuple[int, ...]
    head: int


class WorkerView(Answer, frozen=True, kw_only=True):
    """One worker of a board: when it was seen, its open streams, its claims, and how much it has not read.

    `claims` are held and `waiting` wait, by seq; `unread` counts what `GET …/unread` would give, or a
    part of it where `unread_at_least` is set.
    """

    worker: str
    first_seen: str
    last_seen: str
    sockets: int
    claims: tuple[int, ...]
    waiting: tuple[int, ...]
    unread: int
    unread_at_least: bool = False
    root: str = ""


class Workers(Answer, frozen=True, kw_only=True):
    """Who was seen on a board."""

    workers: tuple[WorkerView, ...]
    head: int


class Registered(Answer, frozen=True, kw_only=True):
    """The root that is stripped from a worker's absolute paths."""

    worker: str
    root: str


class BoardView(Answer, frozen=True, kw_only=True):
    """A board: its log's epoch, head and oldest event, its settings, and what it holds now.

    `counts` are notes by type, `events` all events by type or kind, `state_hash` proves the folded state.
    """

    board: str
    epoch: str
    head: int
    oldest: int
    settings: Settings
    counts: dict[NoteType, int]
    events: dict[str, int]
    live_claims: int
    waiting_claims: int
    open_conflicts: int
    state_hash: str


class Boards(Answer, frozen=True, kw_only=True):
    """The boards that the caller may see."""

    boards: tuple[BoardView, ...]


class TokenView(Answer, frozen=True, kw_only=True):
    """A token without its secret; times are absent for never, `board` is None for all boards."""

    id: str
    role: Literal["reader", "worker", "admin"]
    worker: str
    board: str | None
    created_at: str
    expires_at: str = ""
    revoked_at: str = ""


class NewToken(TokenView, frozen=True, kw_only=True):
    """A token that was just made, with its secret: the only time that it is shown."""

    token: str


class Tokens(Answer, frozen=True, kw_only=True):
    """All tokens of a server."""

    tokens: tuple[TokenView, ...]


class Revoked(Answer, frozen=True, kw_only=True):
    """The ids of the tokens that a call revoked."""

    revoked: tuple[str, ...]


class Ticket(Answer, frozen=True, kw_only=True):
    """A one-use credential for a stream that cannot send headers."""

    ticket: str
    expires_at: str


class Imported(Answer, frozen=True, kw_only=True):
    """A log that was read in: its head, and the hash of the state that it folds to."""

    head: int
    state_hash: str


class Status(Answer, frozen=True, kw_only=True):
    """How the server is."""

    status: Literal["alive", "ready"]


class ExportHeader(Answer, frozen=True, kw_only=True):
    """The first line of an export. `state_hash` is that of the whole log, and None where the export is a part of it.

    Where the log's beginning is no longer kept, `base` is the state that everything up to `after` folds to.
    """

    board: str
    epoch: str
    head: int
    after: int
    schema_version: int
    settings: Settings
    state_hash: str | None
    base: dict[str, Any] | None = None


class ExportedNote(Note, frozen=True, kw_only=True, tag="note"):
    """A note of an export, with what the log keeps beside it."""

    detail: str = ""
    key: str = ""
    key_digest: str = ""


class ProblemDocument(Answer, frozen=True, kw_only=True):
    """A refusal (RFC 9457). Beside these members stand more facts, such as conflicts or near matches.

    `code` is API, the sentences are not. `field` and `value` are what was wrong, `limit` and `unit` what it ran into.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str = ""
    request_id: str = ""
    code: str
    action: str
    field: str = ""
    value: Any = None
    limit: float | None = None
    unit: str = ""
