"""Real workers, producers and reconcile in a world that kills, stalls, duplicates and forgets: no rule may break."""

import subprocess
import sys

import pytest

from tests.architecture import repository
from tests.simulation.settings import SETTINGS
from tests.simulation.verdict import judge

SEEDS_EACH = 13


@pytest.mark.parametrize("setting", SETTINGS)
def test_one_seed_of_each_setting(setting):
    """A first look, for quick runs."""
    verdict = judge(1, setting)
    assert not verdict.faults, verdict.text


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_many_seeds_of_each_setting(setting):
    """Nothing is lost, doubled, disordered, run twice after its end, or blamed for what another did."""
    broken = [verdict for seed in range(100, 100 + SEEDS_EACH) if (verdict := judge(seed, setting)).faults]
    assert not broken, "\n\n".join(verdict.text for verdict in broken[:3])


def test_a_seed_is_the_same_run_in_another_process():
    """A failure can be looked at again: the trace does not depend on the order of hashes or on earlier runs."""
    program = "from tests.simulation.verdict import judge; print(judge(5, 'rough').trace)"
    here = judge(5, "rough").trace
    for salt in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=repository.ROOT,
            env={"PYTHONHASHSEED": salt, "PYTHONPATH": str(repository.ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert int(done.stdout) == here
