"""`tenure dev`'s screen: what is counted and told, drawn within a small terminal."""

from collections import Counter
from typing import Any

from rich.console import Console

from tenure.cli.screen import View, draw
from tenure.core.task import State
from tenure.local.snapshot import Snapshot
from tests.cli import states
from tests.cli.conftest import Shop


def drawn(view: View, width: int = 80) -> str:
    console = Console(width=width, record=True, force_terminal=False, file=None)
    with console.capture() as captured:
        console.print(draw(view))
    return captured.get()


def view_of(shop: Shop, snapshot: Snapshot, **changes: object) -> View:
    values: dict[str, Any] = {
        "topology": shop.environment.topology,
        "endpoint_url": "http://127.0.0.1:40123",
        "counts": snapshot.counts(),
        "events": snapshot.events(3),
        "workers": {"quick": "2 environments", "steady": "1 process"},
        "up_seconds": 75,
    }
    return View(**(values | changes))


def rows(shop: Shop, *ids: str) -> Snapshot:
    return Snapshot(tuple(states.row_of(shop, task_id) for task_id in ids))


def test_every_queue_has_a_line_with_its_counts_and_workers(shop: Shop) -> None:
    """Counts stand under their state; none is a dot; and it all fits into 80 columns."""
    done, dead = shop.submit("render", {"month": "a"}), shop.submit("render", {"month": "b"})
    states.completed(shop, done)
    states.buried(shop, dead)
    told = drawn(view_of(shop, rows(shop, done, dead)))
    lines = {line.split()[0]: line.split() for line in told.splitlines() if line.strip()}
    assert lines["QUEUE"] == ["QUEUE", "QUEUED", "LEASED", "RETRYING", "COMPLETED", "DEAD", "WORKERS"]
    assert lines["reports"] == ["reports", "·", "·", "·", "1", "1", "1", "process"]
    assert lines["media"] == ["media", "·", "·", "·", "·", "·", "2", "environments"]
    assert "http://127.0.0.1:40123  up 1m15s" in told
    assert max(map(len, told.splitlines())) <= 80


def test_a_state_that_is_met_gets_its_column(shop: Shop) -> None:
    """Seldom states cost no room until they are needed."""
    view = view_of(shop, Snapshot(()), counts={"media": Counter({State.SCHEDULED: 2})})
    assert "SCHEDULED" in drawn(view)


def test_events_are_told_latest_first_with_the_error_of_a_burial(shop: Shop) -> None:
    """What went wrong is on the line of the event that says so."""
    dead = shop.submit("render", {"month": "b"})
    shop.world.advance(1)
    states.buried(shop, dead)
    told = drawn(view_of(shop, rows(shop, dead)), width=120)
    lines = [line for line in told.splitlines() if dead in line]
    assert [line.split()[3] for line in lines] == ["bury", "claim", "submit"]
    assert "PDFError: page 3 has no width" in lines[0]
    assert "fence 1" in lines[1]


def test_draining_is_told(shop: Shop) -> None:
    """After Ctrl-C a person sees that it was heard, and what a second one does."""
    assert "Draining: running tasks may end; Ctrl-C again ends them." in drawn(
        view_of(shop, Snapshot(()), draining=True)
    )
