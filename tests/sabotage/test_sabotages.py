"""The list of sabotages is in order: each can be carried out, names tests that exist, and no rule is left out."""

from __future__ import annotations

import re

import pytest

from tenure.core.machine import TRANSITIONS
from tools.sabotage import ROOT, Sabotage, judge, read_list, sample, stands_once

SABOTAGES = read_list()


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda s: s.name)
def test_a_sabotage_breaks_exactly_one_place_and_names_its_tests(sabotage: Sabotage) -> None:
    """Else a refactoring would quietly take the breakage away, and with it the proof that its test can fail."""
    assert stands_once(sabotage), f"mend `find` of {sabotage.name!r}: {sabotage.file} has changed"
    assert sabotage.find != sabotage.replace
    assert sabotage.tests
    for test in sabotage.tests:
        assert (ROOT / test.split("::")[0]).exists(), test


def test_a_sample_is_the_seeds_own() -> None:
    assert sample(SABOTAGES, 5, 1) == sample(SABOTAGES, 5, 1)
    assert sample(SABOTAGES, 5, 1) != sample(SABOTAGES, 5, 2)


RULES = re.findall(r"^- \*\*(R\d+)\b", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), flags=re.MULTILINE)


def test_the_rules_are_found() -> None:
    assert [f"R{number}" for number in range(1, len(RULES) + 1)] == RULES
    assert len(RULES) >= 27


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_broken_by_a_sabotage(rule: str) -> None:
    """A rule that nobody breaks may hold nothing: that its tests can fail would be hearsay."""
    assert [s.name for s in SABOTAGES if rule in s.rules and s.section != "transitions"]


def test_every_row_of_the_table_is_taken_out_and_pointed_elsewhere() -> None:
    made = [s for s in SABOTAGES if s.section == "transitions"]
    assert len(made) == 2 * len(TRANSITIONS)
    assert len({(s.find, s.replace) for s in made}) == len(made)


@pytest.mark.parametrize(
    ("code", "output", "red"),
    [
        (1, "FAILED tests/a.py::test_b - AssertionError\n1 failed", True),
        (0, "3 passed", False),
        (2, "ERROR tests/a.py\nInterrupted: 1 error during collection", False),
        (1, "ERROR at setup of test_b", False),
        (-9, "", False),
    ],
)
def test_only_a_named_red_test_counts(code: int, output: str, red: bool) -> None:
    """A break that stops the tests from being run at all shows nothing of what they hold."""
    verdict = judge(SABOTAGES[0], code, output)
    assert verdict.red is red
    assert verdict.what == "tests/a.py::test_b" if red else verdict.what
