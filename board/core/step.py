"""One step of a board: what time has brought, then one command decided, then who is next; each event folded at once.

This is where deciding and folding meet. It changes the state that it is given (the writer's, which runs ahead of what
is durable) and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from board.core import claims, waits
from board.core.commands import Append, PassTime, PostBatch, SignOfLife
from board.core.decide import Answer, Done, Seqs, Stored, decide, decide_post, records_of
from board.core.fold import apply, replay
from board.core.history import Record
from schema.codes import Problem, problem
from schema.events import AnyEvent, ClaimExpired, ClaimNarrowed, ClaimReleased, ClaimTransferred

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from board.core.commands import Command
    from board.core.decide import Present
    from board.core.history import Found
    from board.core.state import State

_FREEING: Final = (ClaimExpired, ClaimReleased, ClaimNarrowed, ClaimTransferred)


class StoredBatch(msgspec.Struct, frozen=True):
    """What became of each note of a batch, in the order that they were sent."""

    notes: tuple[Stored, ...]


class Step(msgspec.Struct):
    """The outcome of one step: the answer, and the records that must be durable before it is given.

    `spoiled` says that a batch moved the state and came to nothing, so that state and `Found` must be thrown away, and
    with them what time had brought: it will again in the next step. With `doubles` the batch is then to be decided
    again: so many of its notes are no new ones.
    """

    answer: Answer | StoredBatch
    records: list[Record]
    spoiled: bool = False
    doubles: int = 0


def never_seen(_worker: str) -> int:
    """Say that nobody is known to have called since the log's last word."""
    return 0


def step(
    state: State,
    command: Command,
    present: Present,
    found: Found,
    *,
    last_seen_us: Callable[[str], int] = never_seen,
    doubles: int = 0,
) -> Step:
    """Carry out one command on the state.

    `last_seen_us` says when a holder last called (see `claims.ending`); `doubles` comes from the `Step` of a first try.
    """
    if isinstance(command, Append):
        if command.records[0].seq != state.seq + 1:
            sentence = f"The board moved on to {state.seq}; a log is only taken over by a board that nobody writes to."
            return Step(problem("board_exists", sentence, head=state.seq), [])
        replay(state, command.records)
        return Step(Done(0), list(command.records))
    records = _fold(state, claims.ending(state, present.now_us, last_seen_us, state.seq + 1), present, found)
    if not isinstance(command, PassTime):
        alive = claims.sign_of_life(state, command.asker.worker, present.now_us, state.seq + 1)
        records += _fold(state, alive, present, found)
    if isinstance(command, PostBatch):
        outcome = _batch(state, command, present, found, doubles)
        if outcome.spoiled:
            return outcome
        outcome.records = records + outcome.records
    else:
        decision = decide(state, command, present, found)
        outcome = Step(decision.answer, records + _take(state, decision.records, found))
    if state.waiting and _may_free(command, outcome.records):
        outcome.records += _grant(state, present, found)
    return outcome


def _fold(state: State, events: Sequence[AnyEvent], present: Present, found: Found) -> list[Record]:
    return _take(state, records_of(events, present.now_us), found) if events else []


def _take(state: State, records: Sequence[Record], found: Found) -> list[Record]:
    for record in records:
        apply(state, record)
    found.take(records)
    return list(records)


def _may_free(command: Command, records: Sequence[Record]) -> bool:
    return isinstance(command, (PassTime, SignOfLife)) or any(isinstance(one.event, _FREEING) for one in records)


def _grant(state: State, present: Present, found: Found) -> list[Record]:
    records: list[Record] = []
    while (granted := waits.next_grant(state, present.now_us, present.gone, state.seq + 1)) is not None:
        records += _fold(state, (granted,), present, found)
    return records


def _batch(state: State, command: PostBatch, present: Present, found: Found, doubles: int) -> Step:
    """Decide a batch note by note, each seeing those before it.

    The notes are numbered first and what follows from them after the last, so how many notes are new must be known
    at the start. It nearly always is all of them; where some turn out to be doubles, the batch is decided again.
    """
    seqs = Seqs(state.seq, notes=len(command.posts) - doubles)
    notes: list[Record] = []
    rest: list[Record] = []
    answers: list[Stored] = []
    for index, post in enumerate(command.posts):
        decision = decide_post(state, post, present, found, seqs)
        answer, records = decision.answer, decision.records
        if type(answer) is not Stored:
            assert isinstance(answer, Problem)
            return Step(_named(answer, index), [], spoiled=bool(notes))
        answers.append(answer)
        if records:
            for record in records:
                apply(state, record)
            found.take(records)
            notes.append(records[0])
            rest += records[1:]
    stored = StoredBatch(tuple(answers))
    met = len(answers) - len(notes)
    return Step(stored, [], True, met) if rest and met != doubles else Step(stored, notes + rest)


def _named(answer: Problem, index: int) -> Problem:
    detail = f"Note {index} of the batch: {answer.detail}"
    return Problem(code=answer.code, detail=detail, facts={**answer.facts, "index": index})
