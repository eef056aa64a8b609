"""What every command takes: --env, --app, -o; and what they come to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from tenure.cli.errors import OUTPUT
from tenure.cli.session import Opener, Session

Command = Callable[..., Any]


def with_session(command: Command) -> Command:
    """Give the command --env, --app and -o, and a Session as its first argument."""

    @click.option("--env", "environment", metavar="NAME", help="The environment. [default: $TENURE_ENVIRONMENT or dev]")
    @click.option(
        "--app",
        "app",
        metavar="APP",
        help="The app: module:attribute, or its name alone for what needs no code. [default: the environment file's]",
    )
    @click.option(
        "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print."
    )
    @click.pass_context
    @functools.wraps(command)
    def wrapped(
        ctx: click.Context, /, *args: Any, environment: str | None, app: str | None, output: str, **kwargs: Any
    ) -> Any:
        ctx.meta[OUTPUT] = output
        opener = ctx.find_object(Opener)
        session = Session(environment, app, wants_json=output == "json", opener=opener or Opener())
        return ctx.invoke(command, session, *args, **kwargs)

    return wrapped


def duration_option(*names: str, help: str) -> Callable[[Command], Command]:
    """An option that is a duration, such as 90s or 20m; refused with an example where it is none."""
    return click.option(*names, metavar="DURATION", help=help)
