"""What the constructs make has not changed without somebody looking at it."""

import pytest

from tests.infra.snapshots import CASES, FOLDER, template

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", CASES)
def test_a_construct_makes_what_it_made(name):
    """If the difference is meant: `python -m tests.infra.snapshots`, and look at it in the diff."""
    assert template(name) == (FOLDER / f"{name}.json").read_text(encoding="utf-8")


def test_no_snapshot_is_stale():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(CASES)
