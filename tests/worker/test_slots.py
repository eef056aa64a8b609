"""Turns for places: higher tiers first and more often, nobody never."""

from __future__ import annotations

from collections import Counter

from tenure.adapters.memory import World
from tenure.worker.slots import WEIGHTS, Slots

TIERS = ("high", "normal", "low")


def turns(weights: list[int], rounds: int, places: int = 1, seed: int = 0) -> list[int]:
    """The flows in the order in which they were granted a place, all of them asking for one again and again."""
    order: list[int] = []
    with World(seed) as world:
        slots = Slots(places, weights, world.threads)

        def run_a_task() -> None:
            world.clock.sleep(1)
            slots.give(1)

        def flow(index: int) -> None:
            while len(order) < rounds and slots.take(index, 1):
                order.append(index)
                world.threads.start("runner", run_a_task)

        for index in range(len(weights)):
            world.spawn(f"p{index}", lambda index=index: flow(index))
        world.run(until=lambda: len(order) >= rounds)
        slots.close()
    return order[:rounds]


def test_all_busy_tiers_share_by_weight_and_none_starves():
    """Of 210 places given out one at a time, each tier gets its part of 16 : 4 : 1, to within one turn a round."""
    counts = Counter(turns([WEIGHTS[tier] for tier in TIERS], 210))
    assert abs(counts[0] - 160) <= 2
    assert abs(counts[1] - 40) <= 2
    assert abs(counts[2] - 10) <= 2


def test_queues_of_the_same_tier_share_equally():
    counts = Counter(turns([4, 4, 4], 90, places=2, seed=3))
    assert all(abs(counts[index] - 30) <= 2 for index in range(3)), counts


def test_when_a_place_comes_free_the_higher_tier_that_waits_gets_it():
    """A high message must not wait for low's turn, though low asked first."""
    with World() as world:
        slots = Slots(1, [WEIGHTS[tier] for tier in TIERS], world.threads)
        assert slots.take(2, 1) == 1
        got: list[int] = []
        for index in (2, 0):
            world.spawn(f"p{index}", lambda index=index: got.append(index) if slots.take(index, 1) else None)
            world.run(seconds=1)
        slots.give(1)
        world.run(seconds=1)
        assert got == [0]


def test_turns_cannot_be_saved_up():
    """A tier that was quiet for long gets its share from now on, not all that it did not take."""
    with World() as world:
        slots = Slots(1, [1, 1], world.threads)
        for _ in range(50):
            assert slots.take(0, 1) == 1
            slots.give(1)
        order: list[int] = []

        def run_a_task() -> None:
            world.clock.sleep(1)
            slots.give(1)

        def flow(index: int) -> None:
            while len(order) < 20 and slots.take(index, 1):
                order.append(index)
                world.threads.start("runner", run_a_task)

        for index in (0, 1):
            world.spawn(f"p{index}", lambda index=index: flow(index))
        world.run(until=lambda: len(order) >= 20)
        slots.close()
    assert 8 <= order.count(1) <= 12, order


def test_an_unused_turn_is_refunded():
    """Who was granted places and found nothing to run keeps its place in the line."""
    slots = Slots(4, [1, 1], World().threads)
    assert slots.take(0, 4) == 4
    slots.give(4, unused_by=0)
    assert slots.free == 4
    assert slots._passed[0] == slots._passed[1] == 0


def test_a_closed_slots_lets_everybody_go_with_nothing():
    with World() as world:
        slots = Slots(1, [1], world.threads)
        slots.take(0, 1)
        got: list[int] = []
        world.spawn("p", lambda: got.append(slots.take(0, 1)))
        world.run(seconds=1)
        assert got == []
        slots.close()
        world.run(seconds=1)
        assert got == [0]
        assert slots.take(0, 1) == 0


def test_a_take_that_waits_too_long_gets_nothing_and_leaves_nothing_behind():
    slots = Slots(1, [1], World().threads)
    assert slots.take(0, 1) == 1
    assert slots.take(0, 1, timeout_seconds=5) == 0
    slots.give(1)
    assert slots.free == 1
