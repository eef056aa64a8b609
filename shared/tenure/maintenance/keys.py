"""Halted keys (R24): each minute, keys whose heads are decided about are drained and opened; and a person decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tenure.core import halting, machine
from tenure.core.errors import InvalidTopology, ServiceError, TenureError, UnsupportedVersion, UsageError
from tenure.core.halting import KeyPhase, KeyState
from tenure.core.task import Row, State
from tenure.keys import Keys
from tenure.maintenance.audit import Audit
from tenure.maintenance.letters import is_open
from tenure.maintenance.parts import Parts, message_of
from tenure.maintenance.plan import why_not_here
from tenure.ports import Sent
from tenure.rows import Stands

BY = "keys"
REPLAYS_MAX = 100
"""A head is retried by a person's own hand, so its number of replays is bounded only against a loop."""


class KeyNotHalted(TenureError):
    """The key is open, or unknown."""


@dataclass(frozen=True, slots=True)
class KeysReport:
    """What a run did: keys looked at, opened; tasks released (sent again, in order), and failures."""

    counts: Counter[str] = field(default_factory=Counter)


class HaltedKeys:
    """Sweeps halted keys, and carries out what a person decides about one."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._rows = parts.rows
        self.keys = Keys.of(parts.topology, parts.store, parts.clock, parts.entropy)
        self._audit = Audit(parts.store, parts.clock, parts.entropy)

    def run_once(self) -> KeysReport:
        """Look at the keys that are not open; of very many (`tenure.keys.LISTED_MAX`) at a part in each run, in turn.

        One key's trouble is counted and hinders no other.

        Raises ServiceError if they cannot be listed.
        """
        report = KeysReport()
        states = self.keys.listed()
        for state in states:
            report.counts["keys"] += 1
            try:
                self.keys.take_turns(state, len(states))
                self._advance(state, report.counts)
            except (ServiceError, InvalidTopology, UnsupportedVersion) as error:
                report.counts["failed"] += 1
                self._parts.telemetry.emit("reconcile.failed", what=f"key {state.queue}/{state.key}", error=str(error))
        return report

    def _advance(self, seen: KeyState, counts: Counter[str]) -> None:
        """Release what may be released. The key's item says so first, so that a death before the sends is made good:
        whatever is released and still `waiting` is sent by the next run."""
        ids = [*seen.heads, *(each.id for each in (*seen.waiting, *seen.released))]
        rows = dict(zip(ids, self._rows.get_many(ids), strict=True))
        new = self.keys.change(
            seen.queue, seen.key, lambda state: halting.advance(state, rows) if _known(state, rows) else state
        )
        if new.phase is KeyPhase.OPEN:
            counts["opened"] += 1
            self._parts.telemetry.emit("key.opened", queue=new.queue, key=new.key)
        self._send(new, [row for each in new.released if (row := rows.get(each.id)) is not None], counts)

    def _send(self, state: KeyState, rows: Sequence[Row], counts: Counter[str]) -> None:
        """Send released tasks that are off SQS, one after another: a send that fails lets none behind it pass."""
        for row in rows:
            if row.state is not State.WAITING:
                continue
            queue = self._parts.main(self._parts.topology.tier(row.queue, row.tier))  # or nothing is written
            new = machine.send(row, self._parts.stamp(BY))
            if not isinstance(self._rows.replace(row, new), Stands):
                counts["failed"] += 1
                return
            sent = queue.send_many([message_of(new, ordered=True, lane=halting.lane(state, row.id))])[0]
            if not isinstance(sent, Sent):
                counts["failed"] += 1
                self._parts.telemetry.emit("reconcile.unsent", task_id=row.id, queue=row.queue, code=sent.code)
                return
            counts["released"] += 1
            self._parts.telemetry.emit("key.released", task_id=row.id, queue=row.queue)

    # ---- a person decides ------------------------------------------------------------------------------------------
    def get(self, queue: str, key: str) -> KeyState:
        """A halted key. Raises KeyNotHalted, UsageError for a queue that does not halt, and ServiceError."""
        if not self.keys.halts(queue):
            raise UsageError(f'queue {queue!r} does not halt its keys: its on_bury is "skip".')
        state = self.keys.get(queue, key)
        if state is None or state.phase is KeyPhase.OPEN:
            raise KeyNotHalted(f"key {key!r} of queue {queue!r} is open. `tenure keys` lists those that are not.")
        return state

    def retry_heads(self, queue: str, key: str, by: str, reason: str) -> int:
        """Give every buried head another budget and send it; the key opens once all have ended. How many.

        Raises UsageError, and retries none, if one of them could not run (its deadline has passed, say): it would only
        expire, and its successors run as if it had been done. Else as `get`.
        """
        state = self.get(queue, key)
        heads = self._buried(state)
        for row in heads:
            why = why_not_here(self._parts, row, self._parts.clock.now_ms(), REPLAYS_MAX)
            if why:
                raise UsageError(
                    f"key {key!r} of queue {queue!r}: its head {row.id} cannot be retried: {why}. Skip it with "
                    "`tenure keys skip-head`, then what waits behind it runs; work that is still wanted is a new task."
                )
        begun = self._audit.begin("keys.retry-head", f"{queue}/{key}", by, reason, _counts(state))
        done = 0
        for row in heads:
            new = machine.replay(row, self._parts.stamp(by), reason)
            if isinstance(self._rows.replace(row, new), Stands):
                tier = self._parts.topology.tier(row.queue, row.tier)
                message = message_of(new, ordered=True, lane=halting.lane(state, row.id))
                self._parts.main(tier).send_many([message])  # not sent: reconcile sends it
                self._parts.telemetry.emit("task.replayed", task_id=row.id, task=row.task, queue=row.queue, by=by)
                done += 1
        self._audit.end(begun, {"retried": done})
        return done

    def skip_heads(self, queue: str, key: str, by: str, reason: str) -> int:
        """Discard every buried head; what waits behind it is released. How many. Raises as `get`."""
        state = self.get(queue, key)
        begun = self._audit.begin("keys.skip-head", f"{queue}/{key}", by, reason, _counts(state))
        changes = [(row, machine.discard(row, self._parts.stamp(by), reason)) for row in self._buried(state)]
        done = sum(isinstance(answer, Stands) for answer in self._rows.replace_many(changes))
        self._advance(self.keys.get(queue, key) or state, Counter())
        self._audit.end(begun, {"skipped": done})
        return done

    def drain(self, queue: str, key: str, by: str, reason: str) -> int:
        """Cancel everything that waits behind the head, which stays as it is. How many. Raises as `get`."""
        state = self.get(queue, key)
        begun = self._audit.begin("keys.drain", f"{queue}/{key}", by, reason, _counts(state))
        rows = self._rows.get_many([each.id for each in state.waiting])
        changes = [
            (row, machine.cancel(row, self._parts.stamp(by), reason))
            for row in rows
            if row is not None and row.state is State.WAITING
        ]
        done = sum(isinstance(answer, Stands) for answer in self._rows.replace_many(changes))
        self._advance(self.keys.get(queue, key) or state, Counter())
        self._audit.end(begun, {"cancelled": done})
        return done

    def _buried(self, state: KeyState) -> list[Row]:
        return [row for row in self._rows.get_many(state.heads) if row is not None and is_open(row)]


def _counts(state: KeyState) -> dict[str, int]:
    return {"heads": len(state.heads), "waiting": len(state.waiting)}


def _known(state: KeyState, rows: dict[str, Row | None]) -> bool:
    """Whether the rows that were read are those of this state: a task parked since then is looked at the next time."""
    listed = {*state.heads, *(each.id for each in (*state.waiting, *state.released))}
    return listed <= rows.keys()
