"""The queues as a person would check them by hand. Emulators drop most of this in silence."""

import json

import pytest

from tests.infra.assembly import ENVIRONMENTS

QUEUE = "AWS::SQS::Queue"
FOURTEEN_DAYS = 14 * 86_400


@pytest.fixture(params=ENVIRONMENTS)
def template(request, assembly):
    return assembly.template(request.param, "data")


@pytest.fixture
def pairs(template):
    """(queue, its DLQ), properties each, found by the redrive policy."""
    queues = template.properties(QUEUE)
    return [
        (queue, queues[queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]])
        for queue in queues.values()
        if "RedrivePolicy" in queue
    ]


def arn_tail(arn):
    """The last word of an ARN that was joined from pieces."""
    return arn["Fn::Join"][1][-1].rpartition(":")[2]


def test_each_tier_has_a_queue_with_a_dlq_of_its_own(template, pairs):
    assert sorted(queue["QueueName"].partition("-")[2].partition("-")[2] for queue, _ in pairs) == [
        "ledger-normal.fifo",
        "media-high",
        "media-normal",
        "partners-normal",
        "reports-normal",
    ]
    assert len(template.properties(QUEUE)) == 2 * len(pairs) == 2 * len({dead["QueueName"] for _, dead in pairs})


def test_a_dlq_is_of_its_sources_kind_and_keeps_letters_longest(pairs):
    for queue, dead in pairs:
        assert queue.get("FifoQueue") == dead.get("FifoQueue")
        assert dead["MessageRetentionPeriod"] == FOURTEEN_DAYS >= queue["MessageRetentionPeriod"]
        assert (
            queue["QueueName"].endswith(".fifo") == dead["QueueName"].endswith(".fifo") == bool(queue.get("FifoQueue"))
        )


def test_a_dlq_admits_its_source_and_nobody_else(pairs):
    for queue, dead in pairs:
        allowed = dead["RedriveAllowPolicy"]
        assert allowed["redrivePermission"] == "byQueue"
        assert [arn_tail(arn) for arn in allowed["sourceQueueArns"]] == [queue["QueueName"]]


def test_sqs_itself_moves_a_message_only_as_a_last_resort(pairs):
    assert {queue["RedrivePolicy"]["maxReceiveCount"] for queue, _ in pairs} == {1000}


def test_an_ordered_queue_is_in_high_throughput_mode(pairs):
    ordered = [queue for queue, _ in pairs if queue.get("FifoQueue")]
    assert len(ordered) == 1
    for queue in ordered:
        assert queue["DeduplicationScope"] == "messageGroup"
        assert queue["FifoThroughputLimit"] == "perMessageGroupId"
        assert "ContentBasedDeduplication" not in queue


def test_visibility_is_derived_and_never_below_what_its_worker_may_take(pairs):
    seconds = {queue["QueueName"].split("-")[2]: queue["VisibilityTimeout"] for queue, _ in pairs}
    assert seconds == {"media": 160, "ledger": 160, "partners": 160, "reports": 60}


def test_every_queue_refuses_what_is_not_tls(template):
    denied = set()
    for policy in template.properties("AWS::SQS::QueuePolicy").values():
        for statement in policy["PolicyDocument"]["Statement"]:
            if statement["Effect"] == "Deny" and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}:
                assert statement["Action"] == "sqs:*"
                denied.add(json.dumps(statement["Resource"]["Fn::GetAtt"][0]))
    assert len(denied) == len(template.properties(QUEUE))


def test_every_queue_is_encrypted(template):
    for queue in template.properties(QUEUE).values():
        assert ("KmsMasterKeyId" in queue) != (queue.get("SqsManagedSseEnabled") is True)
    if template.name == "restaurant-prod-data":
        assert all("KmsMasterKeyId" in queue for queue in template.properties(QUEUE).values())


def test_production_keeps_its_queues_and_development_does_not(assembly):
    for environment, policy in (("dev", "Delete"), ("staging", "Delete"), ("prod", "Retain")):
        for queue in assembly.template(environment, "data").resources(QUEUE).values():
            assert queue["DeletionPolicy"] == queue["UpdateReplacePolicy"] == policy


def test_two_environments_of_one_account_share_no_name(assembly):
    names = [
        queue["QueueName"]
        for environment in ENVIRONMENTS
        for queue in assembly.template(environment, "data").properties(QUEUE).values()
    ]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 80
