"""What reconcile knows of the queues around a row: pauses, depth, and whether the table was put back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tenure.core import lease, limits
from tenure.core.decide import Surroundings
from tenure.core.errors import ServiceError
from tenure.core.task import Row, State
from tenure.core.topology import Tier
from tenure.maintenance.parts import Parts
from tenure.maintenance.pause import read_pause
from tenure.maintenance.restore import read_restored

EXPLAINED_SHARE = 100
"""Of so many waiting rows that a backlog may explain, one is sent for nevertheless (and always at least one a run).

SQS cannot be asked which messages it holds. In a queue that is never empty a lost message would else never be missed;
this bounds what finding it costs: at most 1 % of what is looked at in superfluous messages, each of which meets its
row and is dropped."""
_UNKNOWN_DEPTH = 2**31


class Around:
    """Asks each tier's depth and each queue's pause once, when first needed."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._paused: dict[str, bool] = {}
        self._restored = read_restored(parts.store)

    def of(self, tier: Tier, rows: Sequence[Row]) -> Iterator[tuple[Row, Surroundings]]:
        """Each of a tier's rows, given oldest first, with its surroundings.

        The messages that SQS holds explain as many waiting rows. If more rows wait than that, the oldest of them have
        lost theirs; besides them one in EXPLAINED_SHARE is not taken as explained.
        """
        now = self._parts.clock.now_ms()
        waiting = sum(1 for row in rows if _waits_for_its_message(row, now))
        held = self._messages(tier) if waiting else 0
        unexplained = max(1, waiting // EXPLAINED_SHARE, waiting - held)
        base = Surroundings(
            paused=self._is_paused(tier.queue),
            look_again_seconds=min(max(waiting, limits.RECONCILE_GRACE_SECONDS), limits.RECONCILE_BACKOFF_SECONDS_MAX),
            retention_seconds=self._parts.topology.queue(tier.queue).retention_seconds,
            restored=self._restored,
        )
        for row in rows:
            backlog = held
            if _waits_for_its_message(row, now) and unexplained > 0:
                backlog = 0
                unexplained -= 1
            yield row, replace(base, backlog=backlog)

    def _messages(self, tier: Tier) -> int:
        """Messages that SQS holds and would deliver. Those in flight too: a function that fails while it is imported
        leaves every message in flight, and nothing is lost."""
        try:
            depth = self._parts.main(tier).depth()
        except ServiceError as error:
            self._parts.telemetry.emit("reconcile.depth_unknown", queue=tier.name, error=str(error))
            return _UNKNOWN_DEPTH
        return depth.visible + depth.in_flight

    def _is_paused(self, queue: str) -> bool:
        if queue not in self._paused:
            try:
                self._paused[queue] = read_pause(self._parts.store, queue).paused
            except ServiceError as error:
                # Unknown is taken as paused: to look again later costs little, to flood a paused queue much.
                self._parts.telemetry.emit("reconcile.pause_unknown", queue=queue, error=str(error))
                self._paused[queue] = True
        return self._paused[queue]


def _waits_for_its_message(row: Row, now_ms: int) -> bool:
    if row.check_at_ms > now_ms or row.message_gone or row.final or row.state is State.WAITING:
        return False
    return row.state is not State.LEASED or lease.lapsed(row.lease_end_at_ms, now_ms)
