"""The failure of a seed is made small: the same broken rule, with next to nothing left of the workload."""

import pytest

from tests.simulation import defects
from tests.simulation.shrink import RUNS_MAX, shrink_seed
from tests.simulation.verdict import judge, judge_plan


@pytest.mark.slow
@pytest.mark.parametrize(
    ("defect", "setting"),
    [(defects.a_live_lease_is_taken, "rough"), (defects.the_message_goes_before_the_row, "keys")],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_planted_defect_is_left_with_one_task_or_two_and_a_story_that_names_the_rule(defect, setting):
    """What is left breaks that rule by itself, and breaks none once the defect is mended."""
    with defect():
        seed = next(seed for seed in range(40) if judge(seed, setting).faults)
        shrunk = shrink_seed(seed, setting)
    assert shrunk is not None
    assert 1 <= len(shrunk.plan) <= 2 < shrunk.tasks_before
    assert shrunk.runs <= RUNS_MAX
    assert all(len(planned.acts) == len(planned.submit_at_seconds) == 1 for planned in shrunk.plan)
    assert shrunk.rule in {fault.rule for fault in shrunk.verdict.faults}
    assert shrunk.text.startswith(f"{shrunk.rule}: ")
    assert f"story of {shrunk.plan[0].name} = " in shrunk.text
    assert not judge_plan(shrunk.verdict.seed, list(shrunk.plan), shrunk.setting).faults


def test_shrinking_is_bounded_in_runs():
    """With few runs to spend what is left is larger, and still breaks the rule."""
    with defects.a_live_lease_is_taken():
        shrunk = shrink_seed(0, "rough", runs_max=3)
    assert shrunk is not None
    assert shrunk.runs == 3
    assert shrunk.rule in {fault.rule for fault in shrunk.verdict.faults}


def test_a_seed_that_breaks_no_rule_is_not_shrunk():
    assert shrink_seed(1, "quiet") is None
