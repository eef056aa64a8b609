"""A submit meets a row under its id: the same task, one that may still be taken back, a refused one, or a conflict."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.core import limits, machine
from tenure.core.machine import Stamp
from tenure.core.task import Row


@dataclass(frozen=True, slots=True)
class Found:
    """The key's task exists already. `send`: its message may never have been sent, so send (the same) one."""

    row: Row
    send: bool


@dataclass(frozen=True, slots=True)
class Rely:
    """The key's task exists, and the submit that wrote it may be under way still: were SQS to refuse its message, it
    would take the row back. Write `row` first, so that it cannot. `send`: as in Found."""

    row: Row
    send: bool


@dataclass(frozen=True, slots=True)
class Reopen:
    """The key's task was refused by SQS: write `row` in its place and send."""

    row: Row


@dataclass(frozen=True, slots=True)
class Conflict:
    """The key stands for another payload."""

    row: Row


def resubmit(found: Row, fresh: Row, stamp: Stamp) -> Found | Rely | Reopen | Conflict:
    """What a submit does that meets a row under its id. The same in every state: compare payloads first."""
    if found.digest != fresh.digest or found.task != fresh.task:
        return Conflict(found)
    if found.refused:
        return Reopen(machine.reopen(found, fresh, stamp))
    if not found.untouched:
        return Found(found, False)
    age_seconds = (stamp.now_ms - found.submitted_at_ms) / 1000
    send = age_seconds >= limits.RESUBMIT_GRACE_SECONDS  # before, a second message beside the first would only cost
    return Rely(machine.rely(found, stamp), send) if age_seconds < limits.RELY_SECONDS else Found(found, send)
