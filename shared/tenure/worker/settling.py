"""From an attempt's outcome to its row to its message, in that order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenure.application import App
from tenure.core import decide, lease, machine
from tenure.core.decide import Ending, Settlement
from tenure.core.errors import ServiceError
from tenure.core.letter import Letter, letter_of, quarantine_of
from tenure.core.machine import Stamp
from tenure.core.outcome import Failed, Lost, Outcome, Released, Snoozed, Succeeded, describe
from tenure.core.retry import Retry
from tenure.core.task import Row, State, Stored
from tenure.keys import Keys
from tenure.ports import Clock, Delivery, Entropy, PayloadStore, Send, Sent, Telemetry, Threads
from tenure.rows import Overtaken, Rows, Stands
from tenure.worker.coroutines import EventLoops, SystemLoops
from tenure.worker.held import Held, Inbox
from tenure.worker.holder import Holder

UNSURE_SECONDS = 30
"""How long a message is hidden whose row's fate is not known: long enough for the table to answer again."""


@dataclass(frozen=True, slots=True)
class EngineParts:
    """What an engine is made of. `max_running` is how many handlers run at once in this process."""

    app: App
    rows: Rows
    payloads: PayloadStore
    clock: Clock
    entropy: Entropy
    threads: Threads
    telemetry: Telemetry
    worker_id: str
    pool: str = ""
    max_running: int = 1
    keys: Keys | None = None
    """Halted ordering keys; None where no queue halts."""
    loops: EventLoops = field(default_factory=SystemLoops)
    """Where async handlers run."""

    def stamp(self) -> Stamp:
        """Now, with a fresh write id."""
        return Stamp(self.clock.now_ms(), self.entropy.token(), self.worker_id)


