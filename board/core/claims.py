"""The rules of claims: who is in the way, and what ends when. Who waits for whom is in `board.core.waits`.

A claim is a lease on its scope. Pure functions over the state: none of them changes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from board.core.state import US, Lease, State
from schema.codec import text_of_us
from schema.events import (
    BOARD_AUTHOR,
    AnyEvent,
    Blocker,
    ClaimExpired,
    ClaimRenewed,
    ConflictClosed,
)
from schema.limits import CLAIM_LIFE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from board.core.scope import Overlap, Target

RENEW_SHARE: Final = 3
"""A sign of life renews a lease at most once in every third of its `ttl_s` (contract, section 4)."""


class ConflictEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One live claim in the way, as the asker is told: who holds what until when, and where the two meet.

    `possible` says that a symbol and a line range cannot be told apart.
    """

    claim: int
    holder: str
    text: str
    scope: tuple[str, ...]
    overlap: tuple[str, ...]
    expires_at: str
    expires_in_s: float
    possible: bool = False

    def blocker(self) -> Blocker:
        """The part of it that the log keeps."""
        return Blocker(self.claim, self.holder, self.overlap)


def entry_of(lease: Lease, overlaps: Sequence[Overlap], now_us: int) -> ConflictEntry:
    """Describe a lease that is in the way at these places."""
    return ConflictEntry(
        claim=lease.claim,
        holder=lease.holder,
        text=lease.text,
        scope=lease.scope,
        overlap=tuple(overlap.text for overlap in overlaps),
        expires_at=text_of_us(lease.expires_us),
        expires_in_s=round((lease.expires_us - now_us) / US, 3),
        possible=all(overlap.possible for overlap in overlaps),
    )


def conflicts_with(state: State, worker: str, targets: Sequence[Target], now_us: int) -> list[ConflictEntry]:
    """The held claims of others that overlap the targets, by seq. One's own never conflict."""
    meeting = state.held.overlapping(targets)
    return [
        entry_of(lease, overlaps, now_us)
        for claim, overlaps in meeting.items()
        if (lease := state.leases[claim]).holder != worker
    ]


def free_targets(state: State, worker: str, targets: Sequence[Target]) -> tuple[str, ...]:
    """Those of the targets that no other worker holds a part of."""
    return tuple(
        target.text
        for target in targets
        if all(state.leases[claim].holder == worker for claim in state.held.overlapping((target,)))
    )


def lease_end_us(lease: Lease, from_us: int, ttl_s: int) -> int:
    """When a lease that is renewed at `from_us` ends: never earlier than it did, never after six hours of life."""
    return min(max(lease.expires_us, from_us + ttl_s * US), lease.since_us + CLAIM_LIFE_S * US)


def sign_of_life(state: State, worker: str, now_us: int, seq: int) -> list[AnyEvent]:
    """The renewals that a call of this worker brings, numbered from `seq`."""
    events: list[AnyEvent] = []
    for lease in state.leases_of(worker):
        if (now_us - lease.renewed_us) * RENEW_SHARE < lease.ttl_s * US:
            continue
        end_us = lease_end_us(lease, now_us, lease.ttl_s)
        if end_us > lease.expires_us:
            events.append(_renewal(lease, now_us, end_us, seq + len(events)))
    return events


def _renewal(lease: Lease, now_us: int, end_us: int, seq: int) -> ClaimRenewed:
    end = text_of_us(end_us)
    return ClaimRenewed(
        seq=seq, at=text_of_us(now_us), author=BOARD_AUTHOR, claim=lease.claim, holder=lease.holder, expires_at=end
    )


def ending(state: State, now_us: int, last_seen_us: Callable[[str], int], seq: int) -> list[AnyEvent]:
    """What time has brought by `now_us`: expiries and the conflicts they close, numbered from `seq`.

    `last_seen_us` tells when a holder last called (0 for never), as far as this process knows. A holder that was seen since its last
    renewal, less than `ttl_s` ago, is renewed from then instead: the lazy renewal must not cost it the lease.
    """
    due_us = state.next_due_us()
    if due_us is None or due_us > now_us:
        return []
    events: list[AnyEvent] = []
    closed: set[int] = set()
    for lease in state.due_leases(now_us):
        last_us = max(last_seen_us(lease.holder), lease.renewed_us)
        end_us = lease_end_us(lease, last_us, lease.ttl_s)
        if end_us > now_us:
            events.append(_renewal(lease, now_us, end_us, seq + len(events)))
            continue
        events.append(_expiry(lease, now_us, last_us, seq + len(events)))
        events.extend(closings(state, lease.claim, "expired", now_us, seq + len(events), closed))
    return events


def _expiry(lease: Lease, now_us: int, last_us: int, seq: int) -> ClaimExpired:
    over = now_us >= lease.since_us + CLAIM_LIFE_S * US
    return ClaimExpired(
        seq=seq,
        at=text_of_us(now_us),
        author=BOARD_AUTHOR,
        claim=lease.claim,
        holder=lease.holder,
        expires_at=text_of_us(lease.expires_us),
        last_seen=text_of_us(last_us),
        how="life" if over else "lease",
    )


def closings(
    state: State, claim: int, how: str, now_us: int, seq: int, closed: set[int], *, only: Collection[int] | None = None
) -> list[AnyEvent]:
    """Close the open conflicts of a claim (`only` some of them), numbered from `seq`; each once (`closed` grows)."""
    events: list[AnyEvent] = []
    for conflict in state.conflicts_about(claim):
        if conflict.seq in closed or (only is not None and conflict.seq not in only):
            continue
        closed.add(conflict.seq)
        events.append(
            ConflictClosed(
                seq=seq + len(events),
                at=text_of_us(now_us),
                author=BOARD_AUTHOR,
                claims=conflict.claims,
                holders=conflict.holders,
                overlap=conflict.overlap,
                conflict=conflict.seq,
                how=how,
            )
        )
    return events


def claim_state(state: State, lease: Lease) -> str:
    """Name the state of a live claim: `held`, `contested` (held beside another), or `waiting`."""
    if lease.state == "waiting":
        return "waiting"
    return "contested" if lease.claim in state.conflicts_of else "held"


def claim_entry(state: State, lease: Lease, now_us: int) -> dict[str, Any]:
    """Describe a live claim as `GET …/claims` lists it."""
    entry: dict[str, Any] = {
        "claim": lease.claim,
        "holder": lease.holder,
        "text": lease.text,
        "scope": lease.scope,
        "state": claim_state(state, lease),
        "at": text_of_us(lease.at_us),
        "expires_at": text_of_us(lease.expires_us),
        "expires_in_s": round((lease.expires_us - now_us) / US, 3),
        "ttl_s": lease.ttl_s,
    }
    if lease.task:
        entry["task"] = lease.task
    if conflicts := state.conflicts_about(lease.claim):
        entry["conflicts"] = [conflict.seq for conflict in conflicts]
    return entry
