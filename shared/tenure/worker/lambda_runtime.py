"""The Lambda worker: one invocation's messages in, the list of those that are not done out.

Lambda deletes what the answer does not list. So a message is listed from the beginning and leaves the list only when
its task's row allows it: whatever goes wrong in between, nothing is deleted unrun. Beats hide messages by their own
calls, retries and hand-backs by a call at once; neither needs the answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from tenure.core import lease, limits
from tenure.core.errors import UsageError
from tenure.core.topology import Pool, Tier
from tenure.ports import Clock, Delivery, TaskQueue, Telemetry, Thread, Threads
from tenure.worker.acks import DirectAck
from tenure.worker.engine import Engine
from tenure.worker.held import Inbox, Unit

MARGIN_SECONDS_MIN = 1.0
"""At least so much of an invocation's time is kept back to settle, hand over and answer."""
MARGIN_SHARE_MAX = 0.25
"""At most so much of it, so that a short function timeout still leaves time to run something."""

Answer = dict[str, list[dict[str, str]]]


class NotAnSqsEvent(UsageError):
    """The function was invoked with something else than a batch of SQS messages."""


@dataclass(frozen=True, slots=True)
class Source:
    """An SQS queue that may invoke this function, and its DLQ."""

    tier: Tier
    queue: TaskQueue
    dead: TaskQueue


@dataclass(frozen=True, slots=True)
class LambdaParts:
    """What the runtime is made of. `sources`: by SQS queue name, which is the end of a record's eventSourceARN."""

    engine: Engine
    sources: Mapping[str, Source]
    pool: Pool
    clock: Clock
    threads: Threads
    telemetry: Telemetry
    replace: Callable[[], None]
    """Ends this process, so that the next invocation gets a fresh one. Does not return, except in tests."""
    flush: Callable[[], None] = lambda: None
    """Writes the metrics that were gathered."""


