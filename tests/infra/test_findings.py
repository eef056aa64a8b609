"""cdk-nag's findings: none is left, and each that is accepted is really there and has its reason."""

import json
from types import SimpleNamespace

import aws_cdk as cdk
import pytest

from infra.findings import ACCEPTED, Findings


def test_nothing_is_left_and_no_acceptance_is_stale(assembly):
    """The synth of all environments passed, so nothing is left; and each pattern of what is accepted was met."""
    met = json.loads((assembly.path / "accepted-findings.json").read_text(encoding="utf-8"))
    assert {each["accepted_as"] for each in met} == {each.finding for each in ACCEPTED}
    report = assembly.path / "validation-report.json"
    if report.exists():
        problems = json.loads(report.read_text(encoding="utf-8"))
        assert not [
            r
            for r in problems.get("pluginReports", [])
            if r["summary"]["pluginName"] == "AwsSolutions" and r["violations"]
        ]


def test_every_acceptance_says_why():
    assert all(len(each.reason) > 60 for each in ACCEPTED)


@pytest.mark.parametrize(
    ("finding", "path", "accepted"),
    [
        ("AwsSolutions-IAM5[Resource::<StoresBucket.Arn>/payloads/*]", "a/b", True),
        ("AwsSolutions-IAM5[Resource::*]", "x/Workers/pool-heavy/Task/ExecutionRole/DefaultPolicy/Resource", True),
        ("AwsSolutions-IAM5[Resource::*]", "x/Workers/queue-media/Worker/Role/DefaultPolicy/Resource", False),
        ("AwsSolutions-IAM5[Action::s3:*]", "x/Workers/queue-media/Worker/Role/DefaultPolicy/Resource", False),
        ("AwsSolutions-IAM5[Resource::<StoresBucket.Arn>/*]", "x/Workers/queue-media/Role", False),
        ("AwsSolutions-SQS4", "x/Stores/media-normal/Main/Resource", False),
    ],
)
def test_patterns_accept_what_they_mean_and_no_more(finding, path, accepted):
    """Square brackets mean themselves; a bare star in a worker's role is never accepted."""
    findings = Findings()
    violation = cdk.PolicyViolation(
        rule_name=finding,
        description="x",
        violating_resources=[cdk.PolicyViolatingResource(construct_path=path, locations=[])],
    )
    assert (findings._left_of(violation) is None) is accepted


def test_a_finding_that_nobody_accepts_fails_the_synth():
    """A queue without TLS, in a stack with the same plugin."""
    stack = cdk.Stack(cdk.App(), "Careless")
    cdk.aws_sqs.CfnQueue(stack, "Queue")
    report = Findings().validate(SimpleNamespace(app_construct=stack.node.root))
    assert not report.success
    assert {violation.rule_name for violation in report.violations} >= {"AwsSolutions-SQS3", "AwsSolutions-SQS4"}
