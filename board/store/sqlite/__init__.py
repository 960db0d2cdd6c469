"""The log in one SQLite file: one thread writes and checkpoints, a few read.

Key decisions, with what each costs and buys:

* One writing connection in one thread; every write is a job in its queue, and the jobs that came while one transaction
  synced form the next (`writer`). It costs a hop to the thread and back; it buys group commit, and no "database is
  locked".
* Every statement that touches many rows is one step: rows go in by the hundreds (`log`), and come out joined in one
  value (`pages`). The interpreter's lock is let go for each step of a statement and taken back after it, which takes up
  to 5 ms while the event loop is busy: 1,000 rows in 1,000 steps took 3.4 s then, in 10 steps 26 ms.
* What is only needed to find notes (words, places, recipients) is indexed after the commit (`derived`): at once when a
  read needs it, else when the writer is idle, without a sync of its own.

The file may be opened by other processes, as the command line's token calls do while a server runs: each write takes
the file's write lock and waits up to 5 s for it. Two servers on one file cannot harm the log: the head of a board only
moves from where the writer saw it, and the loser gets HeadMoved. They would not hear of each other's events, though.
"""

from board.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
