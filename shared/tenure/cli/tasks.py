"""`tenure submit`, `wait`, `cancel`: what a producer does, from a shell."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from tenure.cli import render
from tenure.cli.errors import DONE, FAILED, PARTLY
from tenure.cli.look import get_row, text_at
from tenure.cli.options import with_session
from tenure.cli.queues import paused_text
from tenure.cli.session import Reach, Session
from tenure.cli.upkeep import reason_option
from tenure.core.envelope import canonical, parse
from tenure.core.errors import InvalidPayload, NotFinished, TaskFailed
from tenure.core.submission import Options
from tenure.core.task import Row, State
from tenure.handle import Cancellation, Handle


@click.command()
@click.argument("name")
@click.argument("payload", metavar="[JSON]", default="{}")
@click.option("--tenant", default="", help="On whose behalf; tenants share a queue fairly.")
@click.option("--priority", type=click.Choice(["high", "normal", "low"]), default="normal", show_default=True)
@click.option("--delay", metavar="DURATION", default="0s", help="Not to be run before, for example 20m.")
@click.option("--deadline", metavar="DURATION", help="Not to be started after so much time.")
@click.option("--key", "idempotency_key", help="Idempotency key: the same key finds the same task.")
@click.option("--queue", help="Its queue; needed only for a task of which nothing is published.")
@click.option("--wait", "waits", is_flag=True, help="Wait for the end, and print the result.")
@click.option("--timeout", metavar="DURATION", default="60s", show_default=True, help="How long --wait waits.")
@with_session
def submit(
    session: Session, name: str, payload: str, queue: str | None, waits: bool, timeout: str, **options: Any
) -> None:
    """Submit a task by NAME.

    JSON is an object of its arguments, checked against the task's types.

    \b
      tenure submit greet '{"name": "Ada"}' --tenant r7 --wait
      cat payload.json | tenure submit greet -
    """
    arguments = read_payload(payload)
    reach = session.reach()
    handle = reach.client.submit(name, checked(session, name, arguments), options=Options(**options), queue=queue)
    if waits:
        session.note(f"submitted {handle.id}")
        finish(session, reach, [handle], timeout)
    elif session.wants_json:
        render.as_json({"id": handle.id, "found": handle.found})
    else:
        click.echo(handle.id)
        if handle.found:
            session.note("This key already stood for this task; nothing new was submitted.")


def read_payload(text: str) -> dict[str, Any]:
    """The arguments in a JSON object, or on standard input for "-". Raises InvalidPayload."""
    if text == "-":
        text = sys.stdin.read()
    try:
        value = parse(text)
    except (ValueError, RecursionError) as error:
        raise InvalidPayload(
            f"the payload is not JSON: {error}. Write an object of the task's arguments, in single quotes for the "
            'shell: \'{"name": "Ada"}\'.'
        ) from None
    if not isinstance(value, dict):
        raise InvalidPayload(
            f"the payload is a JSON {type(value).__name__}; it must be an object of the task's arguments by name."
        )
    return value


def checked(session: Session, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, checked against the task's types where its code is at hand; else the worker is the first to see
    whether they fit. Raises InvalidPayload."""
    if session.file is None and not session.has_app_path:
        return arguments
    task = session.load_app().tasks.get(name)
    if task is not None:
        task.decode(canonical(arguments))
    return arguments


@click.command()
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--timeout", metavar="DURATION", default="60s", show_default=True, help="How long to wait for each.")
@with_session
def wait(session: Session, task_ids: tuple[str, ...], timeout: str) -> None:
    """Wait until tasks have ended, and print their results.

    Exit code 0 if all completed, 1 if none did, 4 if some did.
    """
    reach = session.reach()
    finish(session, reach, [reach.client.handle(task_id) for task_id in task_ids], timeout)


def finish(session: Session, reach: Reach, handles: list[Handle[Any]], timeout: str) -> None:
    """Wait for each, print what became of it, and exit with what that comes to."""
    ended = [_wait_for(session, reach, handle, timeout) for handle in handles]
    if session.wants_json:
        render.as_json(ended[0] if len(ended) == 1 else ended)
    else:
        for one in ended:
            _print(session, one, named=len(ended) > 1)
    done = sum(one["state"] == State.COMPLETED.value for one in ended)
    code = DONE if done == len(ended) else PARTLY if done else FAILED
    raise click.exceptions.Exit(code)


def _wait_for(session: Session, reach: Reach, handle: Handle[Any], timeout: str) -> dict[str, Any]:
    row = get_row(reach, handle.id)
    paused = "" if row.final else paused_text(reach, row.queue)
    if paused:  # told before the wait, which may be long and for nothing
        session.note(f"Queue {paused}")
    trouble = ""
    try:
        handle.result(timeout)
    except (TaskFailed, NotFinished) as error:
        trouble = str(error)
    row = get_row(reach, handle.id)
    return _told(reach, row, trouble) | ({"paused": paused} if paused else {})


def _told(reach: Reach, row: Row, trouble: str) -> dict[str, Any]:
    told: dict[str, Any] = {"id": row.id, "task": row.task, "state": row.state.value, "attempts": row.attempt}
    if row.state is State.COMPLETED:
        text = text_at(reach, row.result)
        told["result"] = None if text is None else json.loads(text)
    if trouble:
        told["message"] = trouble
    if row.error is not None and row.state is not State.COMPLETED:
        told["error"] = {"type": row.error.type, "message": row.error.message, "fingerprint": row.error.fingerprint}
    return told


def _print(session: Session, told: dict[str, Any], *, named: bool) -> None:
    if told["state"] == State.COMPLETED.value and not told.get("message"):
        result = json.dumps(told["result"], ensure_ascii=False, indent=None if named else 2)
        click.echo(f"{told['id']}  {result}" if named else result)
    else:
        session.complain(told["message"])


@click.command()
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True)
@reason_option(help="Why; recorded with the task.")
@with_session
def cancel(session: Session, task_ids: tuple[str, ...], reason: str) -> None:
    """Cancel tasks.

    A waiting task ends; a running one is asked to stop, and ends cancelled unless it succeeds first.

    Exit code 0 if each was cancelled or asked, 1 if none was, 4 if some had ended before.
    """
    reach = session.reach()
    told = [_cancel(reach, task_id, reason) for task_id in task_ids]
    if session.wants_json:
        render.as_json(told[0] if len(told) == 1 else told)
    else:
        for one in told:
            click.echo(f"{one['id']}  {_OUTCOMES[one['outcome']]}")
    late = sum(one["outcome"] == Cancellation.TOO_LATE.value for one in told)
    raise click.exceptions.Exit(DONE if not late else FAILED if late == len(told) else PARTLY)


_OUTCOMES = {
    Cancellation.CANCELLED.value: "cancelled",
    Cancellation.REQUESTED.value: "asked to stop; it ends cancelled unless it succeeds first",
    Cancellation.TOO_LATE.value: "too late: it has ended",
}


def _cancel(reach: Reach, task_id: str, reason: str) -> dict[str, str]:
    get_row(reach, task_id)
    outcome = reach.client.handle(task_id).cancel(reason)
    return {"id": task_id, "outcome": outcome.value}
