"""The compute stack: mappings, functions, services and duties as a person would check them by hand."""

import json
from itertools import pairwise

import pytest

from infra.constructs.fargate_worker import STEPS_MAX, capacity_steps
from tests.infra.assembly import ENVIRONMENTS

MAPPING = "AWS::Lambda::EventSourceMapping"
FUNCTION = "AWS::Lambda::Function"
TASK = "AWS::ECS::TaskDefinition"
SERVICE = "AWS::ECS::Service"


@pytest.fixture(params=ENVIRONMENTS)
def template(request, assembly):
    return assembly.template(request.param, "compute")


def own_functions(template):
    """tenure's functions, without those that the CDK brings along."""
    return {
        name: f for name, f in template.properties(FUNCTION).items() if str(f.get("Description")).startswith("tenure")
    }


def only(resources):
    (found,) = resources.values()
    return found


def test_s09_every_mapping_reads_the_partial_batch_response(template):
    """S09(a): without it Lambda ignores the worker's answer, and deletes the messages of tasks that failed."""
    mappings = template.properties(MAPPING)
    assert len(mappings) == 4
    for mapping in mappings.values():
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_concurrency_is_bounded_before_messages_are_received(template, assembly):
    """By the mapping; never by reserved concurrency, which throttles what has been received already."""
    wanted = {"dev": 5, "staging": 20, "prod": 50}[template.name.split("-")[1]]
    for mapping in template.properties(MAPPING).values():
        assert mapping["ScalingConfig"] == {"MaximumConcurrency": wanted}
    for function in own_functions(template).values():
        assert "ReservedConcurrentExecutions" not in function


def test_no_message_waits_for_a_batch(template):
    for mapping in template.properties(MAPPING).values():
        assert "MaximumBatchingWindowInSeconds" not in mapping
        assert mapping["BatchSize"] <= 10


def test_a_mapping_filters_nothing(template):
    """Lambda deletes what a filter does not match."""
    assert all("FilterCriteria" not in mapping for mapping in template.properties(MAPPING).values())


def test_each_queue_of_a_lambda_pool_has_a_function_with_a_role_and_a_log_group_of_its_own(template):
    workers = [f for f in own_functions(template).values() if "runs the tasks of queue" in f["Description"]]
    assert sorted(f["Description"].rpartition(" ")[2] for f in workers) == ["ledger", "media", "partners"]
    for part in ("Role", "LoggingConfig"):
        assert len({json.dumps(f[part], sort_keys=True) for f in workers}) == len(workers)


def test_functions_run_on_the_runtime_and_machine_of_the_environment(template):
    for function in own_functions(template).values():
        assert function["Runtime"] == "python3.14"
        assert function["Architectures"] == ["arm64"]


def test_a_chain_of_submits_is_cut_by_lambda_rather_than_run_forever(template):
    """Lambda's own guard stays on, and an alarm tells when it cuts (docs/adr/0031)."""
    for function in own_functions(template).values():
        assert function["RecursiveLoop"] == "Terminate"


def test_logs_are_kept_for_a_stated_time(template):
    days = {"dev": 7, "staging": 30, "prod": 365}[template.name.split("-")[1]]
    groups = template.properties("AWS::Logs::LogGroup")
    assert {group["RetentionInDays"] for group in groups.values()} == {days}
    for function in own_functions(template).values():
        assert function["LoggingConfig"]["LogGroup"]["Ref"] in groups


def test_no_variable_is_named_like_a_secret(template):
    names = {name for f in own_functions(template).values() for name in f["Environment"]["Variables"]}
    names |= {
        each["Name"] for t in template.properties(TASK).values() for each in t["ContainerDefinitions"][0]["Environment"]
    }
    assert "TENURE_TOPOLOGY" in names
    assert not [name for name in names if any(word in name for word in ("SECRET", "PASSWORD", "TOKEN", "KEY"))]


def test_a_worker_is_told_of_the_queues_it_serves_and_no_others(template):
    for function in own_functions(template).values():
        if "runs the tasks of queue" not in function["Description"]:
            continue
        topology = function["Environment"]["Variables"]["TENURE_TOPOLOGY"]["Fn::Join"][1][0]
        queue = function["Description"].rpartition(" ")[2]
        others = {"media", "ledger", "partners", "reports"} - {queue}
        assert f'"name":"{queue}"' in topology
        assert not [other for other in others if f'"name":"{other}"' in topology]


