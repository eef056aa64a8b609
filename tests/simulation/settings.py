"""How rough a simulated run is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from tenure.adapters.memory import Faults
from tenure.core import halting, limits
from tenure.worker import holder, poller
from tests.simulation.fault import Terms
from tests.simulation.workload import Mix

SKEW_MS = 2000
"""Clocks of simulated processes are off by up to this; tenure promises to bear SKEW_SECONDS between two of them."""
CALM_SECONDS_MAX = 24 * 3600
STEPS_MAX = 600_000


@dataclass(frozen=True)
class Setting:
    """How a run is set up. Chances are per minute and process."""

    mix: Mix = field(default_factory=Mix)
    faults: Faults = field(default_factory=lambda: Faults.rough(0.02))
    rough_seconds: float = 1800
    """Then chaos ends and everybody gets time to finish."""
    kill: float = 0.08
    stall: float = 0.08
    stall_seconds: tuple[float, ...] = (5.0, 30.0, 45.0, 100.0, 300.0)
    skew_ms: int = SKEW_MS
    workers: int = 2
    runtime: str = ""
    """ "lambda" or "fargate"; "" lets the seed choose."""
    drain: float = 0.05
    """A Fargate worker is told to stop, as by SIGTERM."""
    receive_count_max: int = 200
    """Of the standard queue: after so many receives SQS itself moves a message to the DLQ."""
    moves_after: int = 0
    """The same, set past tenure, which allows no fewer than ten. 0: as tenure set it."""
    patience_seconds: float = 0.0
    """A standard task that takes this much longer than it needs is a fault; 0 where long waits are to be expected."""
    junk: float = 0.0
    """Messages that are no task of ours."""
    pause: float = 0.0
    replay: float = 0.0
    discard: float = 0.0
    on_bury: Literal["skip", "halt"] = "skip"
    """What the ordered queue does when a head is buried."""
    life_seconds: int = limits.ROW_LIFE_SECONDS_MIN
    """How long a final row is remembered."""
    waiting_max: int = halting.WAITING_MAX
    """How many tasks a halted key keeps; later ones stay in SQS."""
    stop_seconds: float = poller.STOP_SECONDS
    """What running handlers get when a Fargate worker is told to stop."""
    decide: float = 0.0
    """Somebody looks at the halted keys, and retries their heads, skips them, or drains what waits. In the calm
    somebody does so every five minutes, until all are open."""
    redrive: float = 0.0
    """All letters of a DLQ are put back by hand, past tenure."""

    @property
    def may_lapse(self) -> bool:
        """Whether a lease may lapse though its worker lives and is not stalled."""
        return self.faults.store_unanswered > 0 or self.faults.slow_call > 0

    @property
    def terms(self) -> Terms:
        """What may be asked of a run."""
        return Terms(
            may_lapse=self.may_lapse,
            halts=self.on_bury == "halt",
            sure=self.faults == Faults.none() and not (self.kill or self.stall or self.drain or self.pause),
            life_seconds=self.life_seconds,
        )


QUIET = Setting(faults=Faults.none(), kill=0.0, stall=0.0, skew_ms=0, drain=0.0, patience_seconds=600)
"""Nothing goes wrong but what the handlers themselves do."""

SETTINGS: dict[str, Setting] = {
    "quiet": QUIET,
    "rough": Setting(junk=0.2),
    "storm": Setting(Mix(slow=0.7), Faults.rough(0.01), kill=0.15, stall=1.0, drain=0.1),
    "lapses": Setting(
        Mix(slow=1.0, span_seconds=300),
        Faults.none(),
        kill=0.0,
        stall=0.7,
        stall_seconds=(48.0, 55.0, 62.0),
        workers=4,
        runtime="fargate",
    ),
    "services": Setting(Mix(slow=0.3), Faults.rough(0.08), kill=0.02, stall=0.02),
    "replies": replace(
        QUIET, faults=Faults(store_reply_lost=0.2, send_reply_lost=0.2, duplicate=0.15, revived=0.15, reorder=1.0)
    ),
    "deadly": replace(QUIET, mix=Mix(tasks=16, ordered=0.2, deadly=0.4, span_seconds=300)),
    "crowd": Setting(Mix(tasks=30, keys=3, span_seconds=60, deadly=0.15, slow=0.3), Faults.rough(0.01)),
    "people": Setting(
        Mix(tasks=14, deadly=0.2), kill=0.05, stall=0.02, junk=0.1, pause=0.1, replay=0.15, discard=0.03, redrive=0.1
    ),
    "paused": replace(QUIET, patience_seconds=0.0, pause=0.5, replay=0.1, receive_count_max=10),
    "natives": Setting(Mix(tasks=14), kill=0.02, stall=0.02, receive_count_max=10, pause=0.3, replay=0.1),
    "keys": Setting(Mix(tasks=14, ordered=1.0, span_seconds=200, slow=0.3), Faults.rough(0.02), kill=0.15, stall=0.3),
    "halted": Setting(
        Mix(tasks=14, ordered=0.9, span_seconds=600, deadly=0.15, doomed=0.25),
        kill=0.1,
        stall=0.15,
        on_bury="halt",
        decide=0.25,
        waiting_max=3,
        replay=0.03,
        discard=0.02,
        junk=0.05,
    ),
    "decided": replace(
        QUIET,
        mix=Mix(tasks=14, ordered=1.0, span_seconds=400, deadly=0.1, doomed=0.3),
        on_bury="halt",
        decide=0.5,
        waiting_max=2,
        patience_seconds=0.0,
    ),
    # Rows live so short here that a revived message outlives them, which only a message that says its birth bears.
    "lives": Setting(
        Mix(tasks=14, ordered=0.0, span_seconds=200, slow=0.3, lives=0.8, rivals=0.2, large=0.7, foreign=0.0),
        Faults(store_reply_lost=0.05, revived=0.1, payload_fails=0.02, slow_call=0.04),
        kill=0.02,
        stall=0.6,
        stall_seconds=(45.0, 500.0, 550.0, 600.0),
        workers=4,
        runtime="fargate",
        life_seconds=400,
    ),
    "drained": replace(QUIET, mix=Mix(slow=0.7), runtime="fargate", drain=0.8, stop_seconds=15.0, patience_seconds=0.0),
    "moved": Setting(
        Mix(tasks=14, ordered=0.1, deadly=0.4, span_seconds=400),
        replace(Faults.rough(0.01), send_unanswered=0.25, duplicate=0.1),
        kill=0.05,
        stall=0.0,
        moves_after=2,
        replay=0.1,
    ),
}


def setting_of(seed: int) -> str:
    """The setting that a seed runs under: all in turn."""
    return list(SETTINGS)[seed % len(SETTINGS)]


@contextmanager
def small_bounds(setting: Setting) -> Iterator[None]:
    """Bounds that a run would never reach: a task's next life begins, and a halted key has no room left."""
    before = limits.ROW_LIFE_SECONDS_MIN, halting.WAITING_MAX
    limits.ROW_LIFE_SECONDS_MIN, halting.WAITING_MAX = setting.life_seconds, setting.waiting_max
    try:
        yield
    finally:
        limits.ROW_LIFE_SECONDS_MIN, halting.WAITING_MAX = before


@contextmanager
def coarse_ticks() -> Iterator[None]:
    """Idle loops of the worker look up less often, so that a virtual day does not take a real minute. Every wait is
    on virtual time anyway, and the protocol knows of neither number."""
    before = poller.TICK_SECONDS, holder.TICK_SECONDS
    poller.TICK_SECONDS, holder.TICK_SECONDS = 4.0, 2.0
    try:
        yield
    finally:
        poller.TICK_SECONDS, holder.TICK_SECONDS = before
