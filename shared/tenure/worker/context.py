"""The running attempt, as its handler sees it: `ctx = tenure.context()`."""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from tenure.core.outcome import LeaseLost

T = TypeVar("T")

log = logging.getLogger("tenure.task")


class _TaskLog(logging.LoggerAdapter[logging.Logger]):
    """LoggerAdapter itself drops what a call gives as `extra` (`merge_extra` came with Python 3.13)."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Both; whose line it is cannot be overwritten."""
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs


class Attempt(Protocol):
    """What the engine gives a context to work with."""

    @property
    def attempt(self) -> int: ...
    @property
    def fence(self) -> int: ...
    @property
    def task_id(self) -> str: ...
    def remaining(self) -> float: ...
    def stopping(self) -> bool: ...
    def lost(self) -> bool: ...
    def set_progress(self, fraction: float) -> None: ...
    def save_checkpoint(self, value: Any) -> None: ...
    def load_checkpoint(self) -> Any: ...
    def step(self, name: str, function: Callable[[], Any]) -> Any: ...


class Context:
    """The running attempt. Outside a worker every member answers harmlessly, so that a handler stays a function."""

    def __init__(self, attempt: Attempt | None = None) -> None:
        self._attempt = attempt

    def _own(self) -> Attempt | None:
        """The attempt, after making sure that it still owns its task. Raises LeaseLost otherwise."""
        if self._attempt is not None and self._attempt.lost():
            raise LeaseLost(
                f"task {self._attempt.task_id}: this attempt no longer owns it; nothing it does is recorded"
            )
        return self._attempt

    @property
    def task_id(self) -> str:
        """The task's id; empty outside a worker."""
        return self._attempt.task_id if self._attempt else ""

    @property
    def attempt(self) -> int:
        """Which attempt this is, 1 for the first."""
        return self._attempt.attempt if self._attempt else 1

    @property
    def fence(self) -> int:
        """A number that rises with every claim of this task. Give it to whatever you write, and let that refuse a
        lower one than it has seen: then a late attempt can do no harm. 0 outside a worker."""
        return self._attempt.fence if self._attempt else 0

    @property
    def cancelled(self) -> bool:
        """Whether this attempt should stop: its caller asked, its worker stops, or its lease is lost. For loops."""
        return self._attempt.stopping() if self._attempt else False

    def remaining(self) -> float:
        """Seconds until this attempt's time is over (its timeout, or its Lambda's). Infinite outside a worker.

        Raises LeaseLost."""
        attempt = self._own()
        return attempt.remaining() if attempt else float("inf")

    def progress(self, fraction: float) -> None:
        """Tell how far it is, 0 to 1; written with the next heartbeat. Raises LeaseLost."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"progress({fraction!r}): a number from 0 to 1")
        attempt = self._own()
        if attempt:
            attempt.set_progress(fraction)

    def checkpoint(self, value: Any) -> None:
        """Record where a later attempt can go on: any JSON value, written at once. Raises LeaseLost, InvalidPayload."""
        attempt = self._own()
        if attempt:
            attempt.save_checkpoint(value)

    @property
    def last_checkpoint(self) -> Any:
        """The newest checkpoint of any attempt of this task, or None. Raises LeaseLost."""
        attempt = self._own()
        return attempt.load_checkpoint() if attempt else None

    def step(self, name: str, function: Callable[[], T]) -> T:
        """Run `function` once and record its result (any JSON value): a later attempt gets the recorded result.

        It may still run twice if the worker dies between the call and its record. Raises LeaseLost, InvalidPayload.
        """
        attempt = self._own()
        result: T = attempt.step(name, function) if attempt else function()
        return result

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that names task, attempt and fence in every line, besides what a call gives as `extra`."""
        return _TaskLog(log, {"task_id": self.task_id, "attempt": self.attempt, "fence": self.fence})


_INERT = Context()
_current: ContextVar[Context] = ContextVar("tenure_context", default=_INERT)


def context() -> Context:
    """The running attempt's context; outside a worker an inert one."""
    return _current.get()


def enter(attempt: Attempt) -> Callable[[], None]:
    """Make `attempt` the current one in this thread or coroutine; call what is returned to leave it."""
    token = _current.set(Context(attempt))
    return lambda: _current.reset(token)