def test_a_container_cannot_be_written_to_and_has_all_the_time_there_is_to_stop(template):
    (container,) = only(template.properties(TASK))["ContainerDefinitions"]
    assert container["ReadonlyRootFilesystem"] is True
    assert container["User"] not in ("", "root", "0")
    assert container["StopTimeout"] == 120
    (mount,) = container["MountPoints"]
    assert (mount["ContainerPath"], mount["ReadOnly"]) == ("/tmp", False)
    assert container["HealthCheck"]["Command"][0] == "CMD"
    platform = only(template.properties(TASK))["RuntimePlatform"]
    assert platform == {"CpuArchitecture": "ARM64", "OperatingSystemFamily": "LINUX"}


def test_a_bad_image_is_rolled_back_and_running_tasks_are_left_alone(template):
    service = only(template.properties(SERVICE))
    assert service["DeploymentConfiguration"]["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}
    assert service["DeploymentConfiguration"]["MinimumHealthyPercent"] == 100
    assert "DesiredCount" not in service, "a deployment would reset what scaling has decided"
    assert service["EnableExecuteCommand"] is False


def test_spot_is_the_environments_choice(assembly):
    providers = {
        environment: only(assembly.template(environment, "compute").properties(SERVICE))["CapacityProviderStrategy"][0][
            "CapacityProvider"
        ]
        for environment in ENVIRONMENTS
    }
    assert providers == {"dev": "FARGATE_SPOT", "staging": "FARGATE_SPOT", "prod": "FARGATE"}


def test_a_pool_goes_down_to_nothing_and_comes_back_by_itself(template):
    target = only(template.properties("AWS::ApplicationAutoScaling::ScalableTarget"))
    assert target["MinCapacity"] == 0
    policies = template.properties("AWS::ApplicationAutoScaling::ScalingPolicy").values()
    steps = [policy["StepScalingPolicyConfiguration"] for policy in policies]
    assert {step["AdjustmentType"] for step in steps} == {"ExactCapacity"}
    up = max(steps, key=lambda step: len(step["StepAdjustments"]))["StepAdjustments"]
    assert up[0] == {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 10, "ScalingAdjustment": 1}
    assert up[-1]["ScalingAdjustment"] == target["MaxCapacity"]
    assert "MetricIntervalUpperBound" not in up[-1]


def test_a_pool_is_scaled_on_what_waits_and_what_runs(template):
    """In flight too: else a task that works on the last message would be scaled in under it."""
    alarms = [
        a for a in template.properties("AWS::CloudWatch::Alarm").values() if "Scales pool" in a["AlarmDescription"]
    ]
    assert len(alarms) == 2
    for alarm in alarms:
        (math,) = [m for m in alarm["Metrics"] if "Expression" in m]
        names = [m["MetricStat"]["Metric"]["MetricName"] for m in alarm["Metrics"] if "MetricStat" in m]
        assert sorted(names) == ["ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesVisible"]
        assert math["Expression"].count("FILL(") == len(names), "a queue that tells nothing would stop the sum"
    treated = {a["ComparisonOperator"]: a["TreatMissingData"] for a in alarms}
    assert treated == {
        "GreaterThanOrEqualToThreshold": "notBreaching",
        "LessThanThreshold": "breaching",
    }


@pytest.mark.parametrize(("least", "most", "per_task"), [(0, 1, 10), (0, 2, 10), (1, 4, 5), (2, 20, 1), (0, 500, 100)])
def test_steps_rise_from_one_message_to_the_whole_pool(least, most, per_task):
    """Each step is reached when its predecessor's tasks have more than their share; never more than AWS takes."""
    steps = capacity_steps(least, most, per_task)
    assert len(steps) <= STEPS_MAX
    assert steps[0] == (1, max(1, least))
    assert steps[-1][1] == most
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(steps))
    assert all(after[0] == before[1] * per_task + 1 for before, after in pairwise(steps))


def test_nothing_can_come_into_the_workers_network(template):
    for group in template.properties("AWS::EC2::SecurityGroup").values():
        for rule in group.get("SecurityGroupIngress", []):
            assert "CidrIp" not in rule
    subnets = template.properties("AWS::EC2::Subnet").values()
    assert not any(subnet.get("MapPublicIpOnLaunch") for subnet in subnets)


def test_production_workers_have_no_way_out_but_the_endpoints(assembly):
    production = assembly.template("prod", "compute")
    assert not production.resources("AWS::EC2::InternetGateway")
    assert not production.resources("AWS::EC2::NatGateway")
    services = {json.dumps(e["ServiceName"]) for e in production.properties("AWS::EC2::VPCEndpoint").values()}
    for service in ("sqs", "logs", "ecr.api", "ecr.dkr", "kms", "s3", "dynamodb"):
        assert any(f'{service}"' in each or f".{service}" in each for each in services), service
    network = only(production.properties(SERVICE))["NetworkConfiguration"]["AwsvpcConfiguration"]
    assert network["AssignPublicIp"] == "DISABLED"
