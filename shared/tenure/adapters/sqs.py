"""A task queue on SQS, standard or FIFO."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from tenure.adapters import sqs_answers as answers
from tenure.core import limits
from tenure.core.errors import ServiceError
from tenure.core.sizes import message_bytes
from tenure.ports import Clock, Delivery, Depth, Done, NotDone, NotSent, Send, Sent

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

SEND_TRIES = 2
"""How often an entry is sent that SQS calls failed by no fault of the sender's: the SDK retries calls, not entries."""

_SEND_PAUSE_SECONDS = 0.1

HELD_BACK = NotSent(
    definite=False,
    code="HeldBack",
    message="an earlier message of its group may not have been sent; it must not overtake",
)


class SqsQueue:
    """ports.TaskQueue over one SQS queue.

    Order on a FIFO queue: entries of a batch succeed and fail each by itself, so two of one group in one call could
    overtake each other. A call therefore holds at most one entry of a group, and once the outcome of an entry is
    unknown, the later ones of its group are not sent (`HELD_BACK`, unknown as well: their rows stand, and reconcile
    sends them in order). A definite refusal holds nobody back: that message will never come. This makes the sends of
    one key one call each; they run one after another anyway.

    polls: the client for receives, where it is another one (a long poll needs a longer time-out than all else).
    """

    def __init__(
        self, client: SQSClient, url: str, name: str, ordered: bool, clock: Clock, *, polls: SQSClient | None = None
    ) -> None:
        self._client = client
        self._polls = polls or client
        self._url = url
        self._name = name
        self._ordered = ordered
        self._clock = clock

    @property
    def name(self) -> str:
        """Its SQS name."""
        return self._name

    @property
    def ordered(self) -> bool:
        """Whether it is FIFO."""
        return self._ordered

    # ---- sending ---------------------------------------------------------------------------------------------------
    def send_many(self, sends: Sequence[Send]) -> list[Sent | NotSent]:
        """See ports.TaskQueue and this class."""
        outcomes: dict[int, Sent | NotSent] = {}
        for index, send in enumerate(sends):
            refused = answers.refusal(send, self._ordered)
            if refused:
                outcomes[index] = refused
        held: set[str] = set()
        for batch in self._batches(sends, [i for i in range(len(sends)) if i not in outcomes]):
            outcomes |= {i: HELD_BACK for i in batch if sends[i].group in held}
            batch = [i for i in batch if i not in outcomes]
            outcomes |= zip(batch, self._send([sends[i] for i in batch]), strict=True)
            if self._ordered:
                held |= {sends[i].group for i in batch if _is_unknown(outcomes[i])}
        return [outcomes[index] for index in range(len(sends))]

    def _batches(self, sends: Sequence[Send], indices: Sequence[int]) -> Iterator[list[int]]:
        """Indices by calls: ten entries and one MiB at most, of a FIFO group one entry; in order, within a group."""
        batch: list[int] = []
        size_bytes = 0
        groups: set[str] = set()
        for index in self._by_turns(sends, indices):
            send = sends[index]
            more_bytes, group = message_bytes(send.body, send.attributes, send.attribute_types), send.group
            full = len(batch) == limits.SQS_BATCH_ENTRIES_MAX or size_bytes + more_bytes > limits.SQS_BATCH_BYTES_MAX
            if batch and (full or (self._ordered and group in groups)):
                yield batch
                batch, size_bytes, groups = [], 0, set()
            batch.append(index)
            size_bytes += more_bytes
            groups.add(group)
        if batch:
            yield batch

    def _by_turns(self, sends: Sequence[Send], indices: Sequence[int]) -> Sequence[int]:
        """On a FIFO queue every group's first, then every group's second, and so on: so calls are as full as can be."""
        if not self._ordered:
            return indices
        turns: dict[str, int] = {}
        turn_of: dict[int, int] = {}
        for index in indices:
            group = sends[index].group
            turn_of[index] = turns[group] = turns.get(group, 0) + 1
        return sorted(indices, key=lambda index: turn_of[index])  # stable

    def _send(self, sends: Sequence[Send], tries: int = SEND_TRIES) -> list[Sent | NotSent]:
        """One call. If the call is refused for what is in it, its entries go one by one; an entry that SQS fails of
        its own fault is tried once more, and stays unknown if that does not send it either."""
        if not sends:
            return []
        try:
            answer = self._client.send_message_batch(
                QueueUrl=self._url, Entries=[self._entry(str(i), send) for i, send in enumerate(sends)]
            )
        except (ClientError, BotoCoreError) as error:
            refused = answers.not_sent(error)
            if len(sends) > 1 and answers.is_of_the_message(refused):
                return [self._send([send])[0] for send in sends]
            return [refused] * len(sends)
        outcomes = _sent(answer, len(sends))
        again = [i for i, outcome in enumerate(outcomes) if _is_unknown(outcome)]
        if again and tries > 1:
            self._clock.sleep(_SEND_PAUSE_SECONDS)
            for i, outcome in zip(again, self._send([sends[i] for i in again], tries - 1), strict=True):
                outcomes[i] = outcome if isinstance(outcome, Sent) else outcomes[i]
        return outcomes

    def _entry(self, id_: str, send: Send) -> Any:
        entry: dict[str, Any] = {"Id": id_, "MessageBody": send.body}
        if send.group:
            entry["MessageGroupId"] = send.group
        if send.deduplication_id:
            entry["MessageDeduplicationId"] = send.deduplication_id
        if send.delay_seconds:
            entry["DelaySeconds"] = send.delay_seconds
        if send.attributes:
            types = send.attribute_types
            entry["MessageAttributes"] = {
                name: _attribute(types.get(name, "String"), value) for name, value in send.attributes.items()
            }
        return entry

    # ---- receiving -------------------------------------------------------------------------------------------------
    def receive(self, limit: int, wait_seconds: int, visibility_seconds: int | None = None) -> list[Delivery]:
        """See ports.TaskQueue. Asks for every attribute."""
        hidden: Any = {} if visibility_seconds is None else {"VisibilityTimeout": visibility_seconds}
        try:
            answer = self._polls.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=limit,
                WaitTimeSeconds=wait_seconds,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
                **hidden,
            )
        except (ClientError, BotoCoreError) as error:
            raise ServiceError(f"queue {self._name}: nothing received, {error}") from error
        received_at_ms = self._clock.now_ms()
        return [delivery_of(message, received_at_ms) for message in answer.get("Messages") or ()]

    def depth(self) -> Depth:
        """See ports.TaskQueue."""
        try:
            told = self._client.get_queue_attributes(
                QueueUrl=self._url,
                AttributeNames=[
                    "ApproximateNumberOfMessages",
                    "ApproximateNumberOfMessagesNotVisible",
                    "ApproximateNumberOfMessagesDelayed",
                ],
            )["Attributes"]
            return Depth(
                visible=int(told["ApproximateNumberOfMessages"]),
                in_flight=int(told["ApproximateNumberOfMessagesNotVisible"]),
                delayed=int(told["ApproximateNumberOfMessagesDelayed"]),
            )
        except (ClientError, BotoCoreError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ServiceError(f"queue {self._name}: depth unknown, {error!r}") from error

    # ---- what becomes of a delivery --------------------------------------------------------------------------------
    def set_visibility_many(self, changes: Sequence[tuple[str, int]]) -> list[Done | NotDone]:
        """See ports.TaskQueue."""
        entries = [{"ReceiptHandle": receipt, "VisibilityTimeout": seconds} for receipt, seconds in changes]
        return self._do(self._client.change_message_visibility_batch, entries)

    def delete_many(self, receipts: Sequence[str]) -> list[Done | NotDone]:
        """See ports.TaskQueue."""
        return self._do(self._client.delete_message_batch, [{"ReceiptHandle": receipt} for receipt in receipts])

    def _do(self, call: Callable[..., Any], entries: Sequence[Mapping[str, Any]]) -> list[Done | NotDone]:
        size = limits.SQS_BATCH_ENTRIES_MAX
        batches = [entries[start : start + size] for start in range(0, len(entries), size)]
        return [outcome for batch in batches for outcome in self._do_batch(call, batch)]

    def _do_batch(self, call: Callable[..., Any], entries: Sequence[Mapping[str, Any]]) -> list[Done | NotDone]:
        """One call. If the call is refused for one entry's sake, each is asked by itself: both acts are idempotent."""
        try:
            answer = call(QueueUrl=self._url, Entries=[{"Id": str(i), **entry} for i, entry in enumerate(entries)])
        except (ClientError, BotoCoreError) as error:
            failed = answers.not_done(error)
            if len(entries) > 1 and answers.is_of_a_receipt(failed):
                return [self._do_batch(call, [entry])[0] for entry in entries]
            return [failed] * len(entries)
        return _done(answer, len(entries))


def delivery_of(message: Mapping[str, Any], received_at_ms: int) -> Delivery:
    """A message of ReceiveMessage's answer. Whatever is missing or odd becomes the least that it can mean."""
    message = _table(message)
    system = _table(message.get("Attributes"))
    user = {name: each for name, each in _table(message.get("MessageAttributes")).items() if isinstance(each, Mapping)}
    types = {name: _text(each.get("DataType")) or "String" for name, each in user.items()}
    return Delivery(
        message_id=_text(message.get("MessageId")),
        receipt=_text(message.get("ReceiptHandle")),
        body=_text(message.get("Body")),
        receive_count=max(1, _whole(system.get("ApproximateReceiveCount"), 1)),
        sent_at_ms=_whole(system.get("SentTimestamp"), received_at_ms),
        received_at_ms=received_at_ms,
        group=_text(system.get("MessageGroupId")),
        deduplication_id=_text(system.get("MessageDeduplicationId")),
        sequence=_text(system.get("SequenceNumber")),
        attributes={name: _attribute_text(each) for name, each in user.items()},
        attribute_types={name: kind for name, kind in types.items() if kind != "String"},
        moved_from=_text(system.get("DeadLetterQueueSourceArn")),
    )


def _attribute(kind: str, value: str) -> dict[str, Any]:
    if kind.partition(".")[0] == "Binary":
        return {"DataType": kind, "BinaryValue": base64.b64decode(value)}
    return {"DataType": kind, "StringValue": value}


def _attribute_text(attribute: Mapping[str, Any]) -> str:
    binary = attribute.get("BinaryValue")
    if isinstance(binary, bytes):
        return base64.b64encode(binary).decode("ascii")
    return _text(attribute.get("StringValue"))


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _whole(text: Any, default: int) -> int:
    try:
        return int(text)
    except (TypeError, ValueError, OverflowError):
        return default


def _sent(answer: Mapping[str, Any], count: int) -> list[Sent | NotSent]:
    """Outcomes in the order of the entries. An entry that the answer passes over is unknown."""
    outcomes: list[Sent | NotSent] = [NotSent(False, "Unanswered", "the answer does not speak of this entry")] * count
    for place, sent in _entries(answer, "Successful", count):
        outcomes[place] = Sent(_text(sent.get("MessageId")))
    for place, failed in _entries(answer, "Failed", count):
        outcomes[place] = answers.not_sent_entry(failed)
    return outcomes


def _entries(answer: Mapping[str, Any], name: str, count: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(place, entry) of a batch's answer, as far as it speaks of what was asked: ids are places, "0" to `count` - 1."""
    entries = _table(answer).get(name)
    for entry in entries if isinstance(entries, list) else ():
        place = _whole(_text(_table(entry).get("Id")), -1)
        if 0 <= place < count:
            yield place, entry


def _done(answer: Mapping[str, Any], count: int) -> list[Done | NotDone]:
    outcomes: list[Done | NotDone] = [NotDone(False, "Unanswered", "the answer does not speak of this entry")] * count
    for place, _ in _entries(answer, "Successful", count):
        outcomes[place] = Done()
    for place, failed in _entries(answer, "Failed", count):
        outcomes[place] = answers.not_done_entry(failed)
    return outcomes


def _is_unknown(outcome: Sent | NotSent) -> bool:
    return isinstance(outcome, NotSent) and not outcome.definite
