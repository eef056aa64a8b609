"""The command line over the world in memory: a project on disk, and every command's answers from that world."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tenure.cli.main import cli
from tenure.cli.session import Opener, Reach, Session
from tenure.client import Client
from tenure.core.environment import Environment
from tenure.core.submission import Options
from tenure.environment_file import read_environment
from tenure.rows import Rows
from tenure.testing import World

ENVIRONMENT = """
name = "shop"
app = "shop_app:app"

[pools.quick]
kind = "lambda"
[pools.steady]
kind = "fargate"

[queues.media]
pool = "quick"
tiers = ["high", "normal"]
[queues.reports]
pool = "steady"
[queues.ledger]
pool = "quick"
ordered = true
on_bury = "halt"
"""

APP = """
import tenure

app = tenure.App("shop")


@app.task(queue="media", timeout="2m")
def resize(key: str, width: int = 100) -> str:
    return key


@app.task(queue="reports", retry=tenure.Retry(max_attempts=2))
def render(month: str) -> dict[str, int]:
    return {}


@app.task(queue="ledger", ordered_by="account")
def post(amount: int, account: str) -> None: ...
"""


@dataclass
class Shop(Opener):
    """A project with its world."""

    directory: Path
    world: World
    environment: Environment
    client: Client
    opened: list[Session] = field(default_factory=list)

    def open(self, session: Session) -> Reach:
        self.opened.append(session)
        world = self.world
        return Reach(
            topology=self.environment.topology,
            store=world.store,
            payloads=world.payloads,
            queue=world.queues,
            dead=world.dead,
            clock=world.clock,
            entropy=world.entropy,
            telemetry=world.telemetry,
            client=self.client,
            where="a world in memory",
        )

    def submit(self, task: str, arguments: Mapping[str, Any], **options: Any) -> str:
        """Submit by name; the task's id."""
        return self.client.submit(task, arguments, options=Options(**options)).id

    def run(self, *arguments: str, input: str | None = None) -> Result:
        """Run `tenure ...` in the project's directory. A traceback is a failed test."""
        result = CliRunner().invoke(cli, list(arguments), obj=self, input=input, terminal_width=100)
        assert "Traceback" not in result.output
        return result


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "dev.toml").write_text(ENVIRONMENT)
    (tmp_path / "shop_app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "shop_app", raising=False)
    environment = read_environment(tmp_path / "environments" / "dev.toml")
    import shop_app

    with World(topology=environment.topology) as world:
        client = Client(
            app_name="shop",
            topology=environment.topology,
            rows=Rows(world.store),
            payloads=world.payloads,
            queues=world.queues,
            clock=world.clock,
            entropy=world.entropy,
            telemetry=world.telemetry,
            tasks={name: task.facts() for name, task in shop_app.app.tasks.items()},
        )
        yield Shop(tmp_path, world, environment, client)
    sys.modules.pop("shop_app", None)


Run = Callable[..., Result]
