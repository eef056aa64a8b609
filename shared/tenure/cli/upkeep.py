"""What the commands about dead letters share: the parts of a duty, who asks, and groups with a default command."""

from __future__ import annotations

import copy
import getpass
from collections.abc import Callable
from typing import Any

import click

from tenure.cli.session import Reach, Session
from tenure.core.errors import UsageError
from tenure.maintenance.parts import Parts

Command = Callable[..., Any]


def parts_of(reach: Reach) -> Parts:
    """The parts of a maintenance duty, as the session reaches them."""
    return Parts(
        store=reach.store,
        main=reach.queue,
        dead=reach.dead,
        payloads=reach.payloads,
        clock=reach.clock,
        entropy=reach.entropy,
        telemetry=reach.telemetry,
        topology=reach.topology,
    )


def caller(session: Session, reach: Reach) -> str:
    """Who is recorded: on AWS whose credentials these are, else the user of this machine."""
    if not reach.where.startswith("AWS "):
        return getpass.getuser()
    from botocore.exceptions import BotoCoreError, ClientError

    from tenure.cli.connect import clients_for

    try:
        return clients_for(session)[0].identity()[1]
    except (BotoCoreError, ClientError) as error:
        session.note(f"Who you are could not be asked of AWS ({error}); the name on this machine is recorded.")
        return getpass.getuser()


def reason_option(required: bool = True, help: str = "Why; it is kept and audited.") -> Callable[[Command], Command]:
    """--reason: kept with every task that is changed, and in the audit log. A blank one is as good as none."""
    # no default, not even None: click takes a default that is given for a value, and then requires nothing
    return click.option("--reason", required=required, callback=_says_something, help=help)


def _says_something(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not value.strip():
        raise click.BadParameter("it is blank. Say why, for whoever asks later.", ctx, param)
    return value


def need_reason(command: str, reason: str | None) -> str:
    """The reason, where only some of what a command does needs one. Raises UsageError without."""
    if reason is None:
        raise UsageError(f"{command}: say why (--reason); it is kept and audited.")
    return reason


yes_option = click.option("--yes", "confirmed", is_flag=True, help="Do it. Without this, only the plan is shown.")


MAIN = "main"
"""Name of a group's default command; hidden."""


class DefaultGroup(click.Group):
    """A group that does something by itself: what is no subcommand's name is an argument of its command MAIN."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command's name before arguments that name none."""
        asks_help = bool(args) and args[0] in ("-h", "--help")
        if not asks_help and (not args or args[0] not in self.commands):
            args = [MAIN, *args]
        return super().parse_args(ctx, args)

    def default(self, command: click.Command) -> click.Command:
        """Take a command as the default one. Its options are shown in the group's help; it parses them itself."""
        command.hidden = True
        self.add_command(command, MAIN)
        for option in command.params:
            if isinstance(option, click.Option):
                shown = copy.copy(option)
                shown.expose_value = False
                self.params.append(shown)
        return command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Those with a name of their own."""
        return [name for name in super().list_commands(ctx) if name != MAIN]
