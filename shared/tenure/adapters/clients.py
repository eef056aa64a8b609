"""The SDK's clients, with time-outs and retries that fit a lease, and the service's clock as their answers tell it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from tenure import config
from tenure.core import limits

if TYPE_CHECKING:
    from botocore.client import BaseClient
    from botocore.hooks import BaseEventHooks
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient

CONNECT_SECONDS = 3
ANSWER_SECONDS = 5
"""Of a call that is answered at once. A connection that died silently must cost a heartbeat less than its lease."""
POLL_SECONDS = limits.SQS_WAIT_SECONDS_MAX + 10
"""Of a receive: longer than the longest wait, and finite, so that a poller cannot hang on a dead connection."""
OBJECT_SECONDS = 30
"""Between two pieces of an object."""
TABLE_SECONDS = 3
"""Of a call to the table, which answers in milliseconds: a write that is tried as often as it may be, by the SDK and
by `rows`, must be done with before the lease that it renews has lapsed (60 s by default)."""
TRIES = 3
"""The SDK's, the first included: pauses of at most 1 and 2 s between them (its standard mode)."""
CONNECTIONS = 64
"""Kept open per client: above the threads of one process and the writes that each has under way."""


class ServerTime:
    """How far the service's clock is ahead of this machine's, from the Date header of its answers.

    A Date is true to the second, so an answer tells an interval: the service stamped it after the request left and
    before the answer came. The offset moves only as far as the interval demands, so a good clock is left alone, and a
    wrong one is off by less than a second and the way there after the first answer.

    local_ms: the machine's clock, uncorrected, in epoch milliseconds.
    """

    def __init__(self, local_ms: Callable[[], int]) -> None:
        self._local_ms = local_ms
        self._offset_ms = 0
        self._request = threading.local()

    def offset_ms(self) -> int:
        """Milliseconds to add to the machine's clock; 0 before any answer."""
        return self._offset_ms

    def listen(self, events: BaseEventHooks) -> None:
        """Learn from every answer that a client gets, errors and answers to retries too."""
        events.register("request-created", self._on_request)
        events.register("response-received", self._on_answer)

    def observe(self, date_ms: int, sent_ms: int, received_ms: int) -> None:
        """Learn from one answer: its Date, and when its request left and it came by the machine's clock."""
        least, most = date_ms - received_ms, date_ms + 1000 - sent_ms
        if least <= most:  # else the machine's clock was set meanwhile
            self._offset_ms = min(max(self._offset_ms, least), most)

    def _on_request(self, **_: Any) -> None:
        self._request.sent_ms = self._local_ms()

    def _on_answer(self, response_dict: Mapping[str, Any] | None, **_: Any) -> None:
        date_ms = _date_ms(response_dict)
        if date_ms:
            self.observe(date_ms, self._request.sent_ms, self._local_ms())


def _date_ms(response: Mapping[str, Any] | None) -> int:
    """The answer's Date in epoch milliseconds; 0 if there is no answer, or none that can be read."""
    date = response["headers"].get("date") if response else None
    try:
        return int(parsedate_to_datetime(date).timestamp()) * 1000 if date else 0
    except (TypeError, ValueError):
        return 0


class Clients:
    """One process's clients, each made when it is first asked for. All share one account of the service's clock.

    local_ms: the machine's clock (ServerTime). region, endpoint_url, credentials (access key id, secret access key),
    profile: where not left to AWS_REGION and the SDK's own configuration. patience_seconds: every answer is waited for
    at least so long, where nobody holds a lease meanwhile.
    """

    def __init__(
        self,
        local_ms: Callable[[], int],
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        credentials: tuple[str, str] | None = None,
        profile: str | None = None,
        patience_seconds: int = 0,
    ) -> None:
        self.server_time = ServerTime(local_ms)
        key_id, secret = credentials or (None, None)
        self._session = boto3.session.Session(
            region_name=region or config.region(),
            aws_access_key_id=key_id,
            aws_secret_access_key=secret,
            profile_name=profile,
        )
        self._made: list[BaseClient] = []
        self._endpoint_url = endpoint_url
        self._patience_seconds = patience_seconds

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        """For the table."""
        client: DynamoDBClient = self._client("dynamodb", TABLE_SECONDS)
        return client

    @cached_property
    def sqs(self) -> SQSClient:
        """For all of SQS that is answered at once."""
        client: SQSClient = self._client("sqs", ANSWER_SECONDS)
        return client

    @cached_property
    def sqs_polls(self) -> SQSClient:
        """For receives, one try each: a receive that was not answered may have hidden messages, and the poller that
        asked is the one to ask again."""
        client: SQSClient = self._client("sqs", POLL_SECONDS, tries=1)
        return client

    @cached_property
    def s3(self) -> S3Client:
        """For the payload bucket."""
        client: S3Client = self._client("s3", OBJECT_SECONDS)
        return client

    @cached_property
    def ssm(self) -> SSMClient:
        """For what a deployment has published."""
        client: SSMClient = self._client("ssm", ANSWER_SECONDS)
        return client

    def identity(self) -> tuple[str, str]:
        """(account, ARN) of whose credentials these are, as STS says. Raises ClientError, BotoCoreError."""
        told = self._client("sts", ANSWER_SECONDS).get_caller_identity()
        return told["Account"], told["Arn"]

    def close(self) -> None:
        """Close the connections that no call holds. A call that is made all the same opens another."""
        for client in self._made:
            client.close()

    def _client(self, service: str, answer_seconds: int, tries: int = TRIES) -> Any:
        settings = Config(
            retries={"mode": "standard", "total_max_attempts": tries},
            connect_timeout=CONNECT_SECONDS,
            read_timeout=max(answer_seconds, self._patience_seconds),
            tcp_keepalive=True,
            max_pool_connections=CONNECTIONS,
            user_agent_extra="tenure",
        )
        client = self._session.client(service, endpoint_url=self._endpoint_url, config=settings)  # type: ignore[call-overload] # one place for all services
        self.server_time.listen(client.meta.events)
        _close_what_a_fork_left(client)
        self._made.append(client)
        return client


def _close_what_a_fork_left(client: BaseClient) -> None:
    """Let a forked process open connections of its own before it first asks: on an inherited one its requests and its
    parent's would mingle, and each could take the other's answers for its own."""
    owner = os.getpid()

    def before_send(**_: Any) -> None:
        nonlocal owner
        if owner != os.getpid():
            client.close()
            owner = os.getpid()

    client.meta.events.register("before-send", before_send)
