"""Checks of standard queues, and of what both kinds of queue have in common."""

from __future__ import annotations

from tenure.conformance.check import KNOWLEDGE_CENTER, SQS_API, SQS_GUIDE, Check, Seen
from tenure.conformance.sandbox import Line, Message, Sandbox, Unseen
from tenure.core import limits
from tenure.ports import NotSent, Send, Sent

SMALL_BYTES = 1024
"""The least that a queue's own MaximumMessageSize can be."""


def _system(message: Message, name: str) -> str:
    return str(message.get("Attributes", {}).get(name, ""))


def _count(message: Message) -> int:
    return int(_system(message, "ApproximateReceiveCount") or 0)


def redelivered(line: Line) -> tuple[Message, Message]:
    """One message, received, hidden for a second, and received again; both receives."""
    first = line.one(visibility=1)
    second = line.one()
    if second["MessageId"] != first["MessageId"]:
        raise Unseen("another message came than the one that was hidden")
    return first, second


def lapsed(sandbox: Sandbox, line: Line) -> Message:
    """One message whose visibility has run out and that nobody has received since."""
    message = line.one(visibility=1)
    sandbox.clock.sleep(1.5)
    return message


# ---- visibility ----------------------------------------------------------------------------------------------------
def _hidden_and_back(sandbox: Sandbox) -> Seen:
    line = sandbox.queue()
    line.send("a")
    sent_ms = sandbox.clock.now_ms()
    first, second = redelivered(line)
    early = sandbox.clock.now_ms() - sent_ms < 1000
    fresh = second["ReceiptHandle"] != first["ReceiptHandle"]
    same = _system(second, "SentTimestamp") == _system(first, "SentTimestamp")
    return Seen(
        fresh and same and not early,
        f"came back {'early' if early else 'after its time'}, same message id, "
        f"{'new' if fresh else 'SAME'} receipt, {'same' if same else 'OTHER'} time of sending",
    )


def _visibility_zero(sandbox: Sandbox) -> Seen:
    line = sandbox.queue()
    line.send("a")
    message = line.one()
    hidden = line.quiet()
    answer = line.hide(message, 0)
    back = _count(line.one()) == 2
    return Seen(
        hidden and not answer and back,
        f"in flight {'hidden' if hidden else 'visible'}; 0 s: {answer or 'taken'}, {'at once' if back else 'not'} back",
    )


def _receive_count(sandbox: Sandbox) -> Seen:
    line = sandbox.queue()
    line.send("a")
    counts = []
    for _ in range(3):
        message = line.one()
        counts.append(_count(message))
        line.hide(message, 0)
    return Seen(counts == [1, 2, 3], f"three receives: {', '.join(map(str, counts))}")


def _visibility_bound(sandbox: Sandbox) -> Seen:
    line = sandbox.queue()
    line.send("a")
    message = line.one()
    answer = line.hide(message, limits.SQS_VISIBILITY_SECONDS_MAX + 1)
    alive = line.hide(message, 0)
    return Seen(
        bool(answer) and not alive, f"43,201 s: {answer or 'taken'}; 0 s by the same receipt: {alive or 'taken'}"
    )


def _visibility_total(sandbox: Sandbox) -> Seen:
    line = sandbox.queue()
    line.send("a")
    message = line.one()
    sandbox.clock.sleep(2)
    answer = line.hide(message, limits.SQS_VISIBILITY_SECONDS_MAX)
    return Seen(bool(answer), f"43,200 s more, 2 s after the receive: {answer or 'taken'}")


def _visibility_from_receive(sandbox: Sandbox) -> Seen:
    line = sandbox.queue()
    line.send("a")
    sandbox.clock.sleep(4)
    message = line.one()
    answer = line.hide(message, limits.SQS_VISIBILITY_SECONDS_MAX - 3)
    return Seen(not answer, f"43,197 s at once after the receive, 4 s after the send: {answer or 'taken'}")


