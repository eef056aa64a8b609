"""The emulator's life: moto's state is the process's, so starting and stopping must be clean."""

from tenure.adapters.clock import SystemClock
from tenure.local.emulator import Emulator


def test_a_stopped_emulator_forgets_everything_and_frees_its_port() -> None:
    """A second stack in one process starts empty."""
    emulator = Emulator()
    with emulator:
        emulator.clients(SystemClock().now_ms).sqs.create_queue(QueueName="left-behind")
        port = int(emulator.url.rpartition(":")[2])
    with Emulator(port=port) as again:
        assert "QueueUrls" not in again.clients(SystemClock().now_ms).sqs.list_queues()
