"""The kit for users' own tests: their tasks, run by the real worker, in virtual time."""

from __future__ import annotations

import pytest

import tenure
from tenure import testing


def app_with(effects: list[str]) -> tenure.App:
    """An app with tasks of every kind."""
    app = tenure.App("shop")

    @app.task(queue="media", retry=tenure.Retry(max_attempts=3))
    def resize(name: str) -> str:
        effects.append(name)
        if name == "bad":
            raise ValueError("no image")
        if name == "twice" and effects.count(name) < 2:
            raise ValueError("not yet")
        return f"{name}-small"

    @app.task(queue="ledger", ordered_by="key")
    def post(key: str, amount: int) -> int:
        effects.append(f"{key}{amount}")
        return amount

    @app.task(queue="media")
    async def fetch(name: str) -> str:
        effects.append(name)
        return name.upper()

    return app


@pytest.fixture
def effects() -> list[str]:
    return []


def test_a_task_is_run_and_its_result_is_there(effects):
    app = app_with(effects)
    world = testing.connect(app)
    handle = app.producer.submit("resize", {"name": "a"})
    assert testing.run_all(app, world) == {"completed": 1}
    assert handle.result() == "a-small"


def test_retries_delays_and_dead_letters_take_no_real_time(effects):
    app = app_with(effects)
    world = testing.connect(app)
    before = world.clock.now_ms()
    retried = app.producer.submit("resize", {"name": "twice"})
    buried = app.producer.submit("resize", {"name": "bad"})
    late = app.producer.submit("resize", {"name": "late"}, options=tenure.Options(delay="7d"))
    assert testing.run_all(app, world) == {"completed": 2, "dead_lettered": 1}
    assert retried.status().attempt == 2
    assert late.result() == "late-small"
    assert world.clock.now_ms() - before >= 7 * 86_400_000
    assert testing.letters(world, "media") == [buried.id]
    with pytest.raises(tenure.TaskFailed, match="no image"):
        buried.result()


def test_order_within_a_key_is_kept_and_async_handlers_run(effects):
    app = app_with(effects)
    world = testing.connect(app)
    for amount in range(3):
        app.producer.submit("post", {"key": "a", "amount": amount})
    handle = app.producer.submit("fetch", {"name": "x"})
    assert testing.run_all(app, world) == {"completed": 4}
    assert [each for each in effects if each.startswith("a")] == ["a0", "a1", "a2"]
    assert handle.result() == "X"


def test_what_does_not_end_is_named(effects):
    app = app_with(effects)
    world = testing.connect(app)
    handle = app.producer.submit("resize", {"name": "late"}, options=tenure.Options(delay="21d"))
    with pytest.raises(tenure.NotFinished, match=handle.id):
        testing.run_all(app, world, patience="1d")
    assert effects == []


@pytest.mark.parametrize("seed", range(5))
def test_in_a_world_that_lies_everything_still_ends(effects, seed):
    """The faults of AWS, drawn from the seed: duplicates, lost replies, throttling."""
    app = app_with(effects)
    world = testing.connect(app, testing.World(seed, testing.Faults.rough(0.05)))
    for name in ("a", "b", "twice", "bad"):
        app.producer.submit("resize", {"name": name}, options=tenure.Options(idempotency_key=name))
    assert testing.run_all(app, world) == {"completed": 3, "dead_lettered": 1}


def test_a_task_that_cannot_run_on_its_queue_is_refused_at_once(effects):
    app = app_with(effects)
    topology = testing.topology_of(app)
    standard = topology.model_copy(
        update={"queues": tuple(queue.model_copy(update={"ordered": False}) for queue in topology.queues)}
    )
    with pytest.raises(tenure.InvalidTask, match="ordered"):
        testing.connect(app, topology=standard)
