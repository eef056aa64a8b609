"""What SQS takes, and what its errors mean.

Codes come with or without the prefix "AWS.SimpleQueueService.", by protocol and operation; the pages that name them
are the service model's and AWSSimpleQueueService/latest/SQSDeveloperGuide.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, ParamValidationError

from tenure.core import limits
from tenure.core.sizes import message_bytes
from tenure.ports import NotDone, NotSent, Send

_CHARACTER_REFUSED = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Whatever is not in XML 1.0's set (service model, SendMessage)."""
_ID = re.compile(r"[!-~]{1,128}")
"""A message group or deduplication id: ASCII letters, digits and punctuation (service model, SendMessage)."""
_ATTRIBUTE_NAME = re.compile(r"(?!(?i:aws\.|amazon\.)|\.)[A-Za-z0-9_.-]{1,256}(?<!\.)")
"""Neither reserved nor beginning or ending in a dot (sqs-message-metadata.html)."""

_THROTTLES = frozenset({
    "KmsThrottled", "OverLimit", "RequestLimitExceeded", "RequestThrottled", "SlowDown", "Throttling",
    "ThrottlingException", "TooManyRequestsException",
})  # fmt: skip

_OF_THE_MESSAGE = frozenset({
    "BatchRequestTooLong", "InvalidAttributeValue", "InvalidMessageContents", "InvalidParameterCombination",
    "InvalidParameterValue", "MissingParameter", "UnsupportedOperation", "ValidationError", "ValidationException",
})  # fmt: skip
"""Said of what is in the request: every try of the same request is answered so."""

_GONE = frozenset({"MessageNotInflight", "NonExistentQueue", "QueueDoesNotExist", "ReceiptHandleIsInvalid"})
_GONE_TEXTS = ("has expired", "does not exist", "not available")
"""How InvalidParameterValue tells of a dead receipt: "The receipt handle has expired" (FIFO), "Message does not exist
or is not available for visibility timeout change"."""


def refusal(send: Send, ordered: bool) -> NotSent | None:
    """Why SQS would refuse this message, seen before it is sent; None if nothing is known against it.

    Seen here so that one such entry cannot take its neighbours' call with it, and the text tells what to mend.
    """
    size_bytes = message_bytes(send.body, send.attributes, send.attribute_types)
    if size_bytes > limits.SQS_MESSAGE_BYTES_MAX:
        most = f"{limits.SQS_MESSAGE_BYTES_MAX:,}"
        return _no("InvalidParameterValue", f"body and attributes are {size_bytes:,} bytes; SQS takes {most}")
    if not send.body:
        return _no("MissingParameter", "the body is empty; SQS takes no empty message")
    return _refused_for_its_kind(send, ordered) or _refused_attribute(send) or _refused_character(send)


def _refused_for_its_kind(send: Send, ordered: bool) -> NotSent | None:
    """What a FIFO queue demands a standard one refuses, and the other way round."""
    if ordered and not (send.group and send.deduplication_id):
        return _no("MissingParameter", "a FIFO queue needs a message group and a deduplication id")
    if ordered and send.delay_seconds:
        return _no("InvalidParameterValue", "a message to a FIFO queue has no delay of its own")
    if not ordered and send.deduplication_id:
        return _no("InvalidParameterValue", "only a message to a FIFO queue has a deduplication id")
    if not 0 <= send.delay_seconds <= limits.SQS_DELAY_SECONDS_MAX:
        most = limits.SQS_DELAY_SECONDS_MAX
        return _no("InvalidParameterValue", f"a delay of {send.delay_seconds} s; SQS takes 0 to {most}")
    for what, text in (("group", send.group), ("deduplication id", send.deduplication_id)):
        if text and not _ID.fullmatch(text):
            most = limits.SQS_GROUP_ID_CHARS_MAX
            return _no("InvalidParameterValue", f"{what} {text!r}: SQS takes {most} ASCII letters, digits, punctuation")
    return None


