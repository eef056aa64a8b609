"""Replays (R27): planned, created, looked at, aborted; and run by replay_run.py, here or in the next invocation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tenure.core import limits
from tenure.core.envelope import digest_of
from tenure.core.errors import ServiceError, TenureError, UsageError
from tenure.core.filters import parse
from tenure.core.task import Row, Stored
from tenure.durable import Things
from tenure.maintenance.audit import Audit
from tenure.maintenance.letters import is_open
from tenure.maintenance.parts import Parts
from tenure.maintenance.plan import Plan, matching, plan, why_not_here
from tenure.maintenance.replay_record import (
    ACTIVE,
    ENDED,
    Phase,
    ReplayNotFound,
    ReplaySpec,
    ReplayState,
    replay_key,
    to_item,
    to_state,
)
from tenure.maintenance.replay_run import ReplayRun
from tenure.ports import Item, Refused

Validate = Callable[[str, str], str]
"""(task name, payload as JSON text) -> its canonical text. Raises InvalidPayload."""

LISTED_MAX = 200
"""Replays listed at most, of those under way and of those that have ended."""


class NothingMatched(TenureError):
    """The filter picks no dead letter that could be replayed."""


class Replays:
    """Every operation on replays. `validate` checks an edited payload; without one, edited payloads are refused."""

    def __init__(self, parts: Parts, validate: Validate | None = None) -> None:
        self._parts = parts
        self._validate = validate
        self._things = Things(parts.store, parts.entropy)
        self._audit = Audit(parts.store, parts.clock, parts.entropy)

    def plan(self, spec: ReplaySpec) -> Plan:
        """What it would do now; moves nothing. Raises InvalidFilter and ServiceError."""
        return plan(self._parts, parse(spec.filter), self._parts.clock.now_ms(), spec.replays_max)

    def create(self, spec: ReplaySpec) -> ReplayState:
        """Make it a named object that can be run; nothing is replayed yet.

        Raises InvalidFilter, NothingMatched, UsageError or InvalidPayload for a payload that may not stand, and
        ServiceError.
        """
        planned = self.plan(spec)
        if not planned.count:
            skipped = "".join(f" {count} skipped: {why}." for why, count in planned.skipped.items())
            raise NothingMatched(f"no open dead letter matches {spec.filter!r} and may be replayed.{skipped}")
        now = self._parts.clock.now_ms()
        replay_id = f"r{self._parts.entropy.token()[:12]}"
        place, digest = self._edited(spec, replay_id, now)
        begun = self._audit.begin("replay", replay_id, spec.by, spec.reason, planned.summary())
        state = ReplayState(
            id=replay_id,
            spec=spec,
            phase=Phase.CANARY if spec.canary else Phase.RUNNING,
            created_at_ms=now,
            operation=begun.operation,
            matched=planned.count,
            canary_ids=_spread(planned, spec.canary),
            payload_at=place,
            payload_digest=digest,
        )
        written = self._things.create(to_item(state))
        if not isinstance(written, Item):
            raise ServiceError(f"replay {replay_id} was not created: {written}")
        self._parts.telemetry.emit("replay.created", replay_id=replay_id, by=spec.by, matched=planned.count)
        return state

    def run(self, replay_id: str, stop_at_ms: int | None = None) -> ReplayState:
        """Go on with a replay until it is over, or until `stop_at_ms`; then the next call goes on.

        If another runner is at it, its state is returned as it is. Raises ReplayNotFound and ServiceError.
        """
        return ReplayRun(self._parts, self._audit, self.item(replay_id)).run(stop_at_ms)

    def run_all(self, stop_at_ms: int | None = None) -> list[ReplayState]:
        """Go on with every replay that is not over; one that fails hinders no other, and goes on the next time.

        Raises ServiceError if they cannot be listed.
        """
        states = []
        for state in self._listed(ACTIVE):
            try:
                states.append(self.run(state.id, stop_at_ms))
            except TenureError as error:
                self._parts.telemetry.emit("replay.failed", replay_id=state.id, error=str(error))
        return states

    def status(self, replay_id: str) -> ReplayState:
        """How far it is. Raises ReplayNotFound and ServiceError."""
        return to_state(self.item(replay_id))

    def list(self) -> list[ReplayState]:
        """Those under way and those that have ended, latest first. Raises ServiceError."""
        found = [*self._listed(ACTIVE), *self._listed(ENDED)]
        return sorted(found, key=lambda state: (state.created_at_ms, state.id), reverse=True)

    def abort(self, replay_id: str, by: str, reason: str) -> ReplayState:
        """Stop it before its next batch; what was replayed stays replayed. Raises ReplayNotFound and ServiceError."""
        begun = self._audit.begin("replay.abort", replay_id, by, reason, dict(self.status(replay_id).counts))
        while True:
            item = self.item(replay_id)
            state = to_state(item)
            if state.over or state.phase is Phase.ABORTING:
                break
            note = f"aborted by {by}: {reason}"
            written = self._things.change(item, to_item(replace(state, phase=Phase.ABORTING, note=note)).data)
            if isinstance(written, Item):
                break
            if not isinstance(written, Refused):
                raise ServiceError(f"replay {replay_id} was not aborted, {written.error}")
        state = self.run(replay_id)  # if nobody else is at it, this only counts what was done, and ends it
        self._audit.end(begun, dict(state.counts))
        return state

    def item(self, replay_id: str) -> Item:
        """Its item as it is now. Raises ReplayNotFound and ServiceError."""
        item = self._things.get(replay_key(replay_id))
        if item is None:
            raise ReplayNotFound(f"no replay {replay_id!r} here. `tenure replay status` lists those there are.")
        return item

    def _listed(self, name: str) -> Iterator[ReplayState]:
        keys = self._parts.store.due(name, 0, 2**52, LISTED_MAX)
        items = self._parts.store.get_many(keys) if keys else []
        return (to_state(item) for item in items if item is not None)

    def _edited(self, spec: ReplaySpec, replay_id: str, now_ms: int) -> tuple[Stored | None, str]:
        """Where an edited payload lies, and its digest; checked before anything moves."""
        if spec.payload is None:
            return None, ""
        row = self._only(spec, now_ms)
        if self._validate is None:
            raise UsageError("an edited payload is only taken where the app is known: run this from your project.")
        payload = self._validate(row.task, spec.payload)
        size_bytes = len(payload.encode("utf-8"))
        kind = self._parts.payloads.kind_for(size_bytes)
        if kind == "inline":
            return Stored("inline", payload, size_bytes), digest_of(payload)
        place = Stored("item" if kind == "item" else "object", f"{row.id}/P/{replay_id}", size_bytes)
        self._parts.payloads.put(place, payload, now_ms // 1000 + limits.PAYLOAD_LIFE_SECONDS)
        return place, digest_of(payload)

    def _only(self, spec: ReplaySpec, now_ms: int) -> Row:
        picked = parse(spec.filter)
        found: list[Row] = []
        for queue in self._parts.topology.queues:
            if picked.admits("queue", queue.name):
                for page in matching(self._parts, picked, now_ms, queue.name):
                    found += [row for row in page if is_open(row) and self._may(row, now_ms, spec)]
                    if len(found) > 1:
                        raise UsageError(
                            f"an edited payload is for one task; {spec.filter!r} picks several, such as {found[0].id} "
                            f"and {found[1].id}. Name one with id:{found[0].id}."
                        )
        return found[0]

    def _may(self, row: Row, now_ms: int, spec: ReplaySpec) -> bool:
        return not why_not_here(self._parts, row, now_ms, spec.replays_max)


def _spread(planned: Plan, canary: int) -> tuple[str, ...]:
    """Ids for a canary, in turn from each cause, the oldest first: a cause that is still broken must show."""
    queues = [list(group.samples) for group in planned.causes()]
    chosen: list[str] = []
    while len(chosen) < canary and any(queues):
        for samples in queues:
            if samples and len(chosen) < canary:
                chosen.append(samples.pop(0))
    return tuple(chosen)
