"""Running a replay: in paced batches, each written down before it is done, by one runner at a time.

Killed anywhere, the next runner reads the rows of the batch that was under way, counts those that were replayed,
replays those that were not, and goes on. Rows decide, so two runners, two replays or a person's own hand at the same
letters double nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tenure.core import machine
from tenure.core.errors import ServiceError
from tenure.core.filters import parse
from tenure.core.machine import Event
from tenure.core.task import Row, State
from tenure.durable import Things
from tenure.maintenance import pace
from tenure.maintenance.audit import Audit, Record
from tenure.maintenance.letters import is_open, queues_of
from tenure.maintenance.parts import Parts
from tenure.maintenance.plan import matching, plan, why_not_here
from tenure.maintenance.replay_record import Phase, ReplayState, to_item, to_state
from tenure.maintenance.sending import send_replayed
from tenure.ports import Item, Refused
from tenure.rows import Overtaken, Stands

LEASE_SECONDS = 60
"""A runner renews this with every batch; when it dies, the next may go on after so long."""
WATCH_SECONDS = 5
"""Between two looks at a canary's tasks."""
DECIDE_TRIES = 3
"""How often a row is decided about again that somebody keeps moving."""


class _TakenOver(Exception):
    """Another runner is at this replay."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    row: Row
    cursor: tuple[str, int]


class ReplayRun:
    """One runner of one replay."""

    def __init__(self, parts: Parts, audit: Audit, item: Item) -> None:
        self._parts = parts
        self._rows = parts.rows
        self._audit = audit
        self._things = Things(parts.store, parts.entropy)
        self._item = item
        self._state = to_state(item)
        self._next_at_ms = 0
        self._tag = f"[{self._state.id}]"

    def run(self, stop_at_ms: int | None) -> ReplayState:
        """Go on until it is over or until `stop_at_ms`. Raises ServiceError; the next runner then goes on."""
        now = self._parts.clock.now_ms()
        state = self._state
        if state.over or state.runner_until_ms > now:
            return state  # ended, or its runner is at it (and sees an abort with its next batch)
        try:
            self._take()
            self._settle(self._state.batch)
            while not self._state.over:
                if self._state.phase is Phase.ABORTING:
                    self._finish(Phase.ABORTED, self._state.note)
                elif stop_at_ms is not None and self._parts.clock.now_ms() >= stop_at_ms:
                    self._save(replace(self._state, runner="", runner_until_ms=0))
                    break
                else:
                    self._step(stop_at_ms)
        except _TakenOver:
            return to_state(self._item)
        return self._state

    def _step(self, stop_at_ms: int | None) -> None:
        if self._state.phase is Phase.CANARY:
            self._send_canary()
        elif self._state.phase is Phase.WATCHING:
            self._watch()
        else:
            self._go_on(stop_at_ms)

    # ---- the item --------------------------------------------------------------------------------------------------
    def _take(self) -> None:
        now = self._parts.clock.now_ms()
        if self._state.batch or self._state.last_at_ms:
            self._next_at_ms = now + pace.interval_ms(self._state.spec.rate_per_second)
        self._save(replace(self._state, runner=self._parts.entropy.token()))

    def _save(self, state: ReplayState) -> None:
        """Write the state, renewing the runner's lease. An abort that came meanwhile is taken over into it."""
        until = self._parts.clock.now_ms() + LEASE_SECONDS * 1000 if state.runner else 0
        state = replace(state, runner_until_ms=until)
        while True:
            new = to_item(state)
            written = self._things.change(self._item, new.data, due=new.due, expires_at_s=new.expires_at_s)
            if isinstance(written, Item):
                self._item, self._state = written, state
                return
            if not isinstance(written, Refused) or written.item is None:
                raise ServiceError(f"replay {state.id}: its progress was not written: {written}")
            found = to_state(written.item)
            mine = found.runner == self._state.runner
            self._item = written.item
            if not mine or found.phase is not Phase.ABORTING or found.phase is state.phase:
                raise _TakenOver
            if not state.over:
                state = replace(state, phase=Phase.ABORTING, note=found.note)

    def _finish(self, phase: Phase, note: str) -> None:
        """Count what is left, tell the audit log, and end it."""
        state = self._state
        spec = state.spec
        left = plan(self._parts, parse(spec.filter), state.created_at_ms, spec.replays_max)
        remaining = left.count
        counts = dict(state.counts) | {
            "left": remaining,
            "skipped": sum(left.skipped.values()),
            "elsewhere": max(0, state.matched - state.replayed - remaining),
        }
        begun = Record(
            operation=state.operation,
            at_ms=state.created_at_ms,
            phase="begun",
            action="replay",
            target=state.id,
            by=spec.by,
            reason=spec.reason,
        )
        self._audit.end(begun, counts | {"phase": phase.value, "matched": state.matched})
        now = self._parts.clock.now_ms()
        self._save(replace(state, phase=phase, note=note, counts=counts, batch=(), runner="", ended_at_ms=now))
        self._parts.telemetry.emit(f"replay.{phase.value}", replay_id=state.id, note=note, **counts)

    # ---- canary ----------------------------------------------------------------------------------------------------
    def _send_canary(self) -> None:
        size = pace.batch_of(self._state.spec.rate_per_second)
        ids, rest = self._state.canary_ids[:size], self._state.canary_ids[size:]
        if not ids:
            now = self._parts.clock.now_ms()
            if self._state.canaries:
                self._save(replace(self._state, phase=Phase.WATCHING, watching_since_ms=now))
            else:
                self._finish(Phase.DONE, "others had decided about all of its canary")
            return
        rows = [row for row in self._rows.get_many(ids) if row is not None and self._eligible(row)]
        self._batch([_Candidate(row, ("", 0)) for row in rows], canary_ids=rest)

    def _watch(self) -> None:
        """Look at the canary's tasks; decide when they have ended, or when it can no longer come right."""
        state = self._state
        rows = self._rows.get_many([id_ for id_, _ in state.canaries])
        ends = [_canary_end(row, replays) for row, (_, replays) in zip(rows, state.canaries, strict=True)]
        good, bad = ends.count(True), ends.count(False)
        total = len(ends)
        told = f"{good} of {total} completed, {bad} did not"
        if total - bad < state.spec.canary_share * total:
            self._finish(Phase.STOPPED, f"its canary fell short: {told}")
        elif good >= state.spec.canary_share * total:
            self._save(replace(state, phase=Phase.RUNNING, note=f"canary: {told}"))
        elif self._parts.clock.now_ms() - state.watching_since_ms >= state.spec.canary_seconds * 1000:
            self._finish(Phase.STOPPED, f"its canary was not finished in {state.spec.canary_seconds} s: {told}")
        else:
            self._parts.clock.sleep(WATCH_SECONDS)
            self._save(state)

    # ---- all the rest ----------------------------------------------------------------------------------------------
    def _go_on(self, stop_at_ms: int | None) -> None:
        size = pace.batch_of(self._state.spec.rate_per_second)
        batch: list[_Candidate] = []
        if not self._room():
            self._finish(Phase.DONE, "its limit is reached")
            return
        for candidate in self._candidates():
            batch.append(candidate)
            if len(batch) == min(size, self._room()):
                if not self._batch_and_on(batch, stop_at_ms):
                    return
                batch = []
        if batch and not self._batch_and_on(batch, stop_at_ms):
            return
        self._finish(Phase.DONE, self._state.note)

    def _batch_and_on(self, batch: Sequence[_Candidate], stop_at_ms: int | None) -> bool:
        """Do a batch; whether to go on with the same walk through the letters."""
        if self._room():
            self._batch(batch)
        if self._state.phase is not Phase.RUNNING:
            return False
        if not self._room():
            self._finish(Phase.DONE, "its limit is reached")
            return False
        return stop_at_ms is None or self._parts.clock.now_ms() < stop_at_ms

    def _room(self) -> int:
        """How many more it may replay."""
        limit = self._state.spec.limit
        return max(0, limit - self._state.replayed) if limit else 2**31

    def _eligible(self, row: Row) -> bool:
        """Whether it was dead when the replay was created, still is, and may be replayed."""
        state = self._state
        picked = parse(state.spec.filter)
        return (
            is_open(row)
            and row.ended_at_ms <= state.created_at_ms
            and picked.matches(row, state.created_at_ms)
            and not why_not_here(self._parts, row, self._parts.clock.now_ms(), state.spec.replays_max)
        )

    def _candidates(self) -> Iterator[_Candidate]:
        picked = parse(self._state.spec.filter)
        for queue in queues_of(self._parts, picked):
            after = max(0, self._state.cursor.get(queue, 0) - 1)
            pages = matching(self._parts, picked, self._state.created_at_ms, queue, after)
            if self._parts.topology.queue(queue).ordered:
                yield from self._in_order(queue, pages)
            else:
                for page in pages:
                    yield from (_Candidate(row, (queue, row.ended_at_ms)) for row in page if self._eligible(row))

    def _in_order(self, queue: str, pages: Iterable[Sequence[Row]]) -> Iterator[_Candidate]:
        """An ordered queue's letters as their tasks were submitted: ids alone are kept of all, rows of a few."""
        found = sorted((row.submitted_at_ms, row.id) for page in pages for row in page)
        size = pace.BATCH_MAX
        for start in range(0, len(found), size):
            rows = self._rows.get_many([id_ for _, id_ in found[start : start + size]])
            yield from (_Candidate(row, (queue, 0)) for row in rows if row is not None and self._eligible(row))

    # ---- a batch ---------------------------------------------------------------------------------------------------
    def _batch(self, batch: Sequence[_Candidate], **changes: tuple[str, ...]) -> None:
        """Write down what is about to be replayed, then do it at the pace."""
        ids = tuple((each.row.id, each.row.replays) for each in batch)
        cursor = {**self._state.cursor, **dict(each.cursor for each in batch if each.cursor[1])}
        state = replace(self._state, batch=ids, cursor=cursor, last_at_ms=self._parts.clock.now_ms())
        self._save(replace(state, canary_ids=changes["canary_ids"]) if changes else state)
        if self._state.phase is not Phase.ABORTING:
            self._act([each.row for each in batch])
        else:
            self._state = replace(self._state, batch=())

    def _settle(self, batch: Sequence[tuple[str, int]]) -> None:
        """After a death: count what the batch under way had done, and do the rest of it."""
        if not batch:
            return
        rows = self._rows.get_many([id_ for id_, _ in batch])
        done = [row for row in rows if row is not None and self._is_mine(row)]
        waiting = [row for row in done if row.state is State.QUEUED and self._parts.has_tier(row)]
        send_replayed(self._parts, [row for row in waiting if self._parts.topology.queue(row.queue).ordered])
        self._count(done)
        here = [
            (row, n) for row, (_, n) in zip(rows, batch, strict=True) if row is not None and self._parts.has_tier(row)
        ]
        again = [row for row, replays in here if is_open(row) and row.replays == replays and row not in done]
        if self._state.phase is Phase.ABORTING:
            again = []
        self._act(again)

    def _act(self, rows: Sequence[Row]) -> None:
        """Replay rows and send their messages, no sooner than the pace allows."""
        if rows:
            wait_ms = self._next_at_ms - self._parts.clock.now_ms()
            if wait_ms > 0:
                self._parts.clock.sleep(wait_ms / 1000)
            self._next_at_ms = self._parts.clock.now_ms() + pace.interval_ms(self._state.spec.rate_per_second)
        stand = self._write(rows)
        unsent = send_replayed(self._parts, stand)
        self._count(stand, unsent)
        self._state = replace(self._state, batch=())

    def _write(self, rows: Sequence[Row]) -> list[Row]:
        """The rows as they stand after their replay. Raises ServiceError if a write was not answered."""
        stand: dict[str, Row] = {}
        left = list(rows)
        for _ in range(DECIDE_TRIES):
            answers = self._rows.replace_many([(row, self._replayed(row)) for row in left])
            again = []
            for row, answer in zip(left, answers, strict=True):
                if isinstance(answer, Stands):
                    stand[row.id] = answer.row
                elif isinstance(answer, Overtaken):
                    if answer.row is not None and self._eligible(answer.row):
                        again.append(answer.row)
                else:
                    raise ServiceError(f"replay {self._state.id}: task {row.id}: {answer.error}")
            left = again
            if not left:
                break
        return [stand[row.id] for row in rows if row.id in stand]

    def _replayed(self, row: Row) -> Row:
        spec = self._state.spec
        stamp = self._parts.stamp(spec.by)
        reason = f"{spec.reason} {self._tag}"
        return machine.replay(row, stamp, reason, self._state.payload_at, self._state.payload_digest)

    def _is_mine(self, row: Row) -> bool:
        """Whether this replay has replayed the row: its tag stands in the row's history."""
        return any(line.event == Event.REPLAY.value and line.detail.endswith(self._tag) for line in row.history)

    def _count(self, rows: Sequence[Row], unsent: int = 0) -> None:
        state = self._state
        if state.phase is Phase.CANARY:
            state = replace(state, canaries=(*state.canaries, *((row.id, row.replays) for row in rows)))
        self._state = state.with_counts(replayed=len(rows), unsent=unsent)


def _canary_end(row: Row | None, replays: int) -> bool | None:
    """Whether a canary's task ended well; None while it has not ended."""
    if row is None or row.replays != replays:
        return False  # gone, or buried and replayed again by somebody else
    return row.state is State.COMPLETED if row.final else None
