"""Random histories of a board whose log is trimmed as far as may be, again and again."""
# ruff: noqa: D102 -- each method is named for what happens, or for what must hold

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from board.core.commands import Post, PostBatch
from board.core.decide import Answer, Stored
from board.core.fold import replay
from board.core.retention import Keep, settled_us, trimmable
from board.core.state import US, State, thaw
from board.core.step import StoredBatch
from board.store.contract import Record
from tests.property.test_fold import Asked, History, happenings

DAY_US = 86_400 * US


class TrimmedHistory(History):
    """A history of which only the end is kept, with the state that the rest folds to."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = 0
        self.base = State(self.bench.state.settings).freeze()

    def trim(self, upto: int) -> None:
        bound = trimmable(self.bench.state, upto)
        assert bound <= upto
        if bound > self.begin:
            state = self.from_base(bound)
            self.begin, self.base = bound, state.freeze()

    def kept(self, upto: int) -> list[Record]:
        return [record for record in self.bench.log if self.begin < record.seq <= upto]

    def from_base(self, upto: int) -> State:
        state = thaw(self.base, self.bench.state.settings)
        replay(state, self.kept(upto))
        return state

    def carry_out(self, command: Asked) -> Answer | StoredBatch:
        answer = super().carry_out(command)
        posts = command.posts if isinstance(command, PostBatch) else (command,)
        notes = answer.notes if isinstance(answer, StoredBatch) else (answer,)
        for post, stored in zip(posts, notes, strict=False):
            if isinstance(post, Post) and isinstance(stored, Stored) and not post.draft.key:
                assert stored.seq > self.begin  # no repeated text is answered with a note that is gone
        return answer

    def check(self) -> None:
        state = self.bench.state
        assert all(seq > self.begin for seq in (*state.leases, *state.conflicts))
        assert self.from_base(state.seq).freeze() == state.freeze()
        assert not self.bench.log or self.kept(state.seq)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(happenings, st.integers(0, 100)), min_size=20, max_size=60))
def test_what_is_left_folds_to_the_same_state(told: list[tuple[tuple[str, tuple[Any, ...]], int]]) -> None:
    """However far a log is trimmed at any moment: it folds on, and nothing that lives, then or later, is about what went."""
    history = TrimmedHistory()
    for (name, arguments), upto in told:
        getattr(history, name)(*arguments)
        history.trim(upto)
        history.check()


@given(st.floats(0, 1e6), st.integers(0, 10**9), st.integers(0, 4 * 10**15))
def test_nothing_goes_unless_something_is_said(days: float, events: int, now_us: int) -> None:
    """Zeros keep everything; days say before when events may go, and never a time to come."""
    keep = Keep(days, events)
    assert bool(keep) == (days > 0 or events > 0)
    assert 0 <= keep.horizon_us(now_us) <= now_us
    assert not Keep(0.0, events).horizon_us(now_us)


def test_the_last_ten_minutes_are_not_for_the_clock_to_say() -> None:
    """What is young is counted from the newest event, so that a clock that jumps makes nothing old."""
    state = State(TrimmedHistory().bench.state.settings)
    state.at_us = DAY_US
    assert settled_us(state) == DAY_US - 600 * US
