"""`tenure submit`, `wait`, `cancel`: what a producer does, from a shell."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import click

from tenure.cli import render
from tenure.cli.errors import DONE, FAILED, NOT_YET, NOTHING, PARTLY
from tenure.cli.look import get_row, text_at
from tenure.cli.options import duration_option, with_session
from tenure.cli.queues import paused_text
from tenure.cli.session import Reach, Session
from tenure.cli.upkeep import reason_option
from tenure.cli.visible import exact, say
from tenure.core.envelope import canonical, parse
from tenure.core.errors import InvalidPayload, NotFinished, ServiceError, TaskFailed, TaskNotFound, TenureError
from tenure.core.submission import Options
from tenure.core.task import FINAL, Row, State
from tenure.handle import Cancellation, Handle


@click.command()
@click.argument("name")
@click.argument("payload", metavar="[JSON]", default="{}")
@click.option("--tenant", default="", help="On whose behalf; tenants share a queue fairly.")
@click.option("--priority", type=click.Choice(["high", "normal", "low"]), default="normal", show_default=True)
@duration_option("--delay", default="0s", help="Not to be run before, for example 20m.")
@duration_option("--deadline", help="Not to be started after so much time.")
@click.option("--key", "idempotency_key", help="Idempotency key: the same key finds the same task.")
@click.option("--queue", help="Its queue; needed only for a task of which nothing is published.")
@click.option("--wait", "waits", is_flag=True, help="Wait for the end, and print the result.")
@duration_option("--timeout", default="60s", help="How long --wait waits.")
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
    try:
        arguments = read_payload(payload)
        reach = session.reach()
        handle = reach.client.submit(name, checked(session, name, arguments), options=Options(**options), queue=queue)
    except KeyboardInterrupt as stop:
        raise Stopped(stop) from None
    if waits:
        session.note(f"submitted {handle.id}")
        finish(session, reach, [handle], timeout)
    elif session.wants_json:
        render.as_json({"id": handle.id, "found": handle.found})
    else:
        say(handle.id)
        if handle.found:
            session.note("This key already stood for this task; nothing new was submitted.")


class Stopped(TenureError):
    """Ctrl-C before a submit was answered: what is known of the task."""

    def __init__(self, stop: KeyboardInterrupt) -> None:
        notes = [note.removeprefix("tenure: ") for note in getattr(stop, "__notes__", ())]
        look = "Look for it with `tenure show`; submitted again under the same --key, it is found, not doubled."
        super().__init__(f"you stopped it: {notes[0]}. {look}" if notes else "you stopped it; nothing was submitted.")


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
@duration_option("--timeout", default="60s", help="How long to wait for each.")
@with_session
def wait(session: Session, task_ids: tuple[str, ...], timeout: str) -> None:
    """Wait until tasks have ended, and print their results.

    Exit code 0 if all completed, 4 if some did; if none did, 5 while one of them goes on, else 1.
    """
    reach = session.reach()
    finish(session, reach, [reach.client.handle(task_id) for task_id in task_ids], timeout)


def finish(session: Session, reach: Reach, handles: list[Handle[Any]], timeout: str) -> None:
    """Wait for each, print what became of it, and exit with what that comes to."""
    several = len(handles) > 1
    try:
        ended = [_each(handle.id, several, _wait_for, session, reach, handle, timeout) for handle in handles]
    except KeyboardInterrupt:
        session.not_yet(f"you stopped waiting, and nothing else stopped. {_again([each.id for each in handles])}")
        raise click.exceptions.Exit(NOT_YET) from None
    if session.wants_json:
        render.as_json(ended if several else ended[0])
    else:
        for one in ended:
            _print(session, one, named=several)
    raise click.exceptions.Exit(_code_of([one["state"] for one in ended]))


def _code_of(states: list[str]) -> int:
    """What the states of all that was waited for come to."""
    done = states.count(State.COMPLETED.value)
    if done:
        return DONE if done == len(states) else PARTLY
    if all(state == NOT_FOUND for state in states):
        return NOTHING
    return NOT_YET if any(state in _UNDER_WAY for state in states) else FAILED


NOT_FOUND, UNKNOWN = "not_found", "unknown"
"""What stands for an id's state where there is no such task, and where nobody could say."""
_UNDER_WAY = {state.value for state in State if state not in FINAL}


def _each(task_id: str, several: bool, act: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What acting on one of several ids came to: trouble with one is told, and no reason to leave the others."""
    try:
        return act(*arguments)
    except (TaskNotFound, ServiceError) as error:
        if not several:
            raise
        state = NOT_FOUND if isinstance(error, TaskNotFound) else UNKNOWN
        return {"id": task_id, "state": state, "outcome": state, "message": str(error)}


def _again(task_ids: list[str]) -> str:
    return f"Wait again: tenure wait {' '.join(task_ids)}"


def _wait_for(session: Session, reach: Reach, handle: Handle[Any], timeout: str) -> dict[str, Any]:
    row = get_row(reach, handle.id)
    paused = "" if row.final else paused_text(reach, row.queue)
    if paused:  # told before the wait, which may be long and for nothing
        session.note(f"Queue {paused}")
    late, trouble = False, ""
    try:
        handle.result(timeout)
    except NotFinished:
        late = True
    except TaskFailed as error:
        trouble = str(error)
    row = get_row(reach, handle.id)
    if late and row.final:  # it ended just now: nothing is left to wait for
        return _wait_for(session, reach, handle, timeout)
    if late:
        trouble = f"task {row.id} is still {row.state.value} after {timeout}, and goes on. {_again([row.id])}"
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
    if told["state"] == State.COMPLETED.value and "message" not in told:
        result = exact(told["result"], indent=None if named else 2)
        say(f"{told['id']}  {result}" if named else result)
    else:
        (session.not_yet if told["state"] in _UNDER_WAY else session.complain)(told["message"])


@click.command()
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True)
@reason_option(help="Why; recorded with the task.")
@with_session
def cancel(session: Session, task_ids: tuple[str, ...], reason: str) -> None:
    """Cancel tasks.

    A waiting task ends; a running one is asked to stop, and ends cancelled unless it succeeds first.

    Exit code 0 if each was cancelled or asked, 4 if some were not (they had ended, or are not there), 1 if none was.
    """
    reach = session.reach()
    handles = [reach.client.handle(task_id) for task_id in task_ids]  # refuses what is no id, before any is cancelled
    several = len(handles) > 1
    told = [_each(handle.id, several, _cancel, reach, handle, reason) for handle in handles]
    if session.wants_json:
        render.as_json(told if several else told[0])
    else:
        for one in told:
            say(f"{one['id']}  {one.get('message') or _OUTCOMES[one['outcome']]}")
    raise click.exceptions.Exit(_code_of_cancels([one["outcome"] for one in told]))


_OUTCOMES = {
    Cancellation.CANCELLED.value: "cancelled",
    Cancellation.REQUESTED.value: "asked to stop; it ends cancelled unless it succeeds first",
    Cancellation.TOO_LATE.value: "too late: it has ended",
}


def _code_of_cancels(outcomes: list[str]) -> int:
    done = sum(outcome in (Cancellation.CANCELLED.value, Cancellation.REQUESTED.value) for outcome in outcomes)
    if done:
        return DONE if done == len(outcomes) else PARTLY
    return NOTHING if all(outcome == NOT_FOUND for outcome in outcomes) else FAILED


def _cancel(reach: Reach, handle: Handle[Any], reason: str) -> dict[str, Any]:
    get_row(reach, handle.id)
    return {"id": handle.id, "outcome": handle.cancel(reason).value}
