"""What a board answers, as typed values. Fields that a newer board adds are ignored; absent ones are empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from schema.codec import decode_event
from schema.events import EVENT_KINDS, AnyEvent, Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schema.codes import Problem


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all answers share: they are values, and read what they know of a larger object."""


class Conflict(Answer, frozen=True, kw_only=True):
    """One live claim of another worker in the way, and where the two meet.

    `possible` marks a meeting that cannot be ruled out, such as a symbol and lines of the same file.
    """

    claim: int
    holder: str
    text: str = ""
    scope: tuple[str, ...] = ()
    overlap: tuple[str, ...] = ()
    expires_at: str = ""
    possible: bool = False


class ClaimReply(Answer, frozen=True, kw_only=True):
    """What became of a CLAIM: `held`, `contested` or `waiting`; `expires_at` is empty while it waits."""

    state: str
    expires_at: str = ""
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

    first: int | None = None
    last: int | None = None
    notes: tuple[Posted, ...] = ()


class NotePage(Answer, frozen=True, kw_only=True):
    """Some notes in the order that was asked for; `next` is where the page after it begins, None at the end.

    The log is kept from `oldest` to `head`.
    """

    notes: tuple[Note, ...] = ()
    next: int | None = None
    head: int = 0
    oldest: int = 1
    epoch: str = ""


class EventPage(Answer, frozen=True, kw_only=True):
    """Some events in seq order, without those of kinds that this version does not know."""

    events: tuple[AnyEvent, ...] = ()
    next: int | None = None
    head: int = 0
    oldest: int = 1
    epoch: str = ""


class RawEventPage(Answer, frozen=True, kw_only=True):
    """A page of events as they came, each still encoded."""

    events: tuple[msgspec.Raw, ...] = ()
    next: int | None = None
    head: int = 0
    oldest: int = 1
    epoch: str = ""

    def known(self) -> EventPage:
        """Decode the events whose kind is known."""
        events = tuple(known_events(self.events))
        return EventPage(events=events, next=self.next, head=self.head, oldest=self.oldest, epoch=self.epoch)


class Check(Answer, frozen=True, kw_only=True):
    """What stands in the way of a scope: others' claims, the targets that nobody holds, and what is known about it."""

    conflicts: tuple[Conflict, ...] = ()
    free: tuple[str, ...] = ()
    related: tuple[Note, ...] = ()


class ClaimView(Answer, frozen=True, kw_only=True):
    """A claim as it stands: `state` is `held`, `contested`, `waiting`, `released` or `expired`.

    `conflicts` are the claims that dispute it, by seq. `outcome` and `ended_at` tell how and when it ended.
    """

    claim: int
    holder: str = ""
    text: str = ""
    scope: tuple[str, ...] = ()
    task: str = ""
    state: str = ""
    at: str = ""
    expires_at: str = ""
    conflicts: tuple[int, ...] = ()
    outcome: str = ""
    ended_at: str = ""


class ClaimPage(Answer, frozen=True, kw_only=True):
    """Some claims; `next` is where the page after it begins, None at the end."""

    claims: tuple[ClaimView, ...] = ()
    next: int | None = None


class ConflictView(Answer, frozen=True, kw_only=True):
    """Two claims of different holders that meet, the earlier first; `how` says how a closed one ended."""

    conflict: int
    claims: tuple[int, ...] = ()
    holders: tuple[str, ...] = ()
    overlap: tuple[str, ...] = ()
    state: str = ""
    at: str = ""
    closed_at: str = ""
    how: str = ""


class ConflictPage(Answer, frozen=True, kw_only=True):
    """Some conflicts; `next` is where the page after it begins, None at the end."""

    conflicts: tuple[ConflictView, ...] = ()
    next: int | None = None


class Omitted(Answer, frozen=True, kw_only=True):
    """What is unread and was left out: how much, by type of note or kind of event, and what no budget can hold.

    `at_least` says that there is more than was counted; `too_large` names single notes over the whole budget.
    """

    total: int = 0
    by_type: dict[str, int] = {}
    at_least: bool = False
    too_large: tuple[int, ...] = ()


class Unread(Answer, frozen=True, kw_only=True):
    """What the calling worker has not acknowledged, most relevant first.

    Beside notes these are events that concern it, such as the expiry of its claim. `through` acknowledges all of it,
    shown or not; `urgent` counts what is addressed to it or touches its claims.
    """

    notes: tuple[AnyEvent, ...] = ()
    omitted: Omitted = Omitted()
    urgent: int = 0
    through: int = 0
    head: int = 0
    epoch: str = ""


