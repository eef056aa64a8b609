"""What a poller's process is given: clients that do not pile up, and signals that are its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock
from tenure.core.topology import Pool, Queue, Topology
from tenure.wiring.poller import _connect, _drain_on_signals
from tests.support.forks import exit_code_of_a_fork

TIER = Topology(
    app="wired", environment="test", queues=(Queue(name="work", pool="long"),), pools=(Pool(name="long"),)
).tiers()[0]


class Counted(Clients):
    """Tells which of them are closed."""

    def __init__(self) -> None:
        super().__init__(SystemClock().now_ms, region="us-east-1", credentials=("1", "x"))
        self.closed = False

    def close(self) -> None:
        super().close()
        self.closed = True


def test_whoever_connects_again_closes_and_drops_what_was_there_before() -> None:
    """With expired credentials every failed poll connects again: only the newest clients stay open, and the worker's
    own, which its rows and heartbeats use."""
    own, made = Counted(), []

    def new_clients() -> Counted:
        made.append(Counted())
        return made[-1]

    worker: Any = SimpleNamespace(clients=own, new_clients=new_clients, clock=SystemClock(), telemetry=None)
    connect = _connect(worker, TIER)
    for _ in range(4):
        connect()
    assert [each.closed for each in (own, *made)] == [False, True, True, False]
    kept = [cell.cell_contents for cell in connect.__closure__ or ()]
    assert [each for each in kept if isinstance(each, Counted | list)] == [made[-1]]


@pytest.fixture
def signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def end_oneself() -> bool:
    os.kill(os.getpid(), signal.SIGTERM)
    return True  # not reached where the signal does what it does by default


def interrupt_oneself() -> bool:
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.usefixtures("signals_as_before")
def test_a_signal_drains_the_poller_and_ends_what_a_handler_forked() -> None:
    """multiprocessing's terminate() is a SIGTERM to a fork: one that only counted it would be joined for ever."""
    drains: list[int] = []
    poller: Any = SimpleNamespace(drain=lambda: drains.append(1))
    _drain_on_signals(poller)
    assert exit_code_of_a_fork(end_oneself) == -signal.SIGTERM
    assert exit_code_of_a_fork(interrupt_oneself) == 0
    assert drains == []
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    assert drains == [1, 1]
