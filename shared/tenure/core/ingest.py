"""What becomes of a message that lies in a DLQ: (its row, the letter) -> one of a closed set of answers. Pure.

Letters that bury sent stay while their dead letter is open and are drained once it is decided about. Messages that
SQS moved by itself go back to work unless their task's budget is spent: too many receives are no failure.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenure.core import lease, limits, machine
from tenure.core.adoption import adopted
from tenure.core.decide import end_instead_of_run
from tenure.core.letter import ReadLetter
from tenure.core.machine import Stamp
from tenure.core.outcome import named
from tenure.core.task import Row, State
from tenure.core.topology import Tier


@dataclass(frozen=True, slots=True)
class Keep:
    """It stays in the DLQ. With `row` (it confirms the letter), after that write."""

    why: str
    row: Row | None = None


@dataclass(frozen=True, slots=True)
class Drain:
    """Delete it: what it stood for is in a row. With `row` (an ending), only after that write."""

    why: str
    row: Row | None = None


@dataclass(frozen=True, slots=True)
class SendBack:
    """Write `row`, send its message to the main queue, then delete the letter."""

    row: Row
    delay_seconds: int
    why: str


@dataclass(frozen=True, slots=True)
class BuryMoved:
    """Write `row`, which is dead-lettered now, send a letter that says why, then delete this one."""

    row: Row


Ingestion = Keep | Drain | SendBack | BuryMoved

OPEN = "its dead letter is open"
LEASED = "a worker holds a live lease"
FOREIGN = "no row: tenure did not write it, or its task is not known here"
AHEAD = "it knows more than its row: the table was put back to an earlier time"
"""Why a letter is kept."""


def ingest(row: Row | None, letter: ReadLetter, stamp: Stamp, tier: Tier, sent_at_ms: int) -> Ingestion:
    """What to do with a message in a tier's DLQ, given its task's row as last seen (None: there is none).

    A message that begins its task (core/adoption.py; SQS took it at `sent_at_ms`) may have been moved before any
    worker took it: then its row is made here.
    """
    envelope = letter.envelope
    if envelope is None:
        return Keep(FOREIGN)
    if row is None:
        queue = "" if tier.ordered else tier.queue
        begun = adopted(envelope, queue, stamp, sent_at_ms, tier.tier) if letter.kind == "moved" else ""
        return Keep(FOREIGN) if isinstance(begun, str) else _moved(begun, begun.sends, stamp)
    if envelope.birth and envelope.birth != row.birth:
        return Drain("another life of this task: the letter is older than its row")
    if letter.kind == "buried":
        return _buried(row, letter, stamp)
    if row.final:
        return Drain(f"its task is {row.state.value}")
    if letter.kind == "quarantined":
        return Keep(FOREIGN)
    if envelope.row_version > row.version:
        return Keep(AHEAD)
    return _moved(row, envelope.sends, stamp)


def burial(letter_id: str) -> tuple[int, int]:
    """(replays, fence) of the burial that a letter id names: later burials compare greater. (0, 0) if unreadable."""
    parts = letter_id.rsplit(":", 2)
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts[1:]):
        return (0, 0)
    return int(parts[2]), int(parts[1])


def _buried(row: Row, letter: ReadLetter, stamp: Stamp) -> Ingestion:
    replays, fence = burial(letter.letter_id)
    ahead = replays > row.replays or (replays == row.replays and (fence > row.fence or not row.final))
    if ahead:
        return Keep(AHEAD)
    if row.state is not State.DEAD_LETTERED or letter.letter_id != row.letter_id:
        return Drain("its task was replayed since" if row.replays > replays else f"its task is {row.state.value}")
    if row.disposition is not None and row.disposition.kind == "discarded":
        return Drain("its dead letter was discarded")
    return Keep(OPEN, None if row.letter_confirmed else machine.confirm_letter(row, stamp))


def _moved(row: Row, sends: int, stamp: Stamp) -> Ingestion:
    if row.state is State.LEASED and not lease.lapsed(row.lease_end_at_ms, stamp.now_ms):
        return Keep(LEASED)
    if row.state is State.WAITING or row.message_gone:
        return Drain("its row has taken over the wait")
    if sends < row.sends:
        return Drain("a later message was sent for it")
    ended = end_instead_of_run(row, stamp)
    if ended is not None:
        return Drain(ended.reason, ended)
    lost = row.losses + machine.taken_over_losses(row)
    if row.failures + lost >= row.max_attempts:
        error = named("WorkerLost", f"its message was received too often, and {lost} workers were lost with it")
        return BuryMoved(machine.bury(row, stamp, error, machine.WORKER_LOST))
    delay = min(lease.rest_seconds(row.due_at_ms, stamp.now_ms), limits.SQS_DELAY_SECONDS_MAX)
    why = "it never started" if row.never_claimed else f"attempt {row.attempt} of {row.max_attempts} is due"
    return SendBack(machine.send(row, stamp), delay, why)
