"""One scan of one DLQ: every letter read once, answered, and what stays shown again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tenure.core import limits, machine
from tenure.core.ingest import AHEAD, FOREIGN, LEASED, OPEN, BuryMoved, Drain, Ingestion, Keep, SendBack, ingest
from tenure.core.letter import ReadLetter, read_letter
from tenure.core.task import Row
from tenure.core.topology import Tier
from tenure.keys import Keys
from tenure.maintenance.parts import Parts, letter_send, message_of
from tenure.ports import Delivery, Sent
from tenure.rows import Stands, row_key

SCAN_SECONDS = 120
"""How long a letter is hidden while its DLQ is scanned; what stays is shown again at the scan's end."""
LATER_SECONDS = 900
"""How long the letters of a scan that stopped at its bound stay hidden, so that the next one sees others."""
EMPTY_RECEIVES = 3
"""Receives without a letter before a DLQ counts as read: a short poll asks only some of SQS's servers."""
EXPIRING_SECONDS = limits.SQS_RETENTION_SECONDS_MAX - 2 * 86_400
"""A letter older than this is reported: it has two days left of a DLQ's 14."""

_KEPT = {OPEN: "open", FOREIGN: "foreign", AHEAD: "ahead", LEASED: "leased"}


@dataclass(frozen=True, slots=True)
class Found:
    """A letter in hand."""

    delivery: Delivery
    letter: ReadLetter
    row: Row | None


class Scan:
    """Reads a tier's DLQ to its end or to a bound."""

    def __init__(self, parts: Parts, tier: Tier, by: str) -> None:
        self._parts = parts
        self._rows = parts.rows
        self._tier = tier
        self._by = by
        self._keys = Keys.of(parts.topology, parts.store, parts.clock, parts.entropy)
        self._dead = parts.dead(tier)
        self._kept: list[str] = []
        self._letter_ids: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.ahead: list[str] = []

    def run(self, letters_max: int, stop_at_ms: int | None) -> None:
        """Read and answer letters. Raises ServiceError if the DLQ or the table cannot be read; what was in hand comes
        back by itself."""
        self.counts["scanned"] += 1
        seen: set[str] = set()
        empty = 0
        bounded = False
        while empty < EMPTY_RECEIVES and not bounded:
            deliveries = self._dead.receive(limits.SQS_BATCH_ENTRIES_MAX, 0, SCAN_SECONDS)
            fresh = [each for each in deliveries if each.message_id not in seen]
            empty = 0 if fresh else empty + 1
            seen.update(each.message_id for each in fresh)
            self._answer(fresh)
            past = stop_at_ms is not None and self._parts.clock.now_ms() >= stop_at_ms
            bounded = past or len(seen) >= letters_max
        if self._kept:
            seconds = LATER_SECONDS if bounded else 0
            self._dead.set_visibility_many([(receipt, seconds) for receipt in self._kept])

    def _answer(self, deliveries: Sequence[Delivery]) -> None:
        if not deliveries:
            return
        found = self._read(deliveries)
        stamp = self._parts.stamp
        by, tier = self._by, self._tier
        made_of = [ingest(each.row, each.letter, stamp(by), tier, each.delivery.sent_at_ms) for each in found]
        answers = [(each, self._decide(each, made)) for each, made in zip(found, made_of, strict=True)]
        for _, made in answers:
            if isinstance(made, BuryMoved):
                self._keys.halt(made.row)
        changes = [(each, made) for each, made in answers if made.row is not None]
        written = self._rows.replace_many([(each.row, made.row) for each, made in changes if made.row is not None])
        stand = {id(made): isinstance(answer, Stands) for (_, made), answer in zip(changes, written, strict=True)}
        drained: list[Found] = []
        for each, made in answers:
            if not stand.get(id(made), True):
                self.counts["moved_on"] += 1
                self._kept.append(each.delivery.receipt)
            elif self._act(each, made):
                drained.append(each)
            else:
                self._kept.append(each.delivery.receipt)
        if drained:
            self._dead.delete_many([each.delivery.receipt for each in drained])  # one that stays is drained later

    def _read(self, deliveries: Sequence[Delivery]) -> list[Found]:
        letters = [read_letter(each.body, each.attributes) for each in deliveries]
        ids = [letter.envelope.id if letter.envelope else "" for letter in letters]
        wanted = sorted(set(ids) - {""})
        rows = dict(zip(wanted, self._parts.readable([row_key(id_) for id_ in wanted]), strict=True))
        self.counts["read"] += len(deliveries)
        return [
            Found(delivery, letter, rows.get(id_))
            for delivery, letter, id_ in zip(deliveries, letters, ids, strict=True)
        ]

    def _decide(self, found: Found, made: Ingestion) -> Ingestion:
        """What was decided; a second letter of one burial (sent again after a lost answer) is one too many."""
        letter_id = found.letter.letter_id
        if isinstance(made, Keep) and made.why == OPEN:
            if letter_id in self._letter_ids:
                return Drain("a second letter of the same burial")
            self._letter_ids.add(letter_id)
        return made

    def _act(self, found: Found, made: Ingestion) -> bool:
        """Do what the standing write calls for; whether the letter is done with."""
        if isinstance(made, SendBack):
            return self._send_back(found, made)
        if isinstance(made, BuryMoved):
            return self._bury(made)
        if isinstance(made, Keep):
            self._keep(found, made)
            return False
        self.counts["drained"] += 1
        self._tell("letter.drained", found.row, why=made.why)
        return True

    def _keep(self, found: Found, made: Keep) -> None:
        self.counts[_KEPT[made.why]] += 1
        if made.row is not None:
            self.counts["confirmed"] += 1
        if made.why == AHEAD and found.row is not None:
            self.ahead.append(found.row.id)
            self._tell("letter.ahead", found.row, why=made.why)
        if self._parts.clock.now_ms() - found.delivery.sent_at_ms > EXPIRING_SECONDS * 1000:
            self.counts["expiring"] += 1
            self._tell("letter.expiring", found.row, message_id=found.delivery.message_id, why=made.why)

    def _send_back(self, found: Found, made: SendBack) -> bool:
        lane = self._keys.lane(made.row)
        message = message_of(made.row, ordered=self._tier.ordered, delay_seconds=made.delay_seconds, lane=lane)
        sent = self._parts.main(self._tier).send_many([message])[0]
        if isinstance(sent, Sent):
            self.counts["sent_back"] += 1
            self._tell("letter.ingested", made.row, why=made.why, receive_count=found.delivery.receive_count)
            return True
        # The row says that a message was sent; reconcile misses it in time and sends one.
        self.counts["unsent"] += 1
        self._tell("reconcile.unsent", made.row, code=sent.code, error=sent.message)
        return False

    def _bury(self, made: BuryMoved) -> bool:
        sent = self._dead.send_many([letter_send(made.row, ordered=self._tier.ordered)])[0]
        self.counts["buried"] += 1
        self._tell("task.buried", made.row, reason=made.row.reason)
        if isinstance(sent, Sent):
            self._tell("letter.sent", made.row)
            self._rows.replace(made.row, machine.confirm_letter(made.row, self._parts.stamp(self._by)))
        else:
            self.counts["unsent"] += 1  # the row is dead-lettered and its letter unconfirmed: reconcile sends it
        return True

    def _tell(self, event: str, row: Row | None, **more: object) -> None:
        named = {"task_id": row.id, "task": row.task} if row is not None else {}
        self._parts.telemetry.emit(event, queue=self._tier.queue, by=self._by, **named, **more)
