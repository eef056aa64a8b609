"""`doctor` finds what is wrong with a deployment, on the emulator: each fault by name, with what to do."""

import json
import os
from collections.abc import Iterator

import boto3
import pytest
from click.testing import CliRunner, Result

from tenure import running
from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock
from tenure.cli.main import cli
from tenure.core.topology import Topology
from tenure.environment_file import read_environment
from tenure.local.emulator import Emulator
from tenure.local.provision import provision
from tests.cli.conftest import Shop


@pytest.fixture
def clients(shop: Shop) -> Iterator[Clients]:
    """The project of the shop, deployed on an emulator that the commands find."""
    with Emulator() as emulator:
        found = emulator.clients(SystemClock().now_ms)
        provision(shop.environment.topology, found)
        running.leave(shop.directory, running.Running(emulator.url, os.getpid(), "shop", "dev"))
        yield found


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", *arguments])


def outcomes(result: Result) -> dict[str, str]:
    return {check["check"]: check["outcome"] for check in json.loads(result.stdout)["checks"]}


def message(result: Result, name: str) -> str:
    return next(check["message"] for check in json.loads(result.stdout)["checks"] if check["check"] == name)


def test_a_sound_deployment_passes_every_check(shop: Shop, clients: Clients) -> None:
    """Exit 0, eight lines, each with its mark."""
    result = doctor()
    assert "4 SQS queues and their DLQs answer" in result.stdout
    assert result.exit_code == 0, result.output
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [
        ["✓", name] for name in ("project", "app", "credentials", "deployed", "queues", "table", "bucket", "clock")
    ]


def test_a_queue_that_hides_too_briefly_is_found(shop: Shop, clients: Clients) -> None:
    """Somebody lowered a visibility timeout by hand: messages would come back under running tasks."""
    topology: Topology = shop.environment.topology
    name = topology.tier("media").name
    url = clients.sqs.get_queue_url(QueueName=name)["QueueUrl"]
    clients.sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "30"})
    result = doctor("-o", "json")
    assert result.exit_code == 1
    assert outcomes(result)["queues"] == "failed"
    wanted = topology.visibility_seconds("media")
    assert f"queue {name} hides messages for 30 s; its pool needs {wanted} s" in message(result, "queues")


def test_a_missing_table_is_found(shop: Shop, clients: Clients) -> None:
    """What was deleted is named; what does not depend on it is still checked."""
    clients.dynamodb.delete_table(TableName="shop-dev-tasks")
    result = doctor("-o", "json")
    assert (outcomes(result)["table"], outcomes(result)["bucket"]) == ("failed", "ok")
    assert "ResourceNotFoundException" in message(result, "table")


def test_an_environment_that_is_not_deployed_is_told_as_that(shop: Shop, clients: Clients) -> None:
    """What hangs on it is skipped, not failed."""
    found = clients.ssm.get_parameters_by_path(Path="/tenure/shop/dev", Recursive=True)["Parameters"]
    clients.ssm.delete_parameters(Names=[parameter["Name"] for parameter in found])
    result = doctor("-o", "json")
    assert "nothing is published" in message(result, "deployed")
    assert {outcomes(result)[name] for name in ("queues", "table", "bucket", "clock")} == {"skipped"}


def test_an_app_that_does_not_fit_is_found_before_anything_is_asked(shop: Shop, clients: Clients) -> None:
    """A task without its queue is the app's or the file's fault, and named as such."""
    file = shop.directory / "environments" / "dev.toml"
    file.write_text(file.read_text().replace("[queues.reports]", "[queues.reprots]"))
    result = doctor("-o", "json")
    assert outcomes(result)["app"] == "failed"
    assert "'reports'" in message(result, "app")


def test_without_credentials_it_says_how_to_get_some(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stack runs and nobody is signed in: a sentence, not a stack trace, and the rest is skipped."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    # Who was signed in when another part of the process first used boto3's own session is not who is now.
    earlier = boto3.session.Session(aws_access_key_id="earlier", aws_secret_access_key="earlier")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", earlier)
    result = doctor("-o", "json")
    assert result.exit_code == 1
    assert message(result, "credentials").startswith("nothing of tenure runs here as environment 'dev': start `tenure")
    assert "sign in to AWS" in message(result, "credentials")
    assert outcomes(result)["deployed"] == "skipped"


def test_a_file_that_cannot_be_read_is_told_once(shop: Shop, clients: Clients) -> None:
    """What only the file could tell is skipped; credentials are looked at all the same."""
    (shop.directory / "environments" / "dev.toml").write_text("name = ")
    result = doctor("-o", "json")
    assert result.stdout.count("is not TOML") == 1
    assert outcomes(result) == {
        "project": "failed",
        "credentials": "ok",
        **dict.fromkeys(("app", "deployed", "queues", "table", "bucket", "clock"), "skipped"),
    }


def test_one_queue_is_told_in_the_singular(shop: Shop) -> None:
    """It is the first deployment that a newcomer looks at."""
    (shop.directory / "environments" / "one.toml").write_text(
        'name = "shop"\napp = "shop_app:app"\n[pools.quick]\n[queues.media]\npool = "quick"\n'
    )
    topology = read_environment(shop.directory / "environments" / "one.toml").topology
    with Emulator() as emulator:
        provision(topology, emulator.clients(SystemClock().now_ms))
        running.leave(shop.directory, running.Running(emulator.url, os.getpid(), "shop", "one"))
        assert "1 SQS queue and its DLQ answer" in doctor("--env", "one").stdout


@pytest.mark.parametrize("line", [["ls"], ["worker", "--pool", "quick"], ["submit", "resize", '{"key": "a"}']])
def test_where_nothing_runs_that_is_said_first(shop: Shop, monkeypatch: pytest.MonkeyPatch, line: list[str]) -> None:
    """Neither `tenure dev` nor AWS: the nearest mend leads, and a stack under another name is pointed to."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    result = CliRunner().invoke(cli, line)
    told = " ".join(result.stderr.split())
    assert result.exit_code == 1
    assert told.startswith("Error: nothing of tenure runs here as environment 'dev': start `tenure dev`")
    running.leave(shop.directory, running.Running("http://127.0.0.1:9", os.getpid(), "shop", "test"))
    assert "add --env test" in " ".join(CliRunner().invoke(cli, line).stderr.split())
