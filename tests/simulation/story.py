"""The story of one task, to be read by a person: all that was seen of it, in order, one line each."""

from __future__ import annotations

from collections.abc import Iterator

from tenure.core.task import Row
from tests.simulation.evidence import Evidence

Line = tuple[int, str]
"""(at_ms, text)."""


def story(evidence: Evidence, task_id: str) -> str:
    """What happened to a task, and to the processes around it."""
    name = evidence.names.get(task_id, "?")
    lines = [*_rows(evidence, task_id), *_messages(evidence, task_id), *_runs(evidence, task_id, name)]
    lines += [*_answers(evidence, task_id, name), *_events(evidence, task_id), *_processes(evidence)]
    start_ms = min((at_ms for at_ms, _ in lines), default=0)
    body = [f"  {(at_ms - start_ms) / 1000:10.3f} {text}" for at_ms, text in sorted(lines, key=lambda line: line[0])]
    return "\n".join([f"  story of {name} = {task_id}:", *body])


def _rows(evidence: Evidence, task_id: str) -> Iterator[Line]:
    for change in evidence.changes:
        if change.after.id == task_id:
            yield change.at_ms, f"{change.process:16} row: {_row_text(change.before, change.after)}"


def _messages(evidence: Evidence, task_id: str) -> Iterator[Line]:
    for mail in evidence.mail:
        if mail.envelope is not None and mail.envelope.id == task_id:
            kind = "letter" if mail.letter else f"message (sends {mail.envelope.sends})"
            yield mail.at_ms, f"{mail.process:16} {kind} {mail.message_id[:6]} {mail.what} in {mail.queue}"


def _runs(evidence: Evidence, task_id: str, name: str) -> Iterator[Line]:
    for start in evidence.starts:
        if start.task_id == task_id:
            yield start.at_ms, f"{start.process:16} handler starts: fence {start.fence}, attempt {start.attempt}"
    for end in evidence.ends:
        if end.task_id == task_id:
            yield end.at_ms, f"{'':16} handler of fence {end.fence} ends"
    for effect in evidence.effects:
        if effect.name == name:
            yield effect.at_ms, f"{'':16} effect of fence {effect.fence} {'accepted' if effect.accepted else 'refused'}"


def _answers(evidence: Evidence, task_id: str, name: str) -> Iterator[Line]:
    for told in evidence.told:
        if told.task_id == task_id or (told.name == name and not told.task_id):
            yield told.at_ms, f"{'':16} {told.what}: {told.detail}"


def _events(evidence: Evidence, task_id: str) -> Iterator[Line]:
    for event in evidence.world.telemetry.events:
        if event.fields.get("task_id") == task_id:
            rest = " ".join(f"{k}={v}" for k, v in event.fields.items() if k not in ("task_id", "task", "queue"))
            yield event.at_ms, f"{event.process:16}   says {event.event} {rest}"


def _processes(evidence: Evidence) -> Iterator[Line]:
    for at_ms, process in evidence.deaths:
        yield at_ms, f"{process:16} dies"
    for at_ms, process in evidence.stalls:
        yield at_ms, f"{process:16} stalls"


def _row_text(before: Row | None, after: Row) -> str:
    numbers = " ".join(f"{name}={getattr(after, name)}" for name in ("version", "fence", "failures", "losses", "sends"))
    marks = [name for name in ("claimed_alone", "message_gone", "letter_confirmed") if getattr(after, name)]
    asked = ["cancel_requested"] if after.cancel_requested_at_ms else []
    return f"{before.state if before else 'none'} -> {after.state} {numbers} {' '.join(marks + asked)} {after.reason}"
