"""For tests of code that uses tenure: your own tasks, run by tenure's own worker, in a world in memory.

    world = testing.connect(app)        # submits go to the world instead of AWS
    handle = resize.submit("a.jpg")
    testing.run_all(app, world)         # retries, delays and dead letters included
    assert handle.result() == "a-small.jpg"

Time is virtual: a retry in ten minutes and a delay of three weeks take no time, and nothing reaches the network.
`Faults` makes the world lie as AWS now and then does; the same seed is the same run. See docs/testing.md.
"""

from __future__ import annotations

from collections import Counter

from tenure.adapters.memory import Faults, World
from tenure.application import App
from tenure.client import Client
from tenure.core.durations import Duration, seconds_of
from tenure.core.envelope import decode
from tenure.core.errors import DecodeError, NotFinished, ServiceError
from tenure.core.task import Row, State
from tenure.core.topology import Pool, Queue, Tier, Topology
from tenure.keys import Keys
from tenure.maintenance.parts import Parts
from tenure.maintenance.pause import Pauses, read_pause
from tenure.maintenance.reconcile import Reconcile
from tenure.ports import Item, Key
from tenure.rows import Rows, to_row
from tenure.worker.acks import DirectAck
from tenure.worker.engine import Engine
from tenure.worker.held import Inbox
from tenure.worker.settling import EngineParts

__all__ = ["Faults", "World", "connect", "letters", "run_all", "topology_of"]

LONGEST_RUNTIME_SECONDS = 86_400
ROUNDS_MAX = 5_000
"""Rounds of work after which no fewer tasks are open than before: a handler that snoozes or submits for ever."""
RECONCILE_SECONDS = 60
"""Between two looks at what is overdue, as in a deployment."""
IDLE_LOOKS_MAX = 20
"""Looks at what is overdue that change nothing, one after another: only a person will move it."""
ROUNDS_MAX = 5_000
"""Rounds of work after which no fewer tasks are open than before: a handler that snoozes or submits for ever."""
RECONCILE_SECONDS = 60
"""Between two looks at what is overdue, as in a deployment."""
IDLE_LOOKS_MAX = 20
"""Looks at what is overdue that change nothing, one after another: only a person will move it."""


def topology_of(app: App) -> Topology:
    """Queues for an app's tasks as they are declared so far: ordered where a task is, with every priority elsewhere."""
    ordered: dict[str, bool] = {}
    for definition in app.tasks.values():
        ordered[definition.queue] = ordered.get(definition.queue, False) or definition.ordered_by is not None
    queues = tuple(
        Queue(name=name, pool="test", ordered=True)
        if is_ordered
        else Queue(name=name, pool="test", tiers=("high", "normal", "low"))
        for name, is_ordered in ordered.items()
    )
    pool = Pool(name="test", kind="fargate", longest_runtime_seconds=LONGEST_RUNTIME_SECONDS)
    return Topology(app=app.name, environment="test", queues=queues, pools=(pool,))


def connect(app: App, world: World | None = None, topology: Topology | None = None) -> World:
    """Connect an app to a world in memory, a new one if none is given, so that its submits go there.

    Declare all tasks before. `topology` takes the place of one made from the tasks (`topology_of`).

    Raises InvalidTask if a task cannot run on these queues.
    """
    made = world or World()
    made.topology = topology or made.topology or topology_of(app)
    app.check(made.topology)
    client = Client(
        app_name=app.name,
        topology=made.topology,
        rows=Rows(made.store),
        payloads=made.payloads,
        queues=made.queues,
        clock=made.clock,
        entropy=made.entropy,
        telemetry=made.telemetry,
        tasks={name: definition.facts() for name, definition in app.tasks.items()},
        waiting_hint="In a test's world nobody works by itself: call testing.run_all(app, world) before.",
    )
    app.connect(client=client)
    return made


def run_all(app: App, world: World, *, patience: Duration = "30d") -> Counter[str]:
    """Work until every task in the world has ended, one after another in the calling thread; how many ended how.

    Virtual time moves on to whatever is next: a retry, a delay, a look of reconcile. While a handler runs it stands
    still, unless the handler itself lets it pass (`world.advance`), so timeouts do not strike.

    Raises NotFinished, naming the tasks that are left and what they wait for: when `patience` (of virtual time) is
    over; at once when nothing but a person would move them (a halted key); and after ROUNDS_MAX rounds of work that
    left no fewer tasks open (one that snoozes for ever).
    """
    worker = _Worker(app, world)
    run = _Run(world, patience)
    try:
        while open_rows := [row for row in _rows(world) if not row.final or _lacks_letter(row)]:
            run.check(open_rows)
            if not worker.work():
                world.advance((run.next_ms(open_rows) - world.clock.now_ms()) / 1000)
                worker.reconcile()
        for _ in range(ROUNDS_MAX):
            if not worker.work():  # else there were messages whose tasks have ended: they are dropped
                break
    finally:
        worker.close()
    return Counter(row.state.value for row in _rows(world))


