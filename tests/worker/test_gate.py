"""Who runs beside whom in one process."""

from __future__ import annotations

from functools import partial

import pytest

from tenure.testing import World
from tenure.worker.gate import Gate


@pytest.mark.parametrize("seed", range(5))
def test_a_suspect_has_the_process_to_itself_and_company_shares_it(seed: int) -> None:
    """R11: whoever may kill its worker runs with nothing beside it, whatever came before and comes after."""
    world = World(seed=seed)
    gate = Gate(world.threads)
    inside: list[str] = []
    seen: list[set[str]] = []

    def run(name: str, alone: bool) -> None:
        with gate.passing(alone=alone) as passed:
            assert passed
            inside.append(name)
            seen.append(set(inside))
            world.clock.sleep(1)
            inside.remove(name)

    for number in range(8):
        name = f"{'suspect' if number % 4 == 2 else 'company'}-{number}"
        world.spawn("w1", partial(run, name, name.startswith("suspect")), name)
    world.run()
    with_suspects = [each for each in seen if any(name.startswith("suspect") for name in each)]
    assert [len(each) for each in with_suspects] == [1, 1]
    assert max(len(each) for each in seen) > 1, "else nothing was ever in company"
    assert len(seen) == 8


def test_once_closed_it_lets_nobody_in_and_nobody_wait() -> None:
    world = World()
    gate = Gate(world.threads)
    passed: list[bool] = []

    def run(alone: bool) -> None:
        with gate.passing(alone=alone) as inside:
            passed.append(inside)
            if inside:
                world.clock.sleep(10)

    world.spawn("w1", lambda: run(True), "first")
    world.run(seconds=1)
    world.spawn("w1", lambda: run(True), "second")
    world.run(seconds=1)
    gate.close()
    world.run(seconds=1)
    assert passed == [True, False]
    world.spawn("w1", lambda: run(False), "third")
    world.run()
    assert passed == [True, False, False]