class LambdaRuntime:
    """Serves one invocation at a time, as Lambda does; `handle` is the function's handler.

    No thread of an invocation is left when it answers: the heartbeat is started for it and joined. Except a handler
    that does not return though it was told to stop; then the next invocation gives its messages back and replaces the
    process, since such a thread would go on beside other work.
    """

    def __init__(self, parts: LambdaParts) -> None:
        self._parts = parts
        self._runners: list[Thread] = []

    def handle(self, event: Any, context: Any) -> Answer:
        """Run the event's tasks. Returns Lambda's partial batch response: the ids of this event that are not done.

        Raises NotAnSqsEvent, before anything is run, where there is nothing that could be answered about.
        """
        records = _records_of(event)
        answers = _Answers(self._parts)
        batches = self._sort(records, answers)
        if not records:
            return answers.failures()
        if self._parts.engine.running:
            return self._refuse(batches, answers)
        self._guarded(partial(self._serve, batches, context))
        self._guarded(self._parts.flush)
        return answers.failures()

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # ours: what is done by now is done, and everything else is listed
            self._parts.telemetry.emit("engine.failed", error=repr(error))

    def _sort(self, records: Sequence[SQSRecord], answers: _Answers) -> list[tuple[Inbox, list[Delivery]]]:
        """The records as deliveries, by the queue that they came from. Of an unknown queue they are only listed."""
        now = self._parts.clock.now_ms()
        batches: dict[str, tuple[Inbox, list[Delivery]]] = {}
        for record in records:
            delivery = delivery_of(record, now)
            answers.expect(delivery)
            name = str(record.get("eventSourceARN") or "").rpartition(":")[2]
            source = self._parts.sources.get(name)
            if source is None:
                known = ", ".join(sorted(self._parts.sources)) or "none"
                self._parts.telemetry.emit(
                    "message.misrouted",
                    message_id=delivery.message_id,
                    queue=name,
                    error=f"this function serves the queues of its pool ({known}); map it to those only",
                )
                continue
            if name not in batches:
                ack = _AnswerAck(answers, DirectAck(source.queue, self._parts.telemetry))
                batches[name] = (Inbox(source.tier, source.queue, source.dead, ack), [])
            batches[name][1].append(delivery)
        return list(batches.values())

    def _serve(self, batches: Sequence[tuple[Inbox, list[Delivery]]], context: Any) -> None:
        engine, clock = self._parts.engine, self._parts.clock
        left_seconds = self._remaining_seconds(context)
        margin_seconds = margin_of(left_seconds, self._parts.pool)
        engine.dies_at_ms = clock.now_ms() + round(left_seconds * 1000)
        stop_at_ms = engine.dies_at_ms - round(margin_seconds * 1000)
        engine.holder.start()
        try:
            units = [unit for inbox, deliveries in batches for unit in engine.admit(inbox, deliveries)]
            if not self._run(units, stop_at_ms):
                engine.hand_over()
                self._wait(stop_at_ms + round(margin_seconds * 500))
        finally:
            engine.holder.stop()
            self._let_lapse()

    def _run(self, units: Sequence[Unit], stop_at_ms: int) -> bool:
        """Run the units on the pool's number of threads; whether all had ended by `stop_at_ms`.

        What would not end by then, if it took as long as the longest of this invocation did, is not started: it would
        be cut off and pay for it with an attempt. Given back, it costs nothing.
        """
        engine, clock, threads = self._parts.engine, self._parts.clock, self._parts.threads
        waiting = deque(self._but_one_suspect(units))
        longest_ms = 0

        def runner() -> None:
            nonlocal longest_ms
            while True:
                try:
                    unit = waiting.popleft()
                except IndexError:
                    return
                began_at_ms = clock.now_ms()
                self._guarded(partial(engine.run, unit, stop_at_ms=stop_at_ms - longest_ms))
                longest_ms = max(longest_ms, (clock.now_ms() - began_at_ms) // len(unit.members))

        count = min(self._parts.pool.threads, len(waiting))
        self._runners = [threads.start(f"tenure-runner-{number}", runner) for number in range(count)]
        return self._wait(stop_at_ms)

    def _but_one_suspect(self, units: Sequence[Unit]) -> list[Unit]:
        """Those to be run: of the units that may kill this process one, after all others; the rest goes back at once.

        Whatever still waits behind a killer is hidden for as long as the function may run, so that a few killers could
        hold their neighbours off for an hour.
        """
        suspects = [unit for unit in units if unit.exclusive]
        for unit in suspects[1:]:
            self._parts.engine.release(unit)
        return [unit for unit in units if not unit.exclusive] + suspects[:1]

    def _wait(self, until_ms: int) -> bool:
        """Wait for the runners, until then at the longest; whether they have ended."""
        clock = self._parts.clock
        return all([runner.join(max(0, until_ms - clock.now_ms()) / 1000) for runner in self._runners])

    def _let_lapse(self) -> None:
        """Of handlers that did not return: their leases are left to lapse, and their messages come back just then."""
        engine, now = self._parts.engine, self._parts.clock.now_ms()
        for held in engine.holder.all():
            engine.holder.drop(held)
            lapses_at_ms = held.row.lease_end_at_ms if held.row else now
            held.inbox.ack.keep(held.delivery, lease.rest_seconds(lapses_at_ms, now) + limits.SKEW_SECONDS + 1)
            self._parts.telemetry.emit("task.left_running", task_id=held.envelope.id, queue=held.inbox.tier.queue)

    def _refuse(self, batches: Sequence[tuple[Inbox, list[Delivery]]], answers: _Answers) -> Answer:
        """A handler of an earlier invocation still runs: take nothing, give all back at once, get a fresh process."""
        self._parts.telemetry.emit("worker.unfit", why="a handler of an earlier invocation has not returned")
        for inbox, deliveries in batches:
            DirectAck(inbox.queue, self._parts.telemetry).keep_many(deliveries, 0)
        self._parts.replace()
        return answers.failures()

    def _remaining_seconds(self, context: Any) -> float:
        """The time this invocation has left; the pool's longest runtime where nobody tells, as in a test invoke."""
        tell = getattr(context, "get_remaining_time_in_millis", None)
        return float(tell()) / 1000 if callable(tell) else float(self._parts.pool.longest_runtime_seconds)


def margin_of(left_seconds: float, pool: Pool) -> float:
    """How much of an invocation's time is kept back: the pool's margin, at most MARGIN_SHARE_MAX of it, and at least
    MARGIN_SECONDS_MIN."""
    return max(MARGIN_SECONDS_MIN, min(float(pool.stop_margin_seconds), left_seconds * MARGIN_SHARE_MAX))


class _Answers:
    """Which of an event's messages are not done. Everything is, until an ack says otherwise."""

    def __init__(self, parts: LambdaParts) -> None:
        self._lock = parts.threads.lock()
        self._expected: list[Delivery] = []
        self._done: set[int] = set()

    def expect(self, delivery: Delivery) -> None:
        """A message of this event."""
        self._expected.append(delivery)

    def done(self, delivery: Delivery) -> None:
        """Lambda may delete it."""
        with self._lock:
            self._done.add(id(delivery))

    def failures(self) -> Answer:
        """Lambda's partial batch response. An id that came twice in one event is done only if both are."""
        with self._lock:
            open_ids = {d.message_id: None for d in self._expected if id(d) not in self._done}
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in open_ids]}


