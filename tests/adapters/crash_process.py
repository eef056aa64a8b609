"""Everything that tenure puts together, over one wire: what a producer, a worker and a maintenance function do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tenure.adapters.clock import SystemEntropy, SystemThreads
from tenure.adapters.dynamodb import DynamoStore
from tenure.adapters.payloads import Payloads
from tenure.adapters.sqs import SqsQueue
from tenure.application import App
from tenure.core.errors import ServiceError
from tenure.core.retry import Retry
from tenure.handle import Handle
from tenure.maintenance.pause import Pauses
from tenure.rows import Rows
from tenure.wiring.maintenance import dead_queues_of, parts_of
from tenure.wiring.producer import client_of
from tenure.worker.acks import DirectAck
from tenure.worker.context import context
from tenure.worker.engine import Engine
from tenure.worker.held import Inbox, Unit
from tenure.worker.settling import EngineParts
from tests.adapters.wire import Crash, Wire

if TYPE_CHECKING:
    from tests.adapters.crash_stage import Stage


class Process:
    """A producer, a worker and a maintenance function in one: everything that tenure puts together over one wire."""

    def __init__(self, stage: Stage, wire: Wire, name: str) -> None:
        self.stage, self.wire, self.clock = stage, wire, stage.clock
        topology, clients = stage.topology, wire.clients
        # One write after the other: so the n-th request is the same one each time.
        self._store = DynamoStore(clients.dynamodb, topology.table_name, self.clock, workers=1)
        payloads = Payloads(self._store, clients.s3, topology.bucket_name)
        told: dict[str, Any] = {"clock": self.clock, "telemetry": stage.told}
        rows = Rows(self._store)
        client = replace(client_of(topology, clients, {}, **told), rows=rows, payloads=payloads)
        self.parts = replace(parts_of(topology, clients, **told), store=self._store, payloads=payloads)
        self._tasks: dict[str, Any] = {}
        self.app = self._declare()
        self.app.connect(client=client)
        self.engine = Engine(
            EngineParts(
                app=self.app,
                rows=rows,
                payloads=payloads,
                clock=self.clock,
                entropy=SystemEntropy(),
                threads=SystemThreads(),
                telemetry=stage.told,
                worker_id=name,
                pool="many",
                max_running=2,
            ),
            paused=Pauses(self._store, self.clock).paused,
        )

    def end(self) -> None:
        """Nothing of it runs after this."""
        self.engine.close()
        self._store.close()

    # ---- the app ---------------------------------------------------------------------------------------------------
    def _declare(self) -> App:
        app, retry = App("crash"), Retry(max_attempts=6, base=5, cap=60)
        common: dict[str, Any] = {"lease": "60s", "timeout": "300s"}

        def work(name: str, key: str, pad: str) -> object:
            return self._handle(name)

        if self.stage.ordered:
            self._tasks["post"] = app.task(queue="ledger", name="post", ordered_by="key", retry=retry, **common)(work)
        else:
            once = replace(retry, max_attempts=1)
            self._tasks["work"] = app.task(queue="work", name="work", retry=retry, **common)(work)
            self._tasks["once"] = app.task(queue="work", name="once", retry=once, **common)(work)
        return app

    def _handle(self, name: str) -> object:
        self.stage.started(context())
        result = self.stage.plan[name].act(self)
        if self.wire.cut:
            raise Crash  # whatever its handler made of the first one: a dead process has no effects
        self.stage.effects.append(name)
        return result

    # ---- what it does ----------------------------------------------------------------------------------------------
    def submit(self, *names: str) -> list[Handle[Any]]:
        """Submit planned tasks one by one, all if none is named."""
        return [self._submitted(name) for name in names or self.stage.plan]

    def _submitted(self, name: str) -> Handle[Any]:
        handle: Handle[Any] = self._task(name).submit(*self._arguments(name))
        self.stage.names[handle.id] = name
        return handle

    def submit_many(self) -> None:
        """Submit all planned tasks in one call."""
        report = self.app.producer.submit_many(
            self._task(name).bind(*self._arguments(name)) for name in self.stage.plan
        )
        self.stage.names |= {handle.id: name for handle, name in zip(report.handles(), self.stage.plan, strict=True)}

    def _task(self, name: str) -> Any:
        planned = self.stage.plan[name]
        return self._tasks[planned.task].options(**planned.options)

    def _arguments(self, name: str) -> tuple[str, str, str]:
        return name, "k", "x" * self.stage.plan[name].pad

    def inbox(self) -> Inbox:
        """The stage's queue."""
        tier, clients = self.stage.tier, self.wire.clients
        queue = SqsQueue(clients.sqs, tier.url, tier.name, tier.ordered, self.clock, polls=clients.sqs_polls)
        dead = dead_queues_of(clients, self.clock)(tier)
        return Inbox(tier, queue, dead, DirectAck(queue, self.stage.told))

    def work(self) -> bool:
        """Receive, admit, run and settle, once; whether anything came."""
        units = self._received()
        for unit in units or ():
            self.engine.run(unit)
        return units is not None

    def release(self) -> None:
        """Receive and admit, and then not run it."""
        for unit in self._received() or ():
            self.engine.release(unit)

    def _received(self) -> list[Unit] | None:
        """What was received and let in; None if nothing came, or no answer: others receive it when it is back."""
        inbox = self.inbox()
        try:
            deliveries = inbox.queue.receive(10, 0)
        except ServiceError:
            return None
        return self.engine.admit(inbox, deliveries) if deliveries else None

    def beat(self) -> None:
        """A heartbeat is due and made."""
        self.clock.sleep(25)
        self.engine.holder.tick()

    def cancel(self) -> None:
        """Cancel the only task."""
        (task_id,) = self.stage.names
        self.app.producer.handle(task_id).cancel("not needed")
