"""A submitted task in a producer's hand: its state, its result, its cancellation, and why it is where it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

from tenure.core import limits, machine
from tenure.core.durations import Duration, seconds_of, text_of
from tenure.core.errors import NotFinished, ServiceError, TaskFailed, TaskNotFound, TenureError, UsageError
from tenure.core.machine import RESULT_NOT_STORABLE, Stamp
from tenure.core.outcome import head
from tenure.core.story import tell
from tenure.core.submission import as_json
from tenure.core.task import ErrorRecord, Row, State
from tenure.ports import Clock, Entropy, PayloadStore, Telemetry
from tenure.rows import Overtaken, Rows, Stands

R_co = TypeVar("R_co", covariant=True)

POLL_SECONDS_MIN = 0.05
"""First pause between two looks at an unfinished task; each next one is half as long again."""
POLL_SECONDS_MAX = 2.0
"""Longest pause: a look costs a consistent read, one read unit per 4 KB."""
CANCEL_TRIES = 10
"""How often a cancel is decided again on a row that moved meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A task as it stood when it was looked at. Times are epoch milliseconds; 0 means not yet."""

    id: str
    task: str
    queue: str
    state: State
    attempt: int
    """The attempt that runs or would run next, so 1 before there was any (`started_at_ms` tells whether there was); of
    an ended task, the attempts made."""
    max_attempts: int
    progress: float
    """0 to 1, as its handler last told."""
    submitted_at_ms: int
    due_at_ms: int
    deadline_at_ms: int
    started_at_ms: int
    """Start of the latest attempt."""
    last_heartbeat_at_ms: int
    ended_at_ms: int
    elapsed_seconds: float
    """From the submit to the end, or to now."""
    error: ErrorRecord | None
    """The latest error, if an attempt has failed."""
    reason: str
    """Why it ended, where it did not simply succeed."""
    cancel_requested: bool

    @property
    def final(self) -> bool:
        """Whether its life has ended (a replay may open it again)."""
        return self.state in (State.COMPLETED, State.DEAD_LETTERED, State.CANCELLED, State.EXPIRED)


class Cancellation(StrEnum):
    """What a cancel came to."""

    CANCELLED = "cancelled"
    """It had not started (again): it will not run."""
    REQUESTED = "requested"
    """It is running: its handler is told, and it ends cancelled unless it succeeds first."""
    TOO_LATE = "too_late"
    """It had ended before."""


@dataclass(frozen=True, slots=True)
class World:
    """What a handle asks and acts through. `waiting_hint`: told to who waits in vain, where nobody works by itself.
    `hidden_seconds`: for how long a queue hides a message, 0 where that is not known."""

    rows: Rows
    payloads: PayloadStore
    clock: Clock
    entropy: Entropy
    telemetry: Telemetry
    waiting_hint: str = ""
    hidden_seconds: Callable[[str], int] = lambda queue: 0


class Handle(Generic[R_co]):
    """A submitted task. It holds the id and nothing else of the task: every question is asked of the table.

    task: the name of the task that it is meant to be of; a question about another's is refused. "" for any.
    """

    def __init__(
        self,
        task_id: str,
        world: World,
        decode_result: Callable[[str | None], R_co] = as_json,
        *,
        task: str = "",
        found: bool = False,
    ) -> None:
        _refuse_blank(task_id, f"{task_id!r} is no task's id.")
        self._id, self._world, self._decode, self._task, self._found = task_id, world, decode_result, task, found

    @property
    def id(self) -> str:
        """The task's id: keep it to ask again later, from any process."""
        return self._id

    @property
    def found(self) -> bool:
        """Whether the submit met a task that its idempotency key already stood for."""
        return self._found

    def status(self) -> Status:
        """The task as it stands now. Raises TaskNotFound, UsageError if it is another task's than the handle's, or
        ServiceError."""
        row = self._row()
        ended = row.ended_at_ms or self._world.clock.now_ms()
        return Status(
            id=row.id,
            task=row.task,
            queue=row.queue,
            state=row.state,
            attempt=row.attempt,
            max_attempts=row.max_attempts,
            progress=row.progress_permille / 1000,
            submitted_at_ms=row.submitted_at_ms,
            due_at_ms=row.due_at_ms,
            deadline_at_ms=row.deadline_at_ms,
            started_at_ms=row.last_started_at_ms,
            last_heartbeat_at_ms=row.last_heartbeat_at_ms,
            ended_at_ms=row.ended_at_ms,
            elapsed_seconds=max(0, ended - row.submitted_at_ms) / 1000,
            error=row.error,
            reason=row.reason,
            cancel_requested=bool(row.cancel_requested_at_ms),
        )

    def result(self, timeout: Duration | None = "30s") -> R_co:
        """What the handler returned, waiting up to `timeout` for it (None: for ever).

        Raises NotFinished when the time is over, TaskFailed if the task ended without a result, TaskNotFound,
        UsageError if it is another task's than the handle's, and ServiceError if the table could not be read at all.
        """
        clock = self._world.clock
        until_ms = None if timeout is None else clock.now_ms() + round(seconds_of(timeout, "timeout") * 1000)
        pause = POLL_SECONDS_MIN
        while True:
            row, trouble = self._look()
            if row is not None and row.final:
                return self._result_of(row)
            left = None if until_ms is None else (until_ms - clock.now_ms()) / 1000
            if left is not None and left <= 0:
                if trouble is not None:
                    raise trouble
                state = row.state if row else "unknown"
                raise NotFinished(f"task {self._id} is {state} after {_text(timeout)}.{self._world.waiting_hint}")
            clock.sleep(pause if left is None else min(pause, left))
            pause = min(pause * 1.5, POLL_SECONDS_MAX)

    def cancel(self, reason: str) -> Cancellation:
        """End the task if it has not started, ask it to stop if it runs; `reason` is recorded for people.

        Raises TaskNotFound, UsageError for a blank reason or another task's id, and ServiceError if the table gave no
        answer.
        """
        _refuse_blank(reason, "cancel: say why; the reason is recorded with the task.")
        text = head(reason, limits.ERROR_MESSAGE_BYTES_MAX)
        row = self._row()
        for _ in range(CANCEL_TRIES):
            if row.final:
                return Cancellation.TOO_LATE
            if row.cancel_requested_at_ms:
                return Cancellation.REQUESTED
            stamp = Stamp(self._world.clock.now_ms(), self._world.entropy.token())
            outcome = self._world.rows.replace(row, _ended_or_asked(row, stamp, text))
            if isinstance(outcome, Stands):
                return self._cancelled(outcome.row)
            row = (outcome.row if isinstance(outcome, Overtaken) else None) or self._row()
        raise ServiceError(f"task {self._id}: its row kept moving or gave no answer; the cancel was not recorded.")

    def why(self) -> str:
        """Where the task is, how it came there and what happens next, as text. Raises TaskNotFound, or ServiceError."""
        row = self._row()
        return tell(row, self._world.clock.now_ms(), self._world.hidden_seconds(row.queue))

    async def astatus(self) -> Status:
        """`status` in a thread."""
        return await asyncio.to_thread(self.status)

    async def aresult(self, timeout: Duration | None = "30s") -> R_co:
        """`result` in a thread."""
        return await asyncio.to_thread(self.result, timeout)

    async def acancel(self, reason: str) -> Cancellation:
        """`cancel` in a thread."""
        return await asyncio.to_thread(self.cancel, reason)

    async def awhy(self) -> str:
        """`why` in a thread."""
        return await asyncio.to_thread(self.why)

    def __repr__(self) -> str:
        return f"<handle of task {self._id}>"

    def _row(self) -> Row:
        row = self._world.rows.get(self._id)
        if row is None:
            raise TaskNotFound(
                f"no task {self._id!r} in this environment: it was never submitted here, or it ended so long ago that "
                "its row is gone."
            )
        if self._task and row.task != self._task:
            raise UsageError(
                f"task {row.id} is of {row.task!r}, and this handle was made by {self._task!r}. "
                f"Ask {row.task}.handle(id), or client.handle(id) for a task of any kind."
            )
        return row

    def _look(self) -> tuple[Row | None, ServiceError | None]:
        """The row, or the trouble of reading it: one failed read among many is no reason to stop waiting."""
        try:
            return self._row(), None
        except ServiceError as error:
            return None, error

    def _result_of(self, row: Row) -> R_co:
        if row.state is not State.COMPLETED:
            detail = f"{row.error.type}: {row.error.message}" if row.error else row.reason or "no reason recorded"
            raise TaskFailed(row.id, row.state.value, detail)
        if row.reason == RESULT_NOT_STORABLE:
            detail = row.error.message if row.error else "its handler returned what JSON cannot carry"
            raise TaskFailed(row.id, row.state.value, f"the work is done, but its result was not storable: {detail}")
        place = row.result
        if place is None:
            return self._decode(None)
        return self._decode(place.value if place.kind == "inline" else self._world.payloads.get(place))

    def _cancelled(self, row: Row) -> Cancellation:
        if row.state is State.CANCELLED:
            self._world.telemetry.emit("task.cancelled", task_id=row.id, task=row.task, queue=row.queue)
            return Cancellation.CANCELLED
        self._world.telemetry.emit("task.cancel_requested", task_id=row.id, task=row.task, queue=row.queue)
        return Cancellation.REQUESTED


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """What became of one item of `submit_many`."""

    index: int
    status: Literal["submitted", "found", "unconfirmed", "failed"]
    """found: its key already stood for the same task. unconfirmed: the task stands and will be sent, but SQS did not
    say that it has the message yet."""
    handle: Handle[Any] | None = None
    error: TenureError | None = None


