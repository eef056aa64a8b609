"""A queue of a world: ports.TaskQueue as SQS behaves, standard and FIFO.

Rules, with their sources. Pages: AWSSimpleQueueService/latest/SQSDeveloperGuide on docs.aws.amazon.com; "model" is the
service model that botocore ships; "recorded" is what AWS-validated tests of others recorded against the service.
- a receive hides a message for the visibility timeout, counts it and gives a new receipt; model, ReceiveMessage
- a new visibility runs from the call, is not remembered, and is refused, not clamped, when it would end later than
  12 h after the receive; model, ChangeMessageVisibility
- standard, a receipt that is no more the latest: delete answers yes and may do nothing; model, DeleteMessage.
  A change of visibility with a lapsed receipt answers yes (recorded), which proves nothing
- standard, lapsed but still the latest: delete deletes (recorded)
- FIFO, a lapsed receipt: both are refused; "The receipt handle has expired" (recorded); model, DeleteMessage
- after the delete: a change is refused (recorded), another delete answers yes
- FIFO: none of a group is handed out while one of it is in flight; a receive may hold several of one group, in order;
  FIFO-queues-understanding-logic.html
- retention counts from the send, in flight or not; quotas-messages.html
- when the receive count would exceed maxReceiveCount, the receive moves the message to the DLQ instead. It keeps id and
  count; standard keeps the time of its send, FIFO starts anew and its deduplication id becomes the message id;
  setting-up-dead-letter-queue-retention.html, sqs-configure-dead-letter-queue-redrive.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random

from tenure.adapters.memory import answers
from tenure.adapters.memory.faults import Faults
from tenure.adapters.memory.message import Deduplication, Message, Receipt, refusal
from tenure.adapters.memory.scheduler import Scheduler
from tenure.core import limits
from tenure.core.errors import ServiceError
from tenure.ports import Delivery, Depth, Done, NotDone, NotSent, Send, Sent

ARN = "arn:aws:sqs:us-east-1:000000000000:"


class MemoryQueue:
    """ports.TaskQueue in memory."""

    def __init__(  # noqa: PLR0913 - one keyword for each attribute that the SQS queue would have
        self,
        name: str,
        scheduler: Scheduler,
        random: Random,
        faults: Faults,
        *,
        ordered: bool = False,
        visibility_seconds: int = 30,
        retention_seconds: int = limits.SQS_RETENTION_SECONDS_DEFAULT,
        receive_count_max: int = limits.SQS_RECEIVE_COUNT_MAX,
        dead: MemoryQueue | None = None,
        deduplication_scope: str = "messageGroup",
    ) -> None:
        self._name = name
        self._scheduler = scheduler
        self._random = random
        self.faults = faults
        self._ordered = ordered
        self.visibility_seconds = visibility_seconds
        self.retention_seconds = retention_seconds
        self.receive_count_max = receive_count_max
        self.dead = dead
        self._messages: dict[int, Message] = {}
        self._serial = 0
        self._deduplication = Deduplication(deduplication_scope)
        self.watchers: list[Callable[[str, Message], None]] = []
        """How a checker sees messages: called with (what, message); sent, received, deleted, moved, expired, purged."""

    @property
    def name(self) -> str:
        """See ports.TaskQueue."""
        return self._name

    @property
    def ordered(self) -> bool:
        """See ports.TaskQueue."""
        return self._ordered

    # ---- send --------------------------------------------------------------------------------------------------
    def send_many(self, sends: Sequence[Send]) -> list[Sent | NotSent]:
        """See ports.TaskQueue."""
        outcomes: list[Sent | NotSent] = []
        held: set[str] = set()
        for send in sends:
            self._scheduler.step_to(f"{self._name} send", partial(self._store, send), self._late_for(send))
            with self._scheduler.guard():
                outcome = answers.HELD_BACK if send.group in held else self._send_somehow(send)
            if self._ordered and isinstance(outcome, NotSent) and not outcome.definite:
                held.add(send.group)
            outcomes.append(outcome)
        self._scheduler.after(f"{self._name} sent")
        return outcomes

    def _send_somehow(self, send: Send) -> Sent | NotSent:
        refused = refusal(send, ordered=self._ordered)
        if refused:
            return refused
        if self._chance(self.faults.send_unanswered):
            if self._chance(0.5):
                self._store(send)
            elif self._chance(0.5):
                self._scheduler.later(self.faults.late_seconds, partial(self._store, send))
            return NotSent(False, "ServiceUnavailable", "no answer came")
        if self._chance(self.faults.send_reply_lost):
            self._store(send)
        return Sent(self._store(send))

    def _late_for(self, send: Send) -> float:
        return 0.0 if refusal(send, ordered=self._ordered) else self.faults.late_seconds

    def _store(self, send: Send) -> str:
        now = self._scheduler.now_ms
        if self._ordered:
            known = self._deduplication.known(send, now)
            if known:
                return known
        message = Message(
            serial=self._next_serial(),
            message_id=f"{self._random.getrandbits(128):032x}",
            body=send.body,
            group=send.group,
            deduplication_id=send.deduplication_id,
            attributes=dict(send.attributes),
            attribute_types={name: kind for name, kind in send.attribute_types.items() if kind != "String"},
            sent_at_ms=now,
            visible_at_ms=now + send.delay_seconds * 1000,
        )
        if self._ordered:
            self._deduplication.remember(send, now, message.message_id)
        self._add(message)
        return message.message_id

    def _add(self, message: Message) -> None:
        self._messages[message.serial] = message
        self._tell("sent", message)
        self._scheduler.wake(self)

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial

    # ---- receive -----------------------------------------------------------------------------------------------
    def receive(self, limit: int, wait_seconds: int, visibility_seconds: int | None = None) -> list[Delivery]:
        """See ports.TaskQueue."""
        hidden = self.visibility_seconds if visibility_seconds is None else visibility_seconds
        for what, value, low, high in (
            ("MaxNumberOfMessages", limit, 1, limits.SQS_BATCH_ENTRIES_MAX),
            ("WaitTimeSeconds", wait_seconds, 0, limits.SQS_WAIT_SECONDS_MAX),
            ("VisibilityTimeout", hidden, 0, limits.SQS_VISIBILITY_SECONDS_MAX),
        ):
            if not low <= value <= high:
                raise ServiceError(f"InvalidParameterValue: {what} is {value}; it must be between {low} and {high}")
        self._scheduler.step(f"{self._name} receive")
        with self._scheduler.guard():
            deadline = self._scheduler.now_ms + wait_seconds * 1000
            fails = self._chance(self.faults.receive_fails)
            found = [] if fails and self._chance(0.5) else self._take(limit, hidden)
            while not found and not fails and self._scheduler.now_ms < deadline:
                self._scheduler.wait(self, min([deadline, *self.hidden_until_ms()]))
                found = self._take(limit, hidden)
        if fails:
            raise ServiceError("ServiceUnavailable: no answer came")
        self._scheduler.after(f"{self._name} received {len(found)}")
        return found

    def _take(self, limit: int, hidden_seconds: int) -> list[Delivery]:
        self._drop_expired()
        if self._chance(self.faults.receive_empty):
            return []
        if limit > 1 and self._chance(self.faults.receive_partial):
            limit = 1 + int(self._random.random() * limit)
        taken: list[Delivery] = []
        for message in self._candidates():
            if len(taken) == limit:
                break
            if self.dead is not None and message.receive_count >= self.receive_count_max:
                self._move(message, self.dead)
            else:
                taken.append(self._hand_out(message, hidden_seconds))
        return taken

    def _candidates(self) -> Iterator[Message]:
        now = self._scheduler.now_ms
        if self._ordered:
            return self._in_order(now)
        visible = [m for m in self._messages.values() if m.visible_at_ms <= now]
        if self._chance(self.faults.reorder):
            self._random.shuffle(visible)
        return iter(visible)

    def _in_order(self, now: int) -> Iterator[Message]:
        locked = {m.group for m in self._messages.values() if m.visible_at_ms > now}
        return iter([m for m in self._messages.values() if m.group not in locked])

    def _hand_out(self, message: Message, hidden_seconds: int) -> Delivery:
        now = self._scheduler.now_ms
        message.receive_count += 1
        message.receives_here += 1
        message.received_at_ms = now
        message.visible_at_ms = now + hidden_seconds * 1000
        if not self._ordered and self._chance(self.faults.duplicate):
            message.visible_at_ms = now
        message.in_flight = message.visible_at_ms > now
        self._tell("received", message)
        return Delivery(
            message_id=message.message_id,
            receipt=Receipt(self._name, message.serial, message.receives_here, now).text(),
            body=message.body,
            receive_count=message.receive_count,
            sent_at_ms=message.sent_at_ms,
            received_at_ms=now,
            group=message.group,
            deduplication_id=message.deduplication_id,
            sequence=f"{message.serial:020d}" if self._ordered else "",
            attributes=dict(message.attributes),
            attribute_types=dict(message.attribute_types),
            moved_from=message.moved_from,
        )

    def _move(self, message: Message, dead: MemoryQueue) -> None:
        del self._messages[message.serial]
        self._tell("moved", message)
        now = self._scheduler.now_ms
        message.serial = dead._next_serial()
        message.receives_here = 0
        message.visible_at_ms = now
        message.in_flight = False
        message.moved_from = ARN + self._name
        if self._ordered:
            message.sent_at_ms = now
            message.deduplication_id = message.message_id
        dead._add(message)

    def _drop_expired(self) -> None:
        oldest = self._scheduler.now_ms - self.retention_seconds * 1000
        for message in [m for m in self._messages.values() if m.sent_at_ms < oldest]:
            del self._messages[message.serial]
            self._tell("expired", message)

    # ---- receipts ----------------------------------------------------------------------------------------------
    def set_visibility_many(self, changes: Sequence[tuple[str, int]]) -> list[Done | NotDone]:
        """See ports.TaskQueue."""
        return self._each("hide", [partial(self._hide, *change) for change in changes])

    def delete_many(self, receipts: Sequence[str]) -> list[Done | NotDone]:
        """See ports.TaskQueue."""
        return self._each("delete", [partial(self._delete, receipt) for receipt in receipts])

    def _each(self, what: str, calls: Sequence[Callable[[], Done | NotDone]]) -> list[Done | NotDone]:
        outcomes: list[Done | NotDone] = []
        for call in calls:
            self._scheduler.step_to(f"{self._name} {what}", call, self.faults.late_seconds)
            with self._scheduler.guard():
                unanswered = self._chance(self.faults.change_unanswered)
                if unanswered and self._chance(0.5):
                    self._scheduler.later(self.faults.late_seconds if self._chance(0.5) else 0, call)
                    outcomes.append(answers.UNANSWERED)
                    continue
                done = call()
                outcomes.append(answers.UNANSWERED if unanswered else done)
        self._scheduler.after(f"{self._name} {what} answered")
        return outcomes

    def _hide(self, text: str, seconds: int) -> Done | NotDone:
        receipt = Receipt.read(text)
        now = self._scheduler.now_ms
        if receipt is None or receipt.queue != self._name:
            return answers.invalid(text)
        cap_ms = receipt.received_at_ms + limits.SQS_VISIBILITY_SECONDS_MAX * 1000
        if not 0 <= seconds <= limits.SQS_VISIBILITY_SECONDS_MAX or now + seconds * 1000 > cap_ms:
            return answers.beyond_cap(seconds)
        message = self._messages.get(receipt.serial)
        if message is None:
            return answers.not_available()
        if self._is_stale(message, receipt):
            if self._ordered:
                return answers.expired()
            if not self._chance(self.faults.stale_takes_effect):
                return Done()
        message.visible_at_ms = now + seconds * 1000
        message.in_flight = seconds > 0
        self._scheduler.wake(self)
        return Done()

    def _delete(self, text: str) -> Done | NotDone:
        receipt = Receipt.read(text)
        if receipt is None or receipt.queue != self._name:
            return answers.invalid(text)
        message = self._messages.get(receipt.serial)
        if message is None:
            return Done()
        if self._ordered and self._is_stale(message, receipt):
            return answers.expired()
        if receipt.receive != message.receives_here and not self._chance(self.faults.stale_takes_effect):
            return Done()
        self._tell("deleted", message)
        if not self._ordered and not message.revived and self._chance(self.faults.revived):
            message.revived = True
            message.in_flight = False
            message.visible_at_ms = self._scheduler.now_ms + self._random.choice((5, 100, 1000, 2500)) * 1000
            return Done()
        del self._messages[receipt.serial]
        self._scheduler.wake(self)
        return Done()

    def _is_stale(self, message: Message, receipt: Receipt) -> bool:
        """Whether the message was received again since, or its invisibility has lapsed."""
        return receipt.receive != message.receives_here or message.visible_at_ms <= self._scheduler.now_ms

    # ---- counts ------------------------------------------------------------------------------------------------
    def depth(self) -> Depth:
        """See ports.TaskQueue."""
        self._scheduler.step(f"{self._name} depth")
        with self._scheduler.guard():
            if self._chance(self.faults.receive_fails):
                raise ServiceError("ServiceUnavailable: no answer came")
            self._drop_expired()
            now = self._scheduler.now_ms
            hidden = [m for m in self._messages.values() if m.visible_at_ms > now]
            in_flight = sum(1 for m in hidden if m.in_flight)
            counts = (len(self._messages) - len(hidden), in_flight, len(hidden) - in_flight)
            visible, flying, delayed = (self._about(count) for count in counts)
            return Depth(visible, flying, delayed)

    def all(self) -> list[Message]:
        """Every message that is there, for checkers; without a yield point."""
        with self._scheduler.guard():
            self._drop_expired()
            return list(self._messages.values())

    def redrive_to(self, main: MemoryQueue) -> int:
        """Put every message of this DLQ back on `main`, as StartMessageMoveTask does: as new messages, with body,
        attributes and group as they were; how many. sqs-configure-dead-letter-queue-redrive.html"""
        with self._scheduler.guard():
            moving = [message for message in self._messages.values() if message.visible_at_ms <= self._scheduler.now_ms]
            for message in moving:
                del self._messages[message.serial]
                self._tell("deleted", message)
                again = f"{self._random.getrandbits(128):032x}" if self._ordered else ""
                main._store(
                    Send(
                        message.body,
                        message.group,
                        again,
                        attributes=message.attributes,
                        attribute_types=message.attribute_types,
                    )
                )
            return len(moving)

    def hidden_until_ms(self) -> list[int]:
        """When each message that is hidden now becomes visible."""
        now = self._scheduler.now_ms
        return [message.visible_at_ms for message in self._messages.values() if message.visible_at_ms > now]

    def purge(self) -> None:
        """Lose every message, as PurgeQueue does."""
        with self._scheduler.guard():
            for message in list(self._messages.values()):
                del self._messages[message.serial]
                self._tell("purged", message)

    def _about(self, count: int) -> int:
        if not self._chance(self.faults.depth_error):
            return count
        return int(count * 2 * self._random.random())

    def _chance(self, chance: float) -> bool:
        return chance > 0 and self._random.random() < chance

    def _tell(self, what: str, message: Message) -> None:
        for watcher in self.watchers:
            watcher(what, message)
