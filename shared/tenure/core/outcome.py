"""How a handler's ending becomes one of a closed set of outcomes, whatever it returned or raised."""

from __future__ import annotations

import hashlib
import traceback as tracebacks
from dataclasses import dataclass
from types import FrameType, TracebackType

from tenure.core import limits
from tenure.core.durations import Duration, seconds_of
from tenure.core.retry import Retry
from tenure.core.task import ErrorRecord

EXPORTED = frozenset(
    [
        "GiveUp",
        "LeaseLost",
        "RetryAfter",
        "Snooze",
        "InvalidPayload",
        "InvalidTask",
        "InvalidTopology",
        "KeyConflict",
        "NotBuilt",
        "NotConnected",
        "NotFinished",
        "PayloadMissing",
        "ServiceError",
        "SubmitRefused",
        "TaskFailed",
        "TaskNotFound",
        "TenureError",
        "TooLarge",
        "UsageError",
    ]
)
"""Exceptions that users know as `tenure.X`: shown, and fingerprinted, by the name they wrote. The core cannot ask the
package for it; a test holds it to `tenure.__all__`."""


class GiveUp(Exception):
    """Raised by a handler: this task can never succeed; bury it now, whatever is left of its budget."""

    def __init__(self, reason: str = "the handler gave up") -> None:
        super().__init__(reason)
        self.reason = reason


class RetryAfter(Exception):
    """Raised by a handler: this attempt failed; try again after the given time ("5m", timedelta or seconds)."""

    def __init__(self, delay: Duration, reason: str = "the handler asked for a later retry") -> None:
        super().__init__(reason)
        self.delay_seconds = seconds_of(delay, "RetryAfter")
        self.reason = reason


class Snooze(Exception):
    """Raised by a handler: not yet; run again after the given time. Costs no attempt."""

    def __init__(self, delay: Duration, reason: str = "snoozed by the handler") -> None:
        super().__init__(reason)
        self.delay_seconds = seconds_of(delay, "Snooze")
        self.reason = reason


class LeaseLost(BaseException):
    """The running attempt no longer owns its task: stop now; nothing it returns or raises is recorded."""


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned. `result` is its return value as JSON text, None when it returned None.

    `unstorable`: what was wrong with a value that cannot be stored. The work is done all the same, so the task is
    completed without a result; running it again would do its effects twice.
    """

    result: str | None
    unstorable: ErrorRecord | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised. `delay_seconds` is set where the handler itself chose the wait."""

    error: ErrorRecord
    retriable: bool
    delay_seconds: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler asked to be run later, at no cost."""

    delay_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """This worker will not finish the task. `started` tells whether the handler was ever called; `wait_seconds`, how
    long nobody is to try it again."""

    started: bool
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease was lost: nothing is written and nothing deleted."""


Outcome = Succeeded | Failed | Snoozed | Released | Lost


def of_exception(error: BaseException, retry: Retry) -> Outcome:
    """The outcome of a handler that raised, for every kind of exception there is.

    SystemExit, KeyboardInterrupt, CancelledError, GeneratorExit and MemoryError raised *by the handler* are that
    task's failure like any other: real signals reach the worker's main thread, not a handler. A group, such as a
    TaskGroup raises, that holds one error (or errors that say the same of the task) counts as that one.
    """
    meant = _meant(error)
    if isinstance(meant, LeaseLost):
        return Lost()
    if isinstance(meant, Snooze):
        return Snoozed(meant.delay_seconds, said(meant.reason))
    if isinstance(meant, RetryAfter):
        return Failed(describe(error), True, meant.delay_seconds, said(meant.reason))
    if isinstance(meant, GiveUp):
        return Failed(describe(error), False, reason=said(meant.reason))
    return Failed(describe(error), retry.retriable(meant))


def _meant(error: BaseException) -> BaseException:
    """What a group of errors says of its task: its only leaf, or the first of leaves that all are of one kind."""
    leaves = _leaves(error)
    for kind in (LeaseLost, Snooze, RetryAfter, GiveUp):
        if all(isinstance(leaf, kind) for leaf in leaves):
            return leaves[0]
    return leaves[0] if len(leaves) == 1 else error


