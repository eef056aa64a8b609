"""How messages are answered. An answer that SQS does not take is told once and otherwise let be: what became of a task
stands in its row, and a message that comes back meets that row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tenure.core.envelope import decode
from tenure.core.errors import DecodeError
from tenure.ports import Delivery, Done, NotDone, TaskQueue, Telemetry


@dataclass(frozen=True, slots=True)
class DirectAck:
    """Answers each message at once, by a call to its queue. The poller's way. Never raises."""

    queue: TaskQueue
    telemetry: Telemetry

    def delete(self, delivery: Delivery) -> None:
        """Delete the message."""
        self._call("delete", [delivery], lambda: self.queue.delete_many([delivery.receipt]))

    def keep(self, delivery: Delivery, seconds: int) -> None:
        """Hide the message for so long from now."""
        self.keep_many([delivery], seconds)

    def keep_many(self, deliveries: Sequence[Delivery], seconds: int) -> None:
        """Hide several messages for so long from now, in their order and in as few calls as can be."""
        if deliveries:
            changes = [(delivery.receipt, seconds) for delivery in deliveries]
            self._call("visibility", deliveries, lambda: self.queue.set_visibility_many(changes))

    def _call(self, what: str, deliveries: Sequence[Delivery], call: Callable[[], Sequence[Done | NotDone]]) -> None:
        try:
            answers = call()
        except Exception as error:  # an adapter's own fault: the same to us as an answer that SQS did not take
            answers = [NotDone(False, type(error).__name__, str(error))] * len(deliveries)
        for delivery, answer in zip(deliveries, answers, strict=False):
            if isinstance(answer, NotDone):
                self.telemetry.emit(
                    "ack.failed",
                    what=what,
                    task_id=task_id_of(delivery),
                    message_id=delivery.message_id,
                    queue=self.queue.name,
                    code=answer.code,
                    error=answer.message,
                )


def task_id_of(delivery: Delivery) -> str:
    """The id of the task that a message is about; empty if it is not one of ours."""
    try:
        return decode(delivery.body).id
    except DecodeError:
        return ""