class RawUnread(Answer, frozen=True, kw_only=True):
    """What is unread as it came, each note and event still encoded."""

    notes: tuple[msgspec.Raw, ...] = ()
    omitted: Omitted = Omitted()
    urgent: int = 0
    through: int = 0
    head: int = 0
    epoch: str = ""

    def known(self) -> Unread:
        """Decode what is of a known kind."""
        said = {name: getattr(self, name) for name in self.__struct_fields__ if name != "notes"}
        return Unread(notes=tuple(known_events(self.notes)), **said)


class Acked(Answer, frozen=True, kw_only=True):
    """What the calling worker has acknowledged now: everything up to `through`, and `seqs` beyond it."""

    through: int = 0
    seqs: tuple[int, ...] = ()


class WorkerView(Answer, frozen=True, kw_only=True):
    """One worker of a board: when it was last seen, its open streams, its claims, and how much it has not read.

    `claims` are held and `waiting` wait, by seq; `unread` counts notes, and is None where the board did not count.
    """

    worker: str
    root: str = ""
    last_seen: str = ""
    sockets: int = 0
    claims: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    unread: int | None = None


class Workers(Answer, frozen=True, kw_only=True):
    """Who was seen on a board."""

    workers: tuple[WorkerView, ...] = ()


class BoardView(Answer, frozen=True, kw_only=True):
    """A board: the epoch of its log, its head, its settings by name, and how many notes of each type it holds."""

    board: str
    epoch: str = ""
    head: int = 0
    oldest: int = 1
    settings: dict[str, Any] = {}
    counts: dict[str, int] = {}
    state_hash: str = ""


class Boards(Answer, frozen=True, kw_only=True):
    """The boards that the caller may see."""

    boards: tuple[BoardView, ...] = ()


class TokenView(Answer, frozen=True, kw_only=True):
    """A token without its secret; times are empty for never, `board` is None for all boards."""

    id: str
    role: str = ""
    worker: str = ""
    board: str | None = None
    created_at: str = ""
    expires_at: str = ""
    revoked_at: str = ""


class NewToken(TokenView, frozen=True, kw_only=True):
    """A token that was just made, with its secret: the only time that it is shown."""

    token: str


class Tokens(Answer, frozen=True, kw_only=True):
    """All tokens of a server."""

    tokens: tuple[TokenView, ...] = ()


class Revoked(Answer, frozen=True, kw_only=True):
    """The ids of the tokens that a call revoked."""

    revoked: tuple[str, ...] = ()


class Ticket(Answer, frozen=True, kw_only=True):
    """A one-use credential for a stream that cannot send headers."""

    ticket: str
    expires_at: str = ""


class Imported(Answer, frozen=True, kw_only=True):
    """A log that was read in: its head, and the hash of the state that it folds to."""

    head: int
    state_hash: str = ""


class Detail(Answer, frozen=True, kw_only=True):
    """The long text of a note."""

    detail: str = ""


class EventHead(Answer, frozen=True, kw_only=True):
    """What every event has, of a known kind or not."""

    seq: int
    kind: str = ""


_head_decoder: Final = msgspec.json.Decoder(EventHead)


def known_events(raws: Iterable[msgspec.Raw]) -> Iterator[AnyEvent]:
    """Decode the events whose kind this version knows, and skip the others."""
    for raw in raws:
        event = known_event(raw)
        if event is not None:
            yield event


def known_event(raw: msgspec.Raw | bytes) -> AnyEvent | None:
    """Decode one event; None where its kind is not known to this version.

    Raises msgspec.ValidationError for one of a known kind that does not have that kind's shape.
    """
    try:
        return decode_event(raw)
    except msgspec.ValidationError:
        if _head_decoder.decode(raw).kind in EVENT_KINDS:
            raise
        return None


def conflicts_of(refused: Problem) -> tuple[Conflict, ...]:
    """Give the claims that a refusal names, none where it names none."""
    return msgspec.convert(refused.facts.get("conflicts", ()), tuple[Conflict, ...])


def free_of(refused: Problem) -> tuple[str, ...]:
    """Give the targets that a refused claim asked for and that nobody holds."""
    return msgspec.convert(refused.facts.get("free", ()), tuple[str, ...])
