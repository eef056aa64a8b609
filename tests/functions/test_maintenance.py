"""The duties' entry points, as Lambda calls them."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

import tenure
from tenure.core import machine
from tenure.core.errors import UsageError
from tenure.core.machine import Lease, Stamp
from tenure.core.outcome import named
from tenure.core.task import Row
from tenure.core.topology import Pool, Queue, Topology
from tenure.local import atomic_moto
from tenure.maintenance.parts import Parts
from tenure.rows import Stands
from tenure.wiring.maintenance import parts_of
from tenure.wiring.producer import client_of
from tests.support.deployed import Deployed

app = tenure.App("function")


@app.task(queue="work")
def work(number: int) -> int:
    return number


TOPOLOGY = Topology(
    app="function", environment="test", queues=(Queue(name="work", pool="quick"),), pools=(Pool(name="quick"),)
)


class Context:
    """Lambda's context, as far as the duties ask it."""

    def get_remaining_time_in_millis(self) -> int:
        return 300_000


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    atomic_moto.install()
    with mock_aws():
        made = Deployed(TOPOLOGY)
        for name, value in made.variables(f"{__name__}:app", "quick").items():
            monkeypatch.setenv(name, value)
        yield made


def duty(name: str) -> Any:
    """The handler, freshly imported as in a cold start."""
    sys.modules.pop(f"functions.{name}.handler", None)
    handler = importlib.import_module(f"functions.{name}.handler").handler
    sys.modules.pop(f"functions.{name}.handler")

    def call(event: dict[str, Any]) -> Any:
        return json.loads(json.dumps(handler(event, Context())))

    return call


def bury(parts: Parts, row: Row) -> Row:
    """A dead letter whose letter was never sent."""

    def stamp() -> Stamp:
        return Stamp(parts.clock.now_ms(), parts.entropy.token(), "test")

    claimed = machine.claim(row, stamp(), Lease(60, "token", "w", True, 5))
    buried = machine.bury(claimed, stamp(), named("PDFError", "no width"), "gave_up")
    assert isinstance(parts.rows.replace(row, claimed), Stands)
    assert isinstance(parts.rows.replace(claimed, buried), Stands)
    return buried


def dead_letter(deployed: Deployed) -> Row:
    """A submitted task, buried; its message is taken off the queue."""
    app.connect(client=client_of(deployed.topology, deployed.aws, {}))
    parts = parts_of(deployed.topology, deployed.aws)
    row = parts.rows.get(work.submit(3).id)
    assert row is not None
    queue = parts.main(deployed.topology.tier("work"))
    queue.delete_many([each.receipt for each in queue.receive(10, 0)])
    return bury(parts, row)


def test_reconcile_answers_with_its_counts(deployed: Deployed) -> None:
    """A run with nothing to do says so; the answer is JSON."""
    told = duty("reconcile")({"source": "aws.scheduler"})
    assert (told["looked"], told["failed"], told["more"]) == (0, 0, False)


def test_ingest_answers_with_its_counts(deployed: Deployed) -> None:
    """Forced, it reads every DLQ."""
    assert duty("ingest")({"force": True})["scanned"] == 1
    assert duty("ingest")({})["scanned"] == 0


def test_replay_plans_runs_and_tells(deployed: Deployed) -> None:
    """The documented events: a plan by default, then a run, a status, a list; a tick goes on with what is not over."""
    row = dead_letter(deployed)
    replay = duty("replay")
    assert replay({"filter": "error:PDFError"})["plan"]["count"] == 1
    done = replay({"filter": "error:PDFError", "reason": "fixed", "by": "ann", "dry_run": False})["replay"]
    assert (done["phase"], done["replayed"]) == ("done", 1)
    assert replay({"replay_id": done["id"]})["replay"]["id"] == done["id"]
    assert [each["id"] for each in replay({"action": "list"})["replays"]] == [done["id"]]
    assert replay({"source": "aws.scheduler"}) == {"replays": []}
    parts = parts_of(deployed.topology, deployed.aws)
    now = parts.rows.get(row.id)
    assert now is not None
    assert now.state.value == "queued"
    (message,) = parts.main(deployed.topology.tier("work")).receive(10, 0)
    assert row.id in message.body


def test_an_edited_payload_is_checked_against_the_app(deployed: Deployed) -> None:
    """The function knows its App, so that a wrong payload is refused before anything moves."""
    row = dead_letter(deployed)
    event = {"filter": f"id:{row.id}", "reason": "typo", "by": "ann", "dry_run": False}
    with pytest.raises(UsageError, match="number"):
        duty("replay")({**event, "payload": '{"number": "x"}'})
    assert duty("replay")({**event, "payload": '{"number": 4}'})["replay"]["replayed"] == 1


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ({"filter": "", "ratio": 1}, "no field is called 'ratio'"),
        ({"filter": "", "dry_run": False}, "reason"),
        ({"replay_id": "r1", "action": "stop"}, "no action is called 'stop'"),
        ({"replay_id": "r1", "action": "abort"}, "say why"),
    ],
)
def test_events_that_cannot_be_meant_are_refused(deployed: Deployed, event: dict[str, Any], says: str) -> None:
    """Each with what is wrong, by name."""
    with pytest.raises(UsageError, match=says):
        duty("replay")(event)
