"""Which commands there are. A new group of commands is a module and a few lines here; nothing else changes.

A command is named by "module:attribute" and imported when it is run or listed, so that `tenure ls` pays for no
emulator, and an installation without an extra only misses what needs it.
"""

from __future__ import annotations

SECTIONS: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "Start",
        {
            "init": "tenure.cli.init:init",
            "dev": "tenure.cli.dev:dev",
            "worker": "tenure.cli.worker:worker",
            "doctor": "tenure.cli.doctor:doctor",
            "schema": "tenure.cli.schema:schema",
            "conformance": "tenure.cli.conformance:conformance",
        },
    ),
    (
        "Tasks",
        {
            "submit": "tenure.cli.tasks:submit",
            "wait": "tenure.cli.tasks:wait",
            "cancel": "tenure.cli.tasks:cancel",
            "ls": "tenure.cli.look:ls",
            "show": "tenure.cli.look:show",
            "why": "tenure.cli.look:why",
        },
    ),
    (
        "Queues",
        {
            "queues": "tenure.cli.queues:queues",
            "pause": "tenure.cli.house:pause",
            "resume": "tenure.cli.house:resume",
        },
    ),
    (
        "Dead letters",
        {
            "dead": "tenure.cli.dead:dead",
            "replay": "tenure.cli.replay:replay",
            "discard": "tenure.cli.replay:discard",
            "keys": "tenure.cli.keys:keys",
            "reconcile": "tenure.cli.house:reconcile",
            "audit": "tenure.cli.house:audit",
        },
    ),
)
"""(title of the section in the help, {command: where it is})."""

COMMANDS: dict[str, str] = {name: place for _, commands in SECTIONS for name, place in commands.items()}
