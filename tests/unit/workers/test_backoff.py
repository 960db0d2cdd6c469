"""How long to wait before the next try."""

from __future__ import annotations

import pytest

from workers.client.backoff import Backoff


@pytest.mark.parametrize("failures", [1, 2, 5, 50, 10_000])
def test_waits_are_spread_over_a_bounded_span(failures: int) -> None:
    """A wait is anything from zero to a bound that doubles with each failure and ends at the cap."""
    backoff = Backoff(base_s=0.1, cap_s=5.0)
    assert backoff.delay_s(failures, 0.0) == 0.0
    assert 0.0 < backoff.delay_s(failures, 1.0) <= 5.0


def test_no_try_follows_the_last() -> None:
    """`tries` counts the first one."""
    backoff = Backoff(tries=3)
    assert backoff.next_delay_s(2, 0.0) is not None
    assert backoff.next_delay_s(3, 0.0) is None


def test_a_wait_that_was_asked_for_is_a_lower_bound() -> None:
    """The server's wish counts up to `longest_s`; beyond that the caller is told at once."""
    backoff = Backoff(base_s=1.0, cap_s=1.0, longest_s=60.0)
    assert backoff.next_delay_s(1, 0.0, 7.0) == 7.0
    assert backoff.next_delay_s(1, 1.0, 0.5) == 1.0
    assert backoff.next_delay_s(1, 1.0, 61.0) is None