@dataclass(frozen=True, slots=True)
class SubmitCounts:
    """How far a `submit_many` is."""

    submitted: int = 0
    found: int = 0
    unconfirmed: int = 0
    failed: int = 0

    @property
    def done(self) -> int:
        """Items dealt with, whatever came of them."""
        return self.submitted + self.found + self.unconfirmed + self.failed


Progress = Callable[[SubmitCounts], None]


@dataclass(frozen=True, slots=True)
class SubmitReport:
    """What became of a `submit_many`: the counts, and an outcome per item in the order given."""

    counts: SubmitCounts
    outcomes: tuple[ItemOutcome, ...]
    """With keep_outcomes=False: the first failures only."""

    @property
    def ok(self) -> bool:
        """Whether no item failed."""
        return self.counts.failed == 0

    @property
    def failures(self) -> tuple[ItemOutcome, ...]:
        """The items that failed, each with its error."""
        return tuple(each for each in self.outcomes if each.error is not None)

    def handles(self) -> list[Handle[Any]]:
        """Handles of the items that did not fail, in order."""
        return [each.handle for each in self.outcomes if each.handle is not None]

    def raise_for_failures(self) -> None:
        """Raise the failed items' errors as one ExceptionGroup, if there are any."""
        if self.failures:
            raise ExceptionGroup(
                f"{self.counts.failed} of {self.counts.done} tasks were not submitted",
                [each.error for each in self.failures if each.error is not None],
            )


def _ended_or_asked(row: Row, stamp: Stamp, reason: str) -> Row:
    """What a cancel writes: a worker that has the task is asked, and whatever nobody has ends."""
    if row.state is State.LEASED:
        return machine.request_cancel(row, stamp, reason)
    return machine.cancel(row, stamp, reason)


def _refuse_blank(value: object, complaint: str) -> None:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(complaint)


def _text(timeout: Duration | None) -> str:
    return "ever" if timeout is None else text_of(seconds_of(timeout, "timeout"))
