"""Who may do what: the statements of each role, written out.

CDK's own `grant_…` methods give more than a role here needs (a consumer's grant has GetQueueUrl, a table's has a star
over its indexes and Scan), so each statement names its actions and resources, and its Sid says what it is for. The
statements are put together from what each role really calls: tests/infra/test_least_privilege.py records the calls and
holds them against this file, and docs/permissions.md is generated from the templates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from aws_cdk import aws_iam as iam

from infra.constructs.published_topology import PublishedTopology
from tenure.adapters.items import DEAD_INDEX, DUE_INDEX
from tenure.adapters.payloads import PREFIX

if TYPE_CHECKING:
    from infra.constructs.stores import Stores
    from infra.constructs.task_queue import TaskQueue

Statements = list[iam.PolicyStatement]


def producer(stores: Stores, queues: Iterable[str] | None = None) -> Statements:
    """Submit to `queues` (None: to all), follow and cancel tasks. Not: receive, delete, or see a dead letter."""
    return [
        _send("SubmitTasks", stores.tiers_of(queues)),
        _rows(stores),
        *_payloads(stores),
        _published(stores),
        *_encrypted(stores),
    ]


def worker(stores: Stores, queues: Iterable[str], submits: Sequence[str] = ()) -> Statements:
    """Serve `queues`; bury into their DLQs; submit to the queues in `submits`."""
    tiers = stores.tiers_of(queues)
    follow_up = [_send("SubmitFollowUpTasks", stores.tiers_of(submits))] if submits else []
    return [
        _allow(
            "ServeOwnQueues",
            ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes"],
            [tier.main.queue_arn for tier in tiers],
        ),
        _letters("BuryIntoOwnDeadLetterQueues", tiers),
        *follow_up,
        _rows(stores),
        *_payloads(stores),
        *_encrypted(stores),
    ]


def reconcile(stores: Stores) -> Statements:
    """Re-send what is due and seems lost, send missing letters. Not: receive or delete any message."""
    tiers = stores.tiers_of(None)
    return [
        _send("ResendWhatIsDue", tiers),
        _letters("SendMissingLetters", tiers),
        _allow("SeeBacklogs", ["sqs:GetQueueAttributes"], [tier.main.queue_arn for tier in tiers]),
        _rows(stores),
        _index("FindWhatIsDue", stores, DUE_INDEX),
        # Payloads to notice a table that was put back to an earlier time, from what then lies in the bucket alone.
        *_payloads(stores),
        *_encrypted(stores),
    ]


def replay(stores: Stores) -> Statements:
    """Send dead-lettered tasks again. Not: touch a DLQ (ingest drains it), receive from a queue, or read a payload."""
    return [
        _send("ReplayTasks", stores.tiers_of(None)),
        _rows(stores),
        _index("FindDeadLetters", stores, DEAD_INDEX),
        _index("FindReplays", stores, DUE_INDEX),
        _allow("WriteEditedPayloads", ["s3:PutObject"], [_objects(stores)]),
        *_encrypted(stores),
    ]


def ingest(stores: Stores) -> Statements:
    """Read the letters that SQS moved by itself, re-send what has budget left, bury the rest with letters of our own,
    delete those that are decided about."""
    tiers = stores.tiers_of(None)
    return [
        _send("ResendWhatHasBudget", tiers),
        _letters("BuryWhatHasNone", tiers),
        _drain("ReadLetters", tiers),
        _rows(stores),
        _index("CountDeadLetters", stores, DEAD_INDEX),
        *_encrypted(stores),
    ]


def operator_reads(stores: Stores) -> Statements:
    """Look at everything: rows, payloads, depths, what is published. Changes nothing; sees what payloads hold."""
    tiers = stores.tiers_of(None)
    table = stores.table.table.table_arn
    return [
        _allow(
            "SeeDepths",
            ["sqs:GetQueueAttributes"],
            [arn for tier in tiers for arn in (tier.main.queue_arn, tier.dead.queue_arn)],
        ),
        _allow("SeeTasks", ["dynamodb:BatchGetItem"], [table]),
        _index("SeeWhatIsDue", stores, DUE_INDEX),
        _index("SeeDeadLetters", stores, DEAD_INDEX),
        _allow("ExamineTheTable", ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"], [table]),
        _allow("SeePayloads", ["s3:GetObject"], [_objects(stores)]),
        _missing_is_404(stores),
        _published(stores),
        *_decrypts(stores),
    ]


def operator_acts(stores: Stores) -> Statements:
    """What cancel, replay, discard, pause and reconcile from the command line need, besides `operator_reads`."""
    tiers = stores.tiers_of(None)
    return [
        _send("ResendAndReplay", tiers),
        _drain("DrainLetters", tiers),
        _letters("SendMissingLetters", tiers),
        _allow("ChangeTasks", ["dynamodb:UpdateItem"], [stores.table.table.table_arn]),
        _allow("WriteEditedPayloads", ["s3:PutObject"], [_objects(stores)]),
        *_encrypted(stores),
    ]


def reads_published(stores: Stores) -> Statements:
    """What a duty needs besides, whose variables cannot hold the whole topology."""
    return [_published(stores)]


def own_logs(log_group_arn: str) -> iam.PolicyStatement:
    """Write one's own log group. It is there already, so nobody needs CreateLogGroup."""
    return _allow("WriteOwnLogs", ["logs:CreateLogStream", "logs:PutLogEvents"], [log_group_arn])


