"""What SQS's errors mean: whether a message may be there, and whether a receipt is any good."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)
from hypothesis import example, given
from hypothesis import strategies as st

from tenure.adapters import sqs_answers as answers
from tenure.core import limits
from tenure.core.envelope import Envelope, canonical, decode, digest_of, encode
from tenure.ports import Send


def an_error(code: str, status: int = 400, retries: int = 0, message: str = "said") -> ClientError:
    metadata: Any = {"HTTPStatusCode": status, "RetryAttempts": retries}
    return ClientError({"Error": {"Code": code, "Message": message}, "ResponseMetadata": metadata}, "SendMessageBatch")


# ---- a send whose call failed --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "code",
    [
        "InvalidMessageContents",
        "AWS.SimpleQueueService.BatchRequestTooLong",
        "InvalidParameterValue",
        "AWS.SimpleQueueService.UnsupportedOperation",
        "MissingParameter",
    ],
)
@pytest.mark.parametrize("retries", [0, 2])
def test_a_refusal_of_what_the_message_is_is_definite(code: str, retries: int):
    """R8: every try of the same message is answered so, whatever became of the tries before."""
    found = answers.not_sent(an_error(code, retries=retries))
    assert found.definite
    assert (found.code, found.message) == (code.rpartition(".")[2], "said")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("AccessDenied", 403),
        ("AWS.SimpleQueueService.NonExistentQueue", 400),
        ("InvalidClientTokenId", 403),
        ("KmsAccessDenied", 400),
        ("InvalidAddress", 404),
    ],
)
def test_a_refusal_of_the_caller_is_definite_on_the_first_try_only(code: str, status: int):
    """After a try whose answer was lost it says nothing of that try, whose message may be there."""
    assert answers.not_sent(an_error(code, status)).definite
    assert not answers.not_sent(an_error(code, status, retries=1)).definite


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("RequestThrottled", 403),
        ("ThrottlingException", 400),
        ("OverLimit", 403),
        ("KmsThrottled", 400),
        ("InternalFailure", 500),
        ("ServiceUnavailable", 503),
        ("InvalidParameterValue", 500),
        ("Odd", 0),
    ],
)
def test_throttling_and_the_services_own_faults_are_not(code: str, status: int):
    """The message may be there."""
    assert not answers.not_sent(an_error(code, status)).definite


@pytest.mark.parametrize(
    ("error", "definite"),
    [
        (ReadTimeoutError(endpoint_url="x"), False),
        (ConnectTimeoutError(endpoint_url="x"), False),
        (EndpointConnectionError(endpoint_url="x"), False),
        (ParamValidationError(report="x"), True),
        (NoCredentialsError(), True),
    ],
)
def test_without_an_answer_only_what_never_left_is_definite(error: Any, definite: bool):
    """A time-out may have been a send."""
    assert answers.not_sent(error).definite is definite


def test_an_error_without_details_is_not_definite():
    """Whatever a proxy answers."""
    assert not answers.not_sent(ClientError({}, "SendMessageBatch")).definite


@pytest.mark.parametrize(
    ("failed", "definite"),
    [
        ({"SenderFault": True, "Code": "InvalidMessageContents", "Message": "m"}, True),
        ({"SenderFault": True, "Code": "AWS.SimpleQueueService.RequestThrottled"}, False),
        ({"SenderFault": False, "Code": "InternalError"}, False),
        ({}, False),
    ],
)
def test_a_failed_entry_is_definite_if_the_sender_is_at_fault(failed: dict[str, Any], definite: bool):
    """SQS says whose fault it is."""
    assert answers.not_sent_entry(failed).definite is definite


# ---- a receipt -----------------------------------------------------------------------------------------------------
GONE = [
    ("ReceiptHandleIsInvalid", "The input receipt handle is invalid."),
    ("AWS.SimpleQueueService.MessageNotInflight", ""),
    ("AWS.SimpleQueueService.NonExistentQueue", ""),
    ("QueueDoesNotExist", ""),
    (
        "InvalidParameterValue",
        "Value x for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
    ),
    ("InvalidParameterValue", "Reason: Message does not exist or is not available for visibility timeout change."),
]
NOT_GONE = [
    ("InvalidParameterValue", "Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"),
    ("RequestThrottled", "has expired"),
    ("InternalFailure", ""),
    ("AccessDenied", "does not exist"),
]


@pytest.mark.parametrize(("code", "message"), GONE)
def test_these_receipts_are_gone(code: str, message: str):
    """Of a call and of an entry: to try again is useless."""
    assert answers.not_done(an_error(code, message=message)).gone
    assert answers.not_done_entry({"Code": code, "Message": message}).gone


@pytest.mark.parametrize(("code", "message"), NOT_GONE)
def test_these_are_not(code: str, message: str):
    """The message is still held; another call may do it."""
    assert not answers.not_done(an_error(code, message=message)).gone
    assert not answers.not_done_entry({"Code": code, "Message": message}).gone


def test_a_receipt_is_not_gone_for_want_of_an_answer():
    """A time-out settles nothing."""
    assert not answers.not_done(ReadTimeoutError(endpoint_url="x")).gone


# ---- what tenure writes ---------------------------------------------------------------------------------------------
@given(st.text(st.characters(exclude_categories=("Cs",))))
@example("\u0000\u001f\u007f\u0085\ufffe\uffff😀")
def test_any_payload_of_tenures_own_is_carried(text: str):
    """SQS refuses some characters; in an envelope they are escaped, and come out as they went in."""
    payload = canonical([text])
    envelope = Envelope(
        id="r1", birth="b", task="cook", row_version=1, digest=digest_of(payload), payload=payload, submitted_at_ms=1
    )
    body = encode(envelope)
    assert answers.refusal(Send(body), ordered=False) is None
    assert decode(body) == envelope


# ---- sizes ---------------------------------------------------------------------------------------------------------


def test_the_refusal_of_a_size_tells_both_numbers():
    """What it is, and what SQS takes."""
    refused = answers.refusal(Send("é" * 600_000), ordered=False)
    assert refused is not None
    assert "1,200,000" in refused.message
    assert f"{limits.SQS_MESSAGE_BYTES_MAX:,}" in refused.message


def test_binary_that_is_not_base64_is_refused():
    """It could not be sent on as it was."""
    send = Send("x", attributes={"b": "?"}, attribute_types={"b": "Binary"})
    assert answers.refusal(send, ordered=False) is not None