def _visibility_per_entry(sandbox: Sandbox) -> Seen:
    line = sandbox.queue()
    line.send("a")
    line.send("b")
    over, good = line.many(2)
    wanted = ((over, limits.SQS_VISIBILITY_SECONDS_MAX + 1), (good, 0))
    told = line.batch(
        "change_message_visibility_batch",
        [{"ReceiptHandle": each["ReceiptHandle"], "VisibilityTimeout": seconds} for each, seconds in wanted],
    )
    return Seen(bool(told.get("0")) and told.get("1") == "", f"43,201 s and 0 s in one call: {_outcomes(told)}")


def _outcomes(told: dict[str, str]) -> str:
    return ", ".join(told[each] or "taken" for each in sorted(told))


# ---- receipts ------------------------------------------------------------------------------------------------------
def _stale_delete(sandbox: Sandbox) -> Seen:
    line = sandbox.queue()
    line.send("a")
    first, second = redelivered(line)
    answer = line.delete(first)
    line.hide(second, 0)
    kept = not line.quiet()
    return Seen(
        not answer,
        f"delete by the receipt before: {answer or 'taken'}, message {'still there' if kept else 'gone'}",
    )


def _lapsed_delete(sandbox: Sandbox) -> Seen:
    line = sandbox.queue()
    line.send("a")
    answer = line.delete(lapsed(sandbox, line))
    gone = line.quiet()
    return Seen(not answer and gone, f"{answer or 'taken'}, message {'gone' if gone else 'still there'}")


def _garbage_delete(sandbox: Sandbox) -> Seen:
    line = sandbox.queue()
    line.send("a")
    good = line.one()["ReceiptHandle"]
    told = line.batch("delete_message_batch", [{"ReceiptHandle": "no receipt"}, {"ReceiptHandle": good}])
    return Seen(bool(told.get("0")) and told.get("1") == "", f"no receipt and a good one: {_outcomes(told)}")


# ---- sending -------------------------------------------------------------------------------------------------------
def _round_trip(sandbox: Sandbox) -> Seen:
    line = sandbox.queue()
    body, attribute = '{"dish": "Käsespätzle 🧀"}', {"DataType": "String", "StringValue": "zu groß"}
    message_id = line.send(body, MessageAttributes={"why": attribute})
    message = line.one()
    same = message["Body"] == body and message["MessageAttributes"]["why"]["StringValue"] == "zu groß"
    same = same and message["MessageId"] == message_id
    return Seen(same, f"body, attribute and message id {'as sent' if same else 'CHANGED'}")


def _delay(sandbox: Sandbox) -> Seen:
    line = sandbox.queue()
    sent_ms = sandbox.clock.now_ms()
    line.send("a", DelaySeconds=2)
    line.one()
    waited = (sandbox.clock.now_ms() - sent_ms) / 1000
    over = line.refusal_of_send("b", DelaySeconds=limits.SQS_DELAY_SECONDS_MAX + 1)
    on_time = waited >= 2
    return Seen(
        on_time and bool(over), f"2 s: {'not before its time' if on_time else 'EARLY'}; 901 s: {over or 'taken'}"
    )


def _per_entry(sandbox: Sandbox) -> Seen:
    line = sandbox.queue(MaximumMessageSize=str(SMALL_BYTES))
    told = line.batch("send_message_batch", [{"MessageBody": body} for body in ("a", "b" * (SMALL_BYTES + 1), "c")])
    holds = bool(told.get("1")) and told.get("0") == told.get("2") == ""
    return Seen(holds, f"a small one, one that is too large, a small one: {_outcomes(told)}")


