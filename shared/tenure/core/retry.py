"""When a failed attempt is tried again, and when no more."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.core import limits
from tenure.core.durations import Duration, seconds_of
from tenure.core.errors import InvalidTask

Errors = tuple[type[BaseException], ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """A task's retry policy. Bounded by construction: `max_attempts` always ends it.

    max_attempts: attempts in all, the first included; 1 to 100.
    base, cap:    the delay before attempt n+1 is drawn evenly from 0 to min(cap, base * 2**(n-1)): "full jitter"
                  (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015). With the defaults the
                  ceilings are 2 s, 4 s, 8 s, 16 s; the tenth is 10 min.
    retry_on:     only these errors are retried; empty means every error.
    give_up_on:   these are never retried, even if `retry_on` names a parent of them.
    deadline:     no attempt starts later than this after the first one started; None means no such bound.
    """

    max_attempts: int = 5
    base: Duration = 2.0
    cap: Duration = 600.0
    retry_on: Errors = ()
    give_up_on: Errors = ()
    deadline: Duration | None = None
    base_seconds: float = field(init=False, default=0.0)
    cap_seconds: float = field(init=False, default=0.0)
    deadline_seconds: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        _check_count(self.max_attempts)
        _check_classes("retry_on", self.retry_on)
        _check_classes("give_up_on", self.give_up_on)
        object.__setattr__(self, "base_seconds", seconds_of(self.base, "Retry(base)"))
        object.__setattr__(self, "cap_seconds", seconds_of(self.cap, "Retry(cap)"))
        if self.base_seconds <= 0 or self.cap_seconds < self.base_seconds:
            raise InvalidTask("Retry: base must be above zero and cap at least base.")
        if self.deadline is not None:
            object.__setattr__(self, "deadline_seconds", seconds_of(self.deadline, "Retry(deadline)"))

    def retriable(self, error: BaseException) -> bool:
        """Whether this error is worth another attempt, budget aside."""
        if isinstance(error, self.give_up_on):
            return False
        return not self.retry_on or isinstance(error, self.retry_on)

    def delay_seconds(self, failures: int, fraction: float) -> float:
        """Seconds to wait after the `failures`-th failure (1 is the first); `fraction` in [0, 1) is the jitter."""
        ceiling = min(self.cap_seconds, self.base_seconds * 2.0 ** min(max(failures, 1) - 1, 60))
        return ceiling * fraction


def _check_count(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 100:
        raise InvalidTask(f"Retry(max_attempts={value!r}): a whole number from 1 to 100.")


def _check_classes(name: str, classes: object) -> None:
    if not isinstance(classes, tuple):
        raise InvalidTask(f"Retry({name}={classes!r}): a tuple of exception classes, such as (ValueError,).")
    for item in classes:
        if not (isinstance(item, type) and issubclass(item, BaseException)):
            raise InvalidTask(f"Retry({name}=...): {item!r} is not an exception class.")


def fits_visibility(delay_seconds: float, *, ordered: bool) -> bool:
    """Whether a wait is done by hiding the message (short, or ordered), rather than by the table and a later send."""
    return ordered or delay_seconds <= limits.SQS_DELAY_SECONDS_MAX
