"""Who waits for whom, who is next, and the rings of waiters that must never close.

A worker waits for whoever holds a part of what its waiting claims want, and for whoever began to wait for a part of it
before. Grants pass over a waiter whose connections are gone; rings do not, because it keeps its place and may be back
at any time. Pure functions over the state: none of them changes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from board.core.claims import conflicts_with
from board.core.scope import Target
from board.core.state import US, Lease, State
from schema.codec import text_of_us
from schema.events import BOARD_AUTHOR, ClaimGranted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


class Prospect(msgspec.Struct, frozen=True):
    """A claim that may come to be: a new one, a waiting one that is granted, or one that another worker takes over."""

    claim: int
    holder: str
    targets: tuple[Target, ...]
    waits: bool = False


def waiting_before(
    state: State, worker: str, targets: Sequence[Target], claim: int | None, gone: Collection[str]
) -> list[Lease]:
    """The claims of others that wait for a part of the targets and came before `claim` (before now where None)."""
    if not state.waiting:
        return []
    leases = [state.leases[other] for other in state.waiting.overlapping(targets) if claim is None or other < claim]
    return [lease for lease in leases if lease.holder != worker and lease.holder not in gone]


def next_grant(state: State, now_us: int, gone: Collection[str], seq: int) -> ClaimGranted | None:
    """The first waiting claim whose way is free, as the event that grants it.

    First come first served: a waiter also waits for earlier waiters that want a part of the same. One whose worker
    went away is passed over, and keeps its place until its lease ends; but not where the one that passes holds what
    the other would wait for while it waits for the other itself.
    """
    for lease in state.waiting_leases():
        targets = state.targets(lease.scope)
        if lease.holder in gone or conflicts_with(state, lease.holder, targets, now_us):
            continue
        if waiting_before(state, lease.holder, targets, lease.claim, gone):
            continue
        if ring_with(state, Prospect(lease.claim, lease.holder, targets)):
            continue
        return ClaimGranted(
            seq=seq,
            at=text_of_us(now_us),
            author=BOARD_AUTHOR,
            claim=lease.claim,
            holder=lease.holder,
            expires_at=text_of_us(now_us + lease.ttl_s * US),
        )
    return None


def ring_with(state: State, prospect: Prospect) -> tuple[str, ...]:
    """The ring of waiters that would close if this claim stood beside the others.

    Gives the ring spelt out, with the holder at both ends: `("w3", "w1", "w2", "w3")`. Empty where there is none. A
    ring that was not there before leads through the holder, whose waits and claims are all that changes.
    """
    if not (state.waiting or prospect.waits):
        return ()
    holder, graph = prospect.holder, _Graph(state, prospect)
    came_from: dict[str, str] = dict.fromkeys(sorted(graph.blockers_of(holder)), holder)
    open_ = list(came_from)
    while open_:
        at = open_.pop()
        for following in sorted(graph.blockers_of(at)):
            if following == holder:
                return (*_path(at, came_from, holder), holder)
            if following not in came_from:
                came_from[following] = at
                open_.append(following)
    return ()


def _path(at: str, came_from: Mapping[str, str], start: str) -> tuple[str, ...]:
    path = [at]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))


class _Graph:
    """Who would wait for whom, with one claim that is not there yet, or is another's."""

    def __init__(self, state: State, prospect: Prospect) -> None:
        self._state = state
        self._prospect = prospect
        self._wanting = state.waiting.overlapping(prospect.targets)

    def blockers_of(self, worker: str) -> set[str]:
        """Whom a worker would wait for."""
        given = self._prospect
        blockers: set[str] = set()
        for lease in self._state.leases_of(worker):
            if lease.state == "waiting" and lease.claim != given.claim:
                blockers.update(self._blockers(lease.claim, self._state.targets(lease.scope)))
                if lease.claim in self._wanting and (not given.waits or given.claim < lease.claim):
                    blockers.add(given.holder)
        if given.waits and given.holder == worker:
            blockers.update(self._blockers(given.claim, given.targets))
        return blockers - {worker}

    def _blockers(self, claim: int, targets: Sequence[Target]) -> Iterator[str]:
        state = self._state
        earlier = (other for other in state.waiting.overlapping(targets) if other < claim)
        for other in (*state.held.overlapping(targets), *earlier):
            if other != self._prospect.claim:
                yield state.leases[other].holder
