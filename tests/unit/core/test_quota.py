"""Buckets and tallies."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from board.core.quota import Bucket, Buckets, Haste, Rate, Tally, retry_after_s, spread_s

RATES = st.builds(Rate, st.integers(1, 50), st.integers(1, 100))
ASKED = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 30)), max_size=40)


@given(RATES, ASKED)
def test_no_stretch_of_time_gives_more_than_it_may(rate: Rate, asked: list[tuple[int, int]]) -> None:
    """Between any two moments no more is given than one burst, what the rate fills, and one batch over the burst."""
    bucket, now_s = Bucket(rate, 0), 0
    given_at: list[tuple[int, int]] = []
    for later_s, count in asked:
        now_s += later_s
        if not bucket.wait_s(count, now_s):
            bucket.take(count, now_s)
            given_at.append((now_s, count))
    for place, (since_s, _) in enumerate(given_at):
        for last in range(place, len(given_at)):
            counts = [count for _, count in given_at[place : last + 1]]
            over = max(0, max(counts) - rate.burst)
            assert sum(counts) <= rate.burst + over + rate.per_s * (given_at[last][0] - since_s) + 1e-6


@given(RATES, ASKED)
def test_whoever_waits_as_told_is_served(rate: Rate, asked: list[tuple[int, int]]) -> None:
    """After the seconds that a refusal names, the same is given, unless somebody else took it meanwhile."""
    bucket, now_s = Bucket(rate, 0), 0.0
    for later_s, count in asked:
        now_s += later_s
        wait_s = bucket.wait_s(count, now_s)
        assert 0 <= wait_s <= (max(n for _, n in asked) + rate.burst) / rate.per_s
        now_s += wait_s + 1e-6 * bool(wait_s)
        assert bucket.wait_s(count, now_s) < 1e-9
        bucket.take(count, now_s)
        assert retry_after_s(wait_s) >= max(1, wait_s)


@given(RATES, ASKED, st.integers(-100, 0))
def test_a_clock_that_goes_back_gives_nothing(rate: Rate, asked: list[tuple[int, int]], back_s: int) -> None:
    """Time that goes back fills no bucket, and empties none."""
    bucket = Bucket(rate, 0)
    for later_s, count in asked:
        bucket.take(count, later_s)
    now_s = max((later_s for later_s, _ in asked), default=0)
    assert bucket.level(now_s + back_s) <= bucket.level(now_s)


def test_no_rate_is_no_limit() -> None:
    """A rate of 0 refuses nothing, and keeps nothing."""
    buckets = Buckets(Rate(0, 5))
    buckets.take("a", 1e9, 0)
    assert buckets.wait_s("a", 1e9, 0) == 0
    assert len(buckets) == 0


def test_full_buckets_are_forgotten() -> None:
    """However many names there were, those that are full again take no room."""
    buckets = Buckets(Rate(1, 2))
    for number in range(100_000):
        buckets.take(f"worker-{number}", 1, now_s=number / 100)
    assert len(buckets) < 3 * Buckets.SWEEP_AT


@given(st.lists(st.sampled_from("ab")))
def test_a_tally_goes_back_to_nothing(names: list[str]) -> None:
    """What was added and dropped again leaves nothing behind."""
    tally = Tally()
    for name in names:
        tally.add(name)
    assert [tally.of(name) for name in "ab"] == [names.count(name) for name in "ab"]
    for name in names:
        tally.drop(name)
    assert not vars(tally)["_open"]


@given(st.integers(1, 10**6), st.text(max_size=20))
def test_nobody_is_told_to_come_too_early(wait_s: int, name: str) -> None:
    """Whoever is told to come again waits for as long as it takes, and half as long again at the most."""
    assert wait_s <= spread_s(wait_s, name) <= wait_s * 1.5
    assert spread_s(wait_s, name) == spread_s(wait_s, name)


def test_a_team_that_is_refused_at_once_comes_back_one_by_one() -> None:
    """A thousand workers who must wait for 20 seconds come in 11 parts, none more than half as large again as its share."""
    told = Counter(spread_s(20, f"worker-{number:04}") for number in range(1000))
    assert told.keys() == set(range(20, 31))
    assert max(told.values()) <= 1.5 * 1000 / 11


def test_who_does_not_wait_is_hasty() -> None:
    """A name that is refused again before it was told to come is hasty; one that waited, or another's, is not."""
    haste = Haste()
    assert not haste.refused("w1", 2.0, now_s=10.0)
    assert haste.refused("w1", 1.0, now_s=11.9)
    assert not haste.refused("w1", 1.0, now_s=12.9)
    assert not haste.refused("w2", 1.0, now_s=12.9)


def test_hasty_names_do_not_pile_up() -> None:
    """Names that may come again are forgotten."""
    haste = Haste()
    for number in range(100_000):
        haste.refused(f"worker-{number}", 1.0, now_s=number / 100)
    assert len(vars(haste)["_until_s"]) < 3 * Haste.SWEEP_AT
