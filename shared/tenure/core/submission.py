"""What a producer asks for: a task's facts, its payload, and the options of one submit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from tenure.core import limits
from tenure.core.durations import Duration, seconds_of
from tenure.core.errors import NotBuilt, UsageError
from tenure.core.words import an

Priority = Literal["high", "normal", "low"]

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one submit.

    tenant:          on whose behalf; standard queues share workers fairly between tenants. "" for none.
    priority:        the tier of a standard queue: "high", "normal" or "low"; the queue must have it.
    delay:           not to be run before so much time has passed; standard queues only, at most 366 days.
    idempotency_key: the same key (of the same task and tenant) finds the same task instead of making another, as long
                     as its row lives. None: every submit is a task of its own.
    deadline:        counted from the submit; a task that has not started by then ends `expired`. None: never too late.
    traceparent:     W3C trace context that the task's run continues. "" for none.

    Raises UsageError for a value that cannot be meant, and NotBuilt for `after`.
    """

    tenant: str = ""
    priority: Priority = "normal"
    delay: Duration = 0
    idempotency_key: str | None = None
    deadline: Duration | None = None
    traceparent: str = ""
    after: object = None
    """Reserved: to run after other tasks. Refused for now."""
    delay_seconds: float = field(init=False, default=0.0)
    deadline_seconds: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.after is not None:
            raise NotBuilt("after=: to wait for other tasks is not built yet. Submit this task from the one before it.")
        if self.priority not in get_args(Priority):
            raise UsageError(f'priority={self.priority!r}: one of "high", "normal", "low".')
        if self.tenant != "":
            _refuse_text("tenant", self.tenant, limits.TENANT_BYTES_MAX)
        if self.idempotency_key is not None:
            _refuse_text("idempotency_key", self.idempotency_key, limits.IDEMPOTENCY_KEY_BYTES_MAX)
        if self.traceparent != "" and not _TRACEPARENT.fullmatch(str(self.traceparent)):
            raise UsageError(f"traceparent={self.traceparent!r} is not a W3C trace context (version-trace-span-flags).")
        self._read_durations()

    def _read_durations(self) -> None:
        delay = seconds_of(self.delay, "delay")
        if delay > limits.DELAY_SECONDS_MAX:
            raise UsageError(f"delay={self.delay!r}: at most {limits.DELAY_SECONDS_MAX // 86_400} days.")
        object.__setattr__(self, "delay_seconds", delay)
        if self.deadline is None:
            return
        deadline = seconds_of(self.deadline, "deadline")
        if deadline <= delay:
            raise UsageError(
                f"deadline={self.deadline!r} with delay={self.delay!r}: the task would be too late before it is due. "
                "Both count from the submit; make the deadline longer than the delay."
            )
        object.__setattr__(self, "deadline_seconds", deadline)


def _refuse_text(name: str, value: object, bytes_max: int) -> None:
    """Raise UsageError unless `value` is a text with something in it, of at most so many bytes."""
    if not isinstance(value, str) or not value.strip():
        none = "None" if name == "idempotency_key" else '""'
        raise UsageError(
            f"{name}={value!r}: a text with something in it, or {none} for none. Strangers would share a blank one."
        )
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise UsageError(f"{name}: it holds half of a surrogate pair, which no UTF-8 text can.") from None
    if size > bytes_max:
        raise UsageError(f"{name} is {size:,} bytes; the limit is {bytes_max:,}. Use a shorter one, or a hash of it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """What a producer must know of a task, whether from its declaration or from what was published of it."""

    name: str
    queue: str
    version: int = 1
    ordered_by: str | None = None
    max_attempts: int = 5
    required: tuple[str, ...] | None = None
    """Names of the arguments that must be given; None where they are not known, so that nothing is checked."""
    optional: tuple[str, ...] = ()
    """Names of those that may be left to their default."""

    MAX_ATTEMPTS: ClassVar[int] = 5
    """What is meant where nothing is published of a task's attempts: a default that may never change."""


def as_json(text: str | None) -> Any:
    """A result as plain JSON data: how it is read where the handler's own types are not known."""
    return None if text is None else json.loads(text)


def not_a_call(index: int, item: object, how: str) -> str:
    """What to say of an item of `submit_many` that is no call; `how`: what makes one."""
    return f"item {index} of submit_many is {an(type(item).__name__)}, not a call. Bind the arguments first: {how}."


@dataclass(frozen=True, slots=True)
class Submission:
    """One task to be submitted: its payload is encoded and its options are checked; nothing has been written."""

    task: TaskFacts
    payload: str
    """Canonical JSON text: the arguments by name."""
    options: Options = field(default_factory=Options)
    decode_result: Callable[[str | None], Any] = as_json
