"""The list of sabotages is in order: each can be carried out, and names tests that exist."""

from __future__ import annotations

import pytest

from tools.sabotage import ROOT, Sabotage, read_list, sample, stands_once

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
