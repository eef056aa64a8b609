"""Every error of tenure, by whose turn it is.

    Exception
    └── TenureError
        ├── UsageError                 the caller mends the call or the declaration
        │   ├── NotConnected             submit before App.connect
        │   ├── InvalidTask              a declaration that cannot work (option, queue, handler shape)
        │   ├── InvalidPayload           arguments that do not survive the round trip, or fail their schema
        │   ├── TooLarge                 more bytes than the service takes, counted with all that tenure adds
        │   ├── InvalidTopology          an environment that contradicts itself
        │   ├── InvalidFilter            a filter that the grammar of core/filters.py does not know
        │   ├── NotBuilt                 an option whose feature does not exist yet, by name
        │   └── KeyConflict              an idempotency key that already stands for another payload
        ├── SubmitRefused              SQS said no for certain; nothing is left behind that could run
        ├── TaskNotFound               no row by this id
        ├── NotFinished                the result was asked for before there was one
        ├── TaskFailed                 the task ended without a result: dead-lettered, cancelled or expired
        ├── DecodeError                bytes that are not what they should be
        │   ├── ForeignMessage           a message that tenure did not write
        │   └── UnsupportedVersion       an envelope or a row from a newer tenure
        ├── IllegalTransition          a defect: the table has no such row
        └── ServiceError               a service failed; the call may be tried again
            └── PayloadMissing           a payload, result or checkpoint that the row names is not there

A handler's own signals (GiveUp, RetryAfter, Snooze, LeaseLost) are not errors of tenure; they live in core/outcome.py.
"""

from __future__ import annotations


class TenureError(Exception):
    """Base of every error that tenure raises for others to catch."""


class UsageError(TenureError):
    """The caller can mend this: the message says what was wrong, where, and what to do."""


class NotConnected(UsageError):
    """A task was submitted before its App was connected to an environment."""


class InvalidTask(UsageError):
    """A task's declaration cannot work; raised where it is declared or first checked."""


class InvalidPayload(UsageError):
    """Arguments that would not come out of the queue as they went in, or do not fit the handler's signature."""


class TooLarge(UsageError):
    """More bytes than the service takes. Carries the count and the limit, both in bytes."""

    def __init__(self, what: str, size_bytes: int, limit_bytes: int, mend: str) -> None:
        super().__init__(f"{what} is {size_bytes:,} bytes; the limit is {limit_bytes:,} bytes. {mend}")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class InvalidTopology(UsageError):
    """Queues, pools or an environment that contradict each other; names the field, the rule and the mend."""


class InvalidFilter(UsageError):
    """A filter that the grammar of core/filters.py does not know; names the term and what may be written."""


class NotBuilt(UsageError):
    """An option that the design knows but this version does not carry out. Refused rather than ignored."""


class KeyConflict(UsageError):
    """The idempotency key already stands for a task with another payload."""

    def __init__(self, task_id: str, state: str) -> None:
        super().__init__(
            f"the idempotency key of task {task_id} (state {state}) was used with another payload. "
            "Use a new key for new work, or submit the same arguments to find the same task."
        )
        self.task_id = task_id
        self.state = state


class SubmitRefused(TenureError):
    """SQS refused the message for certain; the row, if any, is marked cancelled and nothing will run."""

    def __init__(self, task_id: str, reason: str) -> None:
        super().__init__(f"task {task_id} was not submitted: {reason}")
        self.task_id = task_id
        self.reason = reason


class TaskNotFound(TenureError):
    """No task is known by this id: never submitted here, or its row has passed its time to live."""


class NotFinished(TenureError):
    """The task has no final state yet (after the time that the caller was willing to wait)."""


class TaskFailed(TenureError):
    """The task ended without a result. Carries its final state and the recorded error, if there is one."""

    def __init__(self, task_id: str, state: str, detail: str) -> None:
        super().__init__(f"task {task_id} ended {state}: {detail}")
        self.task_id = task_id
        self.state = state


class DecodeError(TenureError):
    """Bytes from outside that are not what they should be."""


class ForeignMessage(DecodeError):
    """A message that tenure did not write. `kind` names what it looks like, for the quarantine's reason."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"not a tenure envelope ({kind}): {detail}")
        self.kind = kind


class UnsupportedVersion(DecodeError):
    """An envelope or a row written by a newer tenure than this one."""


class IllegalTransition(TenureError):
    """The table of transitions has no such row: a defect in tenure, never a user's mistake."""


class ServiceError(TenureError):
    """A service did not do what was asked; the same call may succeed later."""


class PayloadMissing(ServiceError):
    """A text that a row or envelope names does not lie where it should."""
