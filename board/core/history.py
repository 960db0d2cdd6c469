"""What the core and the log tell each other: records on their way in, and what a decision asks of the past."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from schema.events import AnyEvent, ClaimTransferred, Note, NoteRetracted, PatchInvalidated, PatchSuperseded

if TYPE_CHECKING:
    from collections.abc import Sequence


class Record(msgspec.Struct, frozen=True, gc=False):
    """One event on its way into the log, and what the log keeps beside it.

    `body` is `event` encoded, the very bytes that readers get. `detail` is the long text of a note, empty for none.
    `key` is the author's idempotency key, empty for none, and `digest` tells the bodies sent under it apart.
    `same_text` is `fold.same_text_digest` of a FACT or FAIL where it is known already, empty where it is not.
    """

    event: AnyEvent
    at_us: int
    body: bytes
    detail: str = ""
    key: str = ""
    digest: bytes = b""
    same_text: bytes = b""

    @property
    def seq(self) -> int:
        """The event's seq."""
        return self.event.seq


class Head(msgspec.Struct, frozen=True):
    """What a decision may need to know of an earlier note.

    `claim_holder` is the last holder of a CLAIM (who it was transferred to, else its author), else empty;
    `state` of a note: "" or "retracted", and for a patch "superseded" or "invalidated" (the last word counts, and
    "retracted" always wins).
    """

    seq: int
    type: str
    author: str
    state: str = ""
    claim_holder: str = ""


class KeyUse(msgspec.Struct, frozen=True):
    """An idempotency key that was used: by which note, with which body."""

    seq: int
    digest: bytes


class Wanted(msgspec.Struct, frozen=True):
    """What decisions want to know from the log, asked for at once: notes by seq; (author, key); (author, work)."""

    seqs: frozenset[int] = frozenset()
    keys: frozenset[tuple[str, str]] = frozenset()
    works: frozenset[tuple[str, str]] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.seqs or self.keys or self.works)


class Found(msgspec.Struct):
    """The answer to `Wanted`. What is missing from a mapping is not in the log, which begins with `oldest`.

    `works` maps to the newest PATCH_SUMMARY of that author and work that is not retracted. Records that were `taken`
    are laid over it when the next decision looks something up, since most look up nothing.
    """

    heads: dict[int, Head] = {}
    keys: dict[tuple[str, str], KeyUse] = {}
    works: dict[tuple[str, str], int] = {}
    oldest: int = 1
    _taken: list[Record] = []

    def take(self, records: Sequence[Record]) -> None:
        """Add what records that were decided but not yet committed will have put into the log."""
        self._taken += records

    def head(self, seq: int) -> Head | None:
        """The note with this seq."""
        self._lay_over()
        return self.heads.get(seq)

    def key(self, author: str, key: str) -> KeyUse | None:
        """How this author used an idempotency key before."""
        self._lay_over()
        return self.keys.get((author, key))

    def newest(self, author: str, work: str) -> int | None:
        """The newest patch of a work."""
        self._lay_over()
        return self.works.get((author, work))

    def _lay_over(self) -> None:
        for record in self._taken:
            self._add(record)
        self._taken = []

    def _add(self, record: Record) -> None:
        event = record.event
        match event:
            case Note():
                holder = event.author if event.type == "CLAIM" else ""
                self.heads[event.seq] = Head(event.seq, event.type, event.author, "", holder)
                if event.work:
                    self.works[event.author, event.work] = event.seq
                if record.key:
                    self.keys[event.author, record.key] = KeyUse(event.seq, record.digest)
            case NoteRetracted():
                self._mark(event.note, "retracted")
                self.works = {work: seq for work, seq in self.works.items() if seq != event.note}
            case PatchSuperseded():
                self._mark(event.note, "superseded")
            case PatchInvalidated():
                self._mark(event.note, "invalidated")
            case ClaimTransferred() if head := self.heads.get(event.claim):
                self.heads[event.claim] = msgspec.structs.replace(head, claim_holder=event.holder)
            case _:
                pass

    def _mark(self, seq: int, state: str) -> None:
        if (head := self.heads.get(seq)) and head.state != "retracted":
            self.heads[seq] = msgspec.structs.replace(head, state=state)
