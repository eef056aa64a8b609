"""What tenure tells of itself: named events, each with its level, its metric and what it means; written as JSON lines.

The names are an API: alarms, queries and dashboards are built on them. Fields never hold a payload, a result or a
checkpoint, only what is told about them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR


@dataclass(frozen=True, slots=True)
class Metric:
    """What an event counts towards. `value`: the field that holds the value; "" counts one for each event.

    dimensions: fields that split the metric. Never a task's id or a tenant: every combination is billed.
    """

    name: str
    unit: Literal["Count", "Milliseconds", "Seconds", "Bytes"] = "Count"
    value: str = ""
    dimensions: tuple[str, ...] = ("queue", "task")


class EventName(StrEnum):
    """Every event, with its level and its metrics. A name is never used again for something else."""

    level: int
    metrics: tuple[Metric, ...]
    meaning: str

    def __new__(cls, name: str, level: int, meaning: str, *metrics: Metric) -> EventName:
        """A member: the name as it is told, its level, what it means, what it counts towards."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.level, member.meaning, member.metrics = level, meaning, metrics
        return member

    # producers
    TASK_SUBMITTED = "task.submitted", INFO, "A task was submitted and SQS has its message.", Metric("Submitted")
    TASK_SCHEDULED = "task.scheduled", INFO, "A task was submitted that is due later; it has no message yet."
    TASK_FOUND = "task.found", INFO, "A submit met the task that its idempotency key already stood for."
    TASK_REOPENED = "task.reopened", INFO, "A task that SQS had refused was submitted again."
    TASK_REFUSED = "task.refused", ERROR, "SQS refused a message for certain; its submit was undone.", Metric("Refused")
    SEND_UNKNOWN = (
        "send.unknown",
        WARNING,
        "SQS did not answer a send; the row stands, and reconcile sends it if nobody gets it.",
        Metric("SendUnknown", dimensions=("queue",)),
    )
    SUBMIT_UNKNOWN = "submit.unknown", ERROR, "The table did not answer a submit; it was not sent, and raised."
    TASK_CANCEL_REQUESTED = "task.cancel_requested", INFO, "Somebody asked a running task to stop."

    # workers
    TASK_CLAIMED = (
        "task.claimed",
        INFO,
        "A worker took a task.",
        Metric("Claimed"),
        Metric("WaitTime", "Milliseconds", "waited_ms"),
    )
    TASK_BEAT = "task.beat", DEBUG, "A lease was renewed."
    TASK_SUCCEEDED = (
        "task.succeeded",
        INFO,
        "A handler returned and its result stands.",
        Metric("Succeeded"),
        Metric("RunTime", "Milliseconds", "elapsed_ms"),
    )
    TASK_RETRIED = "task.retried", WARNING, "An attempt failed; another is due.", Metric("Retried")
    TASK_SNOOZED = "task.snoozed", INFO, "A handler asked to be run later, at no cost."
    TASK_BURIED = "task.buried", ERROR, "A task became a dead letter.", Metric("Buried")
    TASK_RELEASED = "task.released", INFO, "A worker gave back a task that it would not finish."
    TASK_HANDED_BACK = "task.handed_back", DEBUG, "A delivery may not run now; its message was hidden for a while."
    TASK_CANCELLED = "task.cancelled", INFO, "A task ended cancelled.", Metric("Cancelled")
    TASK_EXPIRED = "task.expired", WARNING, "A task's deadline passed before it was done.", Metric("Expired")
    TASK_LEFT_RUNNING = (
        "task.left_running",
        WARNING,
        "An invocation ended under a running handler; its lease will lapse.",
    )
    TASK_LEFTOVERS = "task.leftovers", WARNING, "A handler returned and left its own asyncio tasks behind."
    LEASE_LOST = (
        "lease.lost",
        WARNING,
        "A worker found that it no longer owns a task that it runs; nothing of it is recorded.",
        Metric("LeaseLost", dimensions=("queue",)),
    )
    BEAT_FAILED = "beat.failed", WARNING, "A lease could not be renewed this time.", Metric("BeatFailed", dimensions=())
    SETTLE_UNKNOWN = "settle.unknown", WARNING, "The table did not answer a settlement; the lease is left to lapse."
    CHECKPOINT_MISSING = "checkpoint.missing", WARNING, "A task rested for longer than its checkpoint is kept."
    PAYLOAD_UNREAD = "payload.unread", WARNING, "A payload beside its row could not be read."
    MESSAGE_QUARANTINED = (
        "message.quarantined",
        WARNING,
        "A message that is no task of ours was put into the DLQ with its reason.",
        Metric("Quarantined", dimensions=("queue",)),
    )
    MESSAGE_DROPPED = (
        "message.dropped",
        DEBUG,
        "A message that has nothing left to do was deleted: a duplicate, most often.",
        Metric("Dropped", dimensions=("queue",)),
    )
    MESSAGE_MISROUTED = "message.misrouted", ERROR, "A message came from a queue that this worker does not serve."
    ACK_FAILED = (
        "ack.failed",
        WARNING,
        "SQS did not do what was asked with a message; it will come again and meet its row.",
        Metric("AckFailed", dimensions=()),
    )
    TASK_PARKED = "task.parked", INFO, "A task of a halted ordering key was taken off SQS to wait."
    KEY_RELEASED = "key.released", INFO, "A task that waited for its ordering key was sent again."
    KEY_OPENED = "key.opened", INFO, "An ordering key is open again: nothing of it waits."
    LETTER_SENT = "letter.sent", DEBUG, "A dead letter lies in the DLQ."
    POLL_FAILED = (
        "poll.failed",
        WARNING,
        "A receive failed; the poller tries again.",
        Metric("PollFailed", dimensions=()),
    )
    POLL_RESUMED = "poll.resumed", INFO, "Receives succeed again."
    PROTECTION_FAILED = "protection.failed", WARNING, "Scale-in protection could not be set."
    ENGINE_FAILED = (
        "engine.failed",
        ERROR,
        "Something failed in the worker outside any handler; the task comes back by itself.",
        Metric("EngineFailed", dimensions=()),
    )
    WORKER_STARTED = "worker.started", INFO, "A worker began to take tasks."
    WORKER_DRAINING = (
        "worker.draining",
        INFO,
        "A worker takes no more tasks and ends when what it runs has ended.",
    )
    WORKER_STOPPED = "worker.stopped", INFO, "A worker has stopped."
    WORKER_UNFIT = "worker.unfit", ERROR, "A worker will be replaced: it can no longer do its duty."
    WORKER_CRASHED = (
        "worker.crashed",
        ERROR,
        "A worker process ended by itself.",
        Metric("WorkerCrashed", dimensions=()),
    )
    WORKER_KILLED = "worker.killed", WARNING, "Worker processes were killed at the end of the stop window."

    # maintenance and people
    TASK_REPLAYED = "task.replayed", INFO, "A dead letter was given a new budget.", Metric("Replayed")
    TASK_DISCARDED = "task.discarded", INFO, "Somebody decided that a dead letter needs nothing more."
    RECONCILE_DONE = "reconcile.done", INFO, "A run of reconcile ended; its counts."
    RECONCILE_RESENT = (
        "reconcile.resent",
        WARNING,
        "A task that nothing had moved in time was sent again.",
        Metric("Resent", dimensions=("queue",)),
    )
    RECONCILE_UNSENT = "reconcile.unsent", WARNING, "Reconcile's own send was not taken; it tries again."
    RECONCILE_HELD = "reconcile.held", INFO, "A task was left as it is until somebody decides."
    RECONCILE_FAILED = (
        "reconcile.failed",
        ERROR,
        "A part of reconcile failed; the next run does it.",
        Metric("ReconcileFailed", dimensions=()),
    )
    RECONCILE_GAP = (
        "reconcile.gap",
        WARNING,
        "Reconcile has not run for long; if the table was restored meanwhile, mark it.",
    )
    RECONCILE_RESTORED = (
        "reconcile.restored",
        ERROR,
        "The table was restored to an earlier time: what it says of the time since is not to be trusted.",
        Metric("Restored", dimensions=()),
    )
    RECONCILE_DEPTH_UNKNOWN = "reconcile.depth_unknown", WARNING, "A queue's depth could not be read."
    RECONCILE_PAUSE_UNKNOWN = "reconcile.pause_unknown", WARNING, "Whether a queue is paused could not be read."
    LETTER_INGESTED = "letter.ingested", INFO, "A letter that SQS moved by itself was sent back to work."
    LETTER_DRAINED = "letter.drained", DEBUG, "A letter about which everything is decided was deleted."
    LETTER_AHEAD = (
        "letter.ahead",
        WARNING,
        "A letter tells of more than its row does: the table may have been restored.",
    )
    LETTER_EXPIRING = "letter.expiring", WARNING, "A letter will soon pass the DLQ's retention; its row remains."
    INGEST_DONE = "ingest.done", INFO, "A scan of a DLQ ended; its counts."
    INGEST_FAILED = (
        "ingest.failed",
        ERROR,
        "A DLQ could not be scanned; the next run does it.",
        Metric("IngestFailed", dimensions=("queue",)),
    )
    REPLAY_CREATED = "replay.created", INFO, "Somebody began a replay."
    REPLAY_DONE = "replay.done", INFO, "A replay has replayed all that it matched."
    REPLAY_STOPPED = "replay.stopped", WARNING, "A replay stopped itself: its canary fell short."
    REPLAY_ABORTED = "replay.aborted", WARNING, "Somebody ended a replay early."
    REPLAY_FAILED = "replay.failed", ERROR, "A step of a replay failed; the next run goes on with it."


