"""What every command takes: --env, --app, -o; and what they come to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.errors import OUTPUT
from tenure.cli.session import Opener, Session
from tenure.core.durations import seconds_of

Command = Callable[..., Any]


def _tell_alike(ctx: click.Context, _: click.Parameter, output: str) -> str:
    """Errors of the options that are read after it are told as the command's are."""
    ctx.meta[OUTPUT] = output
    return output


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
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="How to print.",
        is_eager=True,
        callback=_tell_alike,
    )
    @click.pass_context
    @functools.wraps(command)
    def wrapped(
        ctx: click.Context, /, *args: Any, environment: str | None, app: str | None, output: str, **kwargs: Any
    ) -> Any:
        opener = ctx.find_object(Opener)
        session = Session(environment, app, wants_json=output == "json", opener=opener or Opener())
        return ctx.invoke(command, session, *args, **kwargs)

    return wrapped


if TYPE_CHECKING:
    _OfText = click.ParamType[str]
else:
    _OfText = click.ParamType  # not generic before click 8.5


class _Duration(_OfText):
    """The text of a duration, looked at when the command line is read: before anything is asked or done."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as it is. Raises UsageError, with an example, for what is no duration."""
        seconds_of(value, param.opts[-1] if param else self.name)
        return str(value)


def duration_option(*names: str, help: str, default: str = "") -> Callable[[Command], Command]:
    """An option that is a duration, such as 90s or 20m; refused with an example where it is none."""
    if default:
        return click.option(*names, type=_Duration(), metavar="DURATION", help=help, default=default, show_default=True)
    return click.option(*names, type=_Duration(), metavar="DURATION", help=help)
