"""Puts a worker together, for either runtime: the App, the SDK's clients, the adapters, and the engine over them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock, SystemEntropy, SystemThreads
from tenure.adapters.dynamodb import DynamoStore
from tenure.adapters.payloads import Payloads
from tenure.adapters.sqs import SqsQueue
from tenure.config import WorkerConfig, patience_seconds
from tenure.core.errors import InvalidTopology
from tenure.core.topology import Pool, Tier, Topology
from tenure.keys import Keys
from tenure.maintenance.pause import Pauses
from tenure.ports import TaskStore
from tenure.rows import Rows
from tenure.telemetry import LogTelemetry, json_lines
from tenure.wiring.apps import load_app
from tenure.wiring.producer import client_of, read_published
from tenure.worker import logs
from tenure.worker.emf import EmfMetrics
from tenure.worker.engine import Engine
from tenure.worker.settling import EngineParts


@dataclass(frozen=True)
class Worker:
    """What both runtimes are built around."""

    config: WorkerConfig
    topology: Topology
    pool: Pool
    clients: Clients
    new_clients: Callable[[], Clients]
    """Makes others like them, with new connections and freshly read credentials."""
    clock: SystemClock
    threads: SystemThreads
    entropy: SystemEntropy
    telemetry: LogTelemetry
    metrics: EmfMetrics
    engine: Engine
    worker_id: str

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """The deployed SQS queues of this worker's pool, in order of preference. Raises InvalidTopology for none."""
        tiers = tuple(tier for tier in self.topology.tiers(self.pool.name) if tier.url)
        if not tiers:
            raise InvalidTopology(
                f"pool {self.pool.name!r} of environment {self.topology.environment!r} has no deployed queue to serve. "
                "Give it one in the environment file, and deploy."
            )
        return tiers


def own_clients() -> Clients:
    """The clients that the SDK's own configuration leads to."""
    return Clients(SystemClock().now_ms, patience_seconds=patience_seconds())


def worker_of(
    config: WorkerConfig, *, new_clients: Callable[[], Clients] = own_clients, whole_process: bool = False
) -> Worker:
    """A worker as its configuration tells.

    new_clients: makes other SDK clients than those that the SDK's own configuration leads to.
    whole_process: this process is the worker's alone (Fargate), so that all of its logging is set up here.

    Raises UsageError if the App cannot be imported, InvalidTopology or InvalidTask if it does not fit its queues.
    """
    at, app = new_clients(), load_app(config.app)
    topology = config.topology or read_published(app.name, config.environment, at.ssm)[0]
    service = f"{topology.app}-{topology.environment}"
    logs.set_up(config.log_level, service, whole_process=whole_process)
    clock, threads, entropy = SystemClock(at.server_time.offset_ms), SystemThreads(), SystemEntropy()
    metrics = EmfMetrics(service, {tier.name: tier.queue for tier in topology.tiers()}, threads)
    telemetry = LogTelemetry(
        json_lines(),
        metrics,
        context={"app": topology.app, "environment": topology.environment, "pool": config.pool},
    )
    pool = topology.pool(config.pool)
    worker_id = f"{pool.name}/{config.instance or 'local'}/{os.getpid()}"
    store = DynamoStore(at.dynamodb, topology.table_name, clock)
    tasks = {name: definition.facts() for name, definition in app.tasks.items()}
    app.connect(client=client_of(topology, at, tasks, clock=clock, telemetry=telemetry))
    parts = EngineParts(
        app=app,
        rows=Rows(store),
        payloads=_payloads(store, topology, at),
        clock=clock,
        entropy=entropy,
        threads=threads,
        telemetry=telemetry,
        worker_id=worker_id,
        pool=pool.name,
        max_running=pool.threads,
        keys=Keys.of(topology, store, clock, entropy),
    )
    engine = Engine(parts, paused=Pauses(store, clock).paused)
    return Worker(
        config=config,
        topology=topology,
        pool=pool,
        clients=at,
        new_clients=new_clients,
        clock=clock,
        threads=threads,
        entropy=entropy,
        telemetry=telemetry,
        metrics=metrics,
        engine=engine,
        worker_id=worker_id,
    )


def _payloads(store: TaskStore, topology: Topology, clients: Clients) -> Payloads:
    return Payloads(store, clients.s3 if topology.bucket_name else None, topology.bucket_name)


def queue_of(worker: Worker, tier: Tier, clients: Clients | None = None) -> SqsQueue:
    """A tier's own queue; through `clients` where others than the worker's own are to be tried."""
    at = clients or worker.clients
    return SqsQueue(at.sqs, tier.url, tier.name, tier.ordered, worker.clock, polls=at.sqs_polls)


def dead_of(worker: Worker, tier: Tier) -> SqsQueue:
    """A tier's DLQ."""
    return SqsQueue(worker.clients.sqs, tier.dead_url, tier.dead_name, tier.ordered, worker.clock)


def lambda_handler(
    config: WorkerConfig, *, new_clients: Callable[[], Clients] = own_clients
) -> Callable[[Any, Any], Any]:
    """The handler of a Lambda function that serves the configured pool. Raises what worker_of does."""
    from tenure.worker.lambda_runtime import LambdaParts, LambdaRuntime, Source

    worker = worker_of(config, new_clients=new_clients)
    # A queue's name as records bear it: the end of its ARN is the end of its URL, whatever it was deployed as.
    sources = {
        tier.url.rpartition("/")[2]: Source(tier, queue_of(worker, tier), dead_of(worker, tier))
        for tier in worker.tiers
    }
    runtime = LambdaRuntime(
        LambdaParts(
            engine=worker.engine,
            sources=sources,
            pool=worker.pool,
            clock=worker.clock,
            threads=worker.threads,
            telemetry=worker.telemetry,
            replace=lambda: os._exit(1),
            flush=worker.metrics.flush,
        )
    )
    return runtime.handle
