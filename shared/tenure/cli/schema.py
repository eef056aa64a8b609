"""`tenure schema`: what each task takes and gives, as JSON Schema, for producers that import no task code."""

from __future__ import annotations

from typing import Any

import click

from tenure.cli import render
from tenure.cli.errors import NOTHING
from tenure.cli.options import with_session
from tenure.cli.session import Session
from tenure.core.declaration import TaskDefinition
from tenure.core.durations import text_of


@click.command()
@click.argument("names", metavar="[TASK]...", nargs=-1)
@with_session
def schema(session: Session, names: tuple[str, ...]) -> None:
    """Show the app's tasks and their JSON Schemas.

    Needs the app's code, and no AWS.
    """
    app = session.load_app()
    missing = [name for name in names if name not in app.tasks]
    if missing:
        session.complain(f"no task is called {missing[0]!r}. Tasks: {', '.join(app.tasks) or 'none'}.")
        raise click.exceptions.Exit(NOTHING)
    picked = [app.tasks[name] for name in names or app.tasks]
    if session.wants_json or names:
        render.as_json({"app": app.name, "tasks": {task.name: _schema(task) for task in picked}})
        return
    made = render.table(
        "TASK", "QUEUE", "TIMEOUT", "LEASE", "ATTEMPTS", "ARGUMENTS", right=("ATTEMPTS",), stretch="ARGUMENTS"
    )
    for task in picked:
        arguments = str(task.codec.signature.replace(return_annotation=task.codec.signature.empty))[1:-1]
        timeout, lease = text_of(task.timeout_seconds), text_of(task.lease_seconds)
        made.add_row(task.name, task.queue, timeout, lease, str(task.retry.max_attempts), arguments)
    session.console.print(made)
    session.note("`tenure schema TASK` or -o json prints the JSON Schemas.")


def _schema(task: TaskDefinition) -> dict[str, Any]:
    return {
        "queue": task.queue,
        "version": task.version,
        "ordered_by": task.ordered_by,
        "max_attempts": task.retry.max_attempts,
        "timeout_seconds": task.timeout_seconds,
        "lease_seconds": task.lease_seconds,
        "payload": task.codec.payload_schema(),
        "result": task.codec.result_schema(),
    }
