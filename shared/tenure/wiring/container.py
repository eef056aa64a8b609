"""A Fargate container's first process. It imports no SDK: it lives beside its pollers and shares their memory."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tenure.adapters.clock import SystemClock, SystemThreads
from tenure.config import WorkerConfig
from tenure.core.errors import UsageError
from tenure.telemetry import LogTelemetry, json_lines
from tenure.worker import logs
from tenure.worker.emf import EmfMetrics
from tenure.worker.supervisor import Supervisor, SupervisorParts


def run_container(config: WorkerConfig, program: Sequence[str]) -> int:
    """Keep the pool's number of pollers running until a signal drains them. The container's exit code.

    program: the command line of a poller, without its index. Raises UsageError where TENURE_TOPOLOGY does not tell of
    the pool.
    """
    topology = config.topology
    if topology is None:
        raise UsageError("the variable TENURE_TOPOLOGY is not set: a container is told its topology by its deployment.")
    liveness = Path(config.liveness_file)
    for stale in liveness.parent.glob(liveness.name + ".*"):
        stale.unlink()
    service = f"{topology.app}-{topology.environment}"
    logs.set_up(config.log_level, service, whole_process=True)
    metrics = EmfMetrics(service, {}, SystemThreads())
    supervisor = Supervisor(
        SupervisorParts(
            command=lambda index: [*program, str(index)],
            count=topology.pool(config.pool).processes,
            clock=SystemClock(),
            telemetry=LogTelemetry(
                json_lines(),
                metrics,
                lambda *_: metrics.flush(),  # crashes are few, and each must be counted even if the next is our own
                context={"app": topology.app, "environment": topology.environment, "pool": config.pool},
            ),
        )
    )
    supervisor.install()
    return supervisor.run()


def end_process(code: int) -> None:
    """End at once: threads that do not return, a handler's own ones too, must not keep a drained process."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
