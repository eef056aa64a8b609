"""The alarms and the dashboard. What each is for is told by docs/alarms.md; S39 has a scenario of its own."""

import json

import pytest

from tenure.telemetry import EventName
from tests.infra.assembly import ENVIRONMENTS

ALARM = "AWS::CloudWatch::Alarm"


@pytest.fixture(params=ENVIRONMENTS)
def template(request, assembly):
    return assembly.template(request.param, "operations")


@pytest.fixture
def alarms(template):
    return list(template.properties(ALARM).values())


def on(alarms, name, namespace):
    return [a for a in alarms if a.get("MetricName") == name and a.get("Namespace") == namespace]


def test_each_function_is_watched_for_errors_throttles_duration_and_cut_chains(alarms):
    for name in ("Throttles", "Duration", "RecursiveInvocationsDropped"):
        assert len(on(alarms, name, "AWS/Lambda")) == 3
    assert len(on(alarms, "Errors", "AWS/Lambda")) >= 3
    for duration in on(alarms, "Duration", "AWS/Lambda"):
        assert duration["Threshold"] == 150_000 * 0.9
        assert duration["Statistic"] == "Maximum"


def test_the_table_is_watched_for_throttles(alarms):
    assert len(on(alarms, "ReadThrottleEvents", "AWS/DynamoDB")) == 1
    assert len(on(alarms, "WriteThrottleEvents", "AWS/DynamoDB")) == 1


def test_own_alarms_watch_what_the_workers_really_publish(alarms):
    """An alarm on a metric of another name would be quiet for ever."""
    own = [alarm for alarm in alarms if alarm.get("Namespace") == "tenure"]
    told = {metric.name for event in EventName for metric in event.metrics}
    assert {alarm["MetricName"] for alarm in own} <= told
    assert {"LeaseLost", "Dropped", "Buried", "Retried", "Resent", "EngineFailed"} <= {
        alarm["MetricName"] for alarm in own
    }


def test_the_composite_stands_for_every_alarm_that_makes_the_executor_unwell(template):
    (composite,) = template.properties("AWS::CloudWatch::CompositeAlarm").values()
    named = {
        piece["Fn::GetAtt"][0]
        for piece in composite["AlarmRule"]["Fn::Join"][1]
        if isinstance(piece, dict) and "Fn::GetAtt" in piece
    }
    alarms = template.properties(ALARM)
    assert named <= set(alarms)
    of_work = {name for name in alarms if "Dead letters" in alarms[name]["AlarmDescription"]}
    assert named.isdisjoint(of_work), "a dead letter is the work's trouble, not the executor's"
    kinds = {alarms[name]["MetricName"] for name in named}
    assert {"Errors", "Throttles", "ApproximateAgeOfOldestMessage", "WriteThrottleEvents"} <= kinds
    assert composite["AlarmActions"]


def test_alarms_may_publish_and_nobody_else_may(template):
    (policy,) = template.properties("AWS::SNS::TopicPolicy").values()
    allowed = [s for s in policy["PolicyDocument"]["Statement"] if s["Effect"] == "Allow"]
    assert [s["Principal"] for s in allowed] == [{"Service": "cloudwatch.amazonaws.com"}]
    assert "aws:SourceArn" in allowed[0]["Condition"]["ArnLike"]
    assert ":alarm:*" in json.dumps(allowed[0]["Condition"])


def test_alarms_can_publish_to_a_topic_that_is_encrypted(assembly):
    """With a key of one's own: CloudWatch must be let use it, or alarms go off and nobody is told."""
    (key,) = assembly.template("prod", "data").properties("AWS::KMS::Key").values()
    (topic,) = assembly.template("prod", "operations").properties("AWS::SNS::Topic").values()
    assert "KmsMasterKeyId" in topic
    let = [s for s in key["KeyPolicy"]["Statement"] if s["Principal"] == {"Service": "cloudwatch.amazonaws.com"}]
    assert [set(s["Action"]) for s in let] == [{"kms:Decrypt", "kms:GenerateDataKey"}]
    assert "KmsMasterKeyId" not in next(
        iter(assembly.template("dev", "operations").properties("AWS::SNS::Topic").values())
    )


def test_the_topic_reaches_the_addresses_of_the_environment(assembly):
    addresses = {
        environment: [
            s["Endpoint"]
            for s in assembly.template(environment, "operations").properties("AWS::SNS::Subscription").values()
        ]
        for environment in ENVIRONMENTS
    }
    assert addresses == {
        "dev": [],
        "staging": ["restaurant-staging@example.com"],
        "prod": ["restaurant-on-call@example.com"],
    }


def test_one_dashboard_begins_with_whether_anything_is_wrong(template):
    (dashboard,) = template.properties("AWS::CloudWatch::Dashboard").values()
    text = "".join(p if isinstance(p, str) else "x" for p in dashboard["DashboardBody"]["Fn::Join"][1])
    widgets = json.loads(text)["widgets"]
    assert widgets[0]["type"] == "alarm"
    titles = [widget["properties"]["title"] for widget in widgets]
    for question in ("Does work flow?", "What waits", "How old the oldest is", "What died"):
        assert any(question in title for title in titles), question
