"""Who goes on at each yield point of one run: by default whoever runs, and elsewhere as a schedule says.

A schedule is a list of deviations from that default. Each names its point by who stands there and how often it has
stood somewhere, so that it still means the same when another deviation is taken out. A deviation is the name of
another thread, or an event:

- `dies`: the process that stands there ends, its call not made;
- `time passes`: so much that leases and invisibilities have ended, for everybody at once;
- `reply lost`: the write or send takes effect, its reply does not come, and the SDK does it again;
- `again`: a message in flight, else the last that was deleted, is visible (standard queues: at least once).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from tenure.adapters.memory import Faults
from tenure.adapters.memory.message import Message
from tenure.adapters.memory.process import SimulatedThread
from tests.simulation.crash import Stage
from tests.simulation.history import READS, History

DIES, TIME, AGAIN, REPLY = "dies", "time passes", "again", "reply lost"
MAIN = "main"
NO_REPLY = Faults(store_reply_lost=1.0, send_reply_lost=1.0)


@dataclass(frozen=True, order=True)
class Deviation:
    """At the point where `who` stands for the `nth` time, `choice` instead of going on."""

    who: str
    nth: int
    choice: str

    def __str__(self) -> str:
        return f"{self.who}#{self.nth}: {self.choice}"


@dataclass(frozen=True)
class Point:
    """A yield point that a run came to, and what else could have been chosen there, each with its cost."""

    who: str
    nth: int
    others: tuple[tuple[str, int], ...]
    history: int
    """What had been done by then; see history.py."""


@dataclass(frozen=True)
class Line:
    """For the story: at a moment, somebody goes on with a call, or a deviation is taken before it."""

    at_ms: int
    who: str
    call: str
    deviation: str = ""


@dataclass(frozen=True)
class Whim:
    """Deviates at random: at each point with this chance, at most so often."""

    random: Random
    chance: float
    deviations_max: int

    def strikes(self, taken: int) -> bool:
        """Whether to deviate here, after so many deviations."""
        return taken < self.deviations_max and self.random.random() < self.chance


@dataclass
class Director:
    """A chooser (Scheduler.chooser) for one run of a stage.

    Preempting somebody who could go on costs one, an event costs one, and so does another than the first in line after
    somebody who waits; who follows somebody that has ended is free.
    """

    stage: Stage
    schedule: Sequence[Deviation]
    events: Sequence[str]
    jump_seconds: float
    whim: Whim | None = None
    points: list[Point] = field(default_factory=list)
    taken: list[Deviation] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._wanted = {(each.who, each.nth): each.choice for each in self.schedule}
        self._history = History()
        self._stood: Counter[str] = Counter()
        self._current: SimulatedThread | None = None
        self._unlucky: SimulatedThread | None = None
        self._deleted: list[Message] = []
        self._queue = self.stage.inbox().queue
        self._scheduler = self.stage.world.scheduler
        self._queue.watchers.append(self._see)

    def _see(self, what: str, message: Message) -> None:
        if what == "deleted":
            self._deleted.append(message)

    @property
    def order(self) -> int:
        """Of which interleaving the run was: equal where only calls that do not touch each other changed places."""
        return self._history.mark()

    def __call__(self, able: Sequence[SimulatedThread]) -> SimulatedThread | None:
        """See Scheduler.chooser."""
        for thread in able:
            if thread.process.dead:
                return thread  # it ends, and nobody sees when
        current = self._current
        if current is None or current not in able:
            before = name_of(current) if current else "the beginning"
            others = {name_of(each): each for each in _unlike(able)[1:]}
            cost = int(current is not None and not current.ended)
            choice = self._choose(before, {name: cost for name in others})
            self._current = others.get(choice) or _unlike(able)[0]
            return self._go_on(self._current)
        others = {name_of(each): each for each in self._rivals(current, able)}
        choice = self._choose(name_of(current), {name: 1 for name in [*others, *self._possible(current)]})
        if choice in others:
            current = self._current = others[choice]
        elif choice:
            self._happen(choice, current)
            return None
        return self._go_on(current)

    def _rivals(self, current: SimulatedThread, able: Sequence[SimulatedThread]) -> list[SimulatedThread]:
        """Who may take its place. What it does between an answer and its next call only its own process can see."""
        if not _has_begun(current):
            return []  # its first call is soon enough
        rivals = [each for each in _unlike(able) if each is not current]
        if current.answered and current.call:
            return [each for each in rivals if each.process is current.process]
        return rivals

    def _possible(self, current: SimulatedThread) -> list[str]:
        """Events that may happen now, each only where it is not the same as a moment later: who only reads has left
        nothing behind if it dies."""
        if not current.call:
            return []
        if current.answered:
            return [TIME] if TIME in self.events else []
        possible = {
            DIES: current.call not in READS,
            TIME: True,
            AGAIN: bool(self._in_flight() or self._gone()),
            REPLY: current.call.startswith("store.write T#") or current.call.endswith(" send"),
        }
        return [event for event in self.events if possible[event]]

    def _choose(self, who: str, others: dict[str, int]) -> str:
        """What is chosen instead of going on; "" for going on."""
        if not others:
            return ""
        self._stood[who] += 1
        nth = self._stood[who]
        self.points.append(Point(who, nth, tuple(others.items()), self._history.mark()))
        choice = self._wanted.get((who, nth), "")
        if self.whim is not None and self.whim.strikes(len(self.taken)):
            choice = self.whim.random.choice(list(others))
        if choice not in others:
            return ""
        self.taken.append(Deviation(who, nth, choice))
        call = self._current.call if self._current and who == name_of(self._current) else ""
        if call and self._current and self._current.answered:
            call = f"the answer: {call}"
        self.lines.append(Line(self._scheduler.now_ms, who, call, choice))
        return choice

    def _go_on(self, thread: SimulatedThread) -> SimulatedThread:
        if not thread.answered or not thread.call:
            self.lines.append(Line(self._scheduler.now_ms, name_of(thread), thread.call))
            self._history.add(thread.process.name, name_of(thread), thread.call)
        world = self.stage.world
        if thread is self._unlucky:
            self._unlucky, world.faults = None, NO_REPLY
        elif world.faults is NO_REPLY:
            world.faults = Faults.none()
        return thread

    # ---- events ------------------------------------------------------------------------------------------------
    def _happen(self, event: str, current: SimulatedThread) -> None:
        acts: dict[str, Callable[[], None]] = {
            DIES: lambda: self.stage.cast.kill(current.process),
            TIME: self._let_time_pass,
            AGAIN: self._deliver_again,
            REPLY: lambda: setattr(self, "_unlucky", current),
        }
        self._history.add(current.process.name, event, event if event in (DIES, REPLY) else "")
        acts[event]()

    def _let_time_pass(self) -> None:
        for name in self.stage.actors:
            self.stage.evidence.stalls.append((self._scheduler.now_ms, name))
        self._scheduler.now_ms += round(self.jump_seconds * 1000)

    def _in_flight(self) -> list[Message]:
        now = self._scheduler.now_ms
        return [message for message in self._queue.all() if message.in_flight and message.visible_at_ms > now]

    def _gone(self) -> list[Message]:
        held = {message.serial for message in self._queue.all()}
        return [message for message in self._deleted if message.serial not in held]

    def _deliver_again(self) -> None:
        flying = self._in_flight()
        message = flying[0] if flying else self._gone()[-1]
        self._queue._messages[message.serial] = message
        message.visible_at_ms, message.in_flight = self._scheduler.now_ms, False
        self._scheduler.wake(self._queue)


def name_of(thread: SimulatedThread) -> str:
    """A thread as schedules and stories call it: by its process, with its own name unless it is the main one."""
    return thread.process.name if thread.name == MAIN else f"{thread.process.name}'s {thread.name}"


def _has_begun(thread: SimulatedThread) -> bool:
    return thread.waiter is not None


def _unlike(able: Sequence[SimulatedThread]) -> list[SimulatedThread]:
    """Those between whom it makes a difference: of actors of one kind that have not begun (worker-1, worker-2) only the
    first, and no helper that has not begun, since all it does first is wait."""
    kinds: set[str] = set()
    found = []
    for each in able:
        kind = each.process.name.rsplit("-", 1)[0]
        if _has_begun(each) or (each.name == MAIN and kind not in kinds):
            found.append(each)
        if not _has_begun(each):
            kinds.add(kind)
    return found or list(able)
