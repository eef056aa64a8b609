"""S33: replays of FIFO letters were dropped as duplicates, attributes went missing, batches were too long."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from moto import mock_aws

from tenure.core import limits, machine
from tenure.core.envelope import decode
from tenure.core.task import State
from tenure.core.topology import Tier
from tenure.local import atomic_moto
from tenure.maintenance.parts import Parts
from tenure.maintenance.redrive import Redrive
from tenure.maintenance.replay import Replays
from tenure.maintenance.replay_record import Phase, ReplaySpec
from tenure.ports import Send, Sent, TaskQueue
from tests.maintenance.crashing import Crash, Points, crashing
from tests.maintenance.kit import Kit
from tests.support.backends import Aws

SPEC = ReplaySpec(filter="queue:ledger", reason="fixed", by="ann", rate_per_second=100)


def test_ordered_letters_come_back_in_order_and_are_not_swallowed() -> None:
    """A1 and A2, dead a minute ago: both delivered again, in order, in their group, with tenant and trace, under new
    deduplication ids; and a second replay's differ again."""
    kit = Kit()
    rows = [
        kit.submit(queue="ledger", ordering_key="A", tenant="x", traceparent=f"00-{n:032x}-{n:016x}-01") for n in (1, 2)
    ]
    used = {row.deduplication_id for row in rows}
    for row in rows:
        kit.bury(row)
    for replays in (1, 2):
        kit.advance(60)
        state = Replays(kit.parts)
        assert state.run(state.create(SPEC).id).phase is Phase.DONE
        messages = kit.world.queues(kit.topology.tier("ledger")).all()
        envelopes = [decode(message.body) for message in messages]
        assert [each.id for each in envelopes] == [row.id for row in rows]
        assert {message.group for message in messages} == {"A"}
        assert [(each.tenant, each.traceparent) for each in envelopes] == [("x", row.traceparent) for row in rows]
        fresh = {message.deduplication_id for message in messages}
        assert not fresh & used
        used |= fresh
        assert {kit.row(row.id).replays for row in rows} == {replays}
        for row in rows:
            kit.bury(kit.row(row.id))


def test_a_send_of_the_same_replay_tried_again_is_one_message() -> None:
    """A replay that dies between its send and its account sends again under the same id, which FIFO swallows."""
    for at in range(1, 60):
        kit = Kit()
        row = kit.bury(kit.submit(queue="ledger", ordering_key="A"))
        replays = Replays(kit.parts)
        state = replays.create(SPEC)
        try:
            Replays(crashing(kit.parts, Points(at, after=True))).run(state.id)
        except Crash:
            kit.advance(61)
        replays.run(state.id)
        assert len(kit.bodies("ledger")) == 1
        kit.work()
        assert (kit.row(row.id).state, kit.runs[row.id]) == (State.COMPLETED, 1)


@dataclass
class Lab:
    """A standard queue and its DLQ in moto, and what was sent to either."""

    parts: Parts
    main: TaskQueue
    dead: TaskQueue
    requests: list[list[dict[str, Any]]]


@pytest.fixture
def lab() -> Iterator[Lab]:
    """Foreign letters need a real wire: attributes have types there."""
    atomic_moto.install()
    with mock_aws():
        aws = Aws("moto")
        main = aws.queue(receives_max=1000)
        dead = aws.dead(main)
        requests: list[list[dict[str, Any]]] = []
        aws.sqs.meta.events.register(
            "provide-client-params.sqs.SendMessageBatch", lambda params, **_: requests.append(params["Entries"])
        )

        def opened(queue: TaskQueue) -> Any:
            def open_tier(tier: Tier) -> TaskQueue:
                return queue

            return open_tier

        kit = Kit()
        topology = kit.topology.model_copy(
            update={"queues": (kit.topology.queues[1].model_copy(update={"ordered": False}),)}
        )
        parts = replace(
            kit.parts, store=aws.store(), main=opened(main), dead=opened(dead), clock=aws.clock, topology=topology
        )
        yield Lab(parts, main, dead, requests)


def test_attributes_keep_their_types(lab: Lab) -> None:
    """Binary and Number attributes of a foreign message come back as Binary and Number, with their values."""
    attributes = {"trace": "t", "tenant": "x", "blob": base64.b64encode(b"\x00\xff").decode(), "count": "7"}
    types = {"blob": "Binary", "count": "Number"}
    letter = Send("hello", attributes={**attributes, "tenure-reason": "text"}, attribute_types=types)
    assert isinstance(lab.dead.send_many([letter])[0], Sent)
    assert Redrive(lab.parts).run("ledger", "ann", "ours").counts["moved"] == 1
    (delivery,) = lab.main.receive(10, 0)
    assert (dict(delivery.attributes), dict(delivery.attribute_types)) == (attributes, types)
    assert not lab.dead.receive(10, 0)


def test_large_letters_go_in_calls_that_sqs_takes(lab: Lab) -> None:
    """Ten messages of 300 KB and one of 1,000 KB move in several calls, none over 1 MiB or ten entries."""
    bodies = [str(n) * 300_000 for n in range(10)] + ["x" * 1_000_000]
    for body in bodies:
        assert isinstance(lab.dead.send_many([Send(body)])[0], Sent)
    lab.requests.clear()
    report = Redrive(lab.parts).run("ledger", "ann", "ours")
    assert report.as_dict()["moved"] == 11
    assert report.as_dict()["failed"] == 0
    assert len(lab.requests) > 1
    for entries in lab.requests:
        assert len(entries) <= limits.SQS_BATCH_ENTRIES_MAX
        assert sum(len(entry["MessageBody"].encode()) for entry in entries) <= limits.SQS_BATCH_BYTES_MAX
    received: list[str] = []
    while deliveries := lab.main.receive(10, 0):
        received += [each.body for each in deliveries]
    assert sorted(received) == sorted(bodies)


def test_a_replay_says_so_in_the_row() -> None:
    """A final row changes only by a replay that says who did it and why (I2)."""
    kit = Kit()
    row = kit.bury(kit.submit())
    replayed = kit.write(row, machine.replay(row, kit.stamp("ann"), "fixed"))
    assert replayed.disposition is not None
    assert (replayed.disposition.by, replayed.disposition.reason, replayed.replays) == ("ann", "fixed", 1)
