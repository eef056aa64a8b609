"""A standard queue of the world follows SQS's rules; each is named in adapters/memory/queue.py with its source."""

import pytest

from tenure.core.errors import ServiceError
from tenure.ports import Done, NotDone, NotSent, Send, Sent
from tenure.testing import Faults, World

HOURS = 3600


def body_of(deliveries):
    return [delivery.body for delivery in deliveries]


@pytest.fixture
def world():
    return World()


def test_a_received_message_is_hidden_then_comes_back_under_a_new_receipt(world):
    queue = world.queue("q", visibility_seconds=30)
    queue.send_many([Send("a")])
    first = queue.receive(10, 0)[0]
    assert queue.receive(10, 0) == []
    world.advance(30)
    second = queue.receive(10, 0)[0]
    assert (second.message_id, second.receive_count) == (first.message_id, 2)
    assert second.receipt != first.receipt
    assert second.sent_at_ms == first.sent_at_ms


def test_a_long_poll_ends_when_a_message_becomes_visible(world):
    queue = world.queue("q", visibility_seconds=12)
    queue.send_many([Send("a", delay_seconds=7)])
    before = world.clock.now_ms()
    assert len(queue.receive(10, 20)) == 1
    assert world.clock.now_ms() - before == 7000
    assert len(queue.receive(10, 20)) == 1
    assert world.clock.now_ms() - before == 19_000
    assert queue.receive(10, 5) == []
    assert world.clock.now_ms() - before == 24_000


def test_a_change_of_visibility_runs_from_the_call_and_is_not_remembered(world):
    queue = world.queue("q", visibility_seconds=30)
    queue.send_many([Send("a")])
    receipt = queue.receive(1, 0)[0].receipt
    world.advance(20)
    assert queue.set_visibility_many([(receipt, 100)]) == [Done()]
    world.advance(99)
    assert queue.receive(1, 0) == []
    world.advance(1)
    assert len(queue.receive(1, 0)) == 1
    world.advance(30)
    assert len(queue.receive(1, 0)) == 1


def test_twelve_hours_count_from_the_receive_and_more_is_refused_not_clamped(world):
    queue = world.queue("q")
    queue.send_many([Send("a")])
    world.advance(10 * HOURS)
    receipt = queue.receive(1, 0)[0].receipt
    assert queue.set_visibility_many([(receipt, 12 * HOURS)]) == [Done()]
    world.advance(6 * HOURS)
    refused = queue.set_visibility_many([(receipt, 6 * HOURS + 1)])[0]
    assert isinstance(refused, NotDone)
    assert not refused.gone
    assert "beyond the limit" in refused.message
    assert queue.set_visibility_many([(receipt, 6 * HOURS)]) == [Done()]


def test_a_stale_receipt_is_answered_yes_and_changes_nothing(world):
    """The plain world's choice among what AWS allows; with faults it takes effect now and then."""
    queue = world.queue("q", visibility_seconds=30)
    queue.send_many([Send("a")])
    stale = queue.receive(1, 0)[0].receipt
    world.advance(30)
    newer = queue.receive(1, 0)[0].receipt
    assert queue.set_visibility_many([(stale, 0)]) == [Done()]
    assert queue.receive(1, 0) == []
    assert queue.delete_many([stale]) == [Done()]
    assert queue.depth().in_flight == 1
    assert queue.delete_many([newer]) == [Done()]
    assert queue.depth().in_flight == 0


def test_a_stale_receipt_may_take_effect_where_faults_say_so():
    world = World(faults=Faults(stale_takes_effect=1))
    queue = world.queue("q", visibility_seconds=30)
    queue.send_many([Send("a")])
    stale = queue.receive(1, 0)[0].receipt
    world.advance(30)
    queue.receive(1, 0)
    assert queue.set_visibility_many([(stale, 0)]) == [Done()]
    assert len(queue.receive(1, 0)) == 1
    assert queue.delete_many([stale]) == [Done()]
    world.advance(60)
    assert queue.receive(1, 0) == []


def test_a_lapsed_receipt_that_is_still_the_latest_deletes(world):
    queue = world.queue("q", visibility_seconds=30)
    queue.send_many([Send("a")])
    receipt = queue.receive(1, 0)[0].receipt
    world.advance(31)
    assert queue.delete_many([receipt]) == [Done()]
    assert queue.receive(1, 0) == []


def test_after_the_delete_a_change_is_refused_and_another_delete_is_not(world):
    queue = world.queue("q")
    queue.send_many([Send("a")])
    receipt = queue.receive(1, 0)[0].receipt
    assert queue.delete_many([receipt, receipt]) == [Done(), Done()]
    refused = queue.set_visibility_many([(receipt, 10)])[0]
    assert isinstance(refused, NotDone)
    assert refused.gone


def test_receipts_of_nobody_or_of_another_queue_are_refused(world):
    queue, other = world.queue("q"), world.queue("other")
    other.send_many([Send("a")])
    foreign = other.receive(1, 0)[0].receipt
    for outcome in queue.delete_many(["nonsense", foreign]) + queue.set_visibility_many(
        [("nonsense", 1), (foreign, 1)]
    ):
        assert isinstance(outcome, NotDone)
        assert outcome.gone


