"""The command line of the board: `board serve` runs it, every other command calls it.

Each module adds its commands to `root.app` when it is imported. What is heavy (the HTTP client, the server, rich) is
only imported by a command that runs, so that `board --help` answers at once.
"""

from __future__ import annotations

from board.cli import boards, claims, logs, notes, reading, serving, tokens, upkeep
from board.cli.root import app

__all__ = ["app", "boards", "claims", "logs", "main", "notes", "reading", "serving", "tokens", "upkeep"]


def main() -> None:
    """Run the command line, and leave the process with its exit status."""
    app()
