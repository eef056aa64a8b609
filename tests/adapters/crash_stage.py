"""One environment on moto, a process that is stopped at one of its HTTP requests, those that recover what it left, and
what must then be true of rows, messages, letters and handler runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tenure.core.letter import read_letter
from tenure.core.machine import Event
from tenure.core.task import Row, State
from tenure.maintenance.ingest import Ingest
from tenure.maintenance.reconcile import Reconcile
from tenure.worker.context import Context
from tests.adapters.crash_process import Process
from tests.adapters.crash_site import Held, Site
from tests.adapters.wire import Crash, How

STEP_SECONDS = 550.0
"""Between two rounds of recovery: longer than a lease and than the time after which reconcile misses a message, and
shorter than a gap that makes it ask whether the table was put back."""
ROUNDS_MAX = 12
RECEIVES_MAX = 10
LOST, DOUBLED, OTHER = "lost", "doubled", "other"
_ENDINGS = {each.value for each in (Event.SUCCEED, Event.BURY, Event.CANCEL, Event.EXPIRE)}
_TROUBLE = ("engine.failed", "beat.failed", "reconcile.failed", "ingest.failed", "replay.failed")


@dataclass(frozen=True)
class Planned:
    """One task: what its handler does (given its process), and how it may end."""

    name: str
    act: Callable[[Process], object]
    task: str = "work"
    pad: int = 0
    """Characters that its payload has besides."""
    options: Mapping[str, Any] = field(default_factory=dict)
    ends: frozenset[State] = frozenset({State.COMPLETED})


@dataclass(frozen=True)
class Operation:
    """What stands before it, what the victim does, and what somebody does again if it died."""

    name: str
    plan: tuple[Planned, ...]
    before: Callable[[Stage], object]
    act: Callable[[Process], object]
    again: Callable[[Process], object] | None = None
    foreign: int = 0
    """Letters at the end that belong to no task."""


@dataclass(frozen=True)
class Outcome:
    """How a task ended, what its budget paid, and how often it was claimed for that."""

    state: State
    paid: tuple[int, int, int]
    claims: int


@dataclass(frozen=True)
class Prepared:
    """What a stage is like when the operation begins."""

    held: Held
    names: dict[str, str]
    starts: list[tuple[str, int]]
    effects: list[str]
    fixed: bool


@dataclass(frozen=True)
class Fault:
    """A rule that was broken."""

    kind: str
    what: str


class Told:
    """Telemetry that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def emit(self, event: str, /, **fields: Any) -> None:
        self.events.append((str(event), fields))


