"""How an error is told: what was wrong, where, what to do; in one paragraph, and as an exit code."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap

import click
from botocore.exceptions import BotoCoreError, ClientError

from tenure.adapters.sdk_errors import explained
from tenure.cli.visible import say, visible
from tenure.core.errors import TaskNotFound, TenureError, UsageError

DONE, FAILED, USAGE, NOTHING, PARTLY, NOT_YET = 0, 1, 2, 3, 4, 5
"""Exit codes."""

OUTPUT = "tenure.output"
"""Key of click's shared context under which a command's --output is kept, so that its errors are told alike."""

WIDTH_MAX = 100


def tell(error: Exception) -> int:
    """Say it on standard error, as JSON where the command was asked for JSON; the exit code."""
    code, text = explain(error)
    ctx = click.get_current_context(silent=True)
    if ctx is not None and ctx.meta.get(OUTPUT) == "json":
        say(json.dumps({"error": type(error).__name__, "message": text}), err=True)
    else:
        say(wrapped(visible(text)), head="Error: ", colour="red", err=True)
    return code


def explain(error: Exception) -> tuple[int, str]:
    """(exit code, paragraph) of an error."""
    if isinstance(error, TaskNotFound):
        return NOTHING, str(error)
    if isinstance(error, UsageError):
        return USAGE, str(error)
    if isinstance(error, TenureError):
        return FAILED, str(error)
    if isinstance(error, ClientError | BotoCoreError):
        return FAILED, explained(error)
    if isinstance(error, ModuleNotFoundError):
        return USAGE, _of_import(error)
    if isinstance(error, OSError):
        return FAILED, f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
    if isinstance(error, ValueError) and str(error).startswith("Invalid endpoint"):  # of botocore
        return USAGE, (
            f"{sentence(str(error))} Write a whole address, such as http://127.0.0.1:4566, in AWS_ENDPOINT_URL or "
            "--endpoint-url, or leave it out to reach AWS."
        )
    return FAILED, (
        f"{sentence(f'{type(error).__name__}: {error}')} This is a defect in tenure, not in what you typed. "
        "Run it again as `tenure --traceback …` and report what it prints."
    )


def sentence(text: str) -> str:
    """The text with a full stop, unless it ends as a sentence does."""
    return text if text.rstrip().endswith((".", "!", "?", "…")) else f"{text.rstrip()}."


def wrapped(text: str) -> str:
    """A paragraph, broken into lines a person can read; lines that stand by themselves are left alone."""
    width = min(WIDTH_MAX, _terminal_width())
    lines = [textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in text.split("\n")]
    return "\n".join(lines)


def _terminal_width() -> int:
    return shutil.get_terminal_size((WIDTH_MAX, 24)).columns if sys.stderr.isatty() else WIDTH_MAX


_EXTRAS = {"moto": "local", "werkzeug": "local", "rich": "cli", "aws_lambda_powertools": "worker"}


def _of_import(error: ModuleNotFoundError) -> str:
    extra = _EXTRAS.get((error.name or "").partition(".")[0])
    if extra:
        return f"this command needs the package {error.name}. Install it with: pip install 'tenure[{extra}]'."
    return (
        f"no module is called {error.name!r}. If it is your app's, run tenure from your project's root, or correct "
        "`app` in the environment file; if it is a package, install it."
    )
