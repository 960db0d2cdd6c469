"""Who is here, where other nodes know of workers too."""

from __future__ import annotations

from board.service.presence import Presence
from board.store.commons import Sockets
from board.store.contract import WorkerRow


def presence(*names: str) -> Presence:
    """Give workers that called at 10."""
    return Presence([WorkerRow(name, "", 1, 10) for name in names])


def test_a_worker_is_gone_with_its_last_socket() -> None:
    """Who had a socket, has none, and has not called since is gone; a call brings it back."""
    here = presence("w1")
    here.connected("w1")
    assert not here.gone
    assert here.disconnected("w1", 20)
    assert here.gone == {"w1"}
    here.seen("w1", 21)
    assert not here.gone


def test_sockets_elsewhere_keep_a_worker_here() -> None:
    """A worker whose last socket here closed is not gone while it has one on another node."""
    here = presence("w1")
    here.connected("w1")
    here.meet([], [Sockets("w1", 1, 0)])
    here.disconnected("w1", 20)
    assert not here.gone
    here.meet([], [Sockets("w1", 0, 30)])
    assert here.gone == {"w1"}


def test_a_call_elsewhere_brings_a_worker_back() -> None:
    """A worker that called another node after its last socket closed is here again."""
    here = presence("w1")
    here.meet([], [Sockets("w1", 0, 30)])
    assert here.gone == {"w1"}
    here.meet([WorkerRow("w1", "", 1, 31)], [Sockets("w1", 0, 30)])
    assert not here.gone


def test_a_call_here_outlasts_what_others_say() -> None:
    """A call here counts though the others still say that the worker left before."""
    here = presence("w1")
    here.meet([], [Sockets("w1", 0, 30)])
    here.seen("w1", 40)
    here.meet([], [Sockets("w1", 0, 30)])
    assert not here.gone


def test_sockets_add_up() -> None:
    """Sockets of a worker are those here and those elsewhere."""
    here = presence("w1", "w2")
    here.connected("w1")
    here.meet([], [Sockets("w1", 2, 0), Sockets("w2", 1, 0), Sockets("stranger", 1, 0)])
    assert (here.sockets_of("w1"), here.sockets_of("w2")) == (3, 1)


def test_changes_are_told_once() -> None:
    """What changed of sockets here is told once, and again where it could not be told."""
    here = presence("w1", "w2")
    here.connected("w1")
    told = here.take_sockets()
    assert told == [Sockets("w1", 1, 0)]
    assert here.take_sockets() == []
    here.put_back_sockets(told)
    here.disconnected("w1", 20)
    assert here.take_sockets() == [Sockets("w1", 0, 20)]
    here.seen("w1", 30)
    assert here.take_sockets() == [Sockets("w1", 0, 0)]
    here.seen("w2", 30)
    assert here.take_sockets() == []
