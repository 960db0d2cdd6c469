"""Live claims whose intent reads like a new one's although the scopes do not meet: advice, never a refusal.

Two workers can set out to do the same thing in different files. Texts are compared by the share of words that they have
in common, whatever their order (RapidFuzz's token set ratio, from 0 to 100).
"""

from __future__ import annotations

from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec
from rapidfuzz import process, utils
from rapidfuzz.fuzz import token_set_ratio

from schema.limits import SIMILAR_LIMIT

if TYPE_CHECKING:
    from collections.abc import Collection

    from board.core.state import Lease, State

LEAST_SCORE: Final = 75
"""Below this two intents that share only the words of the trade would be called alike."""

NEWEST: Final = 512
"""How many of the newest leases are compared: it bounds the cost of a claim on a board with thousands."""


class SimilarClaim(msgspec.Struct, frozen=True):
    """A claim that reads alike, and how much so, from 0 to 100."""

    claim: int
    holder: str
    text: str
    scope: tuple[str, ...]
    score: int


def similar_claims(state: State, worker: str, text: str, but: Collection[int]) -> list[SimilarClaim]:
    """Find at most three claims of others that read like `text`, the most alike first, without those in `but`."""
    newest = islice(reversed(state.leases.values()), NEWEST)
    leases = [lease for lease in newest if lease.holder != worker and lease.claim not in but]
    scored = process.extract_iter(
        text,
        [lease.text for lease in leases],
        scorer=token_set_ratio,
        processor=utils.default_process,
        score_cutoff=LEAST_SCORE,
    )
    found = [_described(leases[index], round(score)) for _, score, index in scored]
    return nlargest(SIMILAR_LIMIT, found, key=lambda one: (one.score, one.claim))


def _described(lease: Lease, score: int) -> SimilarClaim:
    return SimilarClaim(lease.claim, lease.holder, lease.text, lease.scope, score)
