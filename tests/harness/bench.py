"""A board without a store, a server or a clock: commands in, records out, and time that only the test moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from board.core.commands import Asker, Command, PassTime, Post, PostBatch, Release
from board.core.decide import Present, Stored
from board.core.fold import apply, replay
from board.core.history import Found
from board.core.state import US, State
from board.core.step import Step, StoredBatch, step
from schema.codec import encode
from schema.codes import Problem
from schema.limits import PROFILES, Settings
from schema.notes import Claim, Fact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from board.core.decide import Answer
    from board.core.history import Record
    from board.core.state import Lease
    from schema.notes import Draft, OnConflict

START_US = 1_800_000_000 * US


class Bench:
    """One board: `state` is the live state, `log` what would be durable, in seq order.

    `known` are the workers that notes may be addressed to, `gone` those whose connections are gone, `seen_us` when a
    worker last called without the log knowing. A batch that spoils the state is taken back as the writer does it.
    """

    def __init__(self, settings: Settings = PROFILES["default"]) -> None:
        self.state = State(settings)
        self.log: list[Record] = []
        self.now_us = START_US
        self.known: set[str] = set()
        self.gone: set[str] = set()
        self.seen_us: dict[str, int] = {}
        self._found = Found()

    def run(self, command: Command) -> Answer | StoredBatch:
        """Carry out a command and give what its asker is told."""
        outcome = self._step(command)
        while outcome.spoiled:
            self._rewind()
            if not outcome.doubles:
                break
            outcome = self._step(command, outcome.doubles)
        self.log += sorted(outcome.records, key=lambda record: record.seq)
        return outcome.answer

    def _step(self, command: Command, doubles: int = 0) -> Step:
        present = Present(self.now_us, self.known, self.gone)
        seen_us = self.seen_us
        return step(
            self.state,
            command,
            present,
            self._found,
            last_seen_us=lambda worker: seen_us.get(worker, 0),
            doubles=doubles,
        )

    def _rewind(self) -> None:
        self.state, self._found = State(self.state.settings), Found()
        for record in self.log:
            apply(self.state, record)
        self._found.take(self.log)

    # What tests say

    def pass_time(self, seconds: float = 0.0) -> None:
        """Move the clock, and let what time has brought be logged."""
        self.now_us += round(seconds * US)
        self.run(PassTime())

    def post(self, worker: str, draft: Draft, *, root: str | None = None) -> Answer:
        """Post a note."""
        answer = self.run(post_of(worker, draft, root=root))
        assert not isinstance(answer, StoredBatch)
        return answer

    def post_batch(self, worker: str, *drafts: Draft) -> StoredBatch | Problem:
        """Post several notes, all or none."""
        posts = tuple(post_of(worker, draft) for draft in drafts)
        answer = self.run(PostBatch(Asker(worker), posts))
        assert isinstance(answer, (StoredBatch, Problem))
        return answer

    def claim(self, worker: str, *scope: str, on: OnConflict = "refuse", ttl_s: int | None = None) -> Answer:
        """Post a CLAIM."""
        return self.post(worker, Claim(text=f"work on {scope[0]}", scope=scope, on_conflict=on, ttl_s=ttl_s))

    def held(self, worker: str, *scope: str, on: OnConflict = "refuse", ttl_s: int | None = None) -> int:
        """Post a CLAIM that must be stored, and give its seq."""
        answer = self.claim(worker, *scope, on=on, ttl_s=ttl_s)
        assert isinstance(answer, Stored), answer
        return answer.seq

    def waiting(self, worker: str, *scope: str, ttl_s: int | None = None) -> int:
        """Post a CLAIM that must wait, and give its seq."""
        seq = self.held(worker, *scope, on="wait", ttl_s=ttl_s)
        assert self.lease(seq).state == "waiting"
        return seq

    def fact(self, worker: str, text: str, **more: str) -> int:
        """Post a FACT, and give its seq."""
        answer = self.post(worker, Fact(text=text, **more))
        assert isinstance(answer, Stored), answer
        return answer.seq

    def release(self, worker: str, claim: int) -> Answer | StoredBatch:
        """Release a claim as its holder."""
        return self.run(Release(Asker(worker), claim))

    # What tests look at

    def lease(self, claim: int) -> Lease:
        """The lease of a claim that is live or waits."""
        return self.state.leases[claim]

    def kinds(self, after: int = 0) -> list[str]:
        """The kinds of the events after a seq, a note by its type."""
        return [kind_of(record) for record in self.log if record.seq > after]

    def replayed(self) -> State:
        """The state that the log folds to, from nothing."""
        state = State(self.state.settings)
        replay(state, self.log)
        return state


def post_of(worker: str, draft: Draft, *, root: str | None = None) -> Post:
    """Make the command, as the service does."""
    return Post(Asker(worker, root=root), draft, encode(draft) if draft.key else b"")


def kind_of(record: Record) -> str:
    """The type of a note, the kind of any other event."""
    event = msgspec.to_builtins(record.event)
    return event.get("type", event["kind"])


def refused(answer: Answer | StoredBatch) -> Problem:
    """Give the refusal that an answer must be."""
    assert isinstance(answer, Problem), answer
    return answer


def seqs_of(records: Sequence[Record]) -> list[int]:
    """The seqs of records, in their order."""
    return [record.seq for record in records]