def _refused_attribute(send: Send) -> NotSent | None:
    if len(send.attributes) > limits.SQS_ATTRIBUTES_MAX:
        most = limits.SQS_ATTRIBUTES_MAX
        return _no("InvalidParameterValue", f"{len(send.attributes)} attributes; SQS takes {most}")
    for name, value in send.attributes.items():
        if not _ATTRIBUTE_NAME.fullmatch(name):
            return _no("InvalidParameterValue", f"attribute {name!r}: SQS takes letters, digits, _, - and . in a name")
        if not value:
            return _no("InvalidParameterValue", f"attribute {name!r} is empty; SQS takes no empty one")
        if send.attribute_types.get(name, "String").startswith("Binary") and not _is_base64(value):
            return _no("InvalidParameterValue", f"attribute {name!r} is binary, and its value is not base64")
    return None


def _refused_character(send: Send) -> NotSent | None:
    for place, text in (("the body", send.body), *send.attributes.items()):
        found = _CHARACTER_REFUSED.search(text)
        if found:
            return _no("InvalidMessageContents", f"{place} holds U+{ord(found[0]):04X}, which SQS does not carry")
    return None


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def _no(code: str, message: str) -> NotSent:
    return NotSent(definite=True, code=code, message=message)


def not_sent(error: ClientError | BotoCoreError) -> NotSent:
    """What became of a send whose whole call failed.

    Definite: a 4xx that says so of the message itself, or a 4xx to the first and only try. After an earlier try whose
    answer was lost, "access denied" says nothing of that one. Throttling is not definite for the same reason: the SDK
    has tried before it gave up.
    """
    if isinstance(error, ParamValidationError | NoCredentialsError):
        return NotSent(definite=True, code=type(error).__name__, message=str(error))  # it never left this process
    if isinstance(error, BotoCoreError):
        return NotSent(definite=False, code=type(error).__name__, message=str(error))
    code, message, status, retries = _read(error)
    said_no = 400 <= status < 500 and code not in _THROTTLES
    return NotSent(definite=said_no and (code in _OF_THE_MESSAGE or retries == 0), code=code, message=message)


def not_sent_entry(failed: Mapping[str, Any]) -> NotSent:
    """What became of one entry that a batch's answer calls failed. Definite: SQS puts the fault at the sender's."""
    code = _bare(str(failed.get("Code") or ""))
    definite = bool(failed.get("SenderFault")) and code not in _THROTTLES
    return NotSent(definite=definite, code=code, message=str(failed.get("Message") or ""))


def is_of_the_message(refused: NotSent) -> bool:
    """Whether a whole call was refused for what is in it, so that its entries may fare better one by one."""
    return refused.definite and refused.code in _OF_THE_MESSAGE


def not_done(error: ClientError | BotoCoreError) -> NotDone:
    """What became of a visibility change or a delete whose whole call failed."""
    if isinstance(error, BotoCoreError):
        return NotDone(gone=False, code=type(error).__name__, message=str(error))
    code, message, _, _ = _read(error)
    return NotDone(gone=_is_gone(code, message), code=code, message=message)


def not_done_entry(failed: Mapping[str, Any]) -> NotDone:
    """The same for one entry of a batch."""
    code, message = _bare(str(failed.get("Code") or "")), str(failed.get("Message") or "")
    return NotDone(gone=_is_gone(code, message), code=code, message=message)


def is_of_a_receipt(failed: NotDone) -> bool:
    """Whether a whole call was refused for one of its receipts or values, so that the others may fare better alone."""
    return failed.code in _OF_THE_MESSAGE or failed.code in ("MessageNotInflight", "ReceiptHandleIsInvalid")


def _is_gone(code: str, message: str) -> bool:
    if code == "InvalidParameterValue":
        return any(text in message for text in _GONE_TEXTS)
    return code in _GONE


def _read(error: ClientError) -> tuple[str, str, int, int]:
    """(code, message, HTTP status, retries of the SDK)."""
    told = error.response.get("Error", {})
    metadata: Mapping[str, Any] = error.response.get("ResponseMetadata", {})
    status, retries = metadata.get("HTTPStatusCode", 0), metadata.get("RetryAttempts", 0)
    return _bare(told.get("Code", "")), told.get("Message", ""), status, retries


def _bare(code: str) -> str:
    return code.rpartition(".")[2]
