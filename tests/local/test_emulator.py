"""The emulator's life: moto's state is the process's, so starting and stopping must be clean."""

from tenure.local.emulator import Emulator


def test_a_stopped_emulator_forgets_everything_and_frees_its_port() -> None:
    """A second stack in one process starts empty."""
    emulator = Emulator()
    with emulator:
        emulator.client("sqs").create_queue(QueueName="left-behind")
        port = int(emulator.url.rpartition(":")[2])
    with Emulator(port=port) as again:
        assert "QueueUrls" not in again.client("sqs").list_queues()