class Stage:
    """An environment with one queue, and everything that happens in it."""

    def __init__(self, at: Site, operation: Operation) -> None:
        self.site, self.clock, self.operation = at, at.clock, operation
        self.plan = {planned.name: planned for planned in operation.plan}
        self.ordered = operation.plan[0].task == "post"
        self.topology = at.empty(self.ordered)
        (self.tier,) = self.topology.tiers()
        self.told = Told()
        self.names: dict[str, str] = {}
        """Task id -> name, of every task whose submit has returned, or that was seen in the table."""
        self.starts: list[tuple[str, int]] = []
        """(task id, fence) of every handler that was called."""
        self.effects: list[str] = []
        """Names of tasks, one for each handler that came to its end."""
        self.faults: list[Fault] = []
        self.fixed = False
        """Whether what makes `give_up_until_fixed` fail has been mended."""
        self.other = Process(self, at.others, "other")
        self._had_messages: set[str] = set()

    # ---- setting up ------------------------------------------------------------------------------------------------
    def prepare(self, before: Prepared | None) -> Prepared:
        """Do what stands before the operation, or put back what it came to before."""
        if before is None:
            self.operation.before(self)
            stage = (dict(self.names), list(self.starts), list(self.effects), self.fixed)
            before = Prepared(self.site.take(self.topology), *stage)
        else:
            self._put_back(before)
        self._had_messages = self._messages()
        return before

    def _put_back(self, before: Prepared) -> None:
        self.site.put_back(self.topology, before.held)
        self.names |= before.names
        self.starts += before.starts
        self.effects += before.effects
        self.fixed = before.fixed

    def die(self, at: int, of: str, act: Callable[[Process], object]) -> None:
        """A process dies when its n-th request of this operation has been applied."""
        self.site.victim.arm(at, How.AFTER, of)
        with suppress(Crash):
            act(Process(self, self.site.victim, "first"))
        assert self.site.victim.cut, f"it made no {at} {of}"

    def purge(self) -> None:
        """SQS loses every message of the queue."""
        self.site.purge(self.tier.url)

    def rows(self) -> dict[str, Row]:
        """Every row in the table, by task id."""
        return self.site.rows(self.topology)

    def name(self, row: Row) -> str:
        """A row's task by name, as its payload says."""
        if row.id not in self.names:
            place = row.payload
            assert place is not None
            text = place.value if place.kind == "inline" else self.other.parts.payloads.get(place)
            self.names[row.id] = json.loads(text)["name"]
        return self.names[row.id]

    # ---- while handlers run ----------------------------------------------------------------------------------------
    def started(self, running: Context) -> None:
        """A handler was called: is it its turn?"""
        rows = self.rows()
        row = rows[running.task_id]
        if row.final or row.fence != running.fence or (row.id, running.fence) in self.starts:
            self.faults.append(Fault(DOUBLED, f"{self.name(row)} ran under fence {running.fence}, {row.state}"))
        self.starts.append((row.id, running.fence))
        before = list(self.plan)[: list(self.plan).index(self.name(row))] if self.ordered else []
        overtaken = [self.name(each) for each in rows.values() if not each.final and self.name(each) in before]
        if overtaken:
            self.faults.append(Fault(OTHER, f"{self.name(row)} overtook {overtaken}"))

    # ---- afterwards ------------------------------------------------------------------------------------------------
    def stopped(self) -> None:
        """What must be true already where the victim was stopped: no message is gone that somebody still needs."""
        rows, here = self.rows(), self._messages()
        rung = " ".join(self._letters())
        for row in (rows[id_] for id_ in self._had_messages - here if id_ in rows):
            if not row.final and not row.message_gone:
                self.faults.append(Fault(LOST, f"{self.name(row)} is {row.state}, and its message was deleted"))
            if row.state is State.DEAD_LETTERED and row.id not in rung:
                self.faults.append(Fault(LOST, f"{self.name(row)} has no letter yet, and its message was deleted"))

    def recover(self, *, reconcile_first: bool) -> None:
        """Others, with fresh clients, do what the schedules and the services do, until nothing is left to do."""
        rescuer = Process(self, self.site.others, "rescuer")
        if self.operation.again:
            self.clock.sleep(STEP_SECONDS)
            self.operation.again(rescuer)
        for number in range(ROUNDS_MAX):
            if not reconcile_first and self._is_over():
                break
            self.clock.sleep(STEP_SECONDS)
            if reconcile_first or number:
                Reconcile(rescuer.parts).run_once()
                reconcile_first = False
            for _ in range(RECEIVES_MAX):
                if not self._messages() or not rescuer.work():
                    break
        dead = sum(row.state is State.DEAD_LETTERED for row in self.rows().values())
        if len(self._letters()) != dead + self.operation.foreign:
            Ingest(rescuer.parts).run_once(force=True)

    def _is_over(self) -> bool:
        rows = self.rows().values()
        confirmed = all(row.letter_confirmed for row in rows if row.state is State.DEAD_LETTERED)
        return confirmed and all(row.final for row in rows) and not self._messages()

    def _messages(self) -> set[str]:
        """Ids of the tasks that the queue has a message of; "" for what is not ours."""
        return {json.loads(body).get("id", "") for body in self.site.bodies(self.tier.url)}

    def _letters(self) -> list[str]:
        return self.site.bodies(self.tier.dead_url)

    def audit(self) -> list[Fault]:
        """What is wrong now that all has been recovered."""
        rows = self.rows()
        faults = [*self.faults, *self._of_letters(rows)]
        faults += [Fault(LOST, f"{name} has no row") for id_, name in self.names.items() if id_ not in rows]
        faults += [fault for row in rows.values() for fault in self._of_row(row)]
        if self._messages():
            faults.append(Fault(LOST, "a message is left"))
        faults += [Fault(OTHER, f"{event}: {fields}") for event, fields in self.told.events if event in _TROUBLE]
        return faults

    def outcomes(self) -> dict[str, Outcome]:
        """What became of each task."""
        rows = self.rows().values()
        return {self.name(row): Outcome(row.state, (row.failures, row.losses, row.replays), row.fence) for row in rows}

    def _of_row(self, row: Row) -> Iterator[Fault]:
        name = self.name(row)
        if not row.final:
            yield Fault(LOST, f"{name} is still {row.state}")
        elif row.state not in self.plan[name].ends:
            yield Fault(OTHER, f"{name} ended {row.state}: {row.reason}")
        if row.state is State.COMPLETED and name not in self.effects:
            yield Fault(LOST, f"{name} completed and never ran")
        if sum(line.event in _ENDINGS for line in row.history) > 1 + row.replays:
            yield Fault(DOUBLED, f"{name} ended twice: {[line.event for line in row.history]}")

    def _of_letters(self, rows: Mapping[str, Row]) -> Iterator[Fault]:
        dead: list[Any] = []
        while len(dead) < len(self._letters()):
            self.clock.sleep(STEP_SECONDS)  # whoever has scanned them has hidden them
            dead += self.other.inbox().dead.receive(10, 0, 10 * round(STEP_SECONDS))
        letters = [read_letter(each.body, each.attributes) for each in dead]
        rung = Counter(each.letter_id for each in letters if each.kind == "buried")
        due = {row.letter_id: self.name(row) for row in rows.values() if row.state is State.DEAD_LETTERED}
        yield from (Fault(LOST, f"{due[each]} is dead without a letter") for each in due.keys() - rung.keys())
        yield from (Fault(OTHER, f"letter {each} without a dead row") for each in rung.keys() - due.keys())
        yield from (
            Fault(OTHER, f"letter {each} lies there {count} times") for each, count in rung.items() if count > 1
        )
        foreign = len(letters) - rung.total()
        if foreign < self.operation.foreign:
            yield Fault(LOST, "what is not ours is gone")
        elif foreign and not self.operation.foreign:
            yield Fault(OTHER, f"{foreign} letters of nobody's")
