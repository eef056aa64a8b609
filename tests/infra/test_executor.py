"""`TaskExecutor` in somebody's own CDK app: one construct, with grants and metrics in the CDK's habits."""

import json
import tomllib

import aws_cdk as cdk
import pytest
from aws_cdk import assertions
from aws_cdk import aws_iam as iam

from infra.bundle import Bundle
from infra.constructs.maintenance_function import DUTIES
from infra.constructs.task_executor import TaskExecutor
from infra.environment import settings_of
from tenure.core.environment import environment_of
from tenure.core.errors import InvalidTopology
from tests.infra.assembly import stand_in_bundle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TEXT = """
name = "restaurant"
app = "examples.restaurant.app:app"
[pools.quick]
longest_runtime_seconds = 150
[pools.slow]
kind = "fargate"
longest_runtime_seconds = 3600
memory_mb = 1024
[queues.media]
pool = "quick"
[queues.ledger]
pool = "quick"
ordered = true
[queues.reports]
pool = "slow"
[queues.partners]
pool = "quick"
[deploy]
removal = "destroy"
submits = {media = ["partners"]}
"""


def settings(text=TEXT):
    return settings_of(environment_of("test", tomllib.loads(text), "test.toml"), "test.toml")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(executor, a role that was granted things, the template of the stack that they are in)."""
    bundle = Bundle(stand_in_bundle(tmp_path_factory.mktemp("bundle")), "0" * 64)
    stack = cdk.Stack(cdk.App(), "Mine")
    executor = TaskExecutor(stack, "Executor", settings=settings(), program=bundle, duties=DUTIES)
    web = iam.Role(stack, "Web", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    executor.grant_submit(web, "media")
    looks = iam.Role(stack, "Looks", assumed_by=iam.AccountRootPrincipal())
    executor.grant_operate_read_only(looks)
    acts = iam.Role(stack, "Acts", assumed_by=iam.AccountRootPrincipal())
    executor.grant_operate(acts)
    executor.metric_oldest_seconds("media").create_alarm(stack, "Late", threshold=60, evaluation_periods=5)
    return executor, assertions.Template.from_stack(stack).to_json()


def statements_of(template, role):
    (policy,) = [
        r["Properties"]["PolicyDocument"]["Statement"]
        for name, r in template["Resources"].items()
        if r["Type"] == "AWS::IAM::Policy" and name.startswith(role)
    ]
    return {each["Sid"]: each for each in policy}


def test_it_is_all_there_in_one_stack(built):
    _, template = built
    kinds = [r["Type"] for r in template["Resources"].values()]
    assert kinds.count("AWS::SQS::Queue") == 8
    assert kinds.count("AWS::Lambda::EventSourceMapping") == 3
    assert kinds.count("AWS::ECS::Service") == 1
    assert kinds.count("AWS::CloudWatch::Dashboard") == 1
    assert kinds.count("AWS::Scheduler::Schedule") == 3


def test_a_grant_to_submit_names_the_queue_and_not_its_dlq(built):
    _, template = built
    granted = statements_of(template, "Web")
    assert granted["SubmitTasks"]["Action"] == "sqs:SendMessage"
    assert "media" in json.dumps(granted["SubmitTasks"]["Resource"])
    assert "Dead" not in json.dumps(granted["SubmitTasks"]["Resource"])
    actions = json.dumps(granted)
    for never in ("sqs:ReceiveMessage", "sqs:DeleteMessage", "dynamodb:Scan", "dynamodb:DeleteItem", '"*"'):
        assert never not in actions


def test_who_only_looks_can_change_nothing(built):
    _, template = built
    reading = {"sqs:GetQueueAttributes", "dynamodb:BatchGetItem", "dynamodb:Query", "s3:GetObject", "s3:ListBucket"}
    reading |= {"ssm:GetParametersByPath", "dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"}
    actions = set()
    for statement in statements_of(template, "Looks").values():
        actions |= set([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    assert actions == reading


def test_handlers_that_submit_may_send_to_the_queues_that_were_named(built):
    _, template = built
    by_queue = {
        name: r["Properties"]["PolicyDocument"]["Statement"]
        for name, r in template["Resources"].items()
        if r["Type"] == "AWS::IAM::Policy" and "queue" in name
    }
    (media,) = [statements for name, statements in by_queue.items() if "queuemedia" in name]
    (sends,) = [s for s in media if s["Sid"] == "SubmitFollowUpTasks"]
    assert "partners" in json.dumps(sends["Resource"])
    assert not [
        s for name, each in by_queue.items() if "queuemedia" not in name for s in each if "FollowUp" in s["Sid"]
    ]


def test_roles_and_metrics_can_be_had_by_the_queues_name(built):
    executor, _ = built
    assert executor.role_of("media") is not executor.role_of("ledger")
    assert executor.role_of("reports") is not None
    assert executor.metric_dead("ledger").metric_name == "ApproximateNumberOfMessagesVisible"
    assert executor.metric_own("Succeeded", "media").dimensions == {"environment": "restaurant-test", "queue": "media"}
    with pytest.raises(InvalidTopology, match="no queue 'post'"):
        executor.metric_waiting("post")
    with pytest.raises(KeyError):
        executor.metric_own("Suceeded")


def test_an_environment_that_does_not_fit_the_app_is_refused_before_anything_is_built():
    stack = cdk.Stack(cdk.App(), "Mine")
    short = TEXT.replace("longest_runtime_seconds = 150", "longest_runtime_seconds = 60")
    with pytest.raises(
        InvalidTopology, match=r"does not fit environment 'test':\n  task 'reconcile_day' may run for 2m"
    ):
        TaskExecutor(stack, "Executor", settings=settings(short))


def test_variables_that_lambda_would_refuse_are_refused_at_synth(tmp_path):
    bundle = Bundle(stand_in_bundle(tmp_path), "0" * 64)
    long = TEXT.replace("[deploy]", f'[deploy]\nvariables = {{NOTE = "{"x" * 3500}"}}')
    with pytest.raises(InvalidTopology, match=r"its function's variables would be .* Lambda takes 4,096"):
        TaskExecutor(cdk.Stack(cdk.App(), "Mine"), "Executor", settings=settings(long), program=bundle)


def test_duties_of_many_queues_read_what_is_published_instead_of_a_variable(tmp_path):
    """A variable would hold some fifteen queues; beyond, the duty is allowed to read the parameters."""
    bundle = Bundle(stand_in_bundle(tmp_path), "0" * 64)
    many = TEXT.replace("[deploy]", "".join(f'[queues.more{n}]\npool = "quick"\n' for n in range(20)) + "[deploy]")
    stack = cdk.Stack(cdk.App(), "Mine")
    TaskExecutor(stack, "Executor", settings=settings(many), program=bundle, duties=DUTIES)
    template = assertions.Template.from_stack(stack).to_json()
    duties = [
        r["Properties"]
        for r in template["Resources"].values()
        if r["Type"] == "AWS::Lambda::Function" and r["Properties"].get("Description") == "tenure: reconcile"
    ]
    assert "TENURE_TOPOLOGY" not in duties[0]["Environment"]["Variables"]
    assert statements_of(template, "ExecutorWorkersdutyreconcileDuty")["FindTheEnvironment"]
