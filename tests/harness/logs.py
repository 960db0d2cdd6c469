"""Records for tests of the log: each kind of event at a seq, with the bytes that the log would keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from board.store.contract import Record
from schema.codec import encode, text_of_us
from schema.events import (
    AnyEvent,
    ClaimRenewed,
    ClaimTransferred,
    ConflictOpened,
    Note,
    NoteRetracted,
    PatchInvalidated,
    PatchSuperseded,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from board.store.contract import Store

START_US = 1_800_000_000_000_000


def record(event: AnyEvent, *, detail: str = "", key: str = "", digest: bytes = b"") -> Record:
    """Make the record of an event."""
    return Record(event, START_US + event.seq, encode(event), detail, key, digest)


def note(seq: int, type: str = "FACT", *, detail: str = "", key: str = "", digest: bytes = b"", **said: Any) -> Record:
    """Make the record of a note; what is not said is plain."""
    fields: dict[str, Any] = {"author": "w1", "text": f"text of {seq}", **said}
    return record(Note(seq=seq, at=_at(seq), type=type, **fields), detail=detail, key=key, digest=digest)  # pyright: ignore[reportArgumentType]


def notes(first: int, last: int, **said: Any) -> list[Record]:
    """Make the records of several plain notes, both ends included."""
    return [note(seq, **said) for seq in range(first, last + 1)]


def retracted(seq: int, subject: int, author: str = "w1") -> Record:
    """Make the record of a retraction."""
    return record(NoteRetracted(seq=seq, at=_at(seq), author=author, note=subject))


def superseded(seq: int, subject: int, by: int) -> Record:
    """Make the record of a patch that a newer one replaced."""
    return record(PatchSuperseded(seq=seq, at=_at(seq), author="w1", note=subject, by=by))


def invalidated(seq: int, subject: int, by: int) -> Record:
    """Make the record of a patch that was refuted."""
    return record(PatchInvalidated(seq=seq, at=_at(seq), author="w1", note=subject, by=by))


def renewed(seq: int, claim: int, holder: str = "w1") -> Record:
    """Make the record of a renewal."""
    return record(ClaimRenewed(seq=seq, at=_at(seq), author=holder, claim=claim, holder=holder, expires_at=_at(seq)))


def transferred(seq: int, claim: int, holder: str) -> Record:
    """Make the record of a transfer."""
    return record(ClaimTransferred(seq=seq, at=_at(seq), author="w1", claim=claim, holder=holder, giver="w1"))


def conflicted(seq: int, earlier: int, later: int) -> Record:
    """Make the record of a conflict between two claims."""
    event = ConflictOpened(
        seq=seq, at=_at(seq), author="board", claims=(earlier, later), holders=("w1", "w2"), overlap=("a",)
    )
    return record(event)


async def append(store: Store, records: Sequence[Record], board: str = "main") -> None:
    """Commit records to a board, whose head is the seq before the first of them."""
    async with store.begin(board, records[0].seq - 1) as transaction:
        await transaction.commit(records)


def _at(seq: int) -> str:
    return text_of_us(START_US + seq)