def test_retention_counts_from_the_send_in_flight_or_not(world):
    queue = world.queue("q", retention_seconds=60)
    queue.send_many([Send("a")])
    receipt = queue.receive(1, 0, 600)[0].receipt
    world.advance(61)
    assert queue.depth().in_flight == 0
    refused = queue.set_visibility_many([(receipt, 5)])[0]
    assert isinstance(refused, NotDone)
    assert refused.gone


def test_beyond_its_receive_count_the_receive_moves_a_message_to_the_dlq(world):
    queue = world.queue("q", visibility_seconds=30, receive_count_max=2, dead="q-dead")
    queue.send_many([Send("a", attributes={"x": "1"})])
    sent_at_ms = world.clock.now_ms()
    for _ in range(2):
        old = queue.receive(1, 0)[0]
        world.advance(30)
    assert queue.receive(1, 0) == []
    letter = world.queue("q-dead").receive(1, 0)[0]
    assert (letter.message_id, letter.body, letter.attributes) == (old.message_id, "a", {"x": "1"})
    assert (letter.receive_count, letter.sent_at_ms) == (3, sent_at_ms)
    assert letter.moved_from.endswith(":q")
    assert queue.delete_many([old.receipt]) == [Done()]
    assert world.queue("q-dead").depth().in_flight == 1


@pytest.mark.parametrize(
    ("send", "code"),
    [
        (Send(""), "MissingParameter"),
        (Send("a\x00"), "InvalidMessageContents"),
        (Send("a\ud800"), "InvalidMessageContents"),
        (Send("é" * 524_289), "InvalidParameterValue"),
        (Send("x" * 1_048_570, attributes={"name": "v"}), "InvalidParameterValue"),
        (Send("a", attributes={f"n{i}": "v" for i in range(11)}), "InvalidParameterValue"),
        (Send("a", attributes={"empty": ""}), "InvalidParameterValue"),
        (Send("a", attributes={"AWS.x": "v"}), "InvalidParameterValue"),
        (Send("a", delay_seconds=901), "InvalidParameterValue"),
        (Send("a", delay_seconds=-1), "InvalidParameterValue"),
        (Send("a", group="with a blank"), "InvalidParameterValue"),
        (Send("a", group="g" * 129), "InvalidParameterValue"),
        (Send("a", deduplication_id="d"), "InvalidParameterValue"),
    ],
)
def test_what_sqs_does_not_take_is_refused_for_certain_and_hinders_no_other(world, send, code):
    """Size is counted in UTF-8 bytes with the attributes; the neighbours of a refused entry are sent."""
    queue = world.queue("q")
    before, refused, after = queue.send_many([Send("before"), send, Send("x" * 1_048_576)])
    assert isinstance(before, Sent)
    assert isinstance(after, Sent)
    assert isinstance(refused, NotSent)
    assert (refused.definite, refused.code) == (True, code)
    assert len(queue.all()) == 2


@pytest.mark.parametrize(("limit", "wait", "visibility"), [(0, 0, 30), (11, 0, 30), (1, 21, 30), (1, 0, 43_201)])
def test_a_receive_outside_of_sqs_limits_is_an_error(world, limit, wait, visibility):
    with pytest.raises(ServiceError, match="must be between"):
        world.queue("q").receive(limit, wait, visibility)


def test_depth_tells_visible_hidden_and_delayed_apart(world):
    queue = world.queue("q")
    queue.send_many([Send("a"), Send("b"), Send("c", delay_seconds=60)])
    queue.receive(1, 0)
    depth = queue.depth()
    assert (depth.visible, depth.in_flight, depth.delayed) == (1, 1, 1)


def test_a_standard_queue_with_faults_duplicates_reorders_and_revives():
    """At-least-once: with every fault on, each message is still seen, some more than once, not in order."""
    world = World(3, Faults(duplicate=0.2, revived=0.2, reorder=1.0, receive_empty=0.2, receive_partial=0.5))
    queue = world.queue("q")
    queue.send_many([Send(str(i)) for i in range(100)])
    seen, deleted = [], set()
    while len(deleted) < 100 or world.clock.now_ms() < 1_800_003_000_000:
        for delivery in queue.receive(10, 5):
            seen.append(int(delivery.body))
            queue.delete_many([delivery.receipt])
            deleted.add(delivery.body)
    assert set(seen) == set(range(100))
    assert len(seen) > 100
    assert seen[:50] != sorted(seen[:50])


def test_an_unanswered_send_is_not_definite_and_may_be_there():
    world = World(1, Faults(send_unanswered=1))
    queue = world.queue("q")
    outcomes = queue.send_many([Send("a") for _ in range(40)])
    assert all(isinstance(o, NotSent) and not o.definite for o in outcomes)
    assert 5 < len(queue.all()) < 35
