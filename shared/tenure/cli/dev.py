"""`tenure dev`: the embedded stack, its workers and what they do, in one terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from tenure import running
from tenure.adapters.clock import SystemClock
from tenure.cli.edits import Edits
from tenure.cli.options import with_session
from tenure.cli.session import Session
from tenure.cli.watch import Watch
from tenure.core.errors import UsageError

if TYPE_CHECKING:
    from tenure.local.stack import EmbeddedStack


@click.command()
@click.option("--port", type=int, default=0, help="Port of the emulated AWS. [default: a free one]")
@click.option("--plain", is_flag=True, help="A line for each event instead of a screen; always so without a terminal.")
@with_session
def dev(session: Session, port: int, plain: bool) -> None:
    """Run everything on this machine: queues, workers, emulated AWS.

    Needs no docker, no AWS account and no network. Commands in another terminal, in the same directory and with the
    same --env, find it by themselves. Ctrl-C lets running tasks end, then stops; everything it held is forgotten.
    Workers run the code that they loaded: after an edit, start it again.
    """
    environment = session.project()
    other = session.running()
    if other is not None:
        raise UsageError(
            f"an embedded stack of environment {other.environment!r} runs here already, as process {other.pid}, at "
            f"{other.endpoint_url}. Stop it first, or start this one with another --env."
        )
    app = session.fitting_app(environment.topology)
    edits = Edits.of_project(session.directory, [session.file_path])
    from tenure.local.stack import EmbeddedStack, StackOptions  # moto is slow to load: not before all else is right

    logs = running.folder(session.directory) / "logs"
    options = StackOptions(session.directory, logs, keeps_logs=False, port=port)
    tasks = [task.facts() for task in app.tasks.values()]
    stack = EmbeddedStack(environment.topology, session.app_path, options, tasks=tasks)
    session.note(f"Starting {environment.topology.app} · {environment.name} …")
    watch = Watch(session, stack, SystemClock(), edits)
    with watch.signals():
        try:
            stack.start()
            note = running.leave(session.directory, _running(stack))
            try:
                watch.run(plain=plain or session.wants_json or not session.console.is_terminal)
            finally:
                note.unlink(missing_ok=True)
        finally:
            stack.stop(0.0)
    session.note("Stopped.")


def _running(stack: EmbeddedStack) -> running.Running:
    topology = stack.topology
    return running.Running(stack.emulator.url, os.getpid(), topology.app, topology.environment)
