"""The emulator, one for a module: moto's state is the process's, so tests use queues of their own."""

from collections.abc import Iterator

import pytest

from tenure.local.emulator import Emulator
from tenure.local.provision import Clients


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator() as running:
        yield running


@pytest.fixture(scope="module")
def clients(emulator: Emulator) -> Clients:
    return Clients(*(emulator.client(name) for name in ("sqs", "dynamodb", "s3", "ssm")))
