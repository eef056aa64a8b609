"""The command line as a whole: help, unknown commands, and errors as one readable paragraph with its exit code."""

import json
from pathlib import Path

import click
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError
from click.testing import CliRunner

from tenure.cli.errors import explain
from tenure.cli.main import cli
from tenure.cli.registry import COMMANDS
from tenure.cli.session import Opener, Reach, Session
from tenure.core.errors import ServiceError
from tests.cli.conftest import Shop


def test_every_command_loads_and_has_a_line_in_the_help() -> None:
    """The registry names nothing that is not there, and no summary is cut short."""
    result = CliRunner().invoke(cli, ["--help"], terminal_width=100)
    assert result.exit_code == 0
    for name in COMMANDS:
        line = next(line for line in result.output.splitlines() if line.startswith(f"  {name} "))
        assert line.endswith(".")
        assert not line.endswith("...")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_but_init_takes_the_common_options(name: str) -> None:
    """--env, --app and -o, everywhere the same."""
    command = cli.get_command(click.Context(cli), name)  # type: ignore[attr-defined] # click types it as a Command
    options = {option for parameter in command.params for option in parameter.opts}
    assert "Every command but init takes --env" in CliRunner().invoke(cli, ["--help"]).output
    assert name == "init" or {"--env", "--app", "-o", "--output"} <= options


def test_an_unknown_command_is_answered_with_the_nearest(shop: Shop) -> None:
    """Exit 2 and a suggestion."""
    result = shop.run("submitt")
    assert result.exit_code == 2
    assert "Did you mean `tenure submit`?" in result.stderr


class Broken(Opener):
    """An environment that cannot be reached."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def open(self, session: Session) -> Reach:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (ServiceError("the table did not answer"), 1, "the table did not answer"),
        (NoCredentialsError(), 1, "aws sso login"),
        (EndpointConnectionError(endpoint_url="http://127.0.0.1:9"), 1, "start `tenure dev` again"),
        (
            ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "Query"),
            1,
            "AWS refused Query: AccessDenied",
        ),
        (ModuleNotFoundError("x", name="moto"), 2, "pip install 'tenure[local]'"),
        (ModuleNotFoundError("x", name="shop_app"), 2, "run tenure from your project's root"),
        (ZeroDivisionError("x"), 1, "This is a defect in tenure"),
    ],
)
def test_no_error_is_a_traceback(shop: Shop, error: Exception, code: int, says: str) -> None:
    """Whatever is raised below is one paragraph with what to do, on standard error; in JSON for who asked for JSON."""
    result = CliRunner().invoke(cli, ["ls"], obj=Broken(error))
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    as_json = CliRunner().invoke(cli, ["ls", "-o", "json"], obj=Broken(error))
    assert says in json.loads(as_json.stderr)["message"]


def test_traceback_is_there_for_who_asks(shop: Shop) -> None:
    """A defect can be reported with its place."""
    result = CliRunner().invoke(cli, ["--traceback", "ls"], obj=Broken(ZeroDivisionError("x")))
    assert isinstance(result.exception, ZeroDivisionError)


def test_without_a_project_the_error_says_how_to_begin_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first thing a newcomer meets names the three ways on."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["ls"])
    assert result.exit_code == 2
    assert all(word in result.stderr for word in ("--app", "tenure init", "environments/dev.toml"))


def test_an_environment_that_is_not_there_is_named_with_those_that_are(shop: Shop) -> None:
    """A misspelt --env lists the files."""
    result = shop.run("dev", "--env", "prdo")
    assert result.exit_code == 2
    assert "Environments there: dev" in " ".join(result.stderr.split())


@pytest.mark.parametrize("command", ["dev", "worker"])
def test_an_app_of_another_name_is_refused(shop: Shop, command: str) -> None:
    """The file's name and the App's are one: else what is submitted lies where no worker looks. Told by both names."""
    file = shop.directory / "environments" / "dev.toml"
    file.write_text(file.read_text().replace('name = "shop"', 'name = "other"'))
    result = shop.run(command)
    assert result.exit_code == 2
    told = " ".join(result.stderr.split())
    assert "the App is called 'shop' and environments/dev.toml says 'other'" in told


def test_explain_keeps_a_usage_errors_own_words() -> None:
    """What the core has said well is not said again differently."""
    assert explain(ServiceError("as it is")) == (1, "as it is")
