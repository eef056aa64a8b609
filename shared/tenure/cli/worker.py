"""`tenure worker`: a worker process in this terminal, as a Fargate container would run it."""

from __future__ import annotations

import signal
from typing import Any

import click

from tenure.cli import render
from tenure.cli.options import with_session
from tenure.cli.session import Session
from tenure.config import WorkerConfig
from tenure.core.errors import UsageError
from tenure.core.topology import Topology

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@click.command()
@click.option("--pool", help="The pool whose queues to serve. [default: the only Fargate pool]")
@click.option(
    "--log-level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]), default="INFO", show_default=True
)
@with_session
def worker(session: Session, pool: str | None, log_level: str) -> None:
    """Run a worker: poll a pool's queues and run their tasks.

    Beside whatever serves the pool already, on AWS or in `tenure dev`; of a Lambda pool too. Events are written as JSON
    lines. The first Ctrl-C lets running tasks end and gives the rest back; the second hurries them.
    """
    from tenure.cli.connect import clients_for, reaching
    from tenure.wiring.poller import poller_of
    from tenure.wiring.producer import read_published
    from tenure.wiring.worker import worker_of

    own = session.file is not None and not session.names_app
    app = session.fitting_app(session.project().topology) if own else session.load_app()
    with reaching(session):
        clients, where = clients_for(session)
        topology, _ = read_published(app.name, session.environment, clients.ssm)
    chosen = pool_of(topology, pool)
    config = WorkerConfig.model_validate(
        {
            "environment": session.environment,
            "app": session.app_path,
            "pool": chosen,
            "topology": topology,
            "log_level": log_level,
        }
    )
    made = worker_of(config, new_clients=lambda: clients_for(session)[0], whole_process=True)
    poller = poller_of(made)
    queues = ", ".join(tier.name for tier in made.tiers)
    session.note(f"Worker {made.worker_id} serves {queues} of {where}. Ctrl-C drains.")

    def drain(*_: Any) -> None:
        poller.drain()

    with render.Restored({signal.SIGINT: drain, signal.SIGTERM: drain}):
        code = poller.run()
    made.metrics.flush()
    raise click.exceptions.Exit(code)


def pool_of(topology: Topology, asked: str | None) -> str:
    """The pool to serve. Raises UsageError where it is not clear, InvalidTopology where it does not exist."""
    if asked is not None:
        return topology.pool(asked).name
    names = [each.name for each in topology.pools if each.kind == "fargate"]
    if len(names) == 1:
        return names[0]
    known = ", ".join(f"{each.name} ({each.kind})" for each in topology.pools)
    raise UsageError(f"which pool is this worker of? Say --pool. Pools: {known}.")
