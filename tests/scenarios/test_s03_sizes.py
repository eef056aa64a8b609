"""S03: sizes counted in bytes, with all that tenure adds, before anything is written.

What is too large for a message travels beside it; what nothing can take is a named error that leaves nothing behind.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tenure.adapters.memory.store import MemoryPayloads
from tenure.core import limits
from tenure.core.errors import SubmitRefused, TooLarge, UsageError
from tenure.core.machine import REFUSED, RESULT_NOT_STORABLE
from tenure.core.submission import Options
from tenure.core.task import State
from tenure.maintenance.parts import message_of
from tests.support.shop import REFUSED as SQS_SAYS_NO
from tests.support.shop import Shop

MOST = 2**53 - 1
"""The largest number that an envelope may hold."""


def shop(*, bucket: bool = True) -> Shop:
    """A shop whose environment has a payload bucket, or none."""
    made = Shop()
    if not bucket:
        without = MemoryPayloads(made.world.scheduler, made.world._random, made.world.faults, objects=False)
        made.world.payloads = without
        made.client = made.another_client(payloads=without)
        made.app.connect(client=made.client)
    return made


def measuring(at: Shop, queue: str = "media") -> Any:
    """A task that notes the length of the text it got."""

    @at.app.task(queue=queue)
    def measure(text: str) -> int:
        at.effects.append(len(text))
        return len(text)

    return measure


def test_four_byte_characters_are_counted_as_bytes() -> None:
    """(a) 300,000 emoji are 1.2 MB: without a bucket they are refused with that count, with one they arrive whole."""
    text = "😀" * 300_000
    poor, rich = shop(bucket=False), shop()
    with pytest.raises(TooLarge) as caught:
        measuring(poor).submit(text)
    assert caught.value.size_bytes == 1_200_000 + len('{"text":""}')
    assert "1,200,011 bytes" in str(caught.value)
    assert poor.nothing_exists()
    measuring(rich).submit(text)
    rich.work()
    assert rich.effects == [300_000]


def test_the_last_byte_that_fits_travels_in_the_message_and_the_next_beside_it() -> None:
    """(b) The message's size is exact, envelope included: at the queue's limit, less the room for sending it again,
    in the row; one byte more beside it, for the message that is sent again to name."""
    most_bytes = limits.SQS_MESSAGE_BYTES_MIN - limits.RESEND_ROOM_BYTES
    task = measuring(at := shop(), "small")
    task.submit("x")
    empty_bytes = len(at.queue("small").sent[-1].body.encode()) - 1
    fits = "y" * (most_bytes - empty_bytes)
    task.submit(fits)
    task.submit(fits + "y")
    exact, beyond = at.queue("small").sent[-2:]
    assert len(exact.body.encode()) == most_bytes
    assert "payload_ref" not in json.loads(exact.body)
    assert json.loads(beyond.body)["payload_ref"]["bytes"] == len(fits) + 1 + len('{"text":""}')
    at.work("small")
    assert sorted(at.effects) == [1, len(fits), len(fits) + 1]


def test_the_last_byte_that_an_item_takes() -> None:
    """(b) Without a bucket, a payload of exactly what an item takes is accepted, and one byte more leaves nothing."""
    at, other = shop(bucket=False), shop(bucket=False)
    too_long = measuring(other)
    with pytest.raises(TooLarge) as caught:
        too_long.submit("z" * 1_000_000)
    text = "z" * (caught.value.limit_bytes - len('{"text":""}'))
    with pytest.raises(TooLarge, match=f"{caught.value.limit_bytes + 1:,} bytes"):
        too_long.submit(text + "z")
    assert other.nothing_exists()
    handle = measuring(at).submit(text)
    at.work()
    assert at.effects == [len(text)]
    assert at.row(handle.id).state is State.COMPLETED


def test_what_fits_a_message_and_not_an_item() -> None:
    """(c) 410,000 bytes would fit SQS and not DynamoDB: with a bucket the task runs, without one nothing is left."""
    text = "c" * 410_000
    rich, poor = shop(), shop(bucket=False)
    measuring(rich).submit(text)
    rich.work()
    assert rich.effects == [410_000]
    with pytest.raises(TooLarge, match="410,011 bytes"):
        measuring(poor).submit(text)
    assert poor.nothing_exists()


def test_a_queue_that_takes_small_messages_only() -> None:
    """(d) On a queue of 1,024 bytes a task of 1,100 travels beside its message, and runs once."""
    at = shop()
    measuring(at, "small").submit("d" * 1_100)
    assert len(at.queue("small").sent[0].body.encode()) <= 1024
    at.work("small", rounds=2)
    assert at.effects == [1_100]


@pytest.mark.parametrize("letter", ["d", "\u00e9", "\u20ac", "😀"])
def test_no_message_outgrows_its_queue_in_any_script(letter: str) -> None:
    """(d) Whatever the characters weigh, the message's bytes stay within the queue's limit, to the last one."""
    at = shop()
    task = measuring(at, "small")
    task.submit_many(task.bind(letter * length) for length in range(100, 1100, 50))
    assert max(len(send.body.encode()) for send in at.queue("small").sent) <= 1024
    at.work("small", rounds=3)
    assert sorted(at.effects) == list(range(100, 1100, 50))


def test_a_message_is_sent_again_however_near_to_the_limit_its_first_was() -> None:
    """(d) Numbers grow: with every submit that is taken there is room for the largest numbers that there can be."""
    at = shop()
    task = measuring(at, "small")
    near = 0
    for length in range(300, 700):
        row = at.row(task.options(tenant="t" * 50).submit("d" * length).id)
        grown = replace(row, sends=MOST, version=MOST, due_at_ms=MOST, max_attempts=MOST, fence_floor=MOST)
        first, last = (len(message_of(each, ordered=False).body.encode()) for each in (row, grown))
        assert last <= 1024
        near = max(near, first)
    assert near == 1024 - limits.RESEND_ROOM_BYTES, "and no more room than that is left"


def test_what_no_message_of_the_queue_can_name_is_refused() -> None:
    """(d) Where even a message without its payload is too large, the error counts it, and nothing exists."""
    at = shop()
    tenant = "\x01" * 200  # six bytes each, as JSON writes them
    with pytest.raises(TooLarge, match="with all that tenure adds") as caught:
        measuring(at, "small").options(tenant=tenant).submit("d")
    assert caught.value.limit_bytes == 1024
    assert caught.value.size_bytes > 1200
    assert at.nothing_exists()


def test_a_limit_of_the_queue_that_nobody_told_us() -> None:
    """(d) If SQS itself finds the message too large, the submit raises, and its row can never run."""
    at = shop()
    at.queue().answers = [SQS_SAYS_NO]
    with pytest.raises(SubmitRefused):
        measuring(at).submit("d" * 1_100)
    [row] = [at.rows.get(item.key.pk[2:]) for item in at.items() if item.key.sk == "R"]
    assert row is not None
    assert (row.state, row.reason) == (State.CANCELLED, REFUSED)
    assert at.messages() == []


@pytest.mark.parametrize("bucket", [True, False])
def test_a_result_of_half_a_megabyte(bucket: bool) -> None:
    """(e) With a bucket it is stored; else the work counts as done, once, and its row says what is missing."""
    at = shop(bucket=bucket)

    @at.app.task(queue="media")
    def produce() -> str:
        at.effects.append("ran")
        return "r" * 500_000

    handle = produce.submit()
    at.work(rounds=3)
    row = at.row(handle.id)
    assert at.effects == ["ran"]
    assert row.state is State.COMPLETED
    if bucket:
        assert handle.result("0s") == "r" * 500_000
    else:
        assert row.reason == RESULT_NOT_STORABLE


def test_every_option_is_bounded() -> None:
    """Tenant, key and ordering key have limits of their own, in bytes, so that no message can outgrow its check."""
    Options(tenant="é" * 128, idempotency_key="é" * 512)
    for wrong in ({"tenant": "é" * 129}, {"idempotency_key": "é" * 513}):
        with pytest.raises(UsageError, match="bytes; the limit is"):
            Options(**wrong)  # type: ignore[arg-type] # one of two names
