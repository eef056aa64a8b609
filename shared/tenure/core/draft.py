"""A submit before it happens: the row as it shall be, where the payload goes, and the message; every check made.

Nothing of this asks anybody: what is wrong with a submit is told before anything exists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, cast

from tenure.core import lease, limits
from tenure.core.declaration import ordering_mismatch
from tenure.core.envelope import canonical, digest_of, encode, envelope_of
from tenure.core.errors import InvalidPayload, InvalidTask, NotBuilt, TooLarge, UsageError
from tenure.core.machine import Stamp, submitted
from tenure.core.sizes import message_bytes, text_bytes
from tenure.core.submission import Options, Submission, TaskFacts
from tenure.core.task import Row, State, Stored
from tenure.core.topology import Queue, Tier, Topology, group_id, refuse_unbuilt

FENCES_SINCE_MS = 1_735_689_600_000
"""2025-01-01T00:00Z. A keyed task's first fence is the seconds since then: above any fence that an earlier task of the
same key can have reached, since that one cannot have been claimed more than once a second for all its life."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """What a new task takes from chance: the id it gets if no key gives one, and its birth."""

    id: str
    birth: str


@dataclass(frozen=True, slots=True)
class Draft:
    """One submit, checked and ready."""

    submission: Submission
    row: Row
    stamp: Stamp
    tier: Tier
    message_bytes_max: int

    @property
    def scheduled(self) -> bool:
        """Whether it is due later than SQS can delay, so that nothing is sent now."""
        return self.row.state is State.SCHEDULED

    @property
    def group(self) -> str:
        """The MessageGroupId: of the ordering key, or of the tenant on a standard queue; "" for none."""
        value = self.row.ordering_key if self.tier.ordered else self.row.tenant
        return group_id(value) if value else ""

    def body(self, row: Row, *, room_bytes: int = 0) -> str:
        """The message for `row`, which is this draft's or an equal one found in its place. Raises TooLarge.

        room_bytes: what must be left of the queue's limit.
        """
        payload, place = self.submission.payload, row.payload
        in_row = place is None or place.kind == "inline"
        ways = [payload] if in_row or text_bytes(payload) <= limits.ENVELOPE_INLINE_BYTES_MAX else []
        size_bytes = 0
        for carried in ways if in_row else (*ways, None):
            text = encode(envelope_of(row, carried))
            size_bytes = message_bytes(text, {}) + room_bytes
            if size_bytes <= self.message_bytes_max:
                return text
        raise TooLarge(
            f"the message of task {row.task!r}, with all that tenure adds now and when it is sent again,",
            size_bytes,
            self.message_bytes_max,
            "Raise the queue's message_bytes_max, or shorten its tenant, key or payload.",
        )


def draft(
    submission: Submission, topology: Topology, fresh: Fresh, stamp: Stamp, kind_for: Callable[[int], str]
) -> Draft:
    """Check a submission and work out all that it will write.

    kind_for: where a text of so many bytes belongs (ports.PayloadStore.kind_for).

    Raises a UsageError by kind: InvalidTopology, InvalidTask, NotBuilt, InvalidPayload (ordering key), TooLarge.
    """
    task, options = submission.task, submission.options
    queue = topology.queue(task.queue)
    _refuse_misfit(task, options, queue)
    row = _row(submission, queue, fresh, stamp)
    made = Draft(submission, row, stamp, topology.tier(queue.name, options.priority), queue.message_bytes_max)
    kind = _kind_for(task.name, submission.payload, kind_for)
    return _placed(made, kind)


def task_id(task: str, tenant: str, key: str) -> str:
    """The id that an idempotency key stands for: of its task and tenant only. Keys are compared as they are written."""
    return "k" + hashlib.sha256(canonical([task, tenant, key]).encode("utf-8")).hexdigest()[:40]


def _refuse_misfit(task: TaskFacts, options: Options, queue: Queue) -> None:
    refuse_unbuilt(queue)
    mismatch = ordering_mismatch(task.name, task.ordered_by, queue.name, queue.ordered)
    if mismatch:
        raise InvalidTask(mismatch)
    if queue.ordered and options.priority != "normal":
        raise UsageError(
            f"task {task.name!r}: priority={options.priority!r} on the ordered queue {queue.name!r}. Order and "
            "priority exclude each other: leave the priority out, or use a standard queue."
        )
    if queue.ordered and options.delay_seconds > 0:
        raise NotBuilt(
            f"task {task.name!r}: a delay on the ordered queue {queue.name!r} is not built; it would hold up its key. "
            "Submit it later, or use a standard queue."
        )


def _row(submission: Submission, queue: Queue, fresh: Fresh, stamp: Stamp) -> Row:
    task, options, now = submission.task, submission.options, stamp.now_ms
    key = options.idempotency_key
    due = now + round(options.delay_seconds * 1000) if options.delay_seconds > 0 else 0
    row = Row(
        id=fresh.id if key is None else task_id(task.name, options.tenant, key),
        birth=fresh.birth,
        task=task.name,
        task_version=task.version,
        queue=queue.name,
        tier=options.priority,
        tenant=options.tenant,
        ordering_key=_ordering_key(task, submission.payload) if queue.ordered else "",
        state=State.QUEUED,
        fence_floor=0 if key is None else max(0, now - FENCES_SINCE_MS) // 1000,
        max_attempts=task.max_attempts,
        due_at_ms=due,
        deadline_at_ms=0 if options.deadline_seconds is None else now + round(options.deadline_seconds * 1000),
        digest=digest_of(submission.payload),
        traceparent=options.traceparent,
    )
    return submitted(row, stamp)


def _ordering_key(task: TaskFacts, payload: str) -> str:
    name = task.ordered_by or ""
    value = json.loads(payload).get(name)
    where = f"task {task.name!r}: `{name}`, which orders its queue,"
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InvalidPayload(f"{where} must be a text or a whole number in the payload, not {type(value).__name__}.")
    text = str(value)
    if not text.strip():
        raise InvalidPayload(f"{where} is blank. Strangers would wait for each other; give the key of what is ordered.")
    size_bytes = text_bytes(text)
    if size_bytes > limits.ORDERING_KEY_BYTES_MAX:
        raise InvalidPayload(
            f"{where} is {size_bytes:,} bytes; the limit is {limits.ORDERING_KEY_BYTES_MAX}. "
            "Use an id, or a hash of it."
        )
    return text


def _kind_for(task: str, payload: str, kind_for: Callable[[int], str]) -> str:
    try:
        return kind_for(text_bytes(payload))
    except TooLarge as error:
        raise TooLarge(
            f"the payload of task {task!r}",
            error.size_bytes,
            error.limit_bytes,
            "Give the environment a payload bucket, or pass a reference to where the data lies.",
        ) from None


def _placed(made: Draft, kind: str) -> Draft:
    """The draft with its payload's place; out of the row where the queue takes only messages too small to carry it."""
    try:
        first = _at(made, kind)
        first.body(first.row, room_bytes=limits.RESEND_ROOM_BYTES)
        return first
    except TooLarge:
        if kind != "inline":
            raise
    beside = _at(made, "item")
    beside.body(beside.row, room_bytes=limits.RESEND_ROOM_BYTES)
    return beside


def _at(made: Draft, kind: str) -> Draft:
    payload, row = made.submission.payload, made.row
    value = payload if kind == "inline" else f"{row.id}/P/{made.stamp.write_id}"
    stored = Stored(cast(Literal["inline", "item", "object"], kind), value, text_bytes(payload))
    return replace(made, row=replace(row, payload=stored))


def delay_seconds(row: Row, now_ms: int) -> int:
    """How long SQS shall delay the message of a row that is sent now."""
    return min(lease.rest_seconds(row.due_at_ms, now_ms), limits.SQS_DELAY_SECONDS_MAX)
