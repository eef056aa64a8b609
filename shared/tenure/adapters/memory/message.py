"""A message in a queue of a world, what SQS refuses to take for one, and the receipts that it gives out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tenure.core import limits
from tenure.ports import NotSent, Send

# Characters outside the XML 1.0 set are refused. Service model, SendMessage.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# MessageGroupId and MessageDeduplicationId: alphanumeric and punctuation, no blank. Service model, SendMessage.
_ID = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")
# Names of attributes: letters, digits, _ - . and no reserved beginning. SQSDeveloperGuide/sqs-message-metadata.html
_ATTRIBUTE = re.compile(r"(?!(?i:aws\.|amazon\.)|\.)[A-Za-z0-9_\-.]{1,256}(?<!\.)")


@dataclass(slots=True, kw_only=True)
class Message:
    """One message, as the queue keeps it."""

    serial: int
    message_id: str
    body: str
    group: str
    deduplication_id: str
    attributes: Mapping[str, str]
    attribute_types: Mapping[str, str]
    sent_at_ms: int
    visible_at_ms: int
    receive_count: int = 0
    receives_here: int = 0
    """Receives from this queue; numbers its receipts."""
    received_at_ms: int = 0
    in_flight: bool = False
    """Handed out, and neither deleted nor made visible since; whether that has lapsed is told by visible_at_ms."""
    moved_from: str = ""
    revived: bool = False
    """Deleted, and back once more."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a receipt says: of which queue, message and receive it is, and when that was."""

    queue: str
    serial: int
    receive: int
    received_at_ms: int

    def text(self) -> str:
        """As the consumer gets it."""
        return f"{self.queue}|{self.serial}|{self.receive}|{self.received_at_ms}"

    @classmethod
    def read(cls, text: str) -> Receipt | None:
        """The receipt in this text; None if it never was one."""
        match = re.fullmatch(r"([^|]+)\|(\d+)\|(\d+)\|(\d+)", text)
        return cls(match[1], int(match[2]), int(match[3]), int(match[4])) if match else None


@dataclass(slots=True)
class Deduplication:
    """What a FIFO queue remembers of its sends for five minutes, whatever becomes of the messages.

    SQSDeveloperGuide/FIFO-queues-exactly-once-processing.html
    """

    scope: str = "messageGroup"
    _seen: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)

    def known(self, send: Send, now_ms: int) -> str | None:
        """The message id that an earlier send of the same got, or None."""
        sent_at_ms, message_id = self._seen.get(self._key(send), (0, ""))
        return message_id if message_id and now_ms - sent_at_ms < limits.SQS_DEDUPLICATION_SECONDS * 1000 else None

    def remember(self, send: Send, now_ms: int, message_id: str) -> None:
        """A send that was stored."""
        self._seen[self._key(send)] = (now_ms, message_id)

    def _key(self, send: Send) -> tuple[str, str]:
        return (send.group if self.scope == "messageGroup" else "", send.deduplication_id)


def refusal(send: Send, *, ordered: bool) -> NotSent | None:
    """Why SQS does not take this message, or None if it does."""
    return _bad_content(send) or _bad_attributes(send) or (_bad_fifo(send) if ordered else _bad_standard(send))


def _refuse(code: str, message: str) -> NotSent:
    return NotSent(definite=True, code=code, message=message)


def _bad_content(send: Send) -> NotSent | None:
    if not send.body:
        return _refuse("MissingParameter", "The request must contain the parameter MessageBody.")
    if _FORBIDDEN.search(send.body):
        return _refuse("InvalidMessageContents", "Invalid characters in the message body.")
    size = len(send.body.encode("utf-8"))
    for name, value in send.attributes.items():
        kind = send.attribute_types.get(name, "String")
        size += len(name.encode("utf-8")) + len(kind) + len(value.encode("utf-8", "replace"))
    if size > limits.SQS_MESSAGE_BYTES_MAX:
        limit = limits.SQS_MESSAGE_BYTES_MAX
        return _refuse("InvalidParameterValue", f"One or more parameters are invalid. Reason: {size} > {limit} bytes.")
    return None


def _bad_attributes(send: Send) -> NotSent | None:
    if len(send.attributes) > limits.SQS_ATTRIBUTES_MAX:
        return _refuse("InvalidParameterValue", f"Number of message attributes [{len(send.attributes)}] exceeds 10.")
    for name, value in send.attributes.items():
        if not _ATTRIBUTE.fullmatch(name):
            return _refuse("InvalidParameterValue", f"The message attribute name {name!r} is invalid.")
        if not value or _FORBIDDEN.search(value):
            return _refuse("InvalidParameterValue", f"The message attribute {name!r} must contain a valid value.")
    return None


def _bad_fifo(send: Send) -> NotSent | None:
    if send.delay_seconds:
        return _refuse(
            "InvalidParameterValue",
            f"Value {send.delay_seconds} for parameter DelaySeconds is invalid. Reason: The request include parameter "
            "that is not valid for this queue type.",
        )
    if not send.group:
        return _refuse("MissingParameter", "The request must contain the parameter MessageGroupId.")
    if not _ID.fullmatch(send.group) or not _ID.fullmatch(send.deduplication_id):
        return _refuse("InvalidParameterValue", "MessageGroupId or MessageDeduplicationId is missing or invalid.")
    return None


def _bad_standard(send: Send) -> NotSent | None:
    if not 0 <= send.delay_seconds <= limits.SQS_DELAY_SECONDS_MAX:
        return _refuse(
            "InvalidParameterValue",
            f"Value {send.delay_seconds} for parameter DelaySeconds is invalid. Reason: must be between 0 and 900.",
        )
    if send.deduplication_id:
        return _refuse("InvalidParameterValue", "MessageDeduplicationId is valid for FIFO queues only.")
    if send.group and not _ID.fullmatch(send.group):
        return _refuse("InvalidParameterValue", f"MessageGroupId {send.group!r} is invalid.")
    return None