class _Run:
    """How far a `run_all` is, and whether it can go on."""

    def __init__(self, world: World, patience: Duration) -> None:
        self._world, self._patience = world, patience
        self._until_ms = world.clock.now_ms() + round(seconds_of(patience, "patience") * 1000)
        self._least_open: int | None = None
        self._rounds = 0
        self._seen: list[tuple[Key, int]] = []
        self._idle_looks = 0

    def check(self, open_rows: list[Row]) -> None:
        """Count a round. Raises NotFinished if time is over, or all these rounds have ended nothing."""
        if self._least_open is None or len(open_rows) < self._least_open:
            self._least_open, self._rounds = len(open_rows), 0
        self._rounds += 1
        if self._world.clock.now_ms() > self._until_ms:
            raise self._left(f"after {self._patience} of virtual time", open_rows)
        if self._rounds > ROUNDS_MAX:
            raise self._left(f"after {ROUNDS_MAX:,} rounds of work that ended none,", open_rows)

    def next_ms(self, open_rows: list[Row]) -> int:
        """The next moment at which something happens. Raises NotFinished if that is too late, or never."""
        now = self._world.clock.now_ms()
        items = self._world.store.all()
        moments = [at_ms for queue in self._world.all_queues for at_ms in queue.hidden_until_ms()]
        moments += [item.due[2] for item in items if item.due]
        later = [at_ms for at_ms in moments if at_ms > now]
        if len(later) < len(moments) and self._may_look_again(items):
            later.append(now + RECONCILE_SECONDS * 1000)
        if not later:
            raise self._left("nothing is due any more, and", open_rows)
        if min(later) > self._until_ms:
            raise self._left(f"after {self._patience} of virtual time", open_rows)
        return min(later)

    def _may_look_again(self, items: list[Item]) -> bool:
        """Whether the last looks have changed anything: what is overdue and stays as it is waits for a person."""
        seen = [(item.key, item.version) for item in items if item.key.pk.startswith(("T#", "K#"))]  # no marks of ours
        self._idle_looks = self._idle_looks + 1 if seen == self._seen else 0
        self._seen = seen
        return self._idle_looks < IDLE_LOOKS_MAX

    def _left(self, when: str, open_rows: list[Row]) -> NotFinished:
        rows = ", ".join(f"{row.id} ({row.task}: {row.state}{self._why(row)})" for row in open_rows[:5])
        more = f" and {len(open_rows) - 5} more" if len(open_rows) > 5 else ""
        some = "1 task is" if len(open_rows) == 1 else f"{len(open_rows)} tasks are"
        return NotFinished(f"{when} {some} left: {rows}{more}.")

    def _why(self, row: Row) -> str:
        """What it waits for, where its state alone does not tell."""
        world = self._world
        try:
            pause = read_pause(world.store, row.queue)
            keys = Keys.of(_topology(world), world.store, world.clock, world.entropy)
            key = keys.get(row.queue, row.ordering_key) if row.ordering_key else None
        except ServiceError:  # a fault that the test asked for
            return ""
        if pause.paused:
            return f", queue {row.queue} is paused"
        if row.state is State.WAITING and key is not None and key.heads:
            return f", ordering key {row.ordering_key!r} is halted by {key.heads[0]}"
        last = row.history[-1] if row.history else None
        return f", last {last.event} {last.detail}".rstrip() if last is not None and row.fence else ""


def letters(world: World, queue: str) -> list[str]:
    """The ids of the tasks whose letters lie in a queue's DLQs, oldest first; "" for a message that is not tenure's.

    Raises InvalidTopology, naming the queues there are, if this is none of them.
    """
    topology = _topology(world)
    topology.queue(queue)
    tiers = [tier for tier in topology.tiers() if tier.queue == queue]
    bodies = [message.body for tier in tiers for message in world.dead(tier).all()]
    return [_task_id(body) for body in bodies]


class _Worker:
    """A worker and a reconcile that take turns in the calling thread."""

    def __init__(self, app: App, world: World) -> None:
        self._topology = _topology(world)
        self._inboxes = [self._inbox(world, tier) for tier in self._topology.tiers()]
        parts = EngineParts(
            app=app,
            rows=Rows(world.store),
            payloads=world.payloads,
            clock=world.clock,
            entropy=world.entropy,
            threads=world.threads,
            telemetry=world.telemetry,
            worker_id="test",
            pool="test",
            keys=Keys.of(self._topology, world.store, world.clock, world.entropy),
        )
        self._engine = Engine(parts, Pauses(world.store, world.clock).paused)
        duty = Parts(
            store=world.store,
            main=world.queues,
            dead=world.dead,
            payloads=world.payloads,
            clock=world.clock,
            entropy=world.entropy,
            telemetry=world.telemetry,
            topology=self._topology,
        )
        self._reconcile = Reconcile(duty)

    @staticmethod
    def _inbox(world: World, tier: Tier) -> Inbox:
        main = world.queues(tier)
        return Inbox(tier, main, world.dead(tier), DirectAck(main, world.telemetry))

    def work(self) -> bool:
        """Receive, run and settle what is visible now; whether there was anything."""
        any_message = False
        for inbox in self._inboxes:
            try:
                deliveries = inbox.queue.receive(10, 0)
            except ServiceError:  # a fault that the test asked for: the next round asks again
                any_message = True
                continue
            any_message = any_message or bool(deliveries)
            for unit in self._engine.admit(inbox, deliveries):
                self._engine.run(unit)
        return any_message

    def reconcile(self) -> None:
        """One run of reconcile."""
        try:
            self._reconcile.run_once()
        except ServiceError:  # as above
            return

    def close(self) -> None:
        """End the worker."""
        self._engine.close()


def _topology(world: World) -> Topology:
    if world.topology is None:
        raise NotFinished("this world has no queues: connect an app to it first, testing.connect(app, world).")
    return world.topology


def _rows(world: World) -> list[Row]:
    return [to_row(item) for item in world.store.all() if item.key.sk == "R" and item.key.pk.startswith("T#")]


def _lacks_letter(row: Row) -> bool:
    return row.disposition is not None and row.disposition.kind == "open" and not row.letter_confirmed


def _task_id(body: str) -> str:
    try:
        return decode(body).id
    except DecodeError:
        return ""
