"""From a delivery to a claim, or to whatever else becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tenure.application import TaskDefinition
from tenure.core import decide, lease, limits, machine
from tenure.core.decide import Admission, Arrival, Bury, Claim, Drop, HandBack, Quarantine, Replay
from tenure.core.envelope import LETTER_ATTRIBUTE, Envelope, decode, snapshot
from tenure.core.errors import ForeignMessage, ServiceError, UnsupportedVersion
from tenure.core.machine import Lease
from tenure.core.task import Row, State
from tenure.keys import Keys
from tenure.ports import Delivery
from tenure.rows import Overtaken, RowOutcome, Stands
from tenure.worker.held import Held, Inbox
from tenure.worker.holder import Holder
from tenure.worker.settling import UNSURE_SECONDS, EngineParts, Settler

CLAIMED, FINAL, AWAY = "claimed", "final", "away"
"""What became of a delivery: this worker holds the task; its task is seen final; it went back or aside."""


class Intake:
    """Lets deliveries in. Everything it does with a message is decided by core/decide.py."""

    def __init__(self, parts: EngineParts, holder: Holder, settler: Settler, paused: Callable[[str], bool]) -> None:
        self._parts = parts
        self._holder = holder
        self._settler = settler
        self._paused = paused

    def open(self, inbox: Inbox, delivery: Delivery, dies_at_ms: int) -> Held | None:
        """The delivery as a held message; None if it is not one of ours, and set aside."""
        try:
            envelope = decode(delivery.body)
        except ForeignMessage as error:
            self._settler.quarantine(inbox, delivery, str(error))
            return None
        except UnsupportedVersion as error:
            if delivery.receive_count >= decide.UNKNOWN_RECEIVES:
                self._settler.quarantine(inbox, delivery, str(error))
            else:
                self._hand_back(inbox, delivery, decide.UNKNOWN_SECONDS, str(error), "")
            return None
        definition = self._parts.app.tasks.get(envelope.task)
        held = Held(inbox, delivery, envelope, definition, self._parts.threads.lock(), dies_at_ms=dies_at_ms)
        self._holder.add(held)
        return held

    def beginning(self, held: Held) -> Row | None:
        """The row as the message alone tells it, where it may be claimed without a read."""
        arrival = self._arrival(held)
        return snapshot(held.envelope, held.inbox.tier.queue) if decide.is_first_delivery(arrival) else None

    def read(self, several: Sequence[Held]) -> list[Row | None] | None:
        """The rows of several messages in one batch; None if they could not be read: then all are handed back.

        A row that a newer tenure wrote is read by nobody here: its message alone is handed back, until the deployment
        that is under way has replaced this worker.
        """
        try:
            return self._parts.rows.get_many([held.envelope.id for held in several])
        except UnsupportedVersion as error:
            if len(several) == 1:
                self.give_back(several[0], decide.UNKNOWN_SECONDS, str(error))
                return [None]
            return [row for held in several for row in self.read([held]) or [None]]
        except ServiceError as error:
            for held in several:
                self.give_back(held, UNSURE_SECONDS, f"its row could not be read: {error}")
            return None

    def admit(self, held: Held, row: Row | None, *, alone: bool) -> str:
        """Decide on one delivery and carry the decision out, until it stands."""
        barred = self._bar(held, row)
        if barred:
            return barred
        decision = self._decide(held, row, alone)
        while True:
            change = _change_of(decision)
            if change is None:
                return self._carry_out(held, decision, row)
            if isinstance(decision, Bury) and not self._settler.halt(change):
                return self.give_back(held, UNSURE_SECONDS, "its ordering key could not be halted")
            outcome = self._parts.rows.replace(row, change)
            if isinstance(outcome, Stands):
                if not isinstance(decision, Replay):
                    return self._carry_out(held, decision, outcome.row)
                row = outcome.row
            elif isinstance(outcome, Overtaken):
                row = outcome.row
            else:
                return self.give_back(held, UNSURE_SECONDS, f"the table gave no answer: {outcome.error}")
            decision = self._decide(held, row, alone)

    def _bar(self, held: Held, row: Row | None) -> str:
        """What becomes of a delivery whose ordering key is halted; empty if nothing bars it."""
        keys, envelope, queue = self._parts.keys, held.envelope, held.inbox.tier.queue
        if keys is None or not keys.halts(queue) or not envelope.key:
            return ""
        try:
            return "" if keys.may_run(queue, envelope.key, envelope.id) else self._park(keys, held, row)
        except ServiceError as error:
            return self.give_back(held, UNSURE_SECONDS, f"its ordering key could not be read: {error}")

    def _park(self, keys: Keys, held: Held, row: Row | None) -> str:
        """Take a task of a halted key off SQS: the key says that it waits, then its row does, then the message goes."""
        while row is not None and decide.can_wait(row, held.envelope):
            if row.state is not State.WAITING:
                if not keys.park(row, held.delivery.sequence):
                    return self.give_back(held, limits.SQS_DELAY_SECONDS_MAX, "its halted key keeps as many as it can")
                outcome = self._parts.rows.replace(row, machine.park(row, self._parts.stamp(), "its key is halted"))
                if isinstance(outcome, Overtaken):
                    row = outcome.row
                    continue
                if not isinstance(outcome, Stands):
                    return self.give_back(held, UNSURE_SECONDS, f"the table gave no answer: {outcome.error}")
            self._holder.drop(held)
            self._parts.telemetry.emit("task.parked", task_id=row.id, queue=row.queue, key=row.ordering_key)
            held.inbox.ack.delete(held.delivery)
            return FINAL
        return ""

    def claim_together(self, several: Sequence[tuple[Held, Row]]) -> list[Held]:
        """Claim several in company: one round of writes for all; those refused are decided again one by one."""
        decisions = [self._decide(held, row, False) for held, row in several]
        changes = [
            (row, decision.row)
            for (_, row), decision in zip(several, decisions, strict=True)
            if isinstance(decision, Claim)
        ]
        outcomes = iter(self._parts.rows.replace_many(changes) if changes else [])
        claimed = []
        for (held, row), decision in zip(several, decisions, strict=True):
            answer: RowOutcome | None = next(outcomes) if isinstance(decision, Claim) else None
            if isinstance(answer, Stands):
                ended = self._carry_out(held, decision, answer.row)
            elif answer is None:
                ended = self.admit(held, row, alone=False)
            elif isinstance(answer, Overtaken):
                ended = self.admit(held, answer.row, alone=False)
            else:
                ended = self.give_back(held, UNSURE_SECONDS, f"the table gave no answer: {answer.error}")
            if ended == CLAIMED:
                claimed.append(held)
        return claimed

    def give_back(self, held: Held, seconds: float, why: str) -> str:
        """Hand a delivery back: hidden for so long, nothing counted."""
        self._holder.drop(held)
        now = self._parts.clock.now_ms()
        hidden = lease.visibility_seconds(seconds, held.delivery.received_at_ms, now)
        self._hand_back(held.inbox, held.delivery, hidden, why, held.envelope.id)
        return AWAY

    def _hand_back(self, inbox: Inbox, delivery: Delivery, seconds: int, why: str, task_id: str) -> None:
        self._parts.telemetry.emit(
            "task.handed_back",
            task_id=task_id,
            message_id=delivery.message_id,
            queue=inbox.tier.queue,
            why=why,
            seconds=seconds,
        )
        inbox.ack.keep(delivery, seconds)

    def _decide(self, held: Held, row: Row | None, alone: bool) -> Admission:
        stamp = self._parts.stamp()
        definition = held.definition
        new = Lease(
            seconds=held.lease_seconds_at(stamp.now_ms),
            token=self._parts.entropy.token(),
            worker=self._parts.worker_id,
            alone=alone,
            max_attempts=definition.retry.max_attempts if definition else held.envelope.max_attempts,
            pool=self._parts.pool,
        )
        return decide.admit(row, self._arrival(held), new, stamp)

    def _arrival(self, held: Held) -> Arrival:
        return Arrival(
            envelope=held.envelope,
            receive_count=held.delivery.receive_count,
            redriven=held.delivery.attributes.get(LETTER_ATTRIBUTE, ""),
            paused=self._paused(held.inbox.tier.queue),
            sent_at_ms=held.delivery.sent_at_ms,
            adopting_queue="" if held.inbox.tier.ordered else held.inbox.tier.queue,
            adopting_tier=held.inbox.tier.tier,
            unknown=unknown(held.envelope, held.definition, self._parts.app.tasks),
            jitter=self._parts.entropy.fraction(),
        )

    def _carry_out(self, held: Held, decision: Admission, row: Row | None) -> str:
        if isinstance(decision, Claim):
            return self._hold(held, decision.row)
        if isinstance(decision, HandBack):
            return self.give_back(held, decision.seconds, decision.why)
        self._holder.drop(held)
        if isinstance(decision, Quarantine):
            self._settler.quarantine(held.inbox, held.delivery, decision.why)
            return AWAY
        if isinstance(decision, Bury) and row is not None:
            if row.letter_confirmed:  # redriven, and it may not run: its letter goes back
                self._tell_dropped(held, decision, row)
            else:
                named = {"task_id": row.id, "task": row.task, "queue": row.queue}
                self._parts.telemetry.emit("task.buried", **named, reason=row.reason)
            return FINAL if self._settler.finish_burial(held, row) else AWAY
        self._tell_dropped(held, decision, row)
        held.inbox.ack.delete(held.delivery)
        return FINAL

    def _tell_dropped(self, held: Held, decision: Admission, row: Row | None) -> None:
        queue, why = held.inbox.tier.queue, decision.why if isinstance(decision, (Drop, Bury)) else ""
        if row is not None and isinstance(decision, Drop) and decision.row is not None:
            self._parts.telemetry.emit(f"task.{row.state}", task_id=row.id, task=row.task, queue=row.queue, reason=why)
        self._parts.telemetry.emit("message.dropped", task_id=held.envelope.id, queue=queue, why=why)

    def _hold(self, held: Held, row: Row) -> str:
        with held.lock:
            held.row = row
        self._parts.telemetry.emit(
            "task.claimed",
            task_id=row.id,
            task=row.task,
            queue=row.queue,
            attempt=row.attempt,
            fence=row.fence,
            alone=row.claimed_alone,
            waited_ms=row.last_started_at_ms - row.submitted_at_ms,
        )
        return CLAIMED


def _change_of(decision: Admission) -> Row | None:
    """The row that a decision wants written before anything is done with the message."""
    return None if isinstance(decision, (HandBack, Quarantine)) else decision.row


def unknown(envelope: Envelope, definition: TaskDefinition | None, known: Iterable[str]) -> str:
    """Why this worker cannot run a message's task; empty if it can."""
    if definition is None:
        return f"no task {envelope.task!r} in this worker; it knows: {', '.join(sorted(known)) or 'none'}"
    if envelope.task_version > definition.version:
        return f"task {envelope.task!r} version {envelope.task_version}; this worker has version {definition.version}"
    return ""
