"""Puts a poller together: one worker process of a Fargate container."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tenure.adapters.clients import Clients
from tenure.config import WorkerConfig
from tenure.core.topology import Tier
from tenure.wiring.worker import Worker, dead_of, queue_of, worker_of
from tenure.worker.acks import DirectAck
from tenure.worker.held import Inbox
from tenure.worker.liveness import LivenessFile, child_path
from tenure.worker.poller import Poller, PollerParts
from tenure.worker.protection import Protection


def poller_of(worker: Worker, liveness: Path | None = None) -> Poller:
    """A poller of the worker's pool. `liveness`: where it tells that it is alive."""
    parent = os.getppid()
    return Poller(
        PollerParts(
            engine=worker.engine,
            connects=[_connect(worker, tier) for tier in worker.tiers],
            clock=worker.clock,
            entropy=worker.entropy,
            threads=worker.threads,
            telemetry=worker.telemetry,
            worker_id=worker.worker_id,
            threads_count=worker.pool.threads,
            liveness=LivenessFile(liveness) if liveness else None,
            # Whoever kept this process running is gone: nobody would replace it, and nobody would stop it.
            abandoned=lambda: os.getppid() != parent,
            flush=worker.metrics.flush,
        )
    )


def _connect(worker: Worker, tier: Tier) -> Callable[[], Inbox]:
    """How a tier's inbox is built. The first is on the worker's own clients; each later one, asked for after failures,
    on new ones, with new connections and freshly read credentials. What was built before is closed and let go: each is
    some 8 MB, and expired credentials ask for one at every poll."""
    latest: Clients | None = None

    def connect() -> Inbox:
        nonlocal latest
        clients = worker.new_clients() if latest else worker.clients
        if latest and latest is not worker.clients:  # the worker's own serve its rows, letters and heartbeats
            latest.close()
        latest = clients
        queue = queue_of(worker, tier, clients)
        return Inbox(tier, queue, dead_of(worker, tier), DirectAck(queue, worker.telemetry))

    return connect


def run_child(config: WorkerConfig, index: int) -> int:
    """The index-th poller process of a container, until a signal drains it. Its exit code. Raises as worker_of does."""
    worker = worker_of(config, whole_process=True)
    poller = poller_of(worker, child_path(Path(config.liveness_file), index))
    _drain_on_signals(poller)
    protection = _protection(config, worker)
    try:
        return poller.run()
    finally:
        if protection:
            protection.stop()


def _drain_on_signals(poller: Poller) -> None:
    """SIGTERM and SIGINT drain this process. In one that a handler forks they do what they do by default: it has no
    main thread that acts on a drain, so multiprocessing's `terminate()` would do nothing there."""
    defaults: dict[signal.Signals, Any] = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}

    def drain(*_: object) -> None:
        poller.drain()

    def give_back() -> None:
        for number, default in defaults.items():
            if signal.getsignal(number) is drain:
                signal.signal(number, default)

    for number in defaults:
        signal.signal(number, drain)
    os.register_at_fork(after_in_child=give_back)


def _protection(config: WorkerConfig, worker: Worker) -> Protection | None:
    if not config.agent_uri:
        return None
    engine = worker.engine
    protection = Protection(
        config.agent_uri, lambda: engine.running > 0, worker.clock, worker.threads, worker.telemetry
    )
    protection.start()
    return protection
