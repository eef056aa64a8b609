"""`tenure`: finds the command, and turns every error into one readable paragraph and an exit code.

Exit codes: 0 done, 1 failed, 2 the command was used wrongly, 3 nothing matched, 4 partly done, 5 not done yet.
"""

from __future__ import annotations

import difflib
import importlib
import logging
from typing import Any

import click

from tenure.cli import errors
from tenure.cli.registry import COMMANDS, SECTIONS
from tenure.cli.visible import visible

_Resolved = tuple[str | None, click.Command | None, list[str]]


class Commands(click.Group):
    """The commands of the registry, each imported when it is needed."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """As click does; what it says of a wrong option is as its other errors."""
        try:
            return super().make_context(*args, **kwargs)
        except click.ClickException as error:
            raise _shown(error) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the registry's order, not the alphabet's: what a person needs first stands first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported. None if there is none of this name."""
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        found: click.Command = getattr(importlib.import_module(module), attribute)
        return found

    def resolve_command(self, ctx: click.Context, args: list[str]) -> _Resolved:
        """As click does; an unknown name is answered with the nearest one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            mend = f"Did you mean `tenure {near[0]}`?" if near else "`tenure --help` lists the commands."
            raise click.UsageError(f"there is no command {name!r}. {mend}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by section, aligned over all of them."""
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS:
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), self._summary(ctx, name)) for name in commands])

    def _summary(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        return command.get_short_help_str(85) if command else ""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; no error leaves here as a traceback, unless --traceback asks for it."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort):
            raise
        except click.ClickException as error:
            raise _shown(error) from None
        except Exception as error:
            if ctx.params.get("traceback"):
                raise
            ctx.exit(errors.tell(error))


def _shown(error: click.ClickException) -> click.ClickException:
    """The error, what it quotes of the command line as it may stand on a terminal."""
    told = error.format_message()
    if visible(told) == told:
        return error
    if isinstance(error, click.UsageError):
        return click.UsageError(visible(told), error.ctx)
    return click.ClickException(visible(told))


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
@click.option("--traceback", is_flag=True, help="Show where an error came from (for a report of a defect).")
@click.version_option(package_name="tenure", message="tenure %(version)s")
def cli(traceback: bool) -> None:
    """Tasks on AWS managed queues, each held under a lease.

    Every command but init takes --env (the environment, default dev), --app and -o json. Exit codes: 0 done, 1 failed,
    2 used wrongly, 3 nothing matched, 4 partly done, 5 not done yet (the wait was too short).
    """


def main() -> None:
    """The console script."""
    events = logging.getLogger("tenure")
    events.addHandler(logging.NullHandler())  # a person gets sentences; events are a program's
    events.propagate = False
    cli(prog_name="tenure")
