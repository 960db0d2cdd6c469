"""A crowd passes one by one, in order, and others get their turns between."""

from __future__ import annotations

import asyncio

import pytest

from board.turnstile import Turnstile

pytestmark = pytest.mark.anyio


async def test_a_crowd_passes_in_order_and_lets_others_in_between() -> None:
    """Of 100 who wait at most one passes in each turn of the loop, the first first."""
    turnstile, passed, seen = Turnstile(), list[int](), list[int]()
    for number in range(100):
        turnstile.enter(lambda number=number: passed.append(number))
    assert (len(turnstile), passed) == (100, [])
    while turnstile:
        await asyncio.sleep(0)
        seen.append(len(passed))
    assert passed == list(range(100))
    assert max(later - earlier for earlier, later in zip([0, *seen], seen, strict=False)) == 1


async def test_tasks_pass_one_by_one_and_cancelled_ones_are_passed_over() -> None:
    """A task that gives up while it waits does not hold up those behind it."""
    turnstile, passed = Turnstile(), list[int]()

    async def go(number: int) -> None:
        await turnstile.turn()
        passed.append(number)

    tasks = [asyncio.create_task(go(number)) for number in range(20)]
    await asyncio.sleep(0)
    tasks[3].cancel()
    await asyncio.wait(tasks)
    assert passed == [number for number in range(20) if number != 3]


async def test_who_comes_meanwhile_waits_behind_those_who_were_there() -> None:
    """What an act itself asks for comes after everybody who was there."""
    turnstile, passed = Turnstile(), list[str]()
    turnstile.enter(lambda: turnstile.enter(lambda: passed.append("later")))
    turnstile.enter(lambda: passed.append("earlier"))
    while turnstile:
        await asyncio.sleep(0)
    assert passed == ["earlier", "later"]


async def test_an_act_that_enters_again_does_not_double_the_pace() -> None:
    """One who is alone and comes back at once still has the others' turns between."""
    turnstile, passed = Turnstile(), list[int]()

    def again() -> None:
        for number in range(20):
            turnstile.enter(lambda number=number: passed.append(number))

    turnstile.enter(again)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(passed) <= 1