def _adapter_per_entry(sandbox: Sandbox) -> Seen:
    line = sandbox.queue(MaximumMessageSize=str(SMALL_BYTES))
    bodies = [f"m{n}" for n in range(12)]
    bodies.insert(5, "x" * (SMALL_BYTES + 1))
    outcomes = sandbox.adapted(line).send_many([Send(body) for body in bodies])
    refused = outcomes.pop(5)
    sent = sum(isinstance(each, Sent) for each in outcomes)
    came = len({each["Body"] for each in line.many(12)})
    holds = isinstance(refused, NotSent) and refused.definite and sent == came == 12
    what = "refused for certain" if isinstance(refused, NotSent) and refused.definite else "not refused for certain"
    return Seen(holds, f"of 13 in two calls the one that is too large {what}, {sent} sent, {came} received")


def _characters(sandbox: Sandbox) -> Seen:
    codes = [sandbox.queue().refusal_of_send(f"a{letter}b") for letter in ("\u0001", "\ufffe")]
    return Seen(all(codes), f"U+0001: {codes[0] or 'taken'}; U+FFFE: {codes[1] or 'taken'}")


def _utf8_bytes(sandbox: Sandbox) -> Seen:
    line = sandbox.queue(MaximumMessageSize=str(SMALL_BYTES))
    fits, over = line.refusal_of_send("é" * 512), line.refusal_of_send("é" * 513)
    return Seen(not fits and bool(over), f"of 1,024 B, 512 'é': {fits or 'taken'}; 513 'é': {over or 'taken'}")


def _attribute_bytes(sandbox: Sandbox) -> Seen:
    line = sandbox.queue(MaximumMessageSize=str(SMALL_BYTES))
    attribute = {"DataType": "String", "StringValue": "y" * 100}
    over = line.refusal_of_send("x" * 1000, MessageAttributes={"n": attribute})
    return Seen(bool(over), f"of 1,024 B, a body of 1,000 B and an attribute of 107 B: {over or 'taken'}")


def _mebibyte(sandbox: Sandbox) -> Seen:
    line = sandbox.queue()
    most = limits.SQS_MESSAGE_BYTES_MAX
    fits, over = line.refusal_of_send("x" * most), line.refusal_of_send("x" * (most + 1))
    return Seen(not fits and bool(over), f"{most:,} B: {fits or 'taken'}; one more: {over or 'taken'}")


def _tenants(sandbox: Sandbox) -> Seen:
    line = sandbox.queue()
    for body in ("a", "b"):
        line.send(body, MessageGroupId="acme")
    first = line.one()
    second = line.one()
    groups = {_system(each, "MessageGroupId") for each in (first, second)}
    return Seen(groups == {"acme"}, f"two of one group in flight at once, received with group {sorted(groups)}")


# ---- the DLQ -------------------------------------------------------------------------------------------------------
def _moved(sandbox: Sandbox) -> tuple[str, Line, Message]:
    """(id as sent, source, message in the DLQ) of a message that was received twice, one time more than allowed."""
    line, dead = sandbox.queue_with_dead(1)
    attribute = {"DataType": "String", "StringValue": "kept"}
    message_id = line.send("a", MessageAttributes={"why": attribute}, MessageGroupId="acme")
    line.hide(line.one(), 0)
    line.receive(wait=1)
    return message_id, line, dead.one()


def _dead_letter(sandbox: Sandbox) -> Seen:
    message_id, _, letter = _moved(sandbox)
    user = letter.get("MessageAttributes", {}).get("why", {}).get("StringValue")
    same_id, count = letter["MessageId"] == message_id, _count(letter)
    holds = same_id and letter["Body"] == "a" and user == "kept" and count >= 2
    return Seen(
        holds,
        f"moved with its body, {'its' if same_id else 'ANOTHER'} message id, "
        f"{'its' if user == 'kept' else 'NO'} attributes; received {count} times by then",
    )


def _dead_letter_source(sandbox: Sandbox) -> Seen:
    _, line, letter = _moved(sandbox)
    source = _system(letter, "DeadLetterQueueSourceArn")
    return Seen(source == line.arn, "names the queue it came from" if source == line.arn else f"source {source!r}")


