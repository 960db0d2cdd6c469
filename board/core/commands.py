"""What may be asked of a board's writer: commands, in the imperative, with all that a decision needs of the asker."""

from __future__ import annotations

import msgspec

from board.core.history import Record
from schema.notes import Draft, Outcome


class Asker(msgspec.Struct, frozen=True, gc=False):
    """Who asks: the worker's name, whether it is an admin, and the root that its absolute paths start with."""

    worker: str
    admin: bool = False
    root: str | None = None


class Post(msgspec.Struct, frozen=True, gc=False):
    """Store one note. `digest` is the hash of the draft as it was sent, to tell bodies under one key apart."""

    asker: Asker
    draft: Draft
    digest: bytes = b""


class PostBatch(msgspec.Struct, frozen=True):
    """Store all of the notes or none, with consecutive seqs."""

    asker: Asker
    posts: tuple[Post, ...]


class Retract(msgspec.Struct, frozen=True):
    """Take a note back."""

    asker: Asker
    note: int
    reason: str


class Renew(msgspec.Struct, frozen=True):
    """Move the end of a lease to `ttl_s` seconds from now (the claim's own `ttl_s` where it is None)."""

    asker: Asker
    claim: int
    ttl_s: int | None = None


class Release(msgspec.Struct, frozen=True):
    """End a claim."""

    asker: Asker
    claim: int
    outcome: Outcome = "done"
    to: tuple[str, ...] = ()
    text: str = ""
    reason: str = ""


class Narrow(msgspec.Struct, frozen=True):
    """Hold less: every target of the new scope must lie within the old one."""

    asker: Asker
    claim: int
    scope: tuple[str, ...]


class Transfer(msgspec.Struct, frozen=True):
    """Give a claim to another worker."""

    asker: Asker
    claim: int
    to: str
    reason: str = ""


class SignOfLife(msgspec.Struct, frozen=True):
    """The worker called: its leases may be due for a renewal."""

    asker: Asker


class PassTime(msgspec.Struct, frozen=True):
    """Nobody asks; leases may have ended."""


class Append(msgspec.Struct, frozen=True):
    """Take over events of another log as they are; they must follow this one's without a hole."""

    asker: Asker
    records: tuple[Record, ...]


Command = Append | Post | PostBatch | Retract | Renew | Release | Narrow | Transfer | SignOfLife | PassTime
