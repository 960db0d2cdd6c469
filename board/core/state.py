"""The folded state of a board: what decisions need, and nothing that grows with the number of notes.

It holds live and waiting claims, open conflicts, the texts of the last ten minutes (so that a repeated FACT is
answered with the first one) and counts. Notes stay in the log. `freeze` is its canonical form: two states are equal
when their frozen bytes are, and `state_hash` is the hash of those.
"""

from __future__ import annotations

import heapq
from collections import deque
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from board.core.scope_index import ScopeIndex
from board.core.spelling import spell
from schema.limits import SAME_TEXT_WINDOW_S, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from board.core.scope import Target

US = 1_000_000

TEXTS: Final = 65_536
"""The most texts that are remembered for each board: about 20 MiB."""

_STALE_ENDS = 1024
"""How many ends of leases that no longer count are kept at the least before they are swept out."""


class Lease(msgspec.Struct, frozen=True):
    """A claim that is live, or waits to be. Times are microseconds since 1970.

    It ends at `expires_us` unless it is renewed; `renewed_us` is the last sign of life that the log knows, and
    `since_us` is when it was granted (posted, while it waits): six hours after that it ends anyway.
    """

    claim: int
    holder: str
    text: str
    scope: tuple[str, ...]
    task: str
    state: Literal["held", "waiting"]
    at_us: int
    since_us: int
    ttl_s: int
    renewed_us: int
    expires_us: int


class Conflict(msgspec.Struct, frozen=True):
    """Two live claims that meet, the earlier first; `seq` is its `conflict.opened`."""

    seq: int
    claims: tuple[int, int]
    holders: tuple[str, str]
    overlap: tuple[str, ...]
    at_us: int


class Frozen(msgspec.Struct, frozen=True):
    """The canonical form of a state: what a checkpoint keeps."""

    seq: int
    at_us: int
    leases: list[Lease]
    conflicts: list[Conflict]
    texts: list[tuple[bytes, int, int]]
    counts: list[tuple[str, int]]


class Texts:
    """The digests of the FACT and FAIL notes of the last ten minutes, each with the seq of its first note.

    They are the newest `TEXTS` of them at the most, which is 109 a second for ten minutes; beyond that a repeated text
    may be stored twice, as it would be after ten minutes.
    """

    __slots__ = ("_first", "_forgotten_us", "_order")

    def __init__(self, rows: list[tuple[bytes, int, int]] | None = None) -> None:
        self._order: deque[tuple[bytes, int, int]] = deque(rows or [])
        self._first = {row[0]: row for row in self._order}
        self._forgotten_us = 0

    def first(self, digest: bytes, now_us: int) -> int | None:
        """Give the seq of the note with this digest, if it is at most ten minutes old at `now_us`."""
        row = self._first.get(digest)
        return row[1] if row is not None and now_us - row[2] <= SAME_TEXT_WINDOW_S * US else None

    def add(self, digest: bytes, seq: int, at_us: int) -> None:
        """Remember a note, unless an earlier one with the same digest still counts; drop what is too old by then."""
        if at_us != self._forgotten_us:
            self._forget(at_us)
        row = (digest, seq, at_us)
        if self._first.setdefault(digest, row) is row:
            self._order.append(row)
            if len(self._order) > TEXTS:
                del self._first[self._order.popleft()[0]]

    def _forget(self, now_us: int) -> None:
        self._forgotten_us = now_us  # the notes of one group have one time
        horizon = now_us - SAME_TEXT_WINDOW_S * US
        while self._order and self._order[0][2] < horizon:
            del self._first[self._order.popleft()[0]]

    def drop(self, seq: int) -> None:
        """Forget one note, because it was retracted."""
        for row in self._order:
            if row[1] == seq:
                self._order.remove(row)
                del self._first[row[0]]
                return

    def rows(self) -> list[tuple[bytes, int, int]]:
        """All that is remembered: digest, seq, time, oldest first."""
        return list(self._order)


