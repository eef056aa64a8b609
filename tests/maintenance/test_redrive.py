"""Letters without a row go back as they were."""

from __future__ import annotations

import base64

from tenure.core.errors import ServiceError
from tenure.core.letter import quarantine_of
from tenure.maintenance.audit import Audit
from tenure.maintenance.redrive import Redrive
from tenure.ports import Send
from tests.maintenance.kit import Kit


def quarantine(
    kit: Kit, body: str, queue: str = "media", group: str = "", why: str = "json", **attributes: str
) -> None:
    """A foreign message in a DLQ."""
    letter = quarantine_of(body, attributes, group, body, why)
    tier = kit.topology.tier(queue)
    ids = (letter.group, letter.deduplication_id) if tier.ordered else ("", "")
    kit.world.dead(tier).send_many([Send(letter.body, *ids, attributes=letter.attributes)])


def test_body_and_attributes_survive() -> None:
    """A foreign message comes back as its sender sent it; only the reason for its quarantine goes."""
    kit = Kit()
    quarantine(kit, "hello", trace="t", blob=base64.b64encode(b"\x00\xff").decode())
    report = Redrive(kit.parts).run("media", "ann", "ours after all")
    assert (report.counts["moved"], kit.letters()) == (1, [])
    (message,) = kit.world.queues(kit.topology.tier("media")).all()
    assert (message.body, dict(message.attributes)) == ("hello", {"trace": "t", "blob": "AP8="})


def test_a_look_moves_nothing() -> None:
    """A dry run tells what it would move, by reason, and shows every letter again."""
    kit = Kit()
    quarantine(kit, "a", why="json")
    quarantine(kit, "b", why="version 2")
    kit.bury(kit.submit())
    report = Redrive(kit.parts).look("media")
    assert dict(report.reasons) == {"json": 1, "version 2": 1}
    assert report.counts["skipped"] == 1
    assert kit.world.dead(kit.topology.tier("media")).depth().visible == 3


def test_only_what_is_picked_moves() -> None:
    """A reason picks; letters of tasks that have a row never move this way."""
    kit = Kit()
    quarantine(kit, "a", why="json")
    quarantine(kit, "b", why="version 2")
    kit.bury(kit.submit())
    report = Redrive(kit.parts).run("media", "ann", "deployed", picks=lambda why: why.startswith("version"))
    assert report.counts["moved"] == 1
    assert kit.bodies() == ["b"]


def test_order_and_group_survive_on_fifo() -> None:
    """Letters of a group go back in their order, under deduplication ids of their own (S33)."""
    kit = Kit()
    for n in range(12):
        quarantine(kit, f"m{n}", "ledger", group="A")
    assert Redrive(kit.parts).run("ledger", "ann", "fixed").counts["moved"] == 12
    messages = kit.world.queues(kit.topology.tier("ledger")).all()
    assert [(message.body, message.group) for message in messages] == [(f"m{n}", "A") for n in range(12)]


def test_a_letter_is_deleted_only_after_its_send() -> None:
    """While the main queue refuses, every letter stays where it is."""
    kit = Kit()
    quarantine(kit, "hello")
    kit.world.faults = type(kit.world.faults)(send_unanswered=1.0)
    report = Redrive(kit.parts).run("media", "ann", "try")
    assert (report.counts["moved"], report.counts["failed"], kit.letters()) == (0, 1, ["hello"])


def test_it_is_audited() -> None:
    """Who put foreign messages back, and why, is on record."""
    kit = Kit()
    quarantine(kit, "hello")
    Redrive(kit.parts).run("media", "ann", "ours")
    records = Audit(kit.world.store, kit.world.clock, kit.world.entropy).read(kit.now_ms - 1)
    assert [(each.action, each.by, each.phase) for each in records] == [
        ("redrive", "ann", "ended"),
        ("redrive", "ann", "begun"),
    ]


def test_nothing_is_done_that_cannot_be_recorded() -> None:
    """If the audit log cannot be written, no letter moves."""
    kit = Kit()
    quarantine(kit, "hello")
    kit.world.faults = type(kit.world.faults)(store_unanswered=1.0)
    try:
        Redrive(kit.parts).run("media", "ann", "ours")
    except ServiceError:
        assert kit.letters() == ["hello"]
    else:
        raise AssertionError("it went on without a record")
