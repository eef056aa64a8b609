"""One run: submits at a steady pace, kills, reconciles, samples, and waits until everything has ended."""

from __future__ import annotations

import itertools
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tenure.adapters.clients import Clients
from tenure.core.errors import ServiceError
from tenure.core.topology import Topology
from tenure.maintenance.reconcile import Reconcile
from tenure.wiring.maintenance import parts_of
from tenure.wiring.producer import client_of
from tools.soak.app import TASKS, app
from tools.soak.fleet import Fleet
from tools.soak.plan import Planned
from tools.soak.watch import Sample, sample

TICK_SECONDS = 0.2
SUBMIT_SECONDS = 1.0
LOOK_SECONDS = 5.0
SAMPLE_SECONDS = 10.0
SUBMITTED_WITHIN = 0.96
"""The part of the minutes in which all is submitted; the rest is for what is under way then."""
DEPTH_MAX = 150
"""Visible messages above which nothing is submitted: a soak is about time, not about a backlog."""
BURST_MAX = 100
"""Submitted at once after the pace was held up."""
LOOKED_AT_MAX = 400
"""Unfinished tasks asked for at a time, oldest first."""
DRAIN_SECONDS = 600.0
"""What is left after the last submit gets to end: several leases of a task that kills its workers."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a run goes. seconds_max: when submitting ends, however much is done."""

    tasks: Sequence[Planned]
    seconds: float
    seconds_max: float
    kill_seconds: float
    reconcile_seconds: float
    seed: int


@dataclass
class Told:
    """What the run itself has to tell."""

    submitted: dict[str, str] = field(default_factory=dict)
    """Task id -> kind. Filled from the file when the run is over, so that the run's own memory does not grow."""
    refused: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    strikes: Counter[str] = field(default_factory=Counter)
    reconciled: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    """Calls of the run's own that failed."""
    depth_peak: int = 0
    held_seconds: float = 0.0
    """How long the pace was held because the queue was not shallow."""
    submit_seconds: float = 0.0
    """When the last submit was done."""
    seconds: float = 0.0
    """When everything had ended."""


