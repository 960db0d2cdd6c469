"""The log in PostgreSQL, shared by any number of nodes.

Key decisions, with what each costs and buys:

* To write is to hold the lock of the board's row: lock, read what was missed, decide, insert, commit. It costs three
  round trips around the insert; it buys that no two nodes decide on the same state, so that a claim has one holder.
* The database checks what the lock promises: the head moves by inserts alone, from the seq before the first one of a
  statement (`schema/migrations/postgresql/0001_log.sql`). It costs a trigger a statement, not a row; it buys that a
  node with a fault cannot leave a hole, reuse a seq, or store what it decided on an older log.
* A batch is one statement of one array a column (`unnest`), so its cost is the rows' and not the round trips'.
* Nothing waits without an end: for a connection, for a lock, for an answer, `wait_s` each; and a node that stopped in
  the middle of a transaction is thrown out of it by the server after as long.
* A connection that breaks during the commit leaves a doubt. It is settled by taking the row's lock again, which is free
  when the other transaction is over, and looking (`transaction`). Only where PostgreSQL stays away is it told:
  `OutcomeUnknown`.
* What is only needed to find notes is indexed after the commit (`derived`), by whichever node is first.
"""

from board.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
