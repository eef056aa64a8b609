"""The task as the table holds it: its states and its row."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class State(StrEnum):
    """Where a task is in its life. The last four are final."""

    SCHEDULED = "scheduled"
    """Due later than SQS can delay a message; reconcile sends it when its time comes near."""
    WAITING = "waiting"
    """Taken off the queue to wait for something else than time (a halted ordering key)."""
    QUEUED = "queued"
    LEASED = "leased"
    RETRYING = "retrying"
    COMPLETED = "completed"
    DEAD_LETTERED = "dead_lettered"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """Its deadline passed before it was done. (A lease lapses; it never expires.)"""


FINAL = frozenset({State.COMPLETED, State.DEAD_LETTERED, State.CANCELLED, State.EXPIRED})


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a text (payload, result, checkpoint) lies: in the row, in an item beside it, or in S3."""

    kind: Literal["inline", "item", "object"]
    value: str
    """The text itself when inline, else the key it lies under."""
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """What went wrong, bounded in size. `fingerprint` is the same for the same kind of error at the same place."""

    type: str
    message: str
    traceback: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Disposition:
    """What became of a dead letter: open until a person or a replay decides."""

    kind: Literal["open", "replayed", "discarded"]
    by: str = ""
    at_ms: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Happening:
    """One line of a row's short history."""

    at_ms: int
    event: str
    fence: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A task in the table. Replaced whole by each write, never edited; see core/machine.py for who may write what.

    Times are epoch milliseconds. `version` and `birth` are what a write is guarded by; `write_id` is how its author
    knows its own write again.
    """

    id: str
    birth: str
    task: str
    task_version: int = 1
    queue: str
    pool: str = ""
    tier: str = "normal"
    tenant: str = ""
    ordering_key: str = ""
    state: State
    version: int = 1
    write_id: str = ""

    fence: int = 0
    """Rises with every claim. Starts at `fence_floor`."""
    fence_floor: int = 0
    """Above every fence that an earlier life of the same idempotency key can have handed out."""
    lease_token: str = ""
    lease_end_at_ms: int = 0
    claimed_alone: bool = False
    last_heartbeat_at_ms: int = 0
    worker: str = ""

    max_attempts: int = 5
    failures: int = 0
    losses: int = 0
    sends: int = 1
    replays: int = 0

    submitted_at_ms: int = 0
    due_at_ms: int = 0
    """Not to be run before this; 0 means at once."""
    deadline_at_ms: int = 0
    """Not to be run after this; 0 means never too late."""
    first_started_at_ms: int = 0
    last_started_at_ms: int = 0
    ended_at_ms: int = 0
    check_at_ms: int = 0
    """When reconcile looks at this row if nothing has moved it by then; 0 means never."""
    message_gone: bool = False
    """The row has taken over the wait: SQS holds no message, and reconcile sends one in time."""
    expires_at_s: int = 0
    """Time to live, in seconds as DynamoDB wants it; 0 means none."""

    digest: str = ""
    payload: Stored | None = None
    result: Stored | None = None
    checkpoint: Stored | None = None
    checkpoint_fence: int = 0
    progress_permille: int = 0

    error: ErrorRecord | None = None
    first_failed_at_ms: int = 0
    last_failed_at_ms: int = 0
    reason: str = ""
    """Why it ended: attempts_used_up, gave_up, worker_lost, deadline, refused, or the caller's own words."""

    cancel_requested_at_ms: int = 0
    cancel_reason: str = ""
    disposition: Disposition | None = None
    letter_confirmed: bool = False
    traceparent: str = ""
    depth: int = 0
    history: tuple[Happening, ...] = ()

    @property
    def final(self) -> bool:
        """Whether this task's life has ended (a replay may open it again)."""
        return self.state in FINAL

    @property
    def attempt(self) -> int:
        """What a person counts: the number of the attempt that runs or would run next (failures + losses + 1).

        Of a final row it is the number of attempts that were made.
        """
        made = self.failures + self.losses
        if self.state is State.DEAD_LETTERED:
            return made
        if self.state in (State.CANCELLED, State.EXPIRED) and self.last_started_at_ms <= self.last_failed_at_ms:
            return made  # it was ended while it waited; what it waited for was never begun
        return made + 1

    @property
    def untouched(self) -> bool:
        """Whether the row is as a submit left it (a first one, or one that opened it again): nobody has moved it since,
        so nobody but that submit relies on it yet."""
        return self.state is State.QUEUED and [line.event for line in self.history] == ["submit"]

    @property
    def refused(self) -> bool:
        """Whether its submit was taken back since SQS refused its message; only such a row is opened again by a submit.
        Told by what happened, which nobody's words can pretend."""
        return self.state is State.CANCELLED and bool(self.history) and self.history[-1].event == "refuse"

    @property
    def never_claimed(self) -> bool:
        """Whether no worker has ever claimed this life of the task."""
        return self.fence == self.fence_floor

    @property
    def letter_id(self) -> str:
        """Names this burial: a second burial of the same task has another."""
        return f"{self.id}:{self.birth}:{self.fence}:{self.replays}"

    @property
    def deduplication_id(self) -> str:
        """What FIFO dedups a send by: the same send tried twice is one message, the next send another."""
        return f"{self.id}:{self.birth}:{self.sends}"
