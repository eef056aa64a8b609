"""`tenure init`: the smallest project that runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from tenure.cli.errors import wrapped
from tenure.cli.visible import say
from tenure.core.errors import UsageError

APP = '''"""The tasks of {name}. Run them here with `tenure dev`; deployed, they run on AWS unchanged."""

import tenure

app = tenure.App("{name}")


@app.task(queue="work", timeout="30s", retry=tenure.Retry(max_attempts=3))
def greet(name: str, times: int = 1) -> str:
    """Write a greeting. A task is a plain function with types: its payload is checked against them."""
    ctx = tenure.context()
    ctx.log.info("greeting %s, attempt %d", name, ctx.attempt)
    if times < 1:
        raise tenure.GiveUp(f"cannot greet {{times}} times")  # buried at once: trying again would not help
    return " ".join([f"Hello, {{name}}!"] * times)
'''

ENVIRONMENT = """# The environment `dev`: which queues there are, and what serves them.
# Other environments are files beside this one, for example prod.toml, with the same tables and other numbers.
name = "{name}"
app = "app:app" # module:attribute of the App

[pools.quick] # a Lambda function; `kind = "fargate"` is a container for long or heavy tasks
kind = "lambda"
longest_runtime_seconds = 330 # a task's timeout, 5m unless it says otherwise, and the margin for stopping
concurrency = 4

[queues.work] # what @app.task(queue="work") names
pool = "quick"
"""


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=Path("."))
@click.option("--name", help="Name of the app. [default: the directory's]")
def init(directory: Path, name: str | None) -> None:
    """Write a minimal project: one task, one queue, one environment.

    Into DIRECTORY, or here.
    """
    chosen = name or app_name(directory.resolve().name)
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", chosen):
        raise UsageError(
            f"--name {chosen!r}: an app's name is a lower-case letter, then at most 30 lower-case letters, digits or "
            f"hyphens. Try --name {app_name(chosen)}."
        )
    files = {
        directory / "app.py": APP.format(name=chosen),
        directory / "environments" / "dev.toml": ENVIRONMENT.format(name=chosen),
    }
    there = [str(path) for path in files if path.exists()]
    if there:
        raise UsageError(f"{', '.join(there)} exists already; nothing was written. Choose another directory.")
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        say(f"wrote {path}")
    enter = "" if directory.resolve() == Path.cwd() else f"  cd {shlex.quote(str(directory))}\n"
    say(
        wrapped(
            f"\nNow start everything on this machine, and give it work from a second terminal:\n\n{enter}"
            "  tenure dev\n"
            '  tenure submit greet \'{"name": "Ada"}\' --wait'
        )
    )


def app_name(text: str) -> str:
    """A name that AWS's resources can bear, out of any text."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:31].rstrip("-")
    return plain if plain[:1].isalpha() else f"app-{plain}".rstrip("-")[:31]
