"""Whether an app's tasks fit the queues and pools of an environment."""

from __future__ import annotations

import pytest

import tenure
from tenure import App, InvalidTask
from tenure.core.topology import Pool, Queue, Topology


@pytest.fixture
def app() -> App:
    return App("shop")


def topology(seconds: int = 300) -> Topology:
    return Topology(
        app="shop",
        environment="test",
        queues=(Queue(name="media", pool="quick"), Queue(name="ledger", pool="quick", ordered=True)),
        pools=(Pool(name="quick", longest_runtime_seconds=seconds),),
    )


def test_a_task_must_fit_its_queue_and_pool(app: App) -> None:
    """Timeout and order are checked against the environment, with both sides in the error."""
    app.task(queue="media", name="slow", timeout="5m")(lambda: None)
    with pytest.raises(InvalidTask, match=r"'slow' may run for 5m, but pool 'quick'.* leaves it 4m55s"):
        app.check(topology(300))
    app.check(topology(305))


def test_every_task_needs_a_queue_that_is_declared(app: App) -> None:
    """The error lists those there are."""
    app.task(queue="nowhere", name="lost")(lambda: None)
    with pytest.raises(tenure.InvalidTopology, match=r"no queue 'nowhere'.*media, ledger"):
        app.check(topology())


def test_order_must_fit_its_queue(app: App) -> None:
    """An ordered queue needs to know by what."""
    app.task(queue="ledger", name="loose", timeout="1m")(lambda: None)
    with pytest.raises(InvalidTask, match="'ledger' is ordered, so task 'loose' must say by what"):
        app.check(topology())


def test_all_tasks_that_do_not_fit_are_named_at_once(app: App) -> None:
    """A person mends them in one go; a queue that is not there is told once, whoever names it."""
    app.task(queue="media", name="slow", timeout="6m")(lambda: None)
    app.task(queue="media", name="fine", timeout="1m")(lambda: None)
    app.task(queue="nowhere", name="lost")(lambda: None)
    app.task(queue="nowhere", name="lost_too")(lambda: None)
    with pytest.raises(InvalidTask) as caught:
        app.check(topology())
    told = str(caught.value).split("\n")
    assert told[0] == "3 tasks do not fit their queues and pools:"
    assert (len(told), "'slow'" in told[1], "'nowhere'" in told[2]) == (3, True, True)
