"""S39: an alarm on dead letters that could not fire, and one that tells of the first letter only."""

import pytest

from tests.infra.assembly import ENVIRONMENTS
from tests.infra.conftest import assembly  # noqa: F401 - the fixture: one synth for all that look at templates

ALARM = "AWS::CloudWatch::Alarm"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(params=ENVIRONMENTS)
def alarms(request, assembly):  # noqa: F811 - the fixture's name
    return list(assembly.template(request.param, "operations").properties(ALARM).values())


def on(alarms, name):
    return [alarm for alarm in alarms if alarm.get("MetricName") == name]


def test_letters_are_alarmed_about_by_how_many_lie_there(alarms):
    """A letter that SQS moved by itself is not counted as sent, so only the depth tells of it: one for each DLQ."""
    letters = [a for a in on(alarms, "ApproximateNumberOfMessagesVisible") if "Dead letters" in a["AlarmDescription"]]
    assert len(letters) == 5
    for alarm in letters:
        assert alarm["Statistic"] == "Maximum"
        assert alarm["Threshold"] == 1
        assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
        assert (alarm["Period"], alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (60, 1, 1)
        assert alarm["TreatMissingData"] == "notBreaching"
    assert not on(alarms, "NumberOfMessagesSent")
    assert len({str(alarm["Dimensions"]) for alarm in letters}) == 5


def test_every_alarm_has_somebody_to_tell_and_tells_when_it_is_over(alarms):
    for alarm in alarms:
        assert alarm["AlarmActions"]
        assert alarm["OKActions"]
        assert alarm["AlarmDescription"]
        assert alarm["EvaluationPeriods"] >= alarm["DatapointsToAlarm"] >= 1
        assert alarm["TreatMissingData"] in ("breaching", "notBreaching")


def test_the_letters_that_come_while_others_lie_there_are_told_of_too(alarms):
    """The depth's alarm is silent then: it is on already. The count of burials goes back to OK between two of them."""
    (buried,) = on(alarms, "Buried")
    assert buried["Namespace"] == "tenure"
    assert buried["Statistic"] == "Sum"
    assert buried["Period"] == 300
    assert (buried["Threshold"], buried["EvaluationPeriods"], buried["TreatMissingData"]) == (1, 1, "notBreaching")


def test_the_oldest_message_is_alarmed_about_long_before_sqs_deletes_it(alarms):
    oldest = on(alarms, "ApproximateAgeOfOldestMessage")
    assert len(oldest) == 5
    shortest_retention_seconds = 4 * 86_400
    assert all(60 <= alarm["Threshold"] < shortest_retention_seconds for alarm in oldest)


def test_quiet_tenants_have_an_alarm_of_their_own_where_there_are_tenants(alarms):
    """Standard queues only: on an ordered one the group is the ordering key."""
    assert len(on(alarms, "ApproximateAgeOfOldestMessageInQuietGroups")) == 4
