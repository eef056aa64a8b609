"""Every order of calls of two or three workers, a reconcile and who else is about, up to each scene's bound: nothing is
lost, doubled or disordered. `pytest -s` shows the table; `python -m tools.interleave` goes deeper."""

import itertools
from unittest import mock

import pytest

from tenure.core import lease
from tests.simulation import defects
from tests.simulation.director import DIES, TIME, Deviation
from tests.simulation.history import History
from tests.simulation.interleavings import Tally, explore, play, wander
from tests.simulation.scenes import SCENES
from tests.simulation.shrink import minimised, shrink_schedule, tell

NAMED = {scene.name: scene for scene in SCENES}
TWICE, LAPSE = NAMED["two workers, one message twice"], NAMED["two workers, a lease that lapses"]


@pytest.fixture(scope="module")
def table():
    rows: list[Tally] = []
    yield rows
    total = f"{sum(row.schedules for row in rows)} schedules in {sum(row.cpu_seconds for row in rows):.0f} s of CPU"
    print("\n" + "\n".join([Tally.HEAD, *map(str, rows), total]))


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_no_order_of_calls_breaks_a_rule(scene, table):
    """With at most so many preemptions, deaths, lapses, second deliveries and lost replies, wherever they may fall."""
    tally = explore(scene, scene.bound)
    table.append(tally)
    assert not tally.broken, tell(shrink_schedule(tally.broken[0]))
    assert len(tally.orders) > 10 * len(scene.actors), "hardly any order was tried, so this proves nothing"


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_orders_drawn_at_random_beyond_the_bound_break_none(scene):
    """Up to twelve deviations in a schedule, of every kind that the scene has."""
    tally = wander(scene, range(30))
    assert not tally.broken, tell(shrink_schedule(tally.broken[0]))
    assert tally.bound > scene.bound


def test_all_orders_with_one_deviation_of_two_workers_break_none():
    """A first look, for quick runs."""
    tally = explore(TWICE, 1)
    assert not tally.broken, tell(shrink_schedule(tally.broken[0]))
    assert tally.schedules == len(tally.orders) > 20, "none is played twice"


@pytest.mark.slow
def test_what_is_passed_over_as_equal_leads_nowhere_else():
    """With every beginning taken for a new one there is more to play, and no end comes of it that was not seen."""
    fewer = explore(TWICE, 2)
    with mock.patch.object(History, "mark", side_effect=itertools.count()):
        all_of_them = explore(TWICE, 2)
    assert fewer.schedules < all_of_them.schedules
    assert fewer.ends == all_of_them.ends
    assert not all_of_them.broken


def test_a_schedule_is_the_same_run_again():
    """Step by step, whatever was played before; and what chance has drawn is played again by its deviations."""
    drawn = next(tally for seed in range(9) if (tally := _drawn(seed)).schedule)
    first, again = (play(TWICE, drawn.schedule) for _ in range(2))
    assert first.trace == again.trace
    assert first.order == again.order == drawn.order
    assert first.schedule == again.schedule == drawn.schedule
    assert play(TWICE, ()).order != first.order


def _drawn(seed):
    seen = []
    with mock.patch("tests.simulation.interleavings.play", lambda *a, **k: seen.append(play(*a, **k)) or seen[-1]):
        wander(TWICE, [seed])
    return seen[0]


def any_lease_is_taken():
    """R10: nobody waits for a lease to lapse."""
    return mock.patch.object(lease, "lapsed", return_value=True)


PLANTED = [
    (defects.any_leased_row_is_adopted, LAPSE.name, "settled by a stranger", 3),
    (defects.every_write_stands, TWICE.name, "second ending", 2),
    (defects.what_has_ended_runs_again, TWICE.name, "second ending", 1),
    (any_lease_is_taken, TWICE.name, "live lease taken", 1),
    (defects.the_clock_is_not_looked_at_before_the_start, LAPSE.name, "started on a lapsed lease", 1),
    (defects.the_fence_does_not_rise, LAPSE.name, "fence did not rise", 1),
    (defects.the_message_goes_before_the_row, "a worker that fails, and reconcile", "deleted too early", 0),
    (defects.own_writes_are_not_known_again, "two submits of one key, a worker", "innocent charged", 1),
    (defects.deadlines_and_cancels_are_ignored, "a worker, a cancel and reconcile", "ran though cancelled", 2),
    (defects.successors_do_not_wait, "two of one key, two workers", "out of order", 1),
    (defects.no_letter_is_sent, "a burial, reconcile and a replay", "deleted before its letter", 0),
]


@pytest.mark.parametrize(
    ("defect", "name", "rule", "most"), PLANTED, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_defect_is_found_and_shrunk_to_a_readable_story(defect, name, rule, most):
    """Within the scene's own bound; by its rule, in so few deviations, of which none can be left out."""
    with defect():
        tally = explore(NAMED[name], NAMED[name].bound)
        assert tally.broken, f"{defect.__doc__} Not noticed in {tally.schedules} schedules."
        run = shrink_schedule(tally.broken[0])
        assert run.faults[0].rule.startswith(rule)
        assert len(run.schedule) <= most
        for left_out in run.schedule:
            fewer = play(run.scene, [each for each in run.schedule if each != left_out])
            assert run.faults[0].rule not in {fault.rule for fault in fewer.faults}
    story = tell(run)
    assert rule in story
    assert "  story of " in story
    assert " row: " in story
    assert all(f"{each.who:16} * " in story for each in run.schedule)


def test_a_long_schedule_is_shrunk_to_what_it_takes():
    """Drawn at random with many deviations; what is left breaks the same rule with few, and no actor too many."""
    with any_lease_is_taken():
        scene = NAMED["three workers and reconcile"]
        broken = next(tally.broken[0] for seed in range(200) if (tally := wander(scene, [seed])).broken)
        run = shrink_schedule(broken)
    assert run.faults[0].rule == broken.faults[0].rule
    assert len(run.schedule) <= 2 < len(broken.schedule)
    assert len(run.scene.actors) <= 3


def test_a_point_is_the_same_when_an_earlier_deviation_is_left_out():
    """It is named by who stands there, not by a number of the whole run; what cannot be had there is passed over."""
    first, second = Deviation("worker-1", 3, "worker-2"), Deviation("worker-2", 5, DIES)
    assert play(TWICE, [first, second]).schedule == (first, second)
    assert play(TWICE, [second]).schedule == (second,)
    assert play(TWICE, [Deviation("worker-1", 3, "nobody"), Deviation("nobody", 1, TIME)]).schedule == ()


def test_what_is_minimal_has_nothing_that_could_be_left_out():
    """Of a hundred, the three that it takes, in far fewer tries than one each."""
    tried = []

    def still(parts):
        tried.append(parts)
        return {3, 50, 97} <= set(parts)

    assert minimised(range(100), still) == [3, 50, 97]
    assert len(tried) < 100
    assert minimised([1, 2], lambda parts: True) == []
