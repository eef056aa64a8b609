"""Messages for the queue's contract: made to be taken by either kind of queue, received, and judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.ports import Delivery, NotSent, Send, Sent, TaskQueue


def a_send(queue: TaskQueue, body: str = "hello", name: str = "", **changes: Any) -> Send:
    """A message that this kind of queue takes. On FIFO each is its own group, so that none waits for another."""
    name = name or body[:100]
    send = Send(body, group=name, deduplication_id=f"d-{name}") if queue.ordered else Send(body)
    return replace(send, **changes)


def receive(queue: TaskQueue, count: int) -> list[Delivery]:
    """Receive until so many have come, or none comes any more."""
    found: list[Delivery] = []
    while len(found) < count:
        more = queue.receive(10, 0, 60)
        if not more:
            break
        found += more
    return found


def only(queue: TaskQueue, visibility_seconds: int = 60, wait_seconds: int = 0) -> Delivery:
    (delivery,) = queue.receive(10, wait_seconds, visibility_seconds)
    return delivery


def refused(outcome: Sent | NotSent) -> str:
    """The code of a definite refusal."""
    assert isinstance(outcome, NotSent)
    assert outcome.definite
    return outcome.code
