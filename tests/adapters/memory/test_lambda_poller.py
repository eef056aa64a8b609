"""The world's event source mapping does with messages what Lambda's does."""

import pytest

from tenure.adapters.memory.lambda_poller import LambdaPoller, Mapping
from tenure.ports import Send
from tenure.testing import World


def poller(world, queue, handler, **options):
    return LambdaPoller(
        world, Mapping(queue=queue, build=lambda process: handler, **{"timeout_seconds": 60.0, **options})
    )


@pytest.fixture
def world():
    with World() as world:
        yield world


def queue_with(world, *bodies):
    queue = world.queue("q", visibility_seconds=90)
    queue.send_many([Send(body, attributes={"n": body}) for body in bodies])
    return queue


def bodies(queue):
    return sorted(message.body for message in queue.all())


def test_what_is_not_reported_failed_is_deleted_and_the_rest_keeps_its_visibility(world):
    queue = queue_with(world, "a", "b", "c")

    def handler(event, context):
        failed = [r["messageId"] for r in event["Records"] if r["body"] == "b"]
        return {"batchItemFailures": [{"itemIdentifier": each} for each in failed]}

    assert len(poller(world, queue, handler).poll_once()) == 1
    assert bodies(queue) == ["b"]
    assert queue.depth().in_flight == 1
    world.advance(90)
    assert queue.depth().visible == 1


def test_an_error_keeps_the_whole_batch_as_it_is(world):
    queue = queue_with(world, "a", "b")
    mapped = poller(world, queue, lambda event, context: 1 / 0)
    assert len(mapped.poll_once()) == 2
    assert queue.depth().in_flight == 2
    assert "ZeroDivisionError" in mapped.errors[0]


def test_without_report_batch_item_failures_the_answer_is_ignored(world):
    """The trap: failed messages are deleted."""
    queue = queue_with(world, "a")

    def handler(event, context):
        return {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}

    poller(world, queue, handler, report_batch_item_failures=False).poll_once()
    assert bodies(queue) == []


def test_an_event_looks_as_lambda_makes_it(world):
    queue = queue_with(world, "a")
    seen = []
    poller(
        world, queue, lambda event, context: seen.append((event, context.get_remaining_time_in_millis()))
    ).poll_once()
    record, remaining = seen[0][0]["Records"][0], seen[0][1]
    assert record["eventSourceARN"].endswith(":q")
    assert record["attributes"]["ApproximateReceiveCount"] == "1"
    assert record["messageAttributes"]["n"]["stringValue"] == "a"
    assert remaining == 60_000


def test_a_function_that_runs_into_its_timeout_is_killed_and_its_batch_comes_back(world):
    """Within a simulation the environment dies at the timeout; a fresh one serves the batch when it is visible."""
    queue = queue_with(world, "a")
    ran, ended = [], []

    def handler(event, context):
        ran.append(world.clock.now_ms())
        world.clock.sleep(100 if len(ran) == 1 else 1)
        ended.append(world.clock.now_ms())

    mapped = poller(world, queue, handler, timeout_seconds=60)
    mapped.start()
    world.run(until=lambda: bool(ended))
    world.run(seconds=30)
    assert (len(ran), len(ended)) == (2, 1)
    assert ran[1] - ran[0] >= 89_000
    assert mapped.errors == ["timed out"]
    assert bodies(queue) == []


def test_a_killed_environment_fails_its_batch(world):
    queue = queue_with(world, "a")
    started = []

    def handler(event, context):
        started.append(1)
        world.clock.sleep(30)

    mapped = poller(world, queue, handler)
    mapped.start()
    world.run(until=lambda: bool(started))
    mapped.processes[0].kill()
    world.run(seconds=20)
    assert mapped.errors == ["environment died"]
    assert bodies(queue) == ["a"]


def test_more_is_pulled_than_can_run_and_what_waits_too_long_has_spent_a_receive(world):
    """One environment, three pollers: two batches are held, then dropped when their visibility lapses."""
    queue = queue_with(world, "a", "b", "c")
    counts = []

    def handler(event, context):
        counts.append(int(event["Records"][0]["attributes"]["ApproximateReceiveCount"]))
        world.clock.sleep(80)

    poller(world, queue, handler, batch_size=1, concurrency=1, timeout_seconds=85).start()
    world.run(until=lambda: not queue.all(), seconds=2000)
    assert queue.all() == []
    assert max(counts) > 1