class State:
    """A board as of `seq`. Changed by `board.core.fold.apply` alone; read by `decide` and by views."""

    __slots__ = (
        "_due", "_holders", "_waiting_order", "at_us", "conflicts", "conflicts_of", "counts", "held", "leases", "seq",
        "settings", "texts", "waiting",
    )  # fmt: skip

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.seq = 0
        self.at_us = 0
        self.leases: dict[int, Lease] = {}
        self.conflicts: dict[int, Conflict] = {}
        self.conflicts_of: dict[int, set[int]] = {}
        self.texts = Texts()
        self.counts: dict[str, int] = {}
        self.held = ScopeIndex()
        self.waiting = ScopeIndex()
        self._waiting_order: dict[int, None] = {}
        self._holders: dict[str, set[int]] = {}
        self._due: list[tuple[int, int]] = []

    def targets(self, scope: tuple[str, ...]) -> tuple[Target, ...]:
        """Parse a scope that was spelt before, by this board's rule on case."""
        chars = self.settings.target_chars
        return tuple(spell(text, case_insensitive=self.settings.case_insensitive, max_chars=chars) for text in scope)

    def put_lease(self, lease: Lease) -> None:
        """Add a lease, or replace the one of the same claim."""
        self.drop_lease(lease.claim)
        self.leases[lease.claim] = lease
        self._holders.setdefault(lease.holder, set()).add(lease.claim)
        self._watch(lease.expires_us, lease.claim)
        if lease.state == "held":
            self.held.add(lease.claim, self.targets(lease.scope))
        else:
            self.waiting.add(lease.claim, self.targets(lease.scope))
            self._waiting_order[lease.claim] = None

    def extend_lease(self, lease: Lease, *, renewed_us: int, expires_us: int) -> None:
        """Move the end of a lease. Its scope stays, so the indexes do not move."""
        self.leases[lease.claim] = msgspec.structs.replace(lease, renewed_us=renewed_us, expires_us=expires_us)
        self._watch(expires_us, lease.claim)

    def _watch(self, expires_us: int, claim: int) -> None:
        # Ends of leases that are over or were moved stay in the heap until it is mostly those: a claim of six hours
        # that is released after a second would otherwise be kept for six hours.
        if len(self._due) > 2 * len(self.leases) + _STALE_ENDS:
            self._due = [(lease.expires_us, lease.claim) for lease in self.leases.values()]
            heapq.heapify(self._due)
        heapq.heappush(self._due, (expires_us, claim))

    def drop_lease(self, claim: int) -> Lease | None:
        """Remove a lease and give it, or None where there is none."""
        lease = self.leases.pop(claim, None)
        if lease is None:
            return None
        claims = self._holders[lease.holder]
        claims.discard(claim)
        if not claims:
            del self._holders[lease.holder]
        (self.held if lease.state == "held" else self.waiting).discard(claim)
        self._waiting_order.pop(claim, None)
        return lease

    def leases_of(self, holder: str) -> list[Lease]:
        """The leases of one worker, held and waiting, by seq."""
        return [self.leases[claim] for claim in sorted(self._holders.get(holder, ()))]

    def waiting_leases(self) -> list[Lease]:
        """The claims that wait, first come first."""
        return [self.leases[claim] for claim in sorted(self._waiting_order)]

    def next_due_us(self) -> int | None:
        """When the next lease ends, or None where there is none."""
        while self._due:
            expires_us, claim = self._due[0]
            lease = self.leases.get(claim)
            if lease is not None and lease.expires_us == expires_us:
                return expires_us
            heapq.heappop(self._due)
        return None

    def due_leases(self, now_us: int) -> Iterator[Lease]:
        """The leases that have ended by `now_us`, the earliest end first."""
        ended = {claim for expires_us, claim in self._due if expires_us <= now_us}
        leases = [lease for claim in ended if (lease := self.leases.get(claim)) and lease.expires_us <= now_us]
        return iter(sorted(leases, key=lambda lease: (lease.expires_us, lease.claim)))

    def put_conflict(self, conflict: Conflict) -> None:
        """Add an open conflict."""
        self.conflicts[conflict.seq] = conflict
        for claim in conflict.claims:
            self.conflicts_of.setdefault(claim, set()).add(conflict.seq)

    def drop_conflict(self, seq: int) -> None:
        """Remove a conflict that was closed."""
        conflict = self.conflicts.pop(seq)
        for claim in conflict.claims:
            rest = self.conflicts_of[claim]
            rest.discard(seq)
            if not rest:
                del self.conflicts_of[claim]

    def conflicts_about(self, claim: int) -> list[Conflict]:
        """The open conflicts of one claim, by seq."""
        return [self.conflicts[seq] for seq in sorted(self.conflicts_of.get(claim, ()))]

    def freeze(self) -> bytes:
        """Give the canonical bytes of this state."""
        return msgspec.json.encode(
            Frozen(
                self.seq,
                self.at_us,
                [self.leases[claim] for claim in sorted(self.leases)],
                [self.conflicts[seq] for seq in sorted(self.conflicts)],
                self.texts.rows(),
                sorted(self.counts.items()),
            )
        )

    def state_hash(self) -> str:
        """Give the hash of the canonical bytes, 32 hexadecimal digits."""
        return blake2b(self.freeze(), digest_size=16).hexdigest()


def thaw(frozen: bytes, settings: Settings) -> State:
    """Make a state from its canonical bytes. Raises msgspec.DecodeError on bytes of another shape."""
    parts = msgspec.json.decode(frozen, type=Frozen)
    state = State(settings)
    state.seq, state.at_us = parts.seq, parts.at_us
    state.texts = Texts(parts.texts)
    state.counts = dict(parts.counts)
    for lease in parts.leases:
        state.put_lease(lease)
    for conflict in parts.conflicts:
        state.put_conflict(conflict)
    return state


def clone(state: State) -> State:
    """Make a second state that moves on its own."""
    return thaw(state.freeze(), state.settings)
