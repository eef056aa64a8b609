"""Puts the maintenance duties together, for functions and for the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tenure import config
from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock, SystemEntropy, SystemThreads
from tenure.adapters.dynamodb import DynamoStore
from tenure.adapters.payloads import Payloads
from tenure.adapters.sqs import SqsQueue
from tenure.application import App
from tenure.core.errors import InvalidPayload
from tenure.core.topology import Tier, Topology
from tenure.maintenance.ingest import Ingest
from tenure.maintenance.parts import Parts
from tenure.maintenance.reconcile import Reconcile
from tenure.maintenance.replay import Replays, Validate
from tenure.maintenance.replay_events import answer
from tenure.ports import Clock, TaskQueue, Telemetry
from tenure.telemetry import LogTelemetry, json_lines
from tenure.wiring.apps import load_app
from tenure.wiring.producer import queues_of, read_published
from tenure.worker import logs
from tenure.worker.emf import EmfMetrics

CHUNK_SECONDS = 10
"""Kept back of reconcile's time: longer than one chunk of rows takes to write and send."""
MARGIN_SECONDS = 30
"""Kept back of a function's time: longer than the slowest pace waits between two batches, and a chunk's writes."""


class LambdaContext(Protocol):
    """What the handlers need of Lambda's context."""

    def get_remaining_time_in_millis(self) -> int:
        """How long this invocation may still run."""
        ...


def parts_of(
    topology: Topology, clients: Clients, *, clock: Clock | None = None, telemetry: Telemetry | None = None
) -> Parts:
    """The parts of every duty on AWS (or an emulator of it), for a topology as deployed."""
    time = clock or SystemClock(clients.server_time.offset_ms)
    store = DynamoStore(clients.dynamodb, topology.table_name, time)
    bucket = topology.bucket_name
    return Parts(
        store=store,
        main=queues_of(clients, time),
        dead=dead_queues_of(clients, time),
        payloads=Payloads(store, clients.s3 if bucket else None, bucket),
        clock=time,
        entropy=SystemEntropy(),
        telemetry=telemetry or LogTelemetry(context={"app": topology.app, "environment": topology.environment}),
        topology=topology,
    )


def dead_queues_of(clients: Clients, clock: Clock) -> Callable[[Tier], TaskQueue]:
    """How a tier's DLQ is reached."""

    def queue(tier: Tier) -> TaskQueue:
        return SqsQueue(clients.sqs, tier.dead_url, tier.dead_name, tier.ordered, clock)

    return queue


def validator_of(app: App) -> Validate:
    """Checks an edited payload against the task as it is declared, and gives its canonical text."""

    def validate(task: str, payload: str) -> str:
        definition = app.tasks.get(task)
        if definition is None:
            known = ", ".join(sorted(app.tasks)) or "none"
            raise InvalidPayload(
                f"no task {task!r} is declared on app {app.name!r}, so its payload cannot be checked. "
                f"Declared: {known}."
            )
        return definition.encode(*definition.decode(payload))

    return validate


@dataclass(frozen=True, slots=True)
class Duties:
    """The duties as functions run them: made once for a process, used by each invocation."""

    parts: Parts
    metrics: EmfMetrics
    app: str
    """module:attribute of the App; imported only to check an edited payload."""

    @classmethod
    def from_environment(cls) -> Duties:
        """As TENURE_… tells. Raises UsageError, InvalidTopology and ServiceError."""
        chosen = config.maintenance_config()
        clients = Clients(SystemClock().now_ms)
        topology = chosen.topology
        if topology is None:
            topology, _ = read_published(load_app(chosen.app).name, chosen.environment, clients.ssm)
        service = f"{topology.app}-{topology.environment}"
        logs.set_up(chosen.log_level, service)
        metrics = EmfMetrics(service, {tier.name: tier.queue for tier in topology.tiers()}, SystemThreads())
        context = {"app": topology.app, "environment": topology.environment}
        telemetry = LogTelemetry(json_lines(), metrics, context=context)
        return cls(parts_of(topology, clients, telemetry=telemetry), metrics, chosen.app)

    def reconcile(self, context: LambdaContext) -> dict[str, Any]:
        """One run of reconcile. Raises ServiceError."""
        stop = self._stop_at_ms(context, CHUNK_SECONDS)
        return self._counted(lambda: Reconcile(self.parts).run_once(stop).as_dict())

    def ingest(self, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        """One run of ingest; {"force": true} reads every DLQ. Raises ServiceError."""
        stop, force = self._stop_at_ms(context, MARGIN_SECONDS), event.get("force") is True
        return self._counted(lambda: Ingest(self.parts).run_once(force=force, stop_at_ms=stop).as_dict())

    def replay(self, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        """What the event asks of replays. Raises as maintenance/replay_events.py says."""

        def validate(task: str, payload: str) -> str:
            return validator_of(load_app(self.app))(task, payload)

        stop = self._stop_at_ms(context, MARGIN_SECONDS)
        return self._counted(lambda: answer(Replays(self.parts, validate), event, stop))

    def _counted(self, duty: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return duty()
        finally:
            self.metrics.flush()

    def _stop_at_ms(self, context: LambdaContext, margin_seconds: int) -> int:
        return self.parts.clock.now_ms() + context.get_remaining_time_in_millis() - margin_seconds * 1000
