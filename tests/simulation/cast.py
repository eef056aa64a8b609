"""Who takes part in a simulated run, built of the real parts: clients, workers of both runtimes, maintenance."""

from __future__ import annotations

from collections.abc import Mapping as PyMapping
from functools import partial
from typing import Any

from tenure.adapters.memory import World
from tenure.adapters.memory.lambda_poller import LambdaPoller, Mapping
from tenure.adapters.memory.process import Process
from tenure.client import Client
from tenure.core.topology import Tier, Topology
from tenure.keys import Keys
from tenure.maintenance.parts import Parts
from tenure.maintenance.pause import Pauses
from tenure.rows import Rows
from tenure.worker.acks import DirectAck
from tenure.worker.engine import Engine
from tenure.worker.held import Inbox
from tenure.worker.lambda_runtime import LambdaParts, LambdaRuntime, Source
from tenure.worker.poller import STOP_SECONDS, Poller, PollerParts
from tenure.worker.settling import EngineParts
from tests.simulation.evidence import Evidence
from tests.simulation.handlers import Handlers
from tests.simulation.workload import Planned


class Cast:
    """Builds participants; each sees the world through its own process's clock."""

    def __init__(self, world: World, topology: Topology, evidence: Evidence, plan: PyMapping[str, Planned]) -> None:
        self.world = world
        self.topology = topology
        self.evidence = evidence
        self.stop_seconds = STOP_SECONDS
        """What running handlers get when a Fargate worker is told to stop."""
        self.app = Handlers(plan, evidence, self.die).app

    def kill(self, process: Process) -> None:
        """End a process, and remember it."""
        if not process.dead:
            self.evidence.deaths.append((self.world.scheduler.now_ms, process.name))
            process.kill()

    def die(self) -> None:
        """End the process that calls, as a segfault does. Does not return."""
        thread = self.world.scheduler.current()
        assert thread is not None, "a plan that kills needs a simulation"
        self.kill(thread.process)
        self.world.scheduler.step("dying")

    # ---- producers and maintenance -----------------------------------------------------------------------------
    def client(self, process: str) -> Client:
        """A producer's client."""
        world = self.world
        return Client(
            app_name=self.app.name,
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

    # ---- workers -----------------------------------------------------------------------------------------------
    def engine(self, process: Process) -> Engine:
        """A worker's engine."""
        world = self.world
        parts = EngineParts(
            app=self.app,
            rows=Rows(world.store),
            payloads=world.payloads,
            clock=world.clock_for(process.name),
            entropy=world.entropy,
            threads=world.threads,
            telemetry=world.telemetry,
            worker_id=process.name,
            pool=self.topology.pools[0].name,
            max_running=self.topology.pools[0].threads,
            loops=world.loops,
            keys=Keys.of(self.topology, world.store, world.clock_for(process.name), world.entropy),
        )
        return Engine(parts, Pauses(world.store, parts.clock).paused)

    def poller(self, process: Process) -> Poller:
        """A Fargate worker that serves every queue."""
        world = self.world

        def connect(tier: Tier) -> Inbox:
            main = world.queues(tier)
            return Inbox(tier, main, world.dead(tier), DirectAck(main, world.telemetry))

        parts = PollerParts(
            engine=self.engine(process),
            connects=[partial(connect, tier) for tier in self.topology.tiers()],
            clock=world.clock_for(process.name),
            entropy=world.entropy,
            threads=world.threads,
            telemetry=world.telemetry,
            worker_id=process.name,
            threads_count=self.topology.pools[0].threads,
            stop_seconds=self.stop_seconds,
        )
        return Poller(parts)

    def mapping(self, tier: Tier, *, concurrency: int, skew_ms: Any = lambda: 0) -> LambdaPoller:
        """A Lambda function on one tier, and the mapping that invokes it."""
        world, pool = self.world, self.topology.pools[0]

        def build(process: Process | None) -> Any:
            assert process is not None
            process.skew_ms = skew_ms()
            parts = LambdaParts(
                engine=self.engine(process),
                sources={tier.name: Source(tier, world.queues(tier), world.dead(tier))},
                pool=pool,
                clock=world.clock_for(process.name),
                threads=world.threads,
                telemetry=world.telemetry,
                replace=self.die,
            )
            return LambdaRuntime(parts).handle

        mapping = Mapping(
            queue=world.queues(tier),
            build=build,
            timeout_seconds=float(pool.longest_runtime_seconds),
            batch_size=pool.batch_size,
            concurrency=concurrency,
            pollers=concurrency + 1,
            name=f"fn-{tier.queue}-{tier.tier}",
        )
        return LambdaPoller(world, mapping)
