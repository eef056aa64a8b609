"""One simulated run: real clients, engines, pollers, Lambda runtimes and reconcile, in processes that die and stall."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tenure.adapters.memory import Faults, World
from tenure.adapters.memory.lambda_poller import LambdaPoller, Mapping
from tenure.adapters.memory.scheduler import Process
from tenure.application import App
from tenure.client import Client
from tenure.core.errors import KeyConflict, ServiceError, SubmitRefused, TaskNotFound
from tenure.core.outcome import GiveUp, RetryAfter, Snooze
from tenure.core.retry import Retry
from tenure.core.submission import Options
from tenure.core.topology import Pool, Queue, Topology
from tenure.handle import Handle
from tenure.handle import World as HandleWorld
from tenure.maintenance.parts import Parts
from tenure.maintenance.reconcile import Reconcile
from tenure.rows import Rows
from tenure.worker import holder, poller
from tenure.worker.acks import DirectAck
from tenure.worker.context import context
from tenure.worker.engine import Engine
from tenure.worker.held import Inbox
from tenure.worker.lambda_runtime import LambdaParts, LambdaRuntime, Source
from tenure.worker.poller import Poller, PollerParts
from tenure.worker.settling import EngineParts
from tests.simulation.evidence import End, Evidence, Start
from tests.simulation.workload import LEASE_SECONDS, MAX_ATTEMPTS, TIMEOUT_SECONDS, Act, Mix, Planned, draw

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
    skew_ms: int = SKEW_MS
    workers: int = 2
    runtime: str = ""
    """ "lambda" or "fargate"; "" lets the seed choose."""
    drain: float = 0.05
    """A Fargate worker is told to stop, as by SIGTERM."""

    @property
    def may_lapse(self) -> bool:
        """Whether a lease may lapse though its worker lives and is not stalled."""
        return self.faults.store_unanswered > 0 or self.faults.slow_call > 0


QUIET = Setting(faults=Faults.none(), kill=0.0, stall=0.0, skew_ms=0, drain=0.0)
"""Nothing goes wrong but what the handlers themselves do."""

SETTINGS: dict[str, Setting] = {
    "rough": Setting(),
    "storm": Setting(Mix(slow=0.5), Faults.rough(0.01), kill=0.15, stall=0.5, drain=0.1),
    "services": Setting(Mix(slow=0.3), Faults.rough(0.08), kill=0.02, stall=0.02),
    "replies": replace(
        QUIET, faults=Faults(store_reply_lost=0.2, send_reply_lost=0.2, duplicate=0.15, revived=0.15, reorder=1.0)
    ),
    "deadly": replace(QUIET, mix=Mix(tasks=16, ordered=0.2, deadly=0.4, span_seconds=300)),
    "crowd": Setting(Mix(tasks=30, keys=3, span_seconds=60, deadly=0.15, slow=0.3), Faults.rough(0.01)),
    "keys": Setting(Mix(tasks=14, ordered=1.0, span_seconds=200, slow=0.3), Faults.rough(0.02), kill=0.15, stall=0.3),
}


def setting_of(seed: int) -> str:
    """The setting that a seed runs under: all in turn."""
    return list(SETTINGS)[seed % len(SETTINGS)]


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


class Play:
    """A world, a workload, and everybody in it."""

    def __init__(self, seed: int, setting: Setting | None = None, plan: list[Planned] | None = None) -> None:
        self.seed = seed
        self.setting = setting or SETTINGS[setting_of(seed)]
        self.random = Random(f"play {seed}")
        self.plan = draw(seed, self.setting.mix) if plan is None else plan
        self.by_name = {planned.name: planned for planned in self.plan}
        self.runtime = self.setting.runtime or self.random.choice(("lambda", "fargate"))
        self.topology = _topology(self.runtime, self.random)
        self.world = World(seed, self.setting.faults, topology=self.topology)
        self.evidence = Evidence(self.world)
        self.evidence.watch_store()
        self.app = self._declare()
        self.start_ms = self.world.clock.now_ms()
        self.calm = False
        self.submitting = 0
        self.workers: dict[str, Process] = {}
        self._poller: dict[str, Poller] = {}
        self._lambdas: list[LambdaPoller] = []
        for tier in self.topology.tiers():
            self.evidence.watch_queue(self.world.queues(tier))
            self.evidence.watch_queue(self.world.dead(tier))

    # ---- the application ---------------------------------------------------------------------------------------
    def _declare(self) -> App:
        app = App("sim")
        retry = Retry(max_attempts=MAX_ATTEMPTS["work"], base=5.0, cap=60.0)
        options: dict[str, Any] = {"timeout": float(TIMEOUT_SECONDS), "lease": float(LEASE_SECONDS)}

        @app.task(queue="work", retry=retry, **options)
        def work(name: str, filler: str = "") -> str:
            return self.handle(name, filler)

        @app.task(queue="work", retry=replace(retry, max_attempts=1), **options)
        def once(name: str, filler: str = "") -> str:
            return self.handle(name, filler)

        @app.task(queue="ledger", retry=replace(retry, max_attempts=3), ordered_by="key", **options)
        def post(name: str, key: str, filler: str = "") -> str:
            return self.handle(name, filler)

        return app

    def handle(self, name: str, filler: str) -> str:
        """What every task's handler does: what its plan says for this start of it."""
        planned, ctx, evidence = self.by_name[name], context(), self.evidence
        assert len(filler) == planned.size_bytes, "a payload was not its own"
        act = planned.acts[min(evidence.started[name], len(planned.acts) - 1)]
        evidence.started[name] += 1
        now, process = self.world.scheduler.now_ms, evidence.process()
        row = evidence.rows.get(ctx.task_id)
        evidence.starts.append(Start(name, ctx.task_id, ctx.fence, ctx.attempt, now, process, row))
        try:
            self._spend(act)
            self._end(act)
            self.world.scheduler.step(f"effect {name}")
            evidence.effect(name, ctx.fence)
        finally:
            evidence.ends.append(End(ctx.task_id, ctx.fence, self.world.scheduler.now_ms))
        return f"{name}#{ctx.fence}"

    def _spend(self, act: Act) -> None:
        ctx, left = context(), act.seconds
        while left > 0:
            self.world.clock.sleep(min(5.0, left))
            left -= 5.0
            if act.heeds and act.kind != "hang" and ctx.cancelled:
                ctx.remaining()  # raises LeaseLost if that is why
                raise ValueError("told to stop")

    def _end(self, act: Act) -> None:
        if act.kind == "kill":
            self.die()
        elif act.kind == "fail":
            raise ValueError("planned failure")
        elif act.kind == "give_up":
            raise GiveUp("planned")
        elif act.kind == "exit":
            raise SystemExit(3)
        elif act.kind == "snooze":
            raise Snooze(act.wait_seconds)
        elif act.kind == "later":
            raise RetryAfter(act.wait_seconds)
        elif act.kind == "checkpoint":
            context().checkpoint({"x": "y" * 2000})
            raise ValueError("after a checkpoint")

    def die(self) -> None:
        """End the process that calls, as a segfault does."""
        thread = self.world.scheduler.current()
        assert thread is not None, "a plan that kills needs a simulation"
        self.kill(thread.process)
        self.world.scheduler.step("dying")

    def kill(self, process: Process) -> None:
        """End a process."""
        if not process.dead:
            self.evidence.deaths.append((self.world.scheduler.now_ms, process.name))
            process.kill()

    # ---- who is there ------------------------------------------------------------------------------------------
    def engine(self, process: Process, threads: int) -> Engine:
        """A worker's engine with the clock of its process."""
        world = self.world
        return Engine(
            EngineParts(
                app=self.app,
                rows=Rows(world.store),
                payloads=world.payloads,
                clock=world.clock_for(process.name),
                entropy=world.entropy,
                threads=world.threads,
                telemetry=world.telemetry,
                worker_id=process.name,
                pool="many",
                max_running=threads,
            )
        )

    def client(self, process: str) -> Client:
        """A producer's client with the clock of its process."""
        world = self.world
        return Client(
            app_name="sim",
            topology=self.topology,
            rows=Rows(world.store),
            payloads=world.payloads,
            queues=world.queues,
            clock=world.clock_for(process),
            entropy=world.entropy,
            telemetry=world.telemetry,
            tasks={name: definition.facts() for name, definition in self.app.tasks.items()},
        )

    def parts(self, process: str) -> Parts:
        """What maintenance works with."""
        world = self.world
        return Parts(
            store=world.store,
            main=world.queues,
            dead=world.dead,
            payloads=world.payloads,
            clock=world.clock_for(process),
            entropy=world.entropy,
            telemetry=world.telemetry,
            topology=self.topology,
        )

    def _skew_ms(self) -> int:
        return self.random.randint(-self.setting.skew_ms, self.setting.skew_ms) if self.setting.skew_ms else 0

    # ---- producers and operators -------------------------------------------------------------------------------
    def _producer(self, planned: Planned, number: int, at_seconds: float) -> None:
        name = f"producer-{planned.name}-{number}"
        process = self.world.process(name, self._skew_ms())
        self.submitting += 1

        def body() -> None:
            try:
                self.world.clock.sleep(at_seconds)
                self._submit(name, planned)
            finally:
                self.submitting -= 1

        process.start(body)
        if self.random.random() < self.setting.kill / 2:
            process.kill_at_step = self.random.randint(1, 12)

    def _submit(self, process: str, planned: Planned) -> None:
        client, evidence = self.client(process), self.evidence
        payload: dict[str, Any] = {"name": planned.name, "filler": "f" * planned.size_bytes}
        if planned.ordered:
            payload["key"] = planned.key
        options = Options(
            idempotency_key=planned.idempotency_key,
            delay=planned.delay_seconds,
            deadline=planned.deadline_seconds,
        )
        while True:
            try:
                handle = client.submit(planned.task, payload, options=options)
            except ServiceError as error:
                evidence.tell("submit failed", planned.name, "", str(error))
                if planned.idempotency_key is None:
                    return
                self.world.clock.sleep(3)
            except (SubmitRefused, KeyConflict) as error:
                evidence.tell("submit refused", planned.name, error.task_id, str(error))
                return
            else:
                evidence.names[handle.id] = planned.name
                evidence.tell("submitted", planned.name, handle.id, "found" if handle.found else "")
                return

    def _canceller(self, planned: Planned, at_seconds: float) -> None:
        name = f"operator-{planned.name}"
        process = self.world.process(name, self._skew_ms())

        def body() -> None:
            self.world.clock.sleep(at_seconds)
            world = self.world
            sight = HandleWorld(
                Rows(world.store), world.payloads, world.clock_for(name), world.entropy, world.telemetry
            )
            for task_id in [i for i, n in self.evidence.names.items() if n == planned.name]:
                for _ in range(5):
                    with suppress(ServiceError):
                        try:
                            answer = Handle[Any](task_id, sight).cancel("planned")
                        except TaskNotFound:
                            break
                        self.evidence.tell("cancel", planned.name, task_id, answer.value)
                        break

        process.start(body)

    # ---- maintenance -------------------------------------------------------------------------------------------
    def start_reconcile(self, every_seconds: float = 60) -> None:
        """Reconcile each minute; a killed one is started again by the next tick, as a schedule does."""
        service = self.world.process("schedule")
        count = 0

        def once() -> None:
            process = f"reconcile-{count}"
            with suppress(ServiceError):
                Reconcile(self.parts(process)).run_once()

        def ticking() -> None:
            nonlocal count
            while True:
                self.world.clock.sleep(every_seconds)
                count += 1
                process = self.world.process(f"reconcile-{count}", self._skew_ms())
                if not self.calm and self.random.random() < self.setting.kill:
                    process.kill_at_step = self.random.randint(1, 60)
                process.start(once)

        service.start(ticking)

    # ---- workers -----------------------------------------------------------------------------------------------
    def start_workers(self) -> None:
        """Workers of the run's runtime."""
        if self.runtime == "lambda":
            for tier in self.topology.tiers():
                self._lambdas.append(self._mapping(tier.queue))
                self._lambdas[-1].start()
        else:
            for number in range(self.setting.workers):
                self._fargate(f"worker-{number}", 0)

    def _mapping(self, queue: str) -> LambdaPoller:
        tier, pool = self.topology.tier(queue), self.topology.pools[0]

        def build(process: Process | None) -> Any:
            assert process is not None
            process.skew_ms = self._skew_ms()
            parts = LambdaParts(
                engine=self.engine(process, pool.threads),
                sources={tier.name: Source(tier, self.world.queues(tier), self.world.dead(tier))},
                pool=pool,
                clock=self.world.clock_for(process.name),
                threads=self.world.threads,
                telemetry=self.world.telemetry,
                replace=self.die,
            )
            return LambdaRuntime(parts).handle

        return LambdaPoller(
            self.world,
            Mapping(
                queue=self.world.queues(tier),
                build=build,
                timeout_seconds=float(pool.longest_runtime_seconds),
                batch_size=pool.batch_size,
                concurrency=self.setting.workers,
                pollers=self.setting.workers + 1,
                name=f"fn-{queue}",
            ),
        )

    def _fargate(self, name: str, after_seconds: float) -> None:
        """A Fargate task: its process, and ECS that starts another once it has ended."""
        world, threads = self.world, self.topology.pools[0].threads
        process = world.process(name, self._skew_ms())
        self.workers[name] = process

        def connect(queue: str) -> Inbox:
            tier = self.topology.tier(queue)
            main = world.queues(tier)
            return Inbox(tier, main, world.dead(tier), DirectAck(main, world.telemetry))

        def body() -> None:
            world.clock.sleep(after_seconds)
            connects = [lambda queue=queue: connect(queue) for queue in ("work", "ledger")]
            parts = PollerParts(
                engine=self.engine(process, threads),
                connects=connects,
                clock=world.clock_for(name),
                entropy=world.entropy,
                threads=world.threads,
                telemetry=world.telemetry,
                worker_id=name,
                threads_count=threads,
            )
            made = self._poller[name] = Poller(parts)
            made.run()
            self.kill(process)

        process.start(body)

    def _alive(self) -> list[Process]:
        if self.runtime == "lambda":
            return [process for each in self._lambdas for process in each.processes]
        return [process for process in self.workers.values() if not process.dead]

    def start_chaos(self) -> None:
        """Kills, stalls and drains until calm; ECS's part, starting workers anew, goes on for ever."""
        service, setting = self.world.process("chaos"), self.setting

        def body() -> None:
            while True:
                self.world.clock.sleep(3 + self.random.random() * 4)
                for name in [n for n, p in self.workers.items() if p.dead]:
                    del self.workers[name]
                    self._fargate(f"{name.split('+')[0]}+{len(self.evidence.deaths)}", 10.0)
                if not self.calm:
                    for process in self._alive():
                        self._harm(process, setting)

        service.start(body)

    def _harm(self, process: Process, setting: Setting) -> None:
        drawn = self.random.random() * 12  # about twelve looks a minute
        if drawn < setting.kill:
            self.kill(process)
        elif drawn < setting.kill + setting.stall:
            self.evidence.stalls.append((self.world.scheduler.now_ms, process.name))
            process.stall(self.random.choice((5.0, 30.0, 45.0, 100.0, 300.0)))
        elif drawn < setting.kill + setting.stall + setting.drain and process.name in self._poller:
            self._poller[process.name].drain()

    # ---- the run -----------------------------------------------------------------------------------------------
    def run(self) -> Evidence:
        """Rough, then calm, until everything has ended or a virtual day has passed."""
        with coarse_ticks(), self.world:
            for planned in self.plan:
                for number, at_seconds in enumerate(planned.submit_at_seconds):
                    self._producer(planned, number, at_seconds)
                if planned.cancel_at_seconds is not None:
                    self._canceller(planned, planned.cancel_at_seconds)
            self.start_workers()
            self.start_reconcile()
            self.start_chaos()
            self.world.run(seconds=self.setting.rough_seconds, steps_max=STEPS_MAX)
            self.calm = True
            self.world.faults = Faults.none()
            self.world.run(until=self._over, seconds=CALM_SECONDS_MAX, steps_max=STEPS_MAX)
        return self.evidence

    def _over(self) -> bool:
        if self.evidence.open_rows or self.submitting:
            return False
        if any(self.world.queues(tier)._messages for tier in self.topology.tiers()):
            return False
        return all(row.letter_confirmed or row.state != "dead_lettered" for row in self.evidence.rows.values())


def _topology(runtime: str, random: Random) -> Topology:
    threads = random.choice((1, 1, 2, 4))
    pool = Pool(name="many", kind="fargate", threads=threads)
    if runtime == "lambda":
        pool = Pool(
            name="many",
            kind="lambda",
            longest_runtime_seconds=90,
            batch_size=random.choice((1, 5, 10)),
            threads=threads,
        )
    queues = (
        Queue(name="work", pool="many", receive_count_max=200),
        Queue(name="ledger", pool="many", ordered=True, receive_count_max=1000),
    )
    return Topology(app="sim", environment="test", queues=queues, pools=(pool,))
