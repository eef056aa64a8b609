"""moto, made atomic."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from tenure.local import atomic_moto


@pytest.fixture(autouse=True)
def moto() -> Iterator[None]:
    """Made atomic, and with threads that change over as often as they can, so that a race shows."""
    atomic_moto.install()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    with mock_aws():
        yield
    sys.setswitchinterval(before)


def test_one_of_many_puts_of_an_object_wins():
    """S3 has its own way into moto, and it is locked too."""
    s3 = boto3.client("s3", "us-east-1")
    s3.create_bucket(Bucket="bucket")
    gate = Barrier(8)

    def put(turn: int, writer: int) -> bool:
        gate.wait(timeout=30)
        try:
            s3.put_object(Bucket="bucket", Key=f"k{turn}", Body=str(writer).encode(), IfNoneMatch="*")
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        for turn in range(40):
            assert sum(pool.map(lambda writer, turn=turn: put(turn, writer), range(8))) == 1


def test_a_long_poll_lets_the_sender_in():
    """A receive that waits does not hold the lock: the message it waits for can be sent, and ends the wait."""
    sqs = boto3.client("sqs", "us-east-1")
    url = sqs.create_queue(QueueName="work")["QueueUrl"]
    with ThreadPoolExecutor(6) as pool:
        polls = [pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20) for _ in range(5)]
        for n in range(5):
            sqs.send_message(QueueUrl=url, MessageBody=f"m{n}")
        bodies = sorted(message["Body"] for poll in polls for message in poll.result(timeout=15)["Messages"])
    assert bodies == [f"m{n}" for n in range(5)]


def test_a_long_poll_on_an_empty_queue_ends():
    """After its time, with nothing."""
    sqs = boto3.client("sqs", "us-east-1")
    url = sqs.create_queue(QueueName="work")["QueueUrl"]
    assert "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1)


def test_installing_twice_changes_nothing():
    """Each part that needs it may ask for it."""
    from moto.core.responses import BaseResponse

    before = BaseResponse.call_action
    atomic_moto.install()
    assert BaseResponse.call_action is before
