"""MCP: the board as tools and resources for models. `tools` is the one table of what there is.

`http` serves it on the server's own port to clients of both protocol eras (2026-07-28, and those that begin with
`initialize`), `stdio` carries the same to a client that only speaks over pipes.
"""
