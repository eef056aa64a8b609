"""Tasks held under tenure: a lease that a worker renews, that ends if the worker dies, and that fences off whoever is
late. These are the public names; `import tenure` loads no SDK and no worker.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from tenure.application import App, Bound, Task
from tenure.core.errors import (
    InvalidPayload,
    InvalidTask,
    InvalidTopology,
    KeyConflict,
    NotBuilt,
    NotConnected,
    NotFinished,
    PayloadMissing,
    ServiceError,
    SubmitRefused,
    TaskFailed,
    TaskNotFound,
    TenureError,
    TooLarge,
    UsageError,
)
from tenure.core.outcome import GiveUp, LeaseLost, RetryAfter, Snooze
from tenure.core.retry import Retry
from tenure.core.submission import Options
from tenure.core.task import State
from tenure.handle import Cancellation, Handle, Status, SubmitReport

if _TYPE_CHECKING:
    from tenure.client import Client as _Client
    from tenure.worker.context import Context as _Context

__all__ = [
    "App",
    "Bound",
    "Cancellation",
    "GiveUp",
    "Handle",
    "InvalidPayload",
    "InvalidTask",
    "InvalidTopology",
    "KeyConflict",
    "LeaseLost",
    "NotBuilt",
    "NotConnected",
    "NotFinished",
    "Options",
    "PayloadMissing",
    "Retry",
    "RetryAfter",
    "ServiceError",
    "Snooze",
    "State",
    "Status",
    "SubmitRefused",
    "SubmitReport",
    "Task",
    "TaskFailed",
    "TaskNotFound",
    "TenureError",
    "TooLarge",
    "UsageError",
    "connect",
    "context",
]


def context() -> "_Context":
    """The running attempt; outside a worker an inert one, so that a handler stays a plain function."""
    from tenure.worker.context import context as running  # a producer never calls this, and must not load a worker

    return running()


def connect(app: str, *, environment: str | None = None) -> "_Client":
    """A client for an app whose code is not at hand: it submits by task name, checked against what was published.

    environment: by default the variable TENURE_ENVIRONMENT. If `tenure dev` runs it in the current directory, that is
    connected to. Raises InvalidTopology if nothing is deployed there, and ServiceError if it could not be read (no
    region, no credentials, no answer, no permission); both say what to do.
    """
    from tenure.wiring.producer import connect as wired  # the SDK is slow to load: only whoever connects pays for it

    return wired(app, environment=environment)
