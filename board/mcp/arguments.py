"""What the tools take. Every struct is one tool's whole input, beside the `ack` that each of them takes as well.

The sentences are read by models: a tool's input schema is made of them.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from board.service.questions import BudgetTokens, Question, Seq
from schema.events import EventType
from schema.notes import NoteType, OnConflict, Outcome, Ref, Run

GREP_LIMIT: Final = 20
"""How many notes `board_grep` gives by default: what a model reads at a glance."""

Scope = Annotated[
    tuple[str, ...],
    msgspec.Meta(
        description="Targets: files, directories, globs, lines, symbols, free keys. "
        "`src/a.c`, `src/**/*.c`, `src/a.c:10-40`, `src/a.py::Parser.read`, `task:tables/rows`.",
    ),
]
Types = Annotated[tuple[NoteType, ...], msgspec.Meta(description="Only notes of these types. All when left out.")]
Kinds = Annotated[
    tuple[EventType, ...],
    msgspec.Meta(
        description="Only these note types (`FACT`) and kinds of event (`claim.released`, `conflict.opened`). "
        "All when left out."
    ),
]
After = Annotated[Seq, msgspec.Meta(description="Only what is newer than this seq: the `cursor` of an earlier call.")]
Ack = Annotated[
    tuple[Seq, ...],
    msgspec.Meta(
        max_length=10_000,
        description="Seqs of notes that you have read and dealt with; they are not shown to you again. "
        "The block of urgent notes says which to give.",
    ),
]


class ReadArguments(Question, frozen=True, kw_only=True):
    """Nothing: the board in brief, for a prompt. With `after`: the notes since then. With `types`: the newest of them."""

    after: After | None = None
    types: Types = ()
    scope: Scope = ()
    budget_tokens: Annotated[BudgetTokens, msgspec.Meta(description="The most tokens that the answer may cost.")] = 1500


class WriteArguments(Question, frozen=True, kw_only=True):
    """The fields of a note. Which of them a type needs and takes is said at each."""

    type: Annotated[
        NoteType,
        msgspec.Meta(
            description="OBSERVED: seen, not yet judged. FACT: held to be true. FAIL: tried in vain. "
            "PATCH_SUMMARY: a finished change. CLAIM: use board_claim."
        ),
    ]
    text: Annotated[str, msgspec.Meta(description="One short sentence (all types but PATCH_SUMMARY).")] = ""
    scope: Scope = ()
    task: Annotated[str, msgspec.Meta(description="The task that this belongs to.")] = ""
    refs: Annotated[
        tuple[Ref, ...],
        msgspec.Meta(description='Earlier notes and how this one stands to them: `{"rel": "refutes", "seq": 12}`.'),
    ] = ()
    evidence: Annotated[
        str, msgspec.Meta(description="What was run and what it showed. PATCH_SUMMARY needs it; no placeholders.")
    ] = ""
    run: Annotated[Run | None, msgspec.Meta(description="The command that was run, and its exit code.")] = None
    commit: Annotated[str, msgspec.Meta(description="The commit that this is about.")] = ""
    pr: Annotated[str, msgspec.Meta(description="The pull request that this is about.")] = ""
    tags: Annotated[tuple[str, ...], msgspec.Meta(description="Labels.")] = ()
    to: Annotated[tuple[str, ...], msgspec.Meta(description="Workers who should see this soon.")] = ()
    detail: Annotated[
        str, msgspec.Meta(description="Long text (logs, reasoning), read only by who asks for it with board_unfold.")
    ] = ""
    key: Annotated[
        str, msgspec.Meta(description="Makes a retry safe: the same key with the same note is stored once.")
    ] = ""
    files: Annotated[tuple[str, ...], msgspec.Meta(description="PATCH_SUMMARY needs it: the files changed.")] = ()
    idea: Annotated[str, msgspec.Meta(description="PATCH_SUMMARY needs it: what was changed, and why.")] = ""
    risk: Annotated[str, msgspec.Meta(description="PATCH_SUMMARY: what may break.")] = ""
    claim: Annotated[int | None, msgspec.Meta(description="PATCH_SUMMARY: the claim that it was done under.")] = None
    work: Annotated[
        str, msgspec.Meta(description="PATCH_SUMMARY: a label; your newer summary of that label replaces the older.")
    ] = ""
    ttl_s: Annotated[int | None, msgspec.Meta(description="CLAIM: seconds that the lease lasts.")] = None
    on_conflict: Annotated[OnConflict, msgspec.Meta(description="CLAIM: as in board_claim.")] = "refuse"


class ClaimArguments(Question, frozen=True, kw_only=True):
    """What to hold, and what for."""

    scope: Scope
    text: Annotated[str, msgspec.Meta(description="What you are going to do there, in one short sentence.")]
    ttl_s: Annotated[
        int | None,
        msgspec.Meta(description="Seconds that the lease lasts; every call of yours renews it. Default: the board's."),
    ] = None
    on_conflict: Annotated[
        OnConflict,
        msgspec.Meta(
            description="When another holds a part of it: `refuse` (nothing is held, default), `wait` (first come "
            "first served), `contest` (held beside the other, who has priority; both are told)."
        ),
    ] = "refuse"
    task: Annotated[str, msgspec.Meta(description="The task that this belongs to.")] = ""
    key: Annotated[
        str, msgspec.Meta(description="Makes a retry safe: the same key with the same claim is made once.")
    ] = ""


class ReleaseArguments(Question, frozen=True, kw_only=True):
    """Which claim ends, and how."""

    claim: Annotated[Seq, msgspec.Meta(description="The seq of your claim.")]
    outcome: Annotated[
        Outcome, msgspec.Meta(description="`done`, `abandoned` (others may take it), `handoff` (see `to`).")
    ] = "done"
    text: Annotated[str, msgspec.Meta(description="What the next one should know.")] = ""
    to: Annotated[
        str | tuple[str, ...], msgspec.Meta(description="Who should take it over: one worker, or several.")
    ] = ()


class CheckArguments(Question, frozen=True, kw_only=True):
    """What to ask about."""

    scope: Scope


class GrepArguments(Question, frozen=True, kw_only=True):
    """What to look for."""

    q: Annotated[
        str,
        msgspec.Meta(
            max_length=2000, description='Words, all of which must be there; a comma is OR, "quotes" a phrase.'
        ),
    ]
    limit: Annotated[int, msgspec.Meta(ge=1, le=100, description="The most notes to give.")] = GREP_LIMIT
    before: (
        Annotated[Seq, msgspec.Meta(description="Only notes older than this seq: the `next` of an earlier call.")]
        | None
    ) = None


class UnfoldArguments(Question, frozen=True, kw_only=True):
    """Which note to read."""

    seq: Annotated[Seq, msgspec.Meta(description="The note's seq: the number behind `#`.")]


class WaitArguments(Question, frozen=True, kw_only=True):
    """What to wait for, and how long."""

    timeout_s: Annotated[float, msgspec.Meta(ge=0, le=60, description="Seconds to wait at the most.")] = 25.0
    types: Kinds = ()
    scope: Scope = ()
    after: After | None = None
