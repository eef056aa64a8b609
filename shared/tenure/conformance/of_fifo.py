"""Checks of FIFO queues."""

from __future__ import annotations

from tenure.conformance.check import KNOWLEDGE_CENTER, SQS_API, SQS_GUIDE, Check, Seen
from tenure.conformance.of_queues import lapsed, redelivered
from tenure.conformance.sandbox import Line, Message, Sandbox, Unseen


def _bodies(messages: list[Message]) -> str:
    return "".join(str(each["Body"]) for each in messages)


def _filled(sandbox: Sandbox, bodies: str) -> Line:
    """A FIFO queue with one message of one group for each letter."""
    line = sandbox.queue(fifo=True)
    for body in bodies:
        line.send(body)
    return line


def _group_lock(sandbox: Sandbox) -> Seen:
    line = _filled(sandbox, "ab")
    line.send("x", MessageGroupId="other")
    came = _bodies(line.some(1)) + _bodies(line.some(10))
    quiet = line.quiet()
    return Seen(
        came in ("ax", "xa", "xab") and quiet,
        f"with one in flight: {came!r} came, and then {'nothing' if quiet else 'MORE'}",
    )


def _in_order(sandbox: Sandbox) -> Seen:
    line = _filled(sandbox, "abcd")
    came = ""
    batch = first = line.some(10)
    while batch:
        came += _bodies(batch)
        for each in batch:
            line.delete(each)
        batch = line.receive(wait=1)
    return Seen(came == "abcd", f"{len(first)} of 4 in the first receive; all of them: {came!r}")


def _order_after_return(sandbox: Sandbox) -> Seen:
    line = _filled(sandbox, "abc")
    first = line.some(10)
    for each in reversed(first):
        line.hide(each, 0)
    again = _bodies(line.some(10))
    return Seen("abc".startswith(again), f"{_bodies(first)!r} given back from behind, then received: {again!r}")


def _tail_waits(sandbox: Sandbox) -> Seen:
    line = _filled(sandbox, "abc")
    first = line.some(2)
    if len(first) < 2:
        raise Unseen("two of a group did not come at once")
    line.hide(first[1], 0)
    quiet = line.quiet()
    return Seen(
        quiet, f"{_bodies(first)!r} received, the second given back: {'nothing comes' if quiet else 'it COMES'}"
    )


def _dedup(sandbox: Sandbox) -> Seen:
    line = _filled(sandbox, "a")
    answer = line.refusal_of_send("b", MessageDeduplicationId="a")
    line.delete(line.one())
    quiet = line.quiet()
    return Seen(
        not answer and quiet, f"a second send: {answer or 'taken'}, {'not delivered' if quiet else 'DELIVERED'}"
    )


def _dedup_after_delete(sandbox: Sandbox) -> Seen:
    line = _filled(sandbox, "a")
    line.delete(line.one())
    answer = line.refusal_of_send("a")
    quiet = line.quiet()
    return Seen(
        not answer and quiet, f"sent again: {answer or 'taken'}, {'not delivered' if quiet else 'delivered again'}"
    )


def _stale_delete(sandbox: Sandbox) -> Seen:
    line = _filled(sandbox, "a")
    first, second = redelivered(line)
    answer = line.delete(first)
    line.hide(second, 0)
    kept = not line.quiet()
    return Seen(
        bool(answer) and kept,
        f"delete by the receipt before: {answer or 'taken'}, message {'still there' if kept else 'gone'}",
    )


def _lapsed_delete(sandbox: Sandbox) -> Seen:
    line = _filled(sandbox, "a")
    answer = line.delete(lapsed(sandbox, line))
    kept = not line.quiet()
    return Seen(bool(answer) and kept, f"{answer or 'taken'}, message {'still there' if kept else 'gone'}")


def _delay(sandbox: Sandbox) -> Seen:
    answer = sandbox.queue(fifo=True).refusal_of_send("a", DelaySeconds=1)
    return Seen(bool(answer), answer or "taken")


def _needs_group(sandbox: Sandbox) -> Seen:
    line = sandbox.queue()  # a standard line adds no group and no id of its own
    fifo = sandbox.queue(fifo=True)
    line.url = fifo.url
    group = line.refusal_of_send("a", MessageDeduplicationId="a")
    id_ = line.refusal_of_send("a", MessageGroupId="g")
    return Seen(bool(group and id_), f"without a group: {group or 'taken'}; without an id: {id_ or 'taken'}")


def _dead_letter(sandbox: Sandbox) -> Seen:
    line, dead = sandbox.queue_with_dead(1, fifo=True)
    line.send("a")
    line.send("b")
    line.hide(line.one(), 0)
    following = line.receive(wait=2) or line.some(10)  # the first moves the head, and may bring nothing else
    letter = dead.one()
    group = str(letter["Attributes"].get("MessageGroupId"))
    holds = _bodies([letter]) == "a" and group == "g" and _bodies(following) == "b"
    return Seen(holds, f"moved with its group {group!r}; then came {_bodies(following)!r}")


_GROUPS = f"{SQS_GUIDE}using-messagegroupid-property.html"
_DEDUP = f"{SQS_GUIDE}using-messagededuplicationid-property.html"
_LOGIC = f"{SQS_GUIDE}FIFO-queues-understanding-logic.html"
_RECEIPTS = f"{KNOWLEDGE_CENTER}sqs-receipt-handle-error"

CHECKS: tuple[Check, ...] = (
    Check(
        "fifo-group-lock",
        "while a message of a group is in flight, none of that group is delivered; other groups are",
        _LOGIC,
        _group_lock,
    ),
    Check("fifo-in-order", "messages of one group come in the order in which they were sent", _GROUPS, _in_order),
    Check(
        "fifo-order-after-return",
        "messages that come back are received in their order again",
        _LOGIC,
        _order_after_return,
    ),
    Check(
        "fifo-tail-waits",
        "a message that is visible again waits while an earlier one of its group is in flight",
        _LOGIC,
        _tail_waits,
    ),
    Check("fifo-dedup", "a second send under one deduplication id is taken, and not delivered", _DEDUP, _dedup),
    Check(
        "fifo-dedup-after-delete",
        "a deduplication id is remembered for 5 minutes, even after its message was deleted",
        _DEDUP,
        _dedup_after_delete,
    ),
    Check("fifo-stale-delete", "a delete by the receipt of an earlier receive is refused", _RECEIPTS, _stale_delete),
    Check("fifo-lapsed-delete", "a delete after the visibility has run out is refused", _RECEIPTS, _lapsed_delete),
    Check("fifo-delay", "a FIFO message has no delay of its own", f"{SQS_API}SendMessage.html", _delay),
    Check(
        "fifo-needs-group-and-id",
        "without a group, or without a deduplication id, a send is refused",
        f"{SQS_API}SendMessage.html",
        _needs_group,
    ),
    Check(
        "fifo-dead-letter",
        "a message that moves to the DLQ keeps its group, and the next of the group then comes",
        f"{SQS_GUIDE}sqs-dead-letter-queues.html",
        _dead_letter,
    ),
)
