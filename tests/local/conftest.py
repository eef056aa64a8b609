"""The emulator, one for a module: moto's state is the process's, so tests use queues of their own."""

from collections.abc import Iterator

import pytest

from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock
from tenure.local.emulator import Emulator


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator() as running:
        yield running


@pytest.fixture(scope="module")
def clients(emulator: Emulator) -> Clients:
    return emulator.clients(SystemClock().now_ms)
