"""The console script: says what is missing where the command line's extra was not installed."""

from __future__ import annotations

import sys

NEEDS = ("click", "rich")
MEND = "the command line needs its extra: pip install 'tenure[cli]'"


def main() -> None:
    """Start `tenure`. Exit code 1, with one sentence, where click or rich is absent; any other import error is a defect
    and stays one."""
    try:
        import rich  # noqa: F401  # the commands import it late, in mid-command

        from tenure.cli.main import main as commands
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEEDS:
            raise
        sys.exit(MEND)
    commands()
