"""The bookkeeping of a subscription, and what each close code means for it."""

from __future__ import annotations

import msgspec
import pytest

from workers.client.inbox import Inbox
from workers.client.position import Filter, Position, StreamHole, refusal_of_close


def raw(seq: int) -> msgspec.Raw:
    """Encode as much of an event as the inbox looks at."""
    return msgspec.Raw(msgspec.json.encode({"seq": seq, "kind": "note"}))


@pytest.mark.parametrize(
    ("begin", "asked"),
    [({}, ()), ({"after": 0}, (("after", "0"),)), ({"tail": 5}, (("tail", "5"),)), ({"tail": 0}, (("tail", "0"),))],
)
def test_begins_as_it_was_told(begin: dict[str, int], asked: tuple[tuple[str, str], ...]) -> None:
    """The first connection asks for what the caller asked for; zero is a position and a tail of its own."""
    assert Position(**begin).params() == asked


def test_remembers_where_it_stands() -> None:
    """A later connection asks for what follows the last event of the same life of the log."""
    position = Position(tail=5, where=Filter(to="w1"))
    position.hello(epoch="e", head=9, after=4)
    position.take(7)
    assert position.params() == (("epoch", "e"), ("after", "7"), ("to", "w1"))


def test_a_hello_does_not_move_a_position_that_is_known() -> None:
    """The server's `after` counts only for a reader that left the beginning to the server."""
    position = Position(after=3)
    position.hello(epoch="e", head=9, after=3)
    position.take(4)
    position.hello(epoch="e", head=9, after=3)
    assert position.after == 4


def test_a_hole_before_the_live_tail_is_found() -> None:
    """Without a filter, history that ends short of what is said to be sent is a hole."""
    position = Position(after=0)
    position.take(1)
    with pytest.raises(StreamHole, match="after seq 1 came 6"):
        position.live(5)
    assert position.after == 1


def test_the_live_mark_moves_a_filtered_position() -> None:
    """With a filter, what was looked through without a match is not read again."""
    position = Position(after=0, where=Filter(types=("FAIL",)))
    position.live(50)
    assert position.after == 50
    position.live(20)
    assert position.after == 50


def test_no_hole_is_seen_where_a_filter_was_lifted() -> None:
    """After a change of filter the next event may be any later one; from the next connection on all are expected."""
    position = Position(after=0, where=Filter(types=("FAIL",)))
    position.refilter(Filter())
    assert position.take(9)
    position.hello(epoch="e", head=9, after=9)
    with pytest.raises(StreamHole):
        position.take(11)


@pytest.mark.parametrize("code", [1000, 1001, 1005, 1006, 1009, 1011, 1012, 1013, 1014, 4429])
def test_closes_that_only_end_a_connection(code: int) -> None:
    """After these the same reader connects again."""
    assert refusal_of_close(code, '{"code":"going_away","seq":7}') is None


@pytest.mark.parametrize(
    ("close", "reason", "code", "facts"),
    [
        (4409, "", "wrong_epoch", {}),
        (4409, '{"code":"position_from_future","head":7,"detail":"no"}', "position_from_future", {"head": 7}),
        (4410, '{"code":"position_gone","oldest":40,"detail":"no"}', "position_gone", {"oldest": 40}),
        (4410, "only from 40 on", "position_gone", {}),
        (4400, '{"code":"bad_target"}', "bad_target", {}),
        (4401, '{"code":"unauthorized"}', "unauthorized", {}),
        (4444, '{"code":"of_a_newer_board"}', "of_a_newer_board", {}),
        (4444, "", "internal_error", {}),
        (1002, "", "internal_error", {}),
    ],
)
def test_closes_that_end_the_subscription(close: int, reason: str, code: str, facts: dict[str, int]) -> None:
    """The reason names the refusal where it can, the close code where it must; unknown codes are kept."""
    refused = refusal_of_close(close, reason)
    assert refused is not None
    assert refused.problem.code == code
    assert refused.problem.facts == {"close": close, **facts}


def test_an_inbox_gives_out_what_came_once_and_in_order() -> None:
    """Events leave as they came, without those that came before."""
    inbox = Inbox(Position(after=0), bound=10)
    inbox.put([raw(1), raw(2)])
    inbox.put([raw(2), raw(3)])
    arrived = [inbox.get() for _ in range(4)]
    assert [one.seq for one in arrived if one is not None] == [1, 2, 3]
    assert arrived[-1] is None


def test_a_full_inbox_breaks_off_and_stays_where_it_was() -> None:
    """What finds no room moves nothing, neither as an event nor as a live mark, so it is read again later."""
    position = Position(after=0, where=Filter(to="w1"))
    inbox = Inbox(position, bound=2)
    inbox.put([raw(1), raw(2), raw(3)])
    assert inbox.full
    inbox.put([raw(4)])
    inbox.live(90)
    assert inbox.broken_off
    assert position.after == 3
    while inbox.get():
        pass
    inbox.put([raw(5)])
    assert position.after == 3
    inbox.reconnected()
    inbox.put([raw(4)])
    assert position.after == 4
