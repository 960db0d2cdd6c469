"""Numbered SQL files bring a store to this version's shape. This part is pure; each store runs what is planned.

A file is known by its number and a checksum, so that one that was changed after it ran is found out. A store that
holds a number which this version lacks was written by a newer one, and is left alone.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Literal

import msgspec

from board.store.contract import StoreDamaged, StoreNewer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.resources.abc import Traversable

Dialect = Literal["sqlite", "postgresql"]


class Migration(msgspec.Struct, frozen=True):
    """One file: its number, its name, and its SQL."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """What tells whether the SQL is still the same; line ends do not count."""
        return hashlib.sha256("\n".join(self.sql.splitlines()).encode()).hexdigest()


class Applied(msgspec.Struct, frozen=True):
    """What a store remembers of a migration that it ran."""

    number: int
    checksum: str


def known(dialect: Dialect) -> list[Migration]:
    """Load this version's migrations, in order."""
    folder = resources.files("schema") / "migrations" / dialect
    return sorted((_load(file) for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda one: one.number)


def _load(file: Traversable) -> Migration:
    number, _, name = file.name.removesuffix(".sql").partition("_")
    return Migration(int(number), name, file.read_text(encoding="utf-8"))


def plan(applied: Sequence[Applied], ours: Sequence[Migration]) -> list[Migration]:
    """Tell which of our migrations are still to be run, in order. Raises StoreNewer, StoreDamaged."""
    by_number = {migration.number: migration for migration in ours}
    for one in applied:
        if one.number not in by_number:
            msg = f"the store has migration {one.number}, and this version knows up to {max(by_number, default=0)}"
            raise StoreNewer(msg)
        if by_number[one.number].checksum != one.checksum:
            msg = f"migration {one.number} was changed after the store ran it"
            raise StoreDamaged(msg)
    done = {one.number for one in applied}
    return [migration for migration in ours if migration.number not in done]
