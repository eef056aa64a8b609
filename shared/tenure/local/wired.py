"""What the embedded stack runs, told apart from how it runs it: the workers' programs and the maintenance duties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tenure.adapters.clients import Clients
from tenure.core.topology import Pool, Topology
from tenure.maintenance.ingest import Ingest
from tenure.maintenance.reconcile import Reconcile
from tenure.maintenance.replay import Replays
from tenure.ports import Clock, Telemetry
from tenure.running import WORKER_PATIENCE_SECONDS
from tenure.wiring.apps import load_app
from tenure.wiring.maintenance import parts_of, validator_of

LAMBDA_HANDLER = "tenure.local.lambda_handler:handler"
POLLER_MODULE = "tenure.local.poller_process"

REPLAY_SECONDS = 5
"""How long replays go on before the other duties have their turn: here all duties share one thread."""

Duty = tuple[str, Callable[[], object]]
"""(name, one run)."""


def worker_variables(topology: Topology, pool: Pool, app: str, folder: Path) -> Mapping[str, str]:
    """What a worker of this pool is told by its environment, as a deployment would. folder: for its sign of life."""
    function = f"{topology.app}-{topology.environment}-{pool.name}"
    return {
        "TENURE_ENVIRONMENT": topology.environment,
        "TENURE_APP": app,
        "TENURE_POOL": pool.name,
        # The whole of it: on AWS a worker gets its own queues and those that it may submit to.
        "TENURE_TOPOLOGY": topology.model_dump_json(),
        "TENURE_PATIENCE_SECONDS": str(WORKER_PATIENCE_SECONDS),
        "TENURE_LIVENESS_FILE": str(folder / f"{pool.name}.alive"),
    } | ({"AWS_LAMBDA_FUNCTION_NAME": function} if pool.kind == "lambda" else {})


def duties(topology: Topology, clients: Clients, clock: Clock, telemetry: Telemetry, app: str) -> list[Duty]:
    """The duties that AWS's scheduler would call each minute, in the order in which they are of use to each other."""
    parts = parts_of(topology, clients, clock=clock, telemetry=telemetry)

    def validate(task: str, payload: str) -> str:
        return validator_of(load_app(app))(task, payload)

    replays = Replays(parts, validate)
    return [
        ("reconcile", Reconcile(parts).run_once),
        ("ingest", Ingest(parts).run_once),
        ("replay", lambda: replays.run_all(clock.now_ms() + REPLAY_SECONDS * 1000)),
    ]
