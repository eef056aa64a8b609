"""How texts are laid beside the row and in S3, and what their stores' errors mean."""

from __future__ import annotations

import io
from typing import Any

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber

from tenure.adapters.memory import World
from tenure.adapters.payloads import Payloads
from tenure.core.errors import PayloadMissing, ServiceError
from tenure.core.task import Stored
from tenure.ports import Key
from tests.support.backends import Aws
from tests.support.faults import Fault, Faults

ITEM = Stored("item", "tasks/r1/S/w9", 4)
OBJECT = Stored("object", "tasks/r1/S/w9", 4)


def objects(client: Any) -> Payloads:
    return Payloads(World().store, client, "bucket")


# ---- beside the row ------------------------------------------------------------------------------------------------
def test_a_text_lies_under_its_tasks_key_with_a_time_to_live(aws: Aws):
    """So that one query of the task's partition finds all of it, and DynamoDB deletes it."""
    store = aws.store()
    Payloads(store).put(ITEM, "text", 4_000_000_000)
    (item,) = store.get_many([Key("T#tasks/r1", "S#w9")])
    assert item is not None
    assert (item.data["x"], item.expires_at_s, item.due, item.dead) == ("text", 4_000_000_000, None, None)


def test_a_put_that_was_not_answered_is_tried_again(aws: Aws):
    """And recognised if it stands: the place names one write, so whoever lies there is this very text."""
    payloads = Payloads(aws.store())
    faults = Faults(aws.dynamodb)
    faults.next("UpdateItem", *[Fault.REPLY_LOST] * 3, *[Fault.BROKEN] * 3)
    payloads.put(ITEM, "text", 0)
    assert len(faults.tries) == 7
    assert payloads.get(ITEM) == "text"


def test_a_put_that_stays_unanswered_raises(aws: Aws):
    """The row that would name it is then not written."""
    payloads = Payloads(aws.store())
    Faults(aws.dynamodb).sometimes("UpdateItem", Fault.BROKEN, chance=1)
    with pytest.raises(ServiceError, match="tasks/r1/S/w9 was not stored"):
        payloads.put(ITEM, "text", 0)


def test_a_bucket_needs_a_client():
    """Told where it is built, not at the first large payload."""
    with pytest.raises(ValueError, match="client"):
        Payloads(World().store, None, "bucket")


# ---- in S3 ---------------------------------------------------------------------------------------------------------
def test_an_object_is_put_if_absent_under_the_payload_prefix(session: boto3.session.Session):
    """What the bucket's lifecycle and the functions' permissions are written for."""
    client = session.client("s3")
    with Stubber(client) as stub:
        stub.add_response(
            "put_object",
            {},
            {
                "Bucket": "bucket",
                "Key": "payloads/tasks/r1/S/w9",
                "Body": "tëxt".encode(),
                "ContentType": "application/json",
                "IfNoneMatch": "*",
            },
        )
        objects(client).put(OBJECT, "tëxt", 0)
        stub.assert_no_pending_responses()


def test_an_object_that_is_there_already_is_no_error(session: boto3.session.Session):
    """412: an earlier try of this very put."""
    client = session.client("s3")
    with Stubber(client) as stub:
        stub.add_client_error("put_object", "PreconditionFailed", "exists", 412)
        objects(client).put(OBJECT, "text", 0)


def test_a_put_that_meets_another_is_tried_again(session: boto3.session.Session):
    """409: another put of the same key is under way; S3 asks to try again (PutObject, If-None-Match)."""
    client = session.client("s3")
    with Stubber(client) as stub:
        stub.add_client_error("put_object", "ConditionalRequestConflict", "busy", 409)
        stub.add_response("put_object", {})
        objects(client).put(OBJECT, "text", 0)
        stub.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("code", "times"), [("AccessDenied", 1), ("NoSuchBucket", 1), ("SlowDown", 1), ("ConditionalRequestConflict", 3)]
)
def test_any_other_answer_to_a_put_raises(session: boto3.session.Session, code: str, times: int):
    """With the name of the text and the bucket."""
    client = session.client("s3")
    with Stubber(client) as stub:
        for _ in range(times):
            stub.add_client_error("put_object", code, "no", 403)
        with pytest.raises(ServiceError, match=f"tasks/r1/S/w9.*bucket bucket.*{code}"):
            objects(client).put(OBJECT, "text", 0)
        stub.assert_no_pending_responses()


@pytest.mark.parametrize(("code", "missing"), [("NoSuchKey", True), ("AccessDenied", False), ("SlowDown", False)])
def test_only_a_missing_object_is_missing(session: boto3.session.Session, code: str, missing: bool):
    """A refusal says nothing of the object: a retry may find it."""
    client = session.client("s3")
    with Stubber(client) as stub:
        stub.add_client_error("get_object", code, "no", 404 if missing else 403)
        with pytest.raises(ServiceError, match="tasks/r1/S/w9") as raised:
            objects(client).get(OBJECT)
    assert isinstance(raised.value, PayloadMissing) is missing


def test_an_object_cut_short_is_not_taken_for_the_text(session: boto3.session.Session):
    """A connection that breaks half way raises; a shorter text is never returned."""
    client = session.client("s3")
    body = StreamingBody(io.BytesIO(b"te"), content_length=4)
    with Stubber(client) as stub:
        stub.add_response("get_object", {"Body": body})
        with pytest.raises(ServiceError, match="tasks/r1/S/w9"):
            objects(client).get(OBJECT)