class Settler:
    """Writes how an attempt ended, then answers its message."""

    def __init__(self, parts: EngineParts, holder: Holder) -> None:
        self._parts = parts
        self._holder = holder

    def settle(self, held: Held, outcome: Outcome) -> bool:
        """Record the outcome and answer the message, unless another thread settles it. Whether it is seen final.

        The heartbeat is stopped and joined first, so that no beat can overwrite what is settled here.
        """
        return self._holder.drop(held) and self.record(held, outcome)

    def record(self, held: Held, outcome: Outcome) -> bool:
        """The rest of it, for whoever has let go of the message. A lost lease writes nothing and deletes nothing."""
        if held.lost or held.row is None or isinstance(outcome, Lost):
            self._holder.lose(held, "it was lost while its handler ran")
            return False
        row: Row | None = held.row
        while row is not None:
            settlement = self._decide(held, row, outcome)
            if settlement is None or (settlement.then == "bury" and not self.halt(settlement.row)):
                return False
            answer = self._parts.rows.replace(row, settlement.row)
            if isinstance(answer, Stands):
                self._tell(held, outcome, settlement.row)
                return self._answer(held, settlement)
            if not isinstance(answer, Overtaken):
                # The row may stand or not, and the message says nothing until it is known: it comes back by itself.
                self._parts.telemetry.emit("settle.unknown", task_id=row.id, error=answer.error)
                return False
            row = self._holder.adopt(held, answer)
        self._holder.lose(held, "another worker took it over")
        return False

    def _decide(self, held: Held, row: Row, outcome: Outcome) -> Settlement | None:
        stamp = self._parts.stamp()
        stored: Stored | None = None
        if isinstance(outcome, Succeeded) and outcome.result is not None:
            try:
                stored = self.store(f"{row.id}/S/{stamp.write_id}", outcome.result, machine.expires_at_s(stamp))
            except Exception as error:
                outcome = Succeeded(None, describe(error))
        retry = held.definition.retry if held.definition else Retry()
        ending = Ending(retry, held.inbox.tier.ordered, self._parts.entropy.fraction(), stored)
        return decide.settle(row, outcome, ending, stamp)

    def halt(self, row: Row) -> bool:
        """Halt the key of a row that is to be buried, where its queue wants that; whether it may be buried now."""
        try:
            if self._parts.keys is not None:
                self._parts.keys.halt(row)
        except ServiceError as error:
            self._parts.telemetry.emit("settle.unknown", task_id=row.id, error=str(error))
            return False
        return True

    def store(self, key: str, text: str, expires_at_s: int) -> Stored:
        """Put a text where its size belongs. Raises ServiceError or TooLarge."""
        size = len(text.encode("utf-8"))
        kind = self._parts.payloads.kind_for(size)
        if kind == "inline":
            return Stored("inline", text, size)
        place = Stored("item" if kind == "item" else "object", key, size)
        self._parts.payloads.put(place, text, expires_at_s)
        return place

    def _answer(self, held: Held, settlement: Settlement) -> bool:
        if settlement.then == "bury":
            self.finish_burial(held, settlement.row)
        elif settlement.then == "delete":
            held.inbox.ack.delete(held.delivery)
        else:
            self.keep(held, settlement.hide_seconds)
        return settlement.row.final

    def keep(self, held: Held, seconds: float) -> None:
        """Leave the message in its queue, hidden for so long, within what SQS allows."""
        now = self._parts.clock.now_ms()
        hidden = lease.visibility_seconds(seconds, held.delivery.received_at_ms, now)
        held.inbox.ack.keep(held.delivery, hidden)

    def finish_burial(self, held: Held, row: Row) -> bool:
        """Send a buried row's letter, confirm it in the row, delete the message; whether all of it was done.

        What is missing when this dies is found by the next delivery or by reconcile: both do the same again.
        """
        text = held.envelope.payload if held.envelope.digest == row.digest else None
        if not self._send_letter(held.inbox, letter_of(row, text), row.id):
            self.keep(held, UNSURE_SECONDS)
            return False
        self._parts.rows.replace(row, machine.confirm_letter(row, self._parts.stamp()))
        held.inbox.ack.delete(held.delivery)
        return True

    def quarantine(self, inbox: Inbox, delivery: Delivery, why: str) -> None:
        """Set a message aside that nothing here can run: into the DLQ with its reason, then off the queue.

        If the DLQ does not take it, it stays where it is and comes back.
        """
        letter = quarantine_of(delivery.body, delivery.attributes, delivery.group, delivery.message_id, why)
        if self._send_letter(inbox, letter, delivery.message_id, delivery.attribute_types):
            self._parts.telemetry.emit(
                "message.quarantined", message_id=delivery.message_id, queue=inbox.tier.queue, why=why
            )
            inbox.ack.delete(delivery)
        else:
            inbox.ack.keep(delivery, UNSURE_SECONDS)

    def _send_letter(
        self, inbox: Inbox, letter: Letter, task_id: str, foreign_types: Mapping[str, str] | None = None
    ) -> bool:
        fifo = inbox.dead.ordered
        group, deduplication_id = (letter.group, letter.deduplication_id) if fifo else ("", "")
        types = {name: kind for name, kind in (foreign_types or {}).items() if name in letter.attributes}
        send = Send(letter.body, group, deduplication_id, 0, letter.attributes, attribute_types=types)
        answer = inbox.dead.send_many([send])[0]
        if isinstance(answer, Sent):
            self._parts.telemetry.emit("letter.sent", task_id=task_id, queue=inbox.tier.queue)
            return True
        self._parts.telemetry.emit("ack.failed", task_id=task_id, what="letter", code=answer.code)
        return False

    def _tell(self, held: Held, outcome: Outcome, row: Row) -> None:
        events = {
            State.COMPLETED: "task.succeeded",
            State.DEAD_LETTERED: "task.buried",
            State.CANCELLED: "task.cancelled",
            State.EXPIRED: "task.expired",
            State.QUEUED: "task.released",
        }
        event = events.get(row.state)
        if event is None:
            event = {Failed: "task.retried", Snoozed: "task.snoozed", Released: "task.released"}[type(outcome)]
        self._parts.telemetry.emit(
            event,
            task_id=row.id,
            task=row.task,
            queue=row.queue,
            attempt=row.attempt,
            fence=row.fence,
            reason=row.reason,
            error=row.error.type if row.error else "",
            elapsed_ms=self._parts.clock.now_ms() - (held.started_at_ms or row.last_started_at_ms),
        )