KNOWN: Mapping[str, EventName] = {name.value: name for name in EventName}

Sink = Callable[[str, int, Mapping[str, Any]], None]
"""Takes (event, level, fields). What it raises is kept from whoever told of the event."""

_NEVER_TOLD = frozenset({"payload", "result", "checkpoint", "args", "kwargs", "body", "value"})
"""Fields that hold what users sent. No caller passes them; a line that would hold one tells their absence instead."""
_TEXT_CHARS_MAX = 2048
"""A field's text is cut here, so that no line outgrows the 256 KB of a CloudWatch log event."""


class LogTelemetry:
    """ports.Telemetry: each event goes to every sink; by default to one that writes a JSON line through `logging`.

    Telling never changes what is told: a sink that raises costs its own copy of the event and nothing else.
    """

    def __init__(self, *sinks: Sink, context: Mapping[str, Any] | None = None) -> None:
        """context: fields that every event bears (app, environment, pool, ...)."""
        self._sinks: Sequence[Sink] = sinks or (json_lines(),)
        self._context = dict(context or {})
        self.failures = 0
        """How often a sink has raised."""

    def emit(self, event: str, /, **fields: Any) -> None:
        """Tell of an event. Never raises."""
        known = KNOWN.get(str(event))
        level = known.level if known else WARNING
        for sink in self._sinks:
            try:
                sink(str(event), level, self._context | _clean(fields))
            except Exception:  # there is nobody left to tell, and the task must not pay for it
                self.failures += 1


