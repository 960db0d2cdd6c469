"""How nodes that share a store tell each other that something happened. A bell and no log: what it loses is read there.

Key decisions, with what each costs and buys:

* A ring is handed over and forgotten: no write waits for it, and none fails by it. It costs that a ring may be lost; the
  service therefore looks at the heads of the log every second anyway (`board.service.neighbours`), and whoever sees a
  seq that does not follow reads the log.
* Redis carries the encoded batch, so that a node which hears it in order folds it without a word to PostgreSQL.
  PostgreSQL's own NOTIFY carries the head alone: it takes less than 8,000 bytes, and is read in the log anyway.
* Every bus rings itself once a second. A subscription that does not hear that is deaf, however healthy its connection
  looks, and is made anew. Each time one begins, the listener is told that rings may have been lost before.
* Rings name the epoch of the log. Pub/sub knows no databases: a second cluster on the same Redis has a `main` as well.
"""
