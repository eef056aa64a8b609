"""One synth of all environments for the whole session: it takes longer than all that is asked of it."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tests.infra.assembly import ENVIRONMENTS, Assembly, stand_in_bundle, synthesize


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs the synth is slow, and need not say so itself."""
    for item in items:
        if "assembly" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Assembly:
    """The synthesized app. The test processes of one session share it: the first to come makes it."""
    base = tmp_path_factory.getbasetemp()
    place = (base if worker_id == "master" else base.parent) / "assembly"
    with Path(f"{place}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "manifest.json").exists():
            bundle = stand_in_bundle(Path(f"{place}.bundle"))
            done = synthesize(place, env=",".join(ENVIRONMENTS), bundle=str(bundle))
            assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    return Assembly(place)
