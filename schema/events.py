"""What the log holds: one event a line, told apart by `kind`.

Events are facts, in the past tense, and never change. A reader skips a kind that it does not know.
Every event but `note` says what it is about (`about`): a claim, a pair of claims, or a note.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from schema.notes import NoteType, OnConflict, Ref, Run

BOARD_AUTHOR: Final = "board"
"""The author of what nobody did: an expiry, a grant, a conflict."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", gc=False):
    """One line of the log: `seq` is 1, 2, 3 … per board, `at` is the server's time (RFC 3339, UTC, microseconds)."""

    seq: int
    at: str
    author: str


class Note(Event, frozen=True, kw_only=True, gc=False, tag="note"):
    """A note as stored; its `seq` is its name everywhere.

    `detail_bytes` is the size of the long text that `…/notes/{seq}/detail` gives, `detail_hash` the start of its SHA-256. `state` and `expires_at` are what
    a CLAIM began as; `stale` marks a PATCH_SUMMARY whose claim had ended before it came.
    """

    type: NoteType
    text: str = ""
    scope: tuple[str, ...] = ()
    task: str = ""
    refs: tuple[Ref, ...] = ()
    evidence: str = ""
    run: Run | None = None
    commit: str = ""
    pr: str = ""
    tags: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    detail_bytes: int = 0
    detail_hash: str = ""
    files: tuple[str, ...] = ()
    idea: str = ""
    risk: str = ""
    claim: int | None = None
    work: str = ""
    stale: bool = False
    ttl_s: int | None = None
    on_conflict: OnConflict | None = None
    state: str = ""
    expires_at: str = ""


class Blocker(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One live claim in the way of another: who holds it and where the two meet."""

    claim: int
    holder: str
    overlap: tuple[str, ...]


class AboutClaim(Event, frozen=True, kw_only=True, gc=False):
    """What every `claim.*` event carries: the seq of the CLAIM, and its holder after this event."""

    claim: int
    holder: str


class ClaimRefused(AboutClaim, frozen=True, kw_only=True, gc=False, tag="claim.refused"):
    """`author` asked for `scope` and got nothing; `claim` and `holder` are the first of those in the way."""

    text: str
    scope: tuple[str, ...]
    blockers: tuple[Blocker, ...]
    task: str = ""
    reason: str = "claim_conflict"


class ClaimQueued(AboutClaim, frozen=True, kw_only=True, gc=False, tag="claim.queued"):
    """The claim waits, first come first served, for what `blockers` hold."""

    blockers: tuple[Blocker, ...] = ()


class ClaimGranted(AboutClaim, frozen=True, kw_only=True, gc=False, tag="claim.granted"):
    """A waiting claim is held from now on."""

    expires_at: str


class ClaimRenewed(AboutClaim, frozen=True, kw_only=True, gc=False, tag="claim.renewed"):
    """The lease ends later than it did; never earlier."""

    expires_at: str


class ClaimNarrowed(AboutClaim, frozen=True, kw_only=True, gc=False, tag="claim.narrowed"):
    """The claim holds less than before: `scope` is what is left."""

    scope: tuple[str, ...]


class ClaimReleased(AboutClaim, frozen=True, kw_only=True, gc=False, tag="claim.released"):
    """The claim has ended by its holder's word (or an admin's, with a `reason`).

    `outcome` is `done`, `abandoned`, `handoff`, or `superseded` where its holder claimed the same scope anew.
    """

    outcome: str
    to: tuple[str, ...] = ()
    text: str = ""
    reason: str = ""


class ClaimExpired(AboutClaim, frozen=True, kw_only=True, gc=False, tag="claim.expired"):
    """The claim ended by the server's clock.

    Its lease ran out at `expires_at` (`how` is `lease`), or six hours were over (`life`). `last_seen` is when its
    holder last called.
    """

    expires_at: str
    last_seen: str = ""
    how: str = "lease"


class ClaimTransferred(
    AboutClaim, frozen=True, kw_only=True, gc=False, tag="claim.transferred", rename={"giver": "from"}
):
    """Another worker holds the claim from now on: `holder`, from `from`."""

    giver: str
    reason: str = ""


class AboutConflict(Event, frozen=True, kw_only=True, gc=False):
    """What every `conflict.*` event carries: both claims (the earlier has priority), holders, and where they meet."""

    claims: tuple[int, int]
    holders: tuple[str, str]
    overlap: tuple[str, ...]


class ConflictOpened(AboutConflict, frozen=True, kw_only=True, gc=False, tag="conflict.opened"):
    """Two live claims of different holders meet; its seq names the conflict."""


class ConflictClosed(AboutConflict, frozen=True, kw_only=True, gc=False, tag="conflict.closed"):
    """The conflict is over: `how` is released, expired, narrowed or transferred."""

    conflict: int
    how: str


class AboutNote(Event, frozen=True, kw_only=True, gc=False):
    """What `note.*` and `patch.*` events carry: the seq of the note."""

    note: int


class NoteRetracted(AboutNote, frozen=True, kw_only=True, gc=False, tag="note.retracted"):
    """The note is taken back; live views drop it, the log keeps it."""

    reason: str = ""


class PatchSuperseded(AboutNote, frozen=True, kw_only=True, gc=False, tag="patch.superseded"):
    """A newer summary (`by`) of the same author and work stands in its place."""

    by: int


class PatchInvalidated(AboutNote, frozen=True, kw_only=True, gc=False, tag="patch.invalidated"):
    """A FAIL (`by`) refutes the patch."""

    by: int


AnyEvent = (
    Note
    | ClaimRefused
    | ClaimQueued
    | ClaimGranted
    | ClaimRenewed
    | ClaimNarrowed
    | ClaimReleased
    | ClaimExpired
    | ClaimTransferred
    | ConflictOpened
    | ConflictClosed
    | NoteRetracted
    | PatchSuperseded
    | PatchInvalidated
)

EventType = Literal[
    "OBSERVED",
    "FACT",
    "FAIL",
    "CLAIM",
    "PATCH_SUMMARY",
    "claim.refused",
    "claim.queued",
    "claim.granted",
    "claim.renewed",
    "claim.narrowed",
    "claim.released",
    "claim.expired",
    "claim.transferred",
    "conflict.opened",
    "conflict.closed",
    "note.retracted",
    "patch.superseded",
    "patch.invalidated",
]
"""What a reader may filter by: the type of a note, or the kind of any other event."""

EVENT_KINDS: Final[tuple[str, ...]] = tuple(str(kind.__struct_config__.tag) for kind in AnyEvent.__args__)


def about(event: AnyEvent) -> int | None:
    """Give the seq that the event is about: a claim's, the earlier claim's, a note's, or `None` for a note itself."""
    match event:
        case AboutClaim():
            return event.claim
        case AboutConflict():
            return event.claims[0]
        case AboutNote():
            return event.note
        case _:
            return None
