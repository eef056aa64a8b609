"""The worlds that every contract is held against. A test names in `honest_on` those whose answer means something."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto import mock_aws

from tenure.local import atomic_moto
from tenure.ports import TaskQueue
from tests.support import ministack as server
from tests.support.backends import Aws, Backend, Memory

BACKENDS = ["memory", "moto", pytest.param("ministack", marks=pytest.mark.ministack)]


@pytest.fixture(scope="session")
def ministack_url() -> Iterator[str]:
    """One server for all tests of this process."""
    with server.running() as url:
        yield url


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """A world: memory, moto (in this process, made atomic), ministack (a server)."""
    if request.param == "memory":
        yield Memory()
    elif request.param == "moto":
        atomic_moto.install()
        with mock_aws():
            yield Aws("moto")
    else:
        yield Aws("ministack", request.getfixturevalue("ministack_url"))


@pytest.fixture(params=[False, True], ids=["standard", "fifo"])
def queue(request: pytest.FixtureRequest, backend: Backend) -> TaskQueue:
    """An empty queue of each kind."""
    return backend.queue(ordered=request.param)
