"""The emulator's life: moto's state is the process's, so starting and stopping must be clean."""

from pathlib import Path
from typing import Any

import pytest

from tenure.adapters.clients import ANSWER_SECONDS, TABLE_SECONDS, Clients
from tenure.adapters.clock import SystemClock
from tenure.config import patience_seconds
from tenure.core.errors import UsageError
from tenure.local.emulator import Emulator
from tenure.local.wired import worker_variables
from tenure.running import PATIENCE_SECONDS, WORKER_PATIENCE_SECONDS
from tenure.wiring.worker import own_clients
from tests.support.shop import topology


def test_a_stopped_emulator_forgets_everything_and_frees_its_port() -> None:
    """A second stack in one process starts empty."""
    emulator = Emulator()
    with emulator:
        emulator.clients(SystemClock().now_ms).sqs.create_queue(QueueName="left-behind")
        port = int(emulator.url.rpartition(":")[2])
    with Emulator(port=port) as again:
        assert "QueueUrls" not in again.clients(SystemClock().now_ms).sqs.list_queues()


def read_timeouts(clients: Clients) -> list[float]:
    configs: list[Any] = [client.meta.config for client in (clients.dynamodb, clients.sqs, clients.ssm)]
    return [config.read_timeout for config in configs]


def test_the_emulators_clients_wait_long_for_an_answer() -> None:
    """Provisioning on a busy machine is slow, not broken: each answer has a minute."""
    with Emulator() as emulator:
        assert read_timeouts(emulator.clients(SystemClock().now_ms)) == [PATIENCE_SECONDS] * 3


def test_local_workers_are_more_patient_than_those_on_aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable that only the embedded stack sets; without it, the limits that fit a lease hold."""
    assert read_timeouts(own_clients()) == [TABLE_SECONDS, ANSWER_SECONDS, ANSWER_SECONDS]
    made = topology()
    told = worker_variables(made, made.pools[0], "shop:app", tmp_path)
    monkeypatch.setenv("TENURE_PATIENCE_SECONDS", told["TENURE_PATIENCE_SECONDS"])
    assert read_timeouts(own_clients()) == [WORKER_PATIENCE_SECONDS] * 3
    with pytest.raises(UsageError, match="TENURE_PATIENCE_SECONDS='long': a whole number"):
        patience_seconds({"TENURE_PATIENCE_SECONDS": "long"})
