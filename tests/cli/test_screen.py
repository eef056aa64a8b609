"""`tenure dev`'s screen: what is counted and told, drawn within a small terminal."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from tenure.cli.screen import View, draw
from tenure.core.task import Happening, State
from tenure.local.snapshot import Snapshot
from tests.cli import states
from tests.cli.conftest import Shop


def drawn(view: View, width: int = 80) -> str:
    console = Console(width=width, record=True, force_terminal=False, file=None)
    with console.capture() as captured:
        console.print(draw(replace(view, width=width)))
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
    assert lines["QUEUE"] == ["QUEUE", "QUEUED", "LEASED", "RETRY", "DONE", "DEAD", "WORKERS"]
    assert lines["reports"] == ["reports", "·", "·", "·", "1", "1", "1", "process"]
    assert lines["media"] == ["media", "·", "·", "·", "·", "·", "2", "environments"]
    assert "http://127.0.0.1:40123  up 1m15s" in told
    assert max(map(len, told.splitlines())) <= 80


def test_a_state_that_is_met_gets_its_column(shop: Shop) -> None:
    """Seldom states cost no room until they are needed."""
    view = view_of(shop, Snapshot(()), counts={"media": Counter({State.SCHEDULED: 2})})
    assert "SCHEDULED" in drawn(view, width=120)
    assert "SCHED " in drawn(view)


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


ODD = [None, 7, 1.5, b"bytes", {"a": 1}, ["x"], True]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("field", ["at_ms", "event", "fence", "detail"])
def test_whatever_a_history_holds_is_drawn(shop: Shop, field: str, odd: Any) -> None:
    """Rows outlive versions of tenure, and the screen outlives odd rows: the others stand beside them."""
    task_id, other = shop.submit("render", {"month": "b"}), shop.submit("render", {"month": "c"})
    row = states.leased(shop, task_id)
    happening = Happening(**({"at_ms": 1, "event": "succeed", "fence": 1, "detail": "d"} | {field: odd}))
    told = Snapshot((replace(row, history=(*row.history, happening)), states.row_of(shop, other)))
    assert other in drawn(view_of(shop, told, events=told.events(9)), width=120)


def test_a_small_terminal_shows_what_happened_a_line_each(shop: Shop) -> None:
    """70 by 18, with more queues' states, events and notes than there is room for: nothing is wrapped, nothing is cut
    off below, and each event keeps room for what went wrong."""
    ids = [shop.submit("render", {"month": str(n)}) for n in range(9)]
    for task_id in ids:
        shop.world.advance(1)
        states.buried(shop, task_id, "page 3 has no width, and neither has page 4,\nnor any other")
    snapshot = rows(shop, *ids)
    counts = {"media": Counter(dict.fromkeys(State, 1234)), **snapshot.counts()}
    notes = ["12:00:00  worker died: steady: pid 7, signal 9; started again"]
    told = drawn(view_of(shop, snapshot, events=snapshot.events(12), notes=notes, counts=counts, height=18), width=70)
    lines = told.splitlines()
    assert len(lines) < 18
    assert max(map(len, lines)) <= 70
    burials = [line for line in lines if "bury" in line]
    assert len(burials) >= 2
    assert all("PDFError: page 3" in line for line in burials)
    assert lines[-1].startswith("Ctrl-C drains and stops.")
    assert notes[0] in told
    assert next(line for line in lines if line.startswith("media")).split() == ["media", *["1.2k"] * len(State)]


def test_a_terminal_with_room_shows_ids_to_copy(shop: Shop) -> None:
    """From 100 columns on the whole id is there, and states by their names."""
    task_id = shop.submit("render", {"month": "b"})
    told = drawn(view_of(shop, rows(shop, task_id)), width=100)
    assert task_id in told
    assert "COMPLETED" in told
