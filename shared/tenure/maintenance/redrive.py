"""Letters without a row (foreign messages, envelopes of a newer version) put back on their main queue, as they were.

A command of its own: no row guards such a message, so nobody but its sender can tell whether it was done already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenure.core import limits
from tenure.core.envelope import REASON_ATTRIBUTE
from tenure.core.letter import read_letter
from tenure.core.topology import Tier, group_id
from tenure.maintenance.audit import Audit
from tenure.maintenance.parts import Parts
from tenure.maintenance.scan import EMPTY_RECEIVES, SCAN_SECONDS
from tenure.ports import Delivery, Done, Send, Sent

LETTERS_MAX = 5000
"""Letters read of one DLQ in one run."""


@dataclass(frozen=True, slots=True)
class RedriveReport:
    """moved: sent back and deleted here. skipped: letters that are not meant. failed: not sent, or not deleted after
    it was sent (then it is in both queues). `reasons`: why -> how many are meant."""

    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {name: self.counts[name] for name in ("moved", "skipped", "failed")} | {"reasons": dict(self.reasons)}


class Redrive:
    """Moves letters without a row."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._audit = Audit(parts.store, parts.clock, parts.entropy)

    def look(self, queue: str, picks: Callable[[str], bool] = bool) -> RedriveReport:
        """What `run` would move; moves nothing, though it hides the letters for a moment. Raises ServiceError."""
        report = RedriveReport()
        for tier in self._tiers(queue):
            self._scan(tier, picks, report, LETTERS_MAX, move=False)
        return report

    def run(
        self, queue: str, by: str, reason: str, picks: Callable[[str], bool] = bool, limit: int = 0
    ) -> RedriveReport:
        """Move the letters without a row whose reason `picks` accepts, at most `limit` (0: all).

        Body, attributes with their types and FIFO group stay as they were; a deduplication id is the letter's own, so
        that the same redrive tried twice is one message. A letter is deleted after its send. Raises ServiceError.
        """
        report = RedriveReport()
        begun = self._audit.begin("redrive", queue, by, reason, {})
        for tier in self._tiers(queue):
            self._scan(tier, picks, report, limit or LETTERS_MAX, move=True)
        self._audit.end(begun, report.as_dict())
        return report

    def _tiers(self, queue: str) -> Sequence[Tier]:
        return [self._parts.topology.tier(queue, name) for name in self._parts.topology.queue(queue).tiers]

    def _scan(self, tier: Tier, picks: Callable[[str], bool], report: RedriveReport, limit: int, *, move: bool) -> None:
        dead = self._parts.dead(tier)
        seen: set[str] = set()
        kept: list[str] = []
        barred: set[str] = set()
        empty = 0
        while empty < EMPTY_RECEIVES and len(seen) < LETTERS_MAX and report.counts["moved"] < limit:
            deliveries = dead.receive(limits.SQS_BATCH_ENTRIES_MAX, 0, SCAN_SECONDS)
            fresh = [each for each in deliveries if each.message_id not in seen]
            empty = 0 if fresh else empty + 1
            seen.update(each.message_id for each in fresh)
            meant = self._meant(fresh, picks, report)
            moving = meant[: limit - report.counts["moved"]] if move else []
            moved = self._move(tier, [each for each in moving if each.group not in barred], barred, report)
            kept += [each.receipt for each in fresh if each.message_id not in moved]
        dead.set_visibility_many([(receipt, 0) for receipt in kept])

    def _meant(
        self, deliveries: Sequence[Delivery], picks: Callable[[str], bool], report: RedriveReport
    ) -> list[Delivery]:
        letters = [read_letter(each.body, each.attributes) for each in deliveries]
        ids = [letter.envelope.id if letter.envelope else "" for letter in letters]
        wanted = sorted(set(ids) - {""})
        known = {row.id for row in self._parts.rows.get_many(wanted) if row is not None}
        meant = []
        for delivery, letter, task_id in zip(deliveries, letters, ids, strict=True):
            why = letter.reason or letter.kind
            if task_id in known or not picks(why):
                report.counts["skipped"] += 1
            else:
                report.reasons[why] += 1
                meant.append(delivery)
        return meant

    def _move(
        self, tier: Tier, deliveries: Sequence[Delivery], barred: set[str], report: RedriveReport
    ) -> Mapping[str, bool]:
        """Send, then delete what was sent; message id -> True for what is gone from here. On an ordered queue a group
        whose letter was not sent goes no further."""
        main, dead = self._parts.main(tier), self._parts.dead(tier)
        sent: list[Delivery] = []
        for wave in _waves(deliveries) if tier.ordered else [list(deliveries)]:
            going = [each for each in wave if each.group not in barred] if tier.ordered else wave
            answers = main.send_many([_as_it_was(each, ordered=tier.ordered) for each in going])
            for each, answer in zip(going, answers, strict=True):
                if isinstance(answer, Sent):
                    sent.append(each)
                else:
                    report.counts["failed"] += 1
                    barred.update({each.group} if tier.ordered else ())
        deleted = dead.delete_many([each.receipt for each in sent])
        gone = {each.message_id: True for each, done in zip(sent, deleted, strict=True) if isinstance(done, Done)}
        report.counts["moved"] += len(gone)
        report.counts["failed"] += len(sent) - len(gone)
        return gone


def _as_it_was(letter: Delivery, *, ordered: bool) -> Send:
    attributes = {name: value for name, value in letter.attributes.items() if name != REASON_ATTRIBUTE}
    return Send(
        letter.body,
        letter.group,
        group_id(f"redrive:{letter.message_id}") if ordered else "",
        attributes=attributes,
        attribute_types={name: kind for name, kind in letter.attribute_types.items() if name in attributes},
    )


def _waves(deliveries: Sequence[Delivery]) -> list[list[Delivery]]:
    """Rounds of at most one letter of each group, in the order in which they lie there."""
    waves: list[list[Delivery]] = []
    counts: Counter[str] = Counter()
    for each in deliveries:
        if counts[each.group] == len(waves):
            waves.append([])
        waves[counts[each.group]].append(each)
        counts[each.group] += 1
    return waves
