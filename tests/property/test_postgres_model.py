"""Whatever is written, in whatever order, PostgreSQL's store answers as the oracle does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from board.store.postgres import PostgresStore
from tests.property.test_store_model import Stores

if TYPE_CHECKING:
    from tests.harness.postgres import Postgres


class PostgresStores(Stores):
    """The oracle and PostgreSQL's store side by side."""

    def __init__(self, server: Postgres) -> None:
        self.place = asyncio.run(server.new_place())
        super().__init__()

    def made(self) -> PostgresStore:  # type: ignore[override] -- another store
        """Make the store on its schema."""
        return PostgresStore(self.place)


def compare(server: Postgres, examples: int) -> None:
    """Do the same to both, so many times."""
    chosen = settings(
        max_examples=examples, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(lambda: PostgresStores(server), settings=chosen)


def test_postgresql_answers_as_the_oracle(postgres_server: Postgres) -> None:
    """Ten long series of writes and questions get the same answers from both."""
    compare(postgres_server, 10)


@pytest.mark.slow
def test_postgresql_answers_as_the_oracle_for_long(postgres_server: Postgres) -> None:
    """The same three hundred times."""
    compare(postgres_server, 300)
