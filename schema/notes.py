"""What a caller writes: five types of note, told apart by `type`.

A draft has no seq, time or author: the board gives those. Sizes are the board's settings, so they are checked by
admission and not by these types. Unknown fields are refused: a misspelt field would otherwise be lost in silence.

The structs here and in `schema.events` are left out of garbage collection (`gc=False`): they are trees of plain values,
never part of a cycle, and a busy board makes tens of thousands of them a second.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

NoteType = Literal["OBSERVED", "FACT", "FAIL", "CLAIM", "PATCH_SUMMARY"]
NOTE_TYPES: Final[tuple[NoteType, ...]] = ("OBSERVED", "FACT", "FAIL", "CLAIM", "PATCH_SUMMARY")

Rel = Literal["supports", "refutes", "supersedes", "derived_from", "answers"]
OnConflict = Literal["refuse", "contest", "wait"]
Outcome = Literal["done", "abandoned", "handoff"]

NoteSeq = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A seq in what a caller sends: no larger than what every JSON parser reads exactly. 0 is never a note's."""

Seconds = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
"""A length of time in what a caller sends; which lengths are admitted is the board's settings."""

Said = Annotated[str, msgspec.Meta(extra_json_schema={"minLength": 1, "pattern": r"\S"})]
"""A text that says something: not empty, not blank alone. Its size is the board's settings."""

Targets = Annotated[tuple[str, ...], msgspec.Meta(extra_json_schema={"minItems": 1})]
"""One target or more. How many, and how long each, is the board's settings."""

ExitCode = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**32 - 1)]
"""How a process ended: negative for a signal, up to 32 bits without a sign on Windows."""


class Ref(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """How this note stands to an earlier one."""

    rel: Rel
    seq: NoteSeq


class Run(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A command that was run, and how it ended."""

    command: str
    exit_code: ExitCode


class Common(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="type",
    gc=False,
):
    """The optional fields of every type.

    `key` makes a retry safe: the same key with the same body is answered with the first note, for ever.
    `detail` is long text, kept beside the note and read on demand.
    """

    scope: tuple[str, ...] = ()
    task: str = ""
    refs: tuple[Ref, ...] = ()
    evidence: str = ""
    run: Run | None = None
    commit: str = ""
    pr: str = ""
    tags: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    detail: str = ""
    key: str = ""


class Observed(Common, frozen=True, kw_only=True, gc=False, tag="OBSERVED"):
    """Something seen, not yet judged."""

    text: Said


class Fact(Common, frozen=True, kw_only=True, gc=False, tag="FACT"):
    """Something held to be true."""

    text: Said


class Fail(Common, frozen=True, kw_only=True, gc=False, tag="FAIL"):
    """Something that was tried in vain; with a `refutes` ref, what it refutes."""

    text: Said


class Claim(Common, frozen=True, kw_only=True, gc=False, tag="CLAIM"):
    """The intent to work on a scope. Granted, it is a lease of `ttl_s` seconds; its seq is the fencing token."""

    text: Said
    scope: Targets  # pyright: ignore[reportGeneralTypeIssues] -- keyword-only, so it may lose its default
    ttl_s: Seconds | None = None
    on_conflict: OnConflict = "refuse"


class PatchSummary(Common, frozen=True, kw_only=True, gc=False, tag="PATCH_SUMMARY"):
    """A finished change. A newer one of the same author and `work` supersedes the older."""

    files: Targets
    idea: Said
    evidence: Said  # pyright: ignore[reportGeneralTypeIssues] -- as `scope` above
    risk: str = ""
    claim: NoteSeq | None = None
    work: str = ""


Draft = Observed | Fact | Fail | Claim | PatchSummary
"""What `POST /notes`, the stream's `post` and the tools take."""


class Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Up to 1,000 drafts that are stored all or not at all."""

    notes: tuple[Draft, ...]