@dataclass(frozen=True, slots=True)
class _AnswerAck:
    """held.Ack for one queue of one invocation."""

    answers: _Answers
    direct: DirectAck

    def delete(self, delivery: Delivery) -> None:
        self.answers.done(delivery)

    def keep(self, delivery: Delivery, seconds: int) -> None:
        self.direct.keep(delivery, seconds)


def _records_of(event: Any) -> list[SQSRecord]:
    """The event's records. Raises NotAnSqsEvent: an answer that lists nothing tells Lambda that all is done."""
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list):
        raise NotAnSqsEvent(
            "this function takes batches of SQS messages from an event source mapping: an object with a list "
            "`Records`. To try it by hand, submit a task instead, or send it an event of that form."
        )
    for number, record in enumerate(records, start=1):
        if not isinstance(record, Mapping) or not isinstance(record.get("messageId"), str) or not record["messageId"]:
            raise NotAnSqsEvent(f"record {number} of {len(records)} has no `messageId`, so nothing can be said of it.")
    return [SQSRecord(record) for record in records]


def delivery_of(record: SQSRecord, now_ms: int) -> Delivery:
    """A record as a delivery. Whatever is missing or odd is read as the least it can mean; a count that cannot be
    read is 0, so that the message does not pass for a first delivery."""
    system = _table(record.get("attributes"))
    user = {name: each for name, each in _table(record.get("messageAttributes")).items() if isinstance(each, Mapping)}
    types = {name: str(each.get("dataType") or "String") for name, each in user.items()}
    return Delivery(
        message_id=record.message_id,
        receipt=str(record.get("receiptHandle") or ""),
        body=str(record.get("body") or ""),
        receive_count=_whole(system.get("ApproximateReceiveCount"), 0),
        sent_at_ms=_whole(system.get("SentTimestamp"), now_ms),
        received_at_ms=now_ms,
        group=str(system.get("MessageGroupId") or ""),
        deduplication_id=str(system.get("MessageDeduplicationId") or ""),
        sequence=str(system.get("SequenceNumber") or ""),
        attributes={name: _text_of(each) for name, each in user.items()},
        attribute_types={name: kind for name, kind in types.items() if kind != "String"},
        moved_from=str(system.get("DeadLetterQueueSourceArn") or ""),
    )


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text_of(attribute: Mapping[str, Any]) -> str:
    """An attribute's text; a binary one comes as base64, which is how a Delivery holds it too."""
    return str(attribute.get("stringValue") or attribute.get("binaryValue") or "")


def _whole(value: Any, default: int) -> int:
    try:
        return max(0, int(value))
    except (TypeError, ValueError, OverflowError):
        return default
