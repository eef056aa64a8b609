"""What a producer in another language writes is the message alone: the worker that meets it makes the row (R10)."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core import decide, machine
from tenure.core.adoption import PAYLOAD_BYTES_MAX, adopted
from tenure.core.decide import Arrival, Bury, Claim, Drop, HandBack, Quarantine
from tenure.core.envelope import canonical, decode, digest_of
from tenure.core.task import Row, State, Stored
from tests.core.building import T0, lease_of, stamp


def message(**members: Any) -> str:
    return canonical({"tenure": 1, "id": "a1", "task": "work", "payload": {"n": 1}} | members)


def admit(body: str, *, queue: str = "media", after_seconds: float = 0, **facts: Any) -> decide.Admission:
    arrival = Arrival(decode(body), facts.pop("receive_count", 1), adopting_queue=queue, **facts)
    return decide.admit(None, arrival, lease_of(), stamp(after_seconds))


def test_the_least_message_is_claimed_with_a_row_of_its_own() -> None:
    decision = admit(message())
    assert isinstance(decision, Claim)
    row = decision.row
    assert (row.id, row.task, row.queue, row.state, row.fence) == ("a1", "work", "media", State.LEASED, 1)
    assert row.payload == Stored("inline", '{"n":1}', 7)
    assert (row.digest, row.birth) == (digest_of('{"n":1}'), "w-new"), "a fresh birth, since the message brings none"
    assert [line.event for line in row.history] == ["submit", "claim"]


def test_everything_that_the_message_says_is_in_the_row() -> None:
    told = {
        "birth": "b9",
        "task_version": 2,
        "tenant": "r7",
        "tier": "high",
        "traceparent": "00-a-b-01",
        "depth": 3,
        "max_attempts": 9,
        "deadline_at_ms": T0 + 5000,
        "submitted_at_ms": T0 - 60_000,
    }
    row = adopted(decode(message(**told)), "media", stamp())
    assert isinstance(row, Row)
    assert {name: getattr(row, name) for name in told} == told


@pytest.mark.parametrize("said", ["low", "normal"])
def test_it_is_sent_again_by_the_tier_that_it_came_from(said: str) -> None:
    """Its queue may not have the one that it names: then each retry after a long wait would fail, for ever."""
    decision = admit(message(tier=said), adopting_tier="high")
    assert isinstance(decision, Claim)
    assert decision.row.tier == "high"


def test_a_submit_that_names_no_time_is_dated_by_the_queue() -> None:
    """Else a task that nobody knows would look new at every delivery, and never be buried."""
    row = adopted(decode(message()), "media", stamp(), sent_at_ms=T0 - 600_000)
    assert isinstance(row, Row)
    assert row.submitted_at_ms == T0 - 600_000


def test_a_submit_from_the_future_is_dated_now() -> None:
    """Another machine's clock must not make a task look younger than it is for ever."""
    row = adopted(decode(message(submitted_at_ms=T0 + 10**9)), "media", stamp())
    assert isinstance(row, Row)
    assert row.submitted_at_ms == T0


@pytest.mark.parametrize(
    ("members", "facts", "kind"),
    [
        ({"due_at_ms": T0 + 60_000}, {}, HandBack),
        ({"due_at_ms": T0 + 10**8}, {}, HandBack),
        ({}, {"paused": True}, HandBack),
        ({}, {"unknown": "no task"}, HandBack),
        ({}, {"unknown": "no task", "receive_count": decide.UNKNOWN_RECEIVES, "sent_at_ms": T0 - 600_000}, Bury),
        ({"deadline_at_ms": T0 - 1}, {}, Drop),
    ],
    ids=["not due", "due in a day", "paused", "unknown", "unknown for long", "past its deadline"],
)
def test_it_is_admitted_by_the_same_rules_as_any_other(members: Any, facts: Any, kind: type) -> None:
    """What is handed back leaves no row; what ends, ends in one."""
    decision = admit(message(**members), **facts)
    assert isinstance(decision, kind)
    if isinstance(decision, (Bury, Drop)):
        assert decision.row is not None
        assert decision.row.final


@pytest.mark.parametrize(
    ("members", "queue", "said"),
    [
        ({"row_version": 1}, "media", "its time to live passed, or it was never submitted here"),
        ({}, "", "on an ordered queue its producer must write the row first"),
        ({"payload": "x" * PAYLOAD_BYTES_MAX}, "media", r"carries 8,192 bytes, not 8,194"),
        ({"tier": "nonsense"}, "media", "its member `tier` is none of high, normal, low: 'nonsense'"),
        ({"tenant": "t" * 500_000}, "media", "its member `tenant` is 500,000 bytes; the limit is 256"),
        ({"traceparent": "é" * 129}, "media", "its member `traceparent` is 258 bytes; the limit is 256"),
        ({"birth": "b" * 257}, "media", "its member `birth` is 257 bytes; the limit is 256"),
        ({"digest": "d" * 257}, "media", "its member `digest` is 257 bytes; the limit is 256"),
        ({"task": "w" * 257}, "media", "its member `task` is 257 bytes; the limit is 256"),
        ({"due_at_ms": T0 + 366 * 86_400_000 + 1}, "media", "its member `due_at_ms` is more than 366 days from now"),
        ({"deadline_at_ms": 2**53 - 1}, "media", "its member `deadline_at_ms` is beyond the year 9999"),
    ],
    ids=lambda each: next(iter(each), "ordered") if isinstance(each, dict) else "",
)
def test_what_begins_no_task_is_quarantined_with_its_reason(members: Any, queue: str, said: str) -> None:
    decision = admit(message(**members), queue=queue)
    assert isinstance(decision, Quarantine)
    assert decision.why.startswith("no row for task a1: ")
    assert decision.why.endswith(said)


def test_a_message_alone_must_carry_its_payload() -> None:
    body = '{"tenure":1,"id":"a1","task":"work","payload_ref":{"kind":"item","key":"k","bytes":9}}'
    decision = admit(body)
    assert isinstance(decision, Quarantine)
    assert "must carry its payload" in decision.why


def test_once_there_is_a_row_the_same_message_meets_it() -> None:
    """Delivered again while it runs, and after: it is one task, not another."""
    first = admit(message())
    assert isinstance(first, Claim)
    again = Arrival(decode(message()), 2, adopting_queue="media")
    assert isinstance(decide.admit(first.row, again, lease_of(), stamp(1)), HandBack)
    done = machine.succeed(first.row, stamp(2), None)
    assert decide.admit(done, again, lease_of(), stamp(3)) == Drop("already completed")


def test_a_task_with_one_attempt_that_a_message_alone_begins_is_claimed_in_company_too() -> None:
    """Sent back to be read first it would go round for ever: there is no row to read until it is claimed."""
    arrival = Arrival(decode(message(max_attempts=1)), 1, adopting_queue="media")
    assert isinstance(decide.admit(None, arrival, lease_of(alone=False, max_attempts=1), stamp()), Claim)