def _allow(sid: str, actions: list[str], resources: list[str]) -> iam.PolicyStatement:
    return iam.PolicyStatement(sid=sid, actions=actions, resources=resources)


def _send(sid: str, tiers: Iterable[TaskQueue]) -> iam.PolicyStatement:
    return _allow(sid, ["sqs:SendMessage"], [tier.main.queue_arn for tier in tiers])


def _letters(sid: str, tiers: Iterable[TaskQueue]) -> iam.PolicyStatement:
    return _allow(sid, ["sqs:SendMessage"], [tier.dead.queue_arn for tier in tiers])


def _objects(stores: Stores) -> str:
    return stores.bucket.bucket.arn_for_objects(f"{PREFIX}*")


def _drain(sid: str, tiers: Iterable[TaskQueue]) -> iam.PolicyStatement:
    actions = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes"]
    return _allow(sid, actions, [tier.dead.queue_arn for tier in tiers])


def _rows(stores: Stores) -> iam.PolicyStatement:
    """Rows are read in batches, and written by one kind of guarded write. Never deleted: time to live does that."""
    return _allow("ReadAndWriteRows", ["dynamodb:BatchGetItem", "dynamodb:UpdateItem"], [stores.table.table.table_arn])


def _index(sid: str, stores: Stores, name: str) -> iam.PolicyStatement:
    return _allow(sid, ["dynamodb:Query"], [stores.table.index_arn(name)])


def _payloads(stores: Stores) -> Statements:
    return [
        _allow("ReadAndWritePayloads", ["s3:GetObject", "s3:PutObject"], [_objects(stores)]),
        _missing_is_404(stores),
    ]


def _missing_is_404(stores: Stores) -> iam.PolicyStatement:
    """Without it S3 answers 403 for an object that is not there, and a lost payload would look like a lost right."""
    return _allow("TellMissingFromForbidden", ["s3:ListBucket"], [stores.bucket.bucket.bucket_arn])


def _published(stores: Stores) -> iam.PolicyStatement:
    arns = PublishedTopology.arns(stores, stores.topology)
    return _allow("FindTheEnvironment", ["ssm:GetParametersByPath"], arns)


def _encrypted(stores: Stores) -> Statements:
    """With a customer's key senders decrypt too: SQS checks the data key that it has cached for them. DynamoDB uses the
    key in the caller's name, for which the CDK's own grants give the same, with stars."""
    if stores.key is None:
        return []
    actions = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"]
    return [_allow("UseTheKey", [*actions, "kms:ReEncryptFrom", "kms:ReEncryptTo"], [stores.key.key_arn])]


def _decrypts(stores: Stores) -> Statements:
    if stores.key is None:
        return []
    return [_allow("Decrypt", ["kms:Decrypt", "kms:DescribeKey"], [stores.key.key_arn])]
