"""How the embedded stack ends: in a module of its own, since two stacks in one process would share moto's state."""

from pathlib import Path

import pytest

from tenure.core.errors import UsageError
from tenure.local.emulator import Emulator
from tenure.local.stack import EmbeddedStack, StackOptions
from tests.e2e.test_stack import ROOT, TOPOLOGY

pytestmark = [pytest.mark.slow]


def test_after_the_end_nothing_is_left(tmp_path: Path) -> None:
    """Started, drained, stopped: no worker process survives it, and its port is closed."""
    with EmbeddedStack(TOPOLOGY, "tests.e2e.stack_app:app", StackOptions(ROOT, tmp_path)) as own:
        processes = [process for group in own.processes.values() for process in group]
        functions = list(own.functions.values())
        assert all(process.alive for process in processes)
    assert not any(process.alive for process in processes)
    assert [function.pids() for function in functions] == [[]]
    with pytest.raises(RuntimeError):
        _ = own.emulator.url


def test_a_part_that_does_not_start_takes_the_rest_along(tmp_path: Path) -> None:
    """A taken port: the error is the port's, and nothing is left running."""
    with Emulator() as taken:
        port = int(taken.url.rpartition(":")[2])
        stack = EmbeddedStack(TOPOLOGY, "tests.e2e.stack_app:app", StackOptions(ROOT, tmp_path, port=port))
        with pytest.raises(UsageError, match=f"port {port} cannot be had"):
            stack.start()
        assert stack.processes == {}
        with pytest.raises(RuntimeError):
            _ = stack.topology