def _leaves(error: BaseException) -> list[BaseException]:
    """The errors in a group and in the groups in it; an error itself is its only leaf."""
    leaves, groups = [], [error]
    while groups:
        one = groups.pop(0)
        if isinstance(one, BaseExceptionGroup):
            groups = [*one.exceptions, *groups]
        else:
            leaves.append(one)
    return leaves


def describe(error: BaseException) -> ErrorRecord:
    """An error as it is recorded: bounded, and never raising, whatever the error's own `__str__` does."""
    kind = said(_name(type(error)), limits.NAME_BYTES_MAX)
    return ErrorRecord(
        type=kind,
        message=head(_message(error), limits.ERROR_MESSAGE_BYTES_MAX),
        traceback=tail(_traceback(error), limits.TRACEBACK_BYTES_MAX),
        fingerprint=fingerprint(kind, _place(error.__traceback__)),
    )


def named(kind: str, message: str) -> ErrorRecord:
    """An error that no exception stands behind, such as a worker that was lost."""
    return ErrorRecord(kind, head(message, limits.ERROR_MESSAGE_BYTES_MAX), "", fingerprint(kind, ""))


def fingerprint(kind: str, place: str) -> str:
    """Ten hex digits that are equal for the same class of error raised at the same place."""
    return hashlib.sha256(f"{kind}\0{place}".encode("utf-8", "replace")).hexdigest()[:10]


def said(value: object, bytes_max: int = limits.ERROR_MESSAGE_BYTES_MAX) -> str:
    """What somebody gave as a text, as a row can hold it: text whatever it is, valid UTF-8, and of bounded size.

    Types are not checked where it is given: a handler raises `Snooze("5m", error)` only once something is wrong, and
    an ending that cannot be written down would be taken for the death of its worker.
    """
    return head(value if type(value) is str else _message(value), bytes_max)


def head(text: str, bytes_max: int) -> str:
    """The longest beginning of `text` that fits into `bytes_max` bytes of UTF-8, marked if anything was cut."""
    return _bounded(text, bytes_max, keep_end=False)


def tail(text: str, bytes_max: int) -> str:
    """The longest end of `text` that fits into `bytes_max` bytes of UTF-8, marked if anything was cut."""
    return _bounded(text, bytes_max, keep_end=True)


def _bounded(text: str, bytes_max: int, *, keep_end: bool) -> str:
    # A slice first, so that a 50 MB text is not encoded whole: a character is at least one byte.
    part = text[-bytes_max:] if keep_end else text[:bytes_max]
    raw = part.encode("utf-8", "replace")
    if len(part) == len(text) and len(raw) <= bytes_max:
        return raw.decode("utf-8")
    room = bytes_max - 3
    cut = raw[-room:] if keep_end else raw[:room]
    kept = cut.decode("utf-8", "ignore")
    return "…" + kept if keep_end else kept + "…"


def _name(kind: type) -> str:
    module = getattr(kind, "__module__", "")
    if module in ("tenure.core.outcome", "tenure.core.errors") and kind.__qualname__ in EXPORTED:
        return f"tenure.{kind.__qualname__}"
    return kind.__qualname__ if module in ("builtins", "", None) else f"{module}.{kind.__qualname__}"


def _message(error: object) -> str:
    try:
        return str.__str__(str(error))
    except BaseException as broken:  # a user's __str__ may raise anything at all; the task's failure is still told
        return f"<the error's own text could not be read: {type(broken).__name__}>"


def _traceback(error: BaseException) -> str:
    frames = tracebacks.format_tb(error.__traceback__, limit=-20)
    return "".join(frames) + f"{_name(type(error))}: {head(_message(error), limits.ERROR_MESSAGE_BYTES_MAX)}"


def _place(tb: TracebackType | None) -> str:
    """Where the error was raised: file name and function of the innermost frame. No line number, so that an edit
    above it does not make a new kind of error."""
    frame: FrameType | None = None
    while tb is not None:
        frame, tb = tb.tb_frame, tb.tb_next
    if frame is None:
        return ""
    return f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_code.co_qualname}"
