"""A submit meets a row under its id: the same task, a refused one to open again, or a conflict."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.core import machine
from tenure.core.machine import Stamp
from tenure.core.task import Row, State


@dataclass(frozen=True, slots=True)
class Found:
    """The key's task exists already. `send`: its message may never have been sent, so send (the same) one."""

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


def resubmit(found: Row, fresh: Row, stamp: Stamp) -> Found | Reopen | Conflict:
    """What a submit does that meets a row under its id. The same in every state: compare payloads first."""
    if found.digest != fresh.digest or found.task != fresh.task:
        return Conflict(found)
    if found.refused:
        return Reopen(machine.reopen(found, fresh, stamp))
    unsent = found.state is State.QUEUED and found.version == 1 and found.sends == 1
    return Found(found, unsent)
