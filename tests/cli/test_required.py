"""What help calls required is required, and a reason says something: asked of every command there is."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click
import pytest

from tenure.cli.main import cli
from tests.cli.conftest import Shop

STARTERS = ("dev", "worker", "conformance")
"""They start processes, or go to AWS itself; none of them takes a reason."""


def commands(group: click.Group, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, default commands of groups too, with what is typed for it."""
    for name in [*group.list_commands(click.Context(group)), "main"]:
        found = group.get_command(click.Context(group), name)
        if isinstance(found, click.Group):
            yield from commands(found, (*at, name))
        elif found is not None:
            yield (at if name == "main" else (*at, name)), found


assert isinstance(cli, click.Group)
ALL = list(commands(cli))


def shown_as_required(command: click.Command) -> list[click.Option]:
    """As a person reads it in the help."""
    ctx = click.Context(command)
    options = [param for param in command.params if isinstance(param, click.Option)]
    return [each for each in options if "required" in (each.get_help_record(ctx) or ("", ""))[1].rpartition("[")[2]]


def arguments(command: click.Command) -> list[str]:
    return ["reports" for param in command.params if isinstance(param, click.Argument) and param.required]


REQUIRED = [(path, command, option) for path, command in ALL for option in shown_as_required(command)]
REASONS = [(path, command) for path, command in ALL if any("--reason" in param.opts for param in command.params)]


def test_the_walk_finds_what_changes_something() -> None:
    """Else what follows would prove nothing: these are the commands whose help says that a reason is required."""
    assert {" ".join(path) for path, _, option in REQUIRED if "--reason" in option.opts} == {
        *("cancel", "pause", "resume", "keys retry-head", "keys skip-head", "keys drain", "replay abort")
    }
    assert {" ".join(path) for path, _ in REASONS} >= {"replay", "discard", "dead foreign", "reconcile"}
    assert {path[0] for path, _ in ALL if path[0] not in STARTERS} >= {"submit", "audit", "init"}


@pytest.mark.parametrize(("path", "command", "option"), REQUIRED, ids=lambda value: getattr(value, "name", None))
def test_an_option_that_help_calls_required_is_required(
    shop: Shop, path: tuple[str, ...], command: click.Command, option: click.Option
) -> None:
    """Left out, it is exit 2 with its name; nothing is connected to, let alone done."""
    others = [each for each in shown_as_required(command) if each is not option]
    line = [*path, *arguments(command), *(word for each in others for word in (each.opts[0], "x"))]
    result = shop.run(*line)
    assert result.exit_code == 2, result.output
    assert option.opts[0] in result.stderr
    assert shop.opened == []
    assert json.loads(shop.run("audit", "-o", "json").stdout) == {"records": []}


@pytest.mark.parametrize("blank", ["", "  ", "\t"])
@pytest.mark.parametrize(("path", "command"), REASONS, ids=lambda value: getattr(value, "name", None))
def test_a_reason_that_says_nothing_is_refused(
    shop: Shop, path: tuple[str, ...], command: click.Command, blank: str
) -> None:
    """Empty or blank is as good as none, wherever a reason is taken: exit 2, and nothing is connected to."""
    confirmed = ["--yes"] if any("--yes" in param.opts for param in command.params) else []
    result = shop.run(*path, *arguments(command), *confirmed, "--reason", blank)
    assert result.exit_code == 2, result.output
    assert "--reason" in result.stderr
    assert shop.opened == []


@pytest.mark.parametrize("line", [["replay", "--yes"], ["discard", "--yes"], ["dead", "foreign", "media", "--yes"]])
def test_what_is_confirmed_needs_a_reason(shop: Shop, line: list[str]) -> None:
    """A plan needs none; what is done does, and is refused before anything is looked at."""
    result = shop.run(*line)
    assert result.exit_code == 2, result.output
    assert "--reason" in result.stderr
    assert shop.opened == []
