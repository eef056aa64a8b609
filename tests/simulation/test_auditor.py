"""The auditor sees: each planted defect, put into the real code for a moment, is found within a few seeds.

A simulation that is always green proves nothing by itself. Each defect is a rule left out.
"""

from __future__ import annotations

import pytest

from tests.simulation.planted import NOT_BUILT, PLANTED, Planted
from tests.simulation.verdict import judge

SEEDS_MAX = 40

RULES = (
    "own writes are known by their id, never by equal values",
    "a holder knows its lease by its token",
    "writes and deliveries of another life are refused",
    "each attempt's result has a place of its own",
    "each submit's payload has a place of its own",
    "any ending but a final one holds the rest",
    "what is not due is handed back",
    "each send has a deduplication id of its own",
    "each burial's letter has a deduplication id of its own",
    "a loss in company is nobody's",
    "what SQS moved by itself goes back to work",
    "final rows outlive their messages",
    "a buried head halts its key",
    "releases are bounded",
    "ordered tasks wait within the queue",
    "a task without a row carries its payload into the claim",
    "a task without a row can be cancelled",
    "a task that was asked to stop runs no more",
    "budgets count failures and losses, not claims",
    "the rest of a group goes back at once",
    "an own write whose reply is lost is known again",
    "missing letters are sent",
    "the clock is looked at right before the start",
    "a retried head passes those that wait",
    "one letter that is met twice stays",
)
"""What the protocol cannot do without: each of these, left out, has lost, doubled, disordered or stuck something."""


def test_each_rule_that_the_protocol_needs_has_a_defect_or_a_reason_for_none():
    """Whoever adds a rule plants its defect; what is not built says so."""
    planted = [each.rule for each in PLANTED]
    assert len(set(planted)) == len(planted)
    assert set(RULES) <= set(planted) | set(NOT_BUILT)
    assert not set(planted) & set(NOT_BUILT)


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.defect.__name__)
def test_a_defect_is_found(planted: Planted):
    """Within so many seeds of the setting that suits it, and by the rule that it breaks."""
    with planted.defect():
        for seed in range(SEEDS_MAX):
            if any(fault.rule.startswith(planted.found_by) for fault in judge(seed, planted.setting).faults):
                return
    pytest.fail(f"{planted.defect.__doc__} Not noticed in {SEEDS_MAX} seeds.")
