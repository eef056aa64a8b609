"""The kit for users' own tests: their tasks, run by the real worker, in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tenure
from tenure import testing
from tenure.maintenance.pause import Pause, set_pause


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


def test_a_halted_key_ends_the_run_and_is_named(effects):
    """Only a person moves what waits behind a buried head, whatever the patience: told at once, with the head."""
    app = app_with(effects)

    @app.task(queue="halting", ordered_by="key", retry=tenure.Retry(max_attempts=1))
    def book(key: str, number: int) -> None:
        if number == 1:
            raise ValueError("no such account")

    world = testing.connect(app, topology=halting(testing.topology_of(app)))
    handles = [book.submit("a", number) for number in range(4)]
    resize = app.producer.submit("resize", {"name": "late"}, options=tenure.Options(delay="3d"))
    before = world.clock.now_ms()
    with pytest.raises(tenure.NotFinished, match="'a' is halted by") as told:
        testing.run_all(app, world, patience="30d")
    assert "nothing is due any more, and 2 tasks are left" in str(told.value)
    assert handles[1].id in str(told.value)
    assert resize.result("0s") == "late-small", "others go on"
    assert world.clock.now_ms() - before < 4 * 86_400_000, "and what stands still is not waited for"


def halting(topology):
    """The topology with `on_bury = "halt"` on its queue for that."""
    queues = tuple(q.model_copy(update={"on_bury": "halt"} if q.name == "halting" else {}) for q in topology.queues)
    return topology.model_copy(update={"queues": queues})


def test_a_paused_queue_ends_the_run_and_is_named(effects):
    app = app_with(effects)
    world = testing.connect(app)
    app.producer.submit("resize", {"name": "a"})
    pause = Pause("media", True, "me", world.clock.now_ms(), "tests")
    set_pause(world.store, world.entropy, pause)
    with pytest.raises(tenure.NotFinished, match="queue media is paused"):
        testing.run_all(app, world, patience="1h")
    set_pause(world.store, world.entropy, replace(pause, paused=False))
    assert testing.run_all(app, world) == {"completed": 1}


@pytest.mark.parametrize("delay", ["0s", "1s"])
def test_a_task_that_snoozes_for_ever_is_told(effects, delay, monkeypatch):
    """Time may pass or stand still: rounds of work that end nothing are bounded."""
    monkeypatch.setattr(testing, "ROUNDS_MAX", 200)
    app = app_with(effects)

    @app.task(queue="media")
    def wait() -> None:
        raise tenure.Snooze(delay, "not yet")

    world = testing.connect(app)
    wait.submit()
    with pytest.raises(tenure.NotFinished, match=r"200 rounds of work that ended none, 1 task is left.*snooze"):
        testing.run_all(app, world)


def test_a_task_that_submits_another_for_ever_is_told(monkeypatch):
    """Each of them ends, and none of it comes to an end."""
    monkeypatch.setattr(testing, "ROUNDS_MAX", 200)
    app = tenure.App("shop")

    @app.task(queue="media")
    def again() -> None:
        again.submit()

    world = testing.connect(app)
    again.submit()
    with pytest.raises(tenure.NotFinished, match="rounds of work"):
        testing.run_all(app, world)


def test_a_world_in_which_nothing_ever_answers_ends_too(monkeypatch, effects):
    monkeypatch.setattr(testing, "ROUNDS_MAX", 200)
    app = app_with(effects)
    world = testing.connect(app)
    app.producer.submit("resize", {"name": "a"})
    world.faults = testing.Faults(receive_fails=1.0)
    with pytest.raises(tenure.NotFinished, match="1 task is left"):
        testing.run_all(app, world)


def test_a_result_asked_for_before_the_run_says_who_works(effects):
    """Nobody works by itself in a test's world; whoever waits is told what to call."""
    app = app_with(effects)
    world = testing.connect(app)
    handle = app.producer.submit("resize", {"name": "a"})
    with pytest.raises(tenure.NotFinished, match=r"is queued after 5s\. .*testing\.run_all\(app, world\)"):
        handle.result("5s")
    testing.run_all(app, world)
    assert handle.result("0s") == "a-small"


def test_letters_of_a_queue_that_is_not_there_are_refused(effects):
    """An empty list for a misspelt queue would pass a test that should fail."""
    world = testing.connect(app_with(effects))
    with pytest.raises(tenure.InvalidTopology, match="Declared queues: media, ledger"):
        testing.letters(world, "medai")
