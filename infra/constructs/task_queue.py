"""One tier of a logical queue: an SQS queue and the dead-letter queue that belongs to it alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tenure.core import limits
from tenure.core.errors import InvalidTopology
from tenure.core.topology import Queue, Tier

KEY_REUSE_SECONDS = 3600
"""How long SQS may use one data key of a customer's key: each new one is a paid call to KMS. Service model of SQS."""


class TaskQueue(Construct):
    """An SQS queue with its DLQ, both encrypted, both TLS only.

    The names are the topology's: a DLQ that admits its source and nobody else must know the source's ARN, while the
    source must know the DLQ's; CloudFormation can resolve only one of the two, so the other is spelled out.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        queue: Queue,
        tier: Tier,
        visibility_seconds: int,
        removal: cdk.RemovalPolicy,
        key: kms.IKey | None = None,
    ) -> None:
        """`visibility_seconds` is the queue's visibility timeout: what a worker gets before its first beat."""
        super().__init__(scope, construct_id)
        self.queue_name, self.tier = queue.name, tier
        self.visibility_seconds = visibility_seconds
        common: Mapping[str, Any] = {
            "encryption": sqs.QueueEncryption.KMS if key else sqs.QueueEncryption.SQS_MANAGED,
            "encryption_master_key": key,
            "data_key_reuse": cdk.Duration.seconds(KEY_REUSE_SECONDS) if key else None,
            "enforce_ssl": True,
            "removal_policy": removal,
            "fifo": tier.ordered or None,
            # High throughput: the limit and the deduplication are a group's, not the whole queue's.
            "deduplication_scope": sqs.DeduplicationScope.MESSAGE_GROUP if tier.ordered else None,
            "fifo_throughput_limit": sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID if tier.ordered else None,
        }
        lowered = queue.message_bytes_max < limits.SQS_MESSAGE_BYTES_MAX
        source_arn = cdk.Stack.of(self).format_arn(service="sqs", resource=tier.name)
        # 14 days, the longest there is: on a standard queue a letter's age counts from its first send, so a DLQ that
        # kept messages for less than its source would drop letters as they arrive.
        self.dead = sqs.Queue(
            self,
            "Dead",
            queue_name=tier.dead_name,
            retention_period=cdk.Duration.seconds(limits.SQS_RETENTION_SECONDS_MAX),
            redrive_allow_policy=sqs.RedriveAllowPolicy(
                redrive_permission=sqs.RedrivePermission.BY_QUEUE,
                source_queues=[sqs.Queue.from_queue_arn(self, "Source", source_arn)],
            ),
            **common,
        )
        self.main = sqs.Queue(
            self,
            "Main",
            queue_name=tier.name,
            retention_period=cdk.Duration.seconds(queue.retention_seconds),
            visibility_timeout=cdk.Duration.seconds(visibility_seconds),
            # Left out it is SQS's own maximum. The DLQ keeps that: a letter bears its cause besides its message.
            max_message_size_bytes=queue.message_bytes_max if lowered else None,
            receive_message_wait_time=cdk.Duration.seconds(limits.SQS_WAIT_SECONDS_MAX),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead, max_receive_count=queue.receive_count_max),
            **common,
        )

    @property
    def label(self) -> str:
        """The tier as a person calls it, for example media/high."""
        return f"{self.queue_name}/{self.tier.tier}"

    def check_consumer(self, *, timeout_seconds: int, window_seconds: int, batch_size: int) -> None:
        """Raise InvalidTopology if an event source mapping like that would be refused by AWS, or lose messages."""
        where, needed = f"queue {self.label}", timeout_seconds + window_seconds
        if self.visibility_seconds < needed:
            raise InvalidTopology(
                f"{where}: it hides a message for {self.visibility_seconds} s, but its function may run for "
                f"{timeout_seconds} s after a batch window of {window_seconds} s, so a message would be handed out "
                f"again while it is worked on. Raise the queue's visibility_seconds to at least {needed}, or lower the "
                "pool's longest_runtime_seconds."
            )
        if self.tier.ordered and window_seconds:
            raise InvalidTopology(
                f"{where}: an ordered queue has no batch window, because SQS FIFO refuses one; {window_seconds} s was "
                "asked for. Drop it."
            )
        most = 10 if self.tier.ordered or not window_seconds else 10_000
        if not 1 <= batch_size <= most:
            raise InvalidTopology(
                f"{where}: a batch has 1 to {most} messages here, not {batch_size}. A standard queue takes up to "
                "10,000 with a batch window of at least 1 s. Lower batch_size."
            )

    def metric(self, name: str, statistic: str = "Maximum", *, dead: bool = False) -> cloudwatch.Metric:
        """An AWS/SQS metric of the queue, or of its DLQ; a point each minute."""
        queue = self.dead if dead else self.main
        return queue.metric(name, statistic=statistic, period=cdk.Duration.minutes(1))

    def metric_waiting(self) -> cloudwatch.Metric:
        """Messages that wait to be received."""
        return self.metric("ApproximateNumberOfMessagesVisible")

    def metric_oldest_seconds(self) -> cloudwatch.Metric:
        """Age of the oldest message. SQS leaves out what was received three times or more and not deleted."""
        return self.metric("ApproximateAgeOfOldestMessage")

    def metric_oldest_quiet_seconds(self) -> cloudwatch.Metric:
        """The same among tenants that do not crowd the queue: whether fairness still holds. Standard queues only."""
        return self.metric("ApproximateAgeOfOldestMessageInQuietGroups")

    def metric_dead(self) -> cloudwatch.Metric:
        """Dead letters that are there. Never NumberOfMessagesSent: SQS's own moves are not counted as sends."""
        return self.metric("ApproximateNumberOfMessagesVisible", dead=True)