_SEND, _SEND_BATCH, _HIDE = (
    f"{SQS_API}SendMessage.html",
    f"{SQS_API}SendMessageBatch.html",
    f"{SQS_API}ChangeMessageVisibility.html",
)
_DELETE, _VISIBILITY = f"{SQS_API}DeleteMessage.html", f"{SQS_GUIDE}sqs-visibility-timeout.html"
_DEAD = f"{SQS_GUIDE}sqs-dead-letter-queues.html"
_RECEIVE = f"{SQS_API}ReceiveMessage.html"

CHECKS: tuple[Check, ...] = (
    Check("round-trip", "body and attributes of a message come as they were sent", _RECEIVE, _round_trip),
    Check(
        "hidden-and-back",
        "a received message is hidden for its visibility timeout, then received again under a new receipt",
        _VISIBILITY,
        _hidden_and_back,
    ),
    Check("visibility-zero", "a visibility of 0 s brings a message back at once", _HIDE, _visibility_zero),
    Check("receive-count", "a message tells how often it was received", _RECEIVE, _receive_count),
    Check(
        "visibility-bound",
        "a visibility over 12 h is refused, not clamped, and the receipt stays good",
        _HIDE,
        _visibility_bound,
    ),
    Check(
        "visibility-total",
        "a visibility greater than what is left of 12 h is refused, not clamped",
        _HIDE,
        _visibility_total,
    ),
    Check(
        "visibility-from-receive",
        "the 12 h count from the receive, not from the send",
        _VISIBILITY,
        _visibility_from_receive,
    ),
    Check(
        "visibility-per-entry",
        "of a batch of visibility changes each is taken or refused by itself",
        f"{SQS_API}ChangeMessageVisibilityBatch.html",
        _visibility_per_entry,
    ),
    Check(
        "standard-stale-delete",
        "a delete by an old receipt succeeds, though the message might not be deleted",
        _DELETE,
        _stale_delete,
    ),
    Check(
        "standard-lapsed-delete",
        "on a standard queue the latest receipt deletes after its visibility has run out, too",
        f"{KNOWLEDGE_CENTER}sqs-receipt-handle-error",
        _lapsed_delete,
    ),
    Check(
        "delete-per-entry",
        "of a batch of deletes each is taken or refused by itself",
        f"{SQS_API}DeleteMessageBatch.html",
        _garbage_delete,
    ),
    Check("delay", "a delayed message comes after its delay; over 900 s is refused", _SEND, _delay),
    Check("send-per-entry", "of a batch of sends each is taken or refused by itself", _SEND_BATCH, _per_entry),
    Check(
        "adapter-per-entry",
        "tenure's own sends: an outcome for each entry, whichever way the service refuses one",
        _SEND_BATCH,
        _adapter_per_entry,
    ),
    Check("characters", "characters that XML does not know are refused", _SEND, _characters),
    Check(
        "size-in-utf8-bytes",
        "a message's size is counted in UTF-8 bytes",
        f"{SQS_GUIDE}quotas-messages.html",
        _utf8_bytes,
    ),
    Check(
        "size-with-attributes",
        "names, types and values of attributes count as part of a message's size",
        f"{SQS_GUIDE}sqs-message-metadata.html",
        _attribute_bytes,
    ),
    Check("size-one-mebibyte", "a message has at most 1,048,576 bytes", _SEND_BATCH, _mebibyte),
    Check(
        "standard-group",
        "on a standard queue a group is a tenant: told to the receiver, and it locks nothing",
        f"{SQS_GUIDE}sqs-fair-queues.html",
        _tenants,
    ),
    Check(
        "dead-letter",
        "received more often than allowed, a message moves to the DLQ as it is",
        _DEAD,
        _dead_letter,
    ),
    Check(
        "dead-letter-source",
        "in the DLQ a message tells from which queue it was moved",
        _RECEIVE,
        _dead_letter_source,
    ),
)