def json_lines(logger: logging.Logger | None = None) -> Sink:
    """A sink that writes each event as one line of JSON, through the logger "tenure" unless another is given."""
    out = logger or logging.getLogger("tenure")

    def write(event: str, level: int, fields: Mapping[str, Any]) -> None:
        if out.isEnabledFor(level):
            head = {"event": event, "level": logging.getLevelName(level).lower()}
            line = head | dict(fields) | head  # they stand first, and no field can take their place
            out.log(level, "%s", json.dumps(line, ensure_ascii=False, default=_shown, separators=(",", ":")))

    return write


def metrics_of(event: str, fields: Mapping[str, Any]) -> list[tuple[Metric, float, dict[str, str]]]:
    """What an event counts: (metric, value, dimensions) each. For sinks that publish metrics. Empty for most events."""
    known = KNOWN.get(event)
    found = []
    for metric in known.metrics if known else ():
        value = fields.get(metric.value, 0) if metric.value else 1
        dimensions = {name: str(fields[name]) for name in metric.dimensions if fields.get(name)}
        found.append((metric, float(value), dimensions))
    return found


def _clean(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: "(not told)" if name in _NEVER_TOLD else _bounded(value) for name, value in fields.items()}


def _bounded(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _TEXT_CHARS_MAX:
        return value[:_TEXT_CHARS_MAX] + "…"
    return value


def _shown(value: Any) -> str:
    """What JSON does not know, as a text."""
    return str(_bounded(repr(value)))
