"""The table, the bucket, the key and what is published of them."""

import json

import pytest

from tenure.adapters.items import table_definition
from tenure.core import limits, published
from tests.infra.assembly import ENVIRONMENTS

TABLE = "AWS::DynamoDB::Table"
BUCKET = "AWS::S3::Bucket"
PARAMETER = "AWS::SSM::Parameter"


@pytest.fixture(params=ENVIRONMENTS)
def template(request, assembly):
    return assembly.template(request.param, "data")


def only(resources):
    (found,) = resources.values()
    return found


def test_the_table_is_the_one_that_the_adapter_asks_for(template):
    table, wanted = only(template.properties(TABLE)), table_definition("x")
    assert table["KeySchema"] == wanted["KeySchema"]
    assert table["BillingMode"] == wanted["BillingMode"] == "PAY_PER_REQUEST"
    by_name = {each["IndexName"]: each for each in table["GlobalSecondaryIndexes"]}
    assert by_name == {each["IndexName"]: each for each in wanted["GlobalSecondaryIndexes"]}
    kinds = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
    assert kinds == {each["AttributeName"]: each["AttributeType"] for each in wanted["AttributeDefinitions"]}


def test_the_table_forgets_by_time_to_live_and_can_be_put_back(template):
    """Emulators drop both without a word."""
    table = only(template.properties(TABLE))
    assert table["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    assert table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True


def test_only_production_protects_its_table_and_its_stacks(assembly):
    for environment in ENVIRONMENTS:
        table = only(assembly.template(environment, "data").resources(TABLE))
        keeps = environment == "prod"
        assert table["Properties"].get("DeletionProtectionEnabled", False) is keeps
        assert table["DeletionPolicy"] == table["UpdateReplacePolicy"] == ("Retain" if keeps else "Delete")
        stacks = assembly.manifest()["artifacts"]
        assert bool(stacks[f"restaurant-{environment}-data"]["properties"].get("terminationProtection")) is keeps


def test_the_payload_bucket_is_private_and_its_objects_pass_away(template):
    bucket = only(template.properties(BUCKET))
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    (rule,) = bucket["LifecycleConfiguration"]["Rules"]
    assert rule["Prefix"] == "payloads/"
    assert rule["Status"] == "Enabled"
    longest_delay_days = 366
    assert rule["ExpirationInDays"] >= limits.ROW_LIFE_SECONDS_MIN / 86_400 + longest_delay_days
    denied = [
        statement
        for policy in template.properties("AWS::S3::BucketPolicy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny"
    ]
    assert {json.dumps(statement["Condition"], sort_keys=True) for statement in denied} == {
        '{"Bool": {"aws:SecureTransport": "false"}}',
        '{"NumericLessThan": {"s3:TlsVersion": 1.2}}',
    }


def test_nothing_but_queues_and_parameters_has_a_name_of_ours(template):
    for kind, name in ((TABLE, "TableName"), (BUCKET, "BucketName")):
        assert all(name not in each for each in template.properties(kind).values())


def test_with_a_key_of_its_own_everything_uses_it_and_it_rotates(assembly):
    template = assembly.template("prod", "data")
    assert only(template.properties("AWS::KMS::Key"))["EnableKeyRotation"] is True
    assert only(template.properties(TABLE))["SSESpecification"]["SSEType"] == "KMS"
    (rule,) = only(template.properties(BUCKET))["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
    assert rule["BucketKeyEnabled"] is True
    assert not assembly.template("dev", "data").properties("AWS::KMS::Key")


def test_whoever_sends_or_reads_may_use_the_key(assembly):
    """Senders decrypt too (SQS checks the data key that it has cached for them); each role that touches a task does."""
    for part in ("compute", "operations"):
        template = assembly.template("prod", part)
        policies = {**template.properties("AWS::IAM::Policy"), **template.properties("AWS::IAM::ManagedPolicy")}
        for name, policy in policies.items():
            statements = policy["PolicyDocument"]["Statement"]
            touches = [
                s for s in statements if any("dynamodb" in action or "sqs" in action for action in actions_of(s))
            ]
            key = {action for s in statements for action in actions_of(s) if action.startswith("kms:")}
            assert bool(touches) == ("kms:Decrypt" in key), name
            if any("sqs:SendMessage" in actions_of(s) for s in statements):
                assert "kms:GenerateDataKey" in key, name


def actions_of(statement):
    return [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]


def told(value, urls):
    """A parameter's value as CloudFormation will write it: each reference becomes the next of `urls`."""
    if isinstance(value, str):
        return value
    return "".join(piece if isinstance(piece, str) else next(urls) for piece in value["Fn::Join"][1])


def test_what_is_published_reads_back_as_the_topology(template):
    """Through the very function that clients read it with; the references stand for what CloudFormation fills in."""
    environment = template.name.split("-")[1]
    urls = iter(f"https://sqs.example/{number}" for number in range(100))
    values = {each["Name"]: told(each["Value"], urls) for each in template.properties(PARAMETER).values()}
    topology = published.topology_of("restaurant", environment, values)
    assert sorted(queue.name for queue in topology.queues) == ["ledger", "media", "partners", "reports"]
    assert sorted(topology.urls) == [
        "ledger/normal",
        "media/high",
        "media/normal",
        "partners/normal",
        "reports/normal",
    ]
    assert len({url for pair in topology.urls.values() for url in pair}) == 10
    assert topology.table
    assert topology.bucket
    tasks = published.tasks_of("restaurant", environment, values)
    assert {task.queue for task in tasks.values()} == {"ledger", "media", "partners", "reports"}


def test_urls_and_dlq_urls_are_not_confused(template):
    """A queue's URL is the beginning of its DLQ's: a careless replacement would put one into the other."""
    for parameter in template.properties(PARAMETER).values():
        if "/queues/" not in parameter["Name"]:
            continue
        pieces = parameter["Value"]["Fn::Join"][1]
        for before, reference, after in zip(pieces, pieces[1:], pieces[2:], strict=False):
            if isinstance(reference, dict):
                assert before.endswith('"')
                assert after.startswith('"')
