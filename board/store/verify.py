"""Checking a store through its contract alone: the log of every board, and what it folds to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from board.core.audit import Audited, Entry, Finding, LogAudit, Report, beginning

if TYPE_CHECKING:
    from board.core.state import State
    from board.store.contract import BoardRow, Store

PAGE_ROWS: Final = 1000


async def verify(store: Store) -> Report:
    """Check an open store. Raises StoreUnavailable."""
    boards: list[Audited] = []
    findings: list[Finding] = []
    for row in await store.boards():
        state, wrong = beginning(row.name, row.settings, row.oldest, await store.base(row.name))
        audit = await _audited(store, row, state)
        findings += [*wrong, *audit.findings]
        findings += await _wrong_acks(store, row)
        boards.append(Audited(row.name, audit.events, row.head, audit.state.state_hash(), row.oldest))
    return Report(tuple(boards), tuple(findings))


async def _audited(store: Store, row: BoardRow, state: State) -> LogAudit:
    audit = LogAudit(row.name, state, head=row.head, checkpoint=await store.checkpoint(row.name))
    after, more = row.oldest - 1, True
    while more:
        rows = [one for one in await store.records(row.name, after=after, limit=PAGE_ROWS) if one.seq <= row.head]
        for one in rows:
            audit.take(Entry(one.seq, one.body, one.detail, one.key, one.digest))
        more = bool(rows)
        after = rows[-1].seq if rows else after
    audit.finish()
    return audit


async def _wrong_acks(store: Store, row: BoardRow) -> list[Finding]:
    acks = await store.all_acks(row.name)
    return [
        Finding(row.name, seq, f"was acknowledged by {worker}, and is beyond the head {row.head}")
        for worker, one in acks.items()
        for seq in (one.through, *one.seqs)
        if seq > row.head
    ]