class Run:
    """Everything in one thread, each duty at its time."""

    def __init__(
        self, settings: Settings, topology: Topology, clients: Clients, fleet: Fleet, folder: Path, emulator_pid: int
    ) -> None:
        self.told = Told()
        self._settings = settings
        self._fleet = fleet
        self._sqs = clients.sqs
        self._urls = [tier.url for tier in topology.tiers()]
        self._parts = parts_of(topology, clients)
        self._reconcile = Reconcile(self._parts)
        self._rng = random.Random(f"strikes {settings.seed}")
        self._ids = folder / "submitted"
        self._emulator_pid = emulator_pid
        self._open: dict[str, None] = {}
        self._next = 0
        self._begun = time.monotonic()
        self._ended = 0
        app.connect(client=client_of(topology, clients, {}))

    # ---- the loop --------------------------------------------------------------------------------------------------
    def run(self) -> Told:
        """Until all has ended, or nothing moves any more. Raises nothing that one of the services answered."""
        duties = [
            (self._submit, itertools.repeat(SUBMIT_SECONDS)),
            (self._strike, iter(lambda: self._settings.kill_seconds * self._rng.uniform(0.5, 1.5), None)),
            (self._look, itertools.repeat(LOOK_SECONDS)),
            (self._run_reconcile, itertools.repeat(self._settings.reconcile_seconds)),
            (self._sample, itertools.repeat(SAMPLE_SECONDS)),
        ]
        due = [next(pause) for _, pause in duties]
        while not self._over():
            self._fleet.tend()
            for number, (duty, pause) in enumerate(duties):
                if self._now() >= due[number]:
                    self._try(duty)
                    due[number] = max(self._now() - 1.0, due[number]) + next(pause)
            time.sleep(TICK_SECONDS)
        self.told.seconds = self._now()
        self.told.submitted = dict(line.split() for line in self._lines())
        return self.told

    def _lines(self) -> list[str]:
        return self._ids.read_text().splitlines() if self._ids.exists() else []

    def _now(self) -> float:
        return time.monotonic() - self._begun

    @property
    def _submitting(self) -> bool:
        return self._next < len(self._settings.tasks) and self._now() < self._settings.seconds_max

    def _over(self) -> bool:
        if self._submitting:
            return False
        self.told.submit_seconds = self.told.submit_seconds or self._now()
        if self._now() > self.told.submit_seconds + DRAIN_SECONDS:
            return True
        return not self._open and self.depth() == 0

    def _try(self, duty: Any) -> None:
        try:
            duty()
        except (BotoCoreError, ClientError, ServiceError) as error:
            self.told.faults[f"{duty.__name__.strip('_')}: {type(error).__name__}"] += 1

    # ---- duties ----------------------------------------------------------------------------------------------------
    def _submit(self) -> None:
        if not self._submitting:
            return
        planned = len(self._settings.tasks) / (self._settings.seconds * SUBMITTED_WITHIN) * self._now()
        wanted = min(int(planned) - self._next, BURST_MAX, len(self._settings.tasks) - self._next)
        depth = self.depth(visible_only=True)
        self.told.depth_peak = max(self.told.depth_peak, depth)
        if depth > DEPTH_MAX:
            self.told.held_seconds += SUBMIT_SECONDS
            return
        if wanted <= 0:
            return
        batch = self._settings.tasks[self._next : self._next + wanted]
        self._next += wanted
        report = TASKS["quick"].submit_many(TASKS[each.kind].bind(each.number, each.seconds) for each in batch)
        with self._ids.open("a") as ids:
            for each, outcome in zip(batch, report.outcomes, strict=True):
                if outcome.handle is None:
                    self.told.refused.append(f"{each.kind} {each.number}: {outcome.error}")
                    continue
                ids.write(f"{outcome.handle.id} {each.kind}\n")
                self._open[outcome.handle.id] = None

    def _strike(self) -> None:
        if self._submitting:  # what is left at the end is not kept from ending
            self.told.strikes[self._fleet.strike(self._rng) or "nobody was old enough"] += 1

    def _look(self) -> None:
        ids = list(itertools.islice(self._open, LOOKED_AT_MAX))
        for task_id, row in zip(ids, self._parts.rows.get_many(ids), strict=True):
            if row is not None and row.final:
                del self._open[task_id]
                self._ended += 1

    def _run_reconcile(self) -> None:
        self.told.reconciled["runs"] += 1
        self.told.reconciled.update(self._reconcile.run_once().counts)

    def _sample(self) -> None:
        at = self._now()
        known = [("submitter", os.getpid(), at), ("emulator", self._emulator_pid, at)]
        known += [("spared worker", each.pid, self._fleet.age_seconds(each)) for each in self._fleet.spared]
        known += [("killed workers", each.pid, self._fleet.age_seconds(each)) for each in self._fleet.killed]
        for role, pid, age in known:
            if (taken := sample(role, pid, at, age)) is not None:
                self.told.samples.append(taken)
        spared = next((each for each in reversed(self.told.samples) if each.role == "spared worker"), None)
        held = f"{spared.rss_mib:.0f} MiB {spared.descriptors} fd" if spared else "-"
        print(
            f"{at:6.0f} s  submitted {self._next}  ended {self._ended}  open {len(self._open)}  "
            f"strikes {self.told.strikes.total()}  starts {self._fleet.starts}  spared {held}",
            file=sys.stderr,
            flush=True,
        )

    def depth(self, *, visible_only: bool = False) -> int:
        """Messages in the main queues: those that can be received, or all."""
        names: list[Any] = ["ApproximateNumberOfMessages"]
        if not visible_only:
            names += ["ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"]
        found = 0
        for url in self._urls:
            answer: Any = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)
            found += sum(int(value) for value in answer["Attributes"].values())
        return found
