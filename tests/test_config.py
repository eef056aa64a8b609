"""The environment is read once, into frozen models, and what is wrong in it is told by the variable's name."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tenure import config
from tenure.core.errors import InvalidTopology, UsageError
from tenure.core.topology import Topology
from tests.support.shop import topology

WORKER = {
    "TENURE_APP": "shop.tasks:app",
    "TENURE_ENVIRONMENT": "test",
    "TENURE_POOL": "many",
    "TENURE_TOPOLOGY": topology().model_dump_json(exclude_defaults=True),
}


def test_a_worker_is_told_all_that_it_is() -> None:
    """App, environment, pool and topology; the variables of its platform too."""
    lambda_ = {"AWS_LAMBDA_FUNCTION_NAME": "shop-test-many", "AWS_LAMBDA_LOG_STREAM_NAME": "2026/11/29/[1]ab"}
    told = config.worker_config(WORKER | lambda_ | {"TENURE_LOG_LEVEL": "debug"})
    assert (told.app, told.environment, told.pool, told.log_level) == ("shop.tasks:app", "test", "many", "DEBUG")
    assert told.topology == topology()
    assert (told.function_name, told.instance, told.agent_uri) == ("shop-test-many", "2026/11/29/[1]ab", "")
    fargate = config.worker_config(WORKER | {"ECS_AGENT_URI": "http://169.254.170.2/api", "HOSTNAME": "ip-10-0-0-1"})
    assert (fargate.agent_uri, fargate.instance) == ("http://169.254.170.2/api", "ip-10-0-0-1")
    with pytest.raises(ValidationError):
        told.pool = "other"  # type: ignore[misc] # that is the point


def test_without_a_topology_what_is_published_is_to_be_read() -> None:
    """Then only names are told."""
    assert config.worker_config({k: v for k, v in WORKER.items() if k != "TENURE_TOPOLOGY"}).topology is None


@pytest.mark.parametrize("name", ["TENURE_APP", "TENURE_ENVIRONMENT", "TENURE_POOL"])
def test_a_missing_variable_is_named(name: str) -> None:
    """With what to do about it."""
    with pytest.raises(UsageError, match=f"the variable {name} is not set"):
        config.worker_config({k: v for k, v in WORKER.items() if k != name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TENURE_APP", "shop.tasks"),
        ("TENURE_ENVIRONMENT", "Prod"),
        ("TENURE_POOL", "a b"),
        ("TENURE_LOG_LEVEL", "loud"),
    ],
)
def test_a_wrong_variable_is_named_with_its_value(name: str, value: str) -> None:
    """So that it can be found."""
    environ = {k: v for k, v in WORKER.items() if k != "TENURE_TOPOLOGY"} | {name: value}
    with pytest.raises(UsageError, match=f"(?i)the variable {name}='{value}'"):
        config.worker_config(environ)


@pytest.mark.parametrize(
    "text", ["nonsense", "{}", '{"app": "shop"}', '{"app":"shop","environment":"test","queues":5}']
)
def test_a_topology_that_cannot_be_read_is_told(text: str) -> None:
    """By the variable's name, with the first thing that is wrong in it."""
    with pytest.raises(InvalidTopology, match="TENURE_TOPOLOGY does not hold a topology"):
        config.worker_config(WORKER | {"TENURE_TOPOLOGY": text})


def test_a_topology_of_another_environment_is_refused_by_workers() -> None:
    """A worker with two truths about where it is does not start."""
    with pytest.raises(UsageError, match="'test', not of 'prod'"):
        config.worker_config(WORKER | {"TENURE_ENVIRONMENT": "prod"})
    with pytest.raises(UsageError, match="'test', not of 'prod'"):
        config.maintenance_config(WORKER | {"TENURE_ENVIRONMENT": "prod"})


@pytest.mark.parametrize(
    ("said", "environ", "chosen"),
    [
        ("prod", {}, "prod"),
        (None, {"TENURE_ENVIRONMENT": "dev"}, "dev"),
        ("prod", {"TENURE_ENVIRONMENT": "dev"}, "prod"),
    ],
)
def test_what_a_producer_says_goes_before_the_variable(said: Any, environ: dict[str, str], chosen: str) -> None:
    """And nothing at all is an error that names both ways."""
    assert config.producer_config(said, environ).environment == chosen
    with pytest.raises(UsageError, match="TENURE_ENVIRONMENT"):
        config.producer_config(None, {})


def test_a_name_that_is_none_is_told_with_where_it_came_from() -> None:
    """What the program said, or the variable, by its name; and the rule in words, without a pattern."""
    for said, environ, told in (
        ("Prod!", {"TENURE_ENVIRONMENT": "dev"}, "environment='Prod!': must be a name: a lower-case letter"),
        (None, {"TENURE_ENVIRONMENT": "Prod!"}, "the variable TENURE_ENVIRONMENT='Prod!': must be a name"),
    ):
        with pytest.raises(UsageError) as caught:
            config.producer_config(said, environ)
        assert str(caught.value).startswith(told)
        assert "^" not in str(caught.value)
    with pytest.raises(UsageError, match=r"the variable TENURE_POOL='Quick!': must be a name: .*\. Rename it\."):
        config.worker_config(WORKER | {"TENURE_POOL": "Quick!"})
    with pytest.raises(UsageError, match="the variable TENURE_APP='shop': must be module:attribute"):
        config.worker_config(WORKER | {"TENURE_APP": "shop"})


def test_the_region_is_what_awss_own_documentation_says() -> None:
    """AWS_REGION, which this SDK does not read by itself; what it does read is left to it."""
    assert config.region({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-1"}) == "eu-west-1"
    assert config.region({"AWS_DEFAULT_REGION": "us-east-1"}) is None
    assert config.region({"AWS_REGION": ""}) is None


def test_a_producer_in_a_worker_may_speak_to_another_environment() -> None:
    """The worker's own topology is then left alone."""
    assert config.producer_config("test", WORKER).topology == topology()
    assert config.producer_config("prod", WORKER).topology is None


def test_a_slice_survives_the_variable() -> None:
    """What the deployment writes is what is read, URLs and all."""
    deployed = topology().model_copy(update={"urls": {"media/normal": ("https://q", "https://d")}, "table": "t"})
    text = deployed.model_dump_json(exclude_defaults=True)
    assert config.worker_config(WORKER | {"TENURE_TOPOLOGY": text}).topology == Topology.model_validate(
        deployed.model_dump()
    )


def test_the_environments_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """For programs that only want a default."""
    assert config.environment_name({}) is None
    assert config.environment_name({"TENURE_ENVIRONMENT": ""}) is None
    monkeypatch.setenv("TENURE_ENVIRONMENT", "dev")
    assert config.environment_name() == "dev"
