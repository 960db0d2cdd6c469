"""What somebody did in a recording, ready to be done again on a board.

A recording names what it talks about in its own way (a seq, an issue), so an act refers to earlier ones by such names
and whoever does it again puts the new seqs in their place.
"""

from __future__ import annotations

import msgspec

from schema.notes import Draft, Outcome


class Say(msgspec.Struct, frozen=True, kw_only=True):
    """Write a note. Later acts call it `name`; of several with one name, the newest before them is meant.

    `refs` and `claim` of the draft hold seqs of the recording. `shortened` tells that the text was, into `detail`.
    """

    name: str
    draft: Draft
    shortened: bool = False


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """End the claim that was made under this name."""

    claim: str
    outcome: Outcome = "done"
    text: str = ""


class Narrow(msgspec.Struct, frozen=True, kw_only=True):
    """Hold only this part of the claim from now on."""

    claim: str
    scope: tuple[str, ...]


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """Hand the claim to another worker."""

    claim: str
    to: str


class Retract(msgspec.Struct, frozen=True, kw_only=True):
    """Take the note of this name back."""

    note: str
    reason: str = ""


Deed = Say | Release | Narrow | Transfer | Retract


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """One deed: who did it, when (seconds since 1970), and at which line of the recording it stands."""

    line: int
    at_s: float
    author: str
    deed: Deed


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """A line that gives no act, and why; replaying counts these, so that nothing is left out in silence."""

    line: int
    reason: str
