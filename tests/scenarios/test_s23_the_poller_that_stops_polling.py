"""S23: whatever happens to a poll, the next one comes; and a process that does not come round is seen to be dead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    ReadTimeoutError,
)

from tenure.adapters.clients import Clients
from tenure.adapters.memory.scheduler import Killed
from tenure.application import App
from tenure.core.errors import ServiceError
from tenure.core.limits import SQS_WAIT_SECONDS_MAX
from tenure.core.retry import Retry
from tenure.core.task import State
from tenure.ports import Delivery
from tenure.worker.acks import DirectAck
from tenure.worker.held import Inbox
from tenure.worker.liveness import STALE_SECONDS, LivenessFile, files_of, problems
from tenure.worker.receiver import BACKOFF_SECONDS_MAX
from tests.support.lab import Lab
from tests.support.runtimes import serve, serve_all

URL = "http://sqs.us-east-1.localhost/queue"


def refused(code: str, status: int) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "ReceiveMessage")


FAULTS: dict[str, BaseException] = {
    "no connection": EndpointConnectionError(endpoint_url=URL),
    "read timeout": ReadTimeoutError(endpoint_url=URL),
    "connection closed": ConnectionClosedError(endpoint_url=URL),
    "503": refused("ServiceUnavailable", 503),
    "throttled": refused("ThrottlingException", 400),
    "expired token": refused("ExpiredToken", 403),
    "deleted queue": refused("AWS.SimpleQueueService.NonExistentQueue", 400),
    "runtime error": RuntimeError("a bug of ours"),
    "bad response": KeyError("Messages"),
    "os error": OSError("connection reset by peer"),
}


class Faulty:
    """A queue whose polls raise what a test tells it to, in turn, before they work again."""

    def __init__(self, lab: Lab, faults: Iterator[BaseException]) -> None:
        self._queue = lab.queue
        self._faults = faults
        self.polled_at_ms: list[int] = []
        self._clock = lab.world.clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def receive(self, limit: int, wait_seconds: int, visibility_seconds: int | None = None) -> list[Delivery]:
        self.polled_at_ms.append(self._clock.now_ms())
        for fault in self._faults:
            raise fault
        return self._queue.receive(limit, wait_seconds, visibility_seconds)


def lab() -> Lab:
    app = App("lab")
    made = Lab(app)

    def work(key: str = "") -> str:
        made.effects.append(key)
        return key

    app.task(queue="work", name="work")(work)
    return made


@pytest.mark.parametrize("kind", FAULTS)
def test_polling_goes_on_after(kind):
    """After ten faults of any kind in a row, messages are received and run once, and it is told when it was over."""
    it = lab()
    queue = Faulty(it, iter([FAULTS[kind]] * 10))
    serve(it, queue=queue)  # type: ignore[arg-type] - it is a queue by delegation
    it.world.run(seconds=400)
    it.submit(args={"key": "after"})
    it.world.run(seconds=30)
    assert it.effects == ["after"]
    assert it.world.telemetry.count("poll.failed") >= 10
    assert it.world.telemetry.named("poll.resumed") == [{"queue": it.tier.name, "failures": 10}]


def test_all_kinds_one_after_another_and_messages_between():
    """The scenario's sequence: messages, each fault, messages again; all are run once."""
    it = lab()
    queue = Faulty(it, iter(FAULTS.values()))
    it.submit(args={"key": "before"})
    serve(it, queue=queue)  # type: ignore[arg-type] - it is a queue by delegation
    it.world.run(seconds=300)
    it.submit(args={"key": "after"})
    it.world.run(seconds=60)
    assert sorted(it.effects) == ["after", "before"]


def test_failed_polls_come_ever_more_slowly_up_to_a_cap():
    """A service that is down is not hammered: the pauses grow to the cap and never pass it."""
    it = lab()
    queue = Faulty(it, iter([RuntimeError("down")] * 40))
    serve(it, queue=queue)  # type: ignore[arg-type] - it is a queue by delegation
    it.world.run(until=lambda: len(queue.polled_at_ms) > 30)
    pauses = [(b - a) / 1000 for a, b in zip(queue.polled_at_ms, queue.polled_at_ms[1:], strict=False)]
    assert max(pauses) <= BACKOFF_SECONDS_MAX + 0.1
    assert all(pause >= BACKOFF_SECONDS_MAX / 2 for pause in pauses[8:])
    assert pauses[0] <= 0.6


@pytest.mark.parametrize(("code", "polls"), [("ExpiredToken", 1), ("InternalError", 3)])
def test_a_client_that_may_be_broken_is_built_anew(code, polls):
    """Expired credentials at the first failure, anything else at the third in a row; the new client serves."""
    it = lab()
    old = Faulty(it, iter([ServiceError(f"({code}) when calling ReceiveMessage")] * 99))
    built: list[Any] = []

    def connect() -> Inbox:
        queue: Any = it.queue if built else old
        built.append(queue)
        return Inbox(it.tier, queue, it.dead, DirectAck(queue, it.world.telemetry))

    serve_all(it, "w1", [connect])
    it.submit(args={"key": "x"})
    it.world.run(seconds=30)
    assert len(built) == 2
    assert len(old.polled_at_ms) == polls
    assert it.effects == ["x"]


def test_a_client_that_cannot_be_built_does_not_end_the_polling():
    it = lab()
    old = Faulty(it, iter([ServiceError("(ExpiredToken)")] * 4))
    built: list[int] = []

    def connect() -> Inbox:
        built.append(1)
        if len(built) > 1:
            raise RuntimeError("no credentials to be had")
        return Inbox(it.tier, old, it.dead, DirectAck(it.queue, it.world.telemetry))  # type: ignore[arg-type] - as above

    serve_all(it, "w1", [connect])
    it.submit(args={"key": "x"})
    it.world.run(seconds=60)
    assert it.effects == ["x"]


def test_one_queue_that_is_gone_does_not_stop_the_others():
    """A deleted queue is polled ever more slowly; its neighbour in the same process is served as before."""
    it = lab()
    gone = Faulty(it, iter([FAULTS["deleted queue"]] * 1000))

    def connect(queue: Any) -> Callable[[], Inbox]:
        return lambda: Inbox(it.tier, queue, it.dead, DirectAck(it.queue, it.world.telemetry))

    serve_all(it, "w1", [connect(gone), connect(it.queue)])
    for number in range(20):
        it.submit(args={"key": str(number)})
        it.world.run(seconds=5)
    assert len(it.effects) == 20


class Blocking(Faulty):
    """A queue whose polls never return, from the n-th on."""

    def __init__(self, lab: Lab, good: int) -> None:
        super().__init__(lab, iter(()))
        self._good = good

    def receive(self, limit: int, wait_seconds: int, visibility_seconds: int | None = None) -> list[Delivery]:
        if len(self.polled_at_ms) >= self._good:
            self._clock.sleep(10_000_000)
        return super().receive(limit, wait_seconds, visibility_seconds)


def live(it: Lab, path: Path) -> list[str]:
    return problems(files_of(path), it.world.clock.now_ms())


def test_a_poll_that_never_returns_is_seen_within_the_documented_time(tmp_path):
    """The file was fresh while polls came back, and is stale STALE_SECONDS after the last that did."""
    it = lab()
    path = tmp_path / "live"
    serve(it, queue=Blocking(it, good=3), liveness=LivenessFile(path))  # type: ignore[arg-type] - by delegation
    it.world.run(seconds=50)
    assert live(it, path) == []
    it.world.run(seconds=25 + STALE_SECONDS)
    assert "no sign of life" in live(it, path)[0]


def test_an_idle_poller_is_alive_and_so_is_one_whose_places_are_all_busy(tmp_path):
    """Nothing to receive, then for two hours no place to receive for: neither is a fault."""
    app = App("lab")
    it = Lab(app)
    app.task(queue="work", name="work", timeout="3h")(lambda: it.world.clock.sleep(7200))
    path = tmp_path / "live"
    serve(it, liveness=LivenessFile(path))
    it.world.run(seconds=1800)
    assert live(it, path) == []
    it.submit()
    it.submit()
    for _ in range(7):
        it.world.run(seconds=1000)
        assert live(it, path) == []


def test_polls_that_only_fail_make_an_idle_process_stale_but_never_a_working_one(tmp_path):
    """Replacing a container does not mend SQS; it must not cost a running task. An idle one loses nothing by it."""
    app = App("lab")
    it = Lab(app)
    app.task(queue="work", name="work", timeout="3h")(lambda: it.world.clock.sleep(3600))
    path = tmp_path / "live"
    it.submit()

    def after_the_first() -> Iterator[BaseException]:
        yield from ()

    queue = Faulty(it, after_the_first())
    serve(it, queue=queue, threads_count=2, liveness=LivenessFile(path))  # type: ignore[arg-type] - by delegation
    it.world.run(seconds=1)
    queue._faults = iter([FAULTS["503"]] * 100_000)
    it.world.run(seconds=3000)
    assert live(it, path) == []
    it.world.run(seconds=800 + STALE_SECONDS)
    assert "no sign of life" in live(it, path)[0]


def test_a_handler_that_does_not_return_retires_its_process_after_the_healthy_ones(tmp_path):
    """A thread that cannot be had back: nothing new is taken, the healthy handler ends, and the process asks to be
    replaced by its exit code."""
    app = App("lab")
    it = Lab(app)

    def work(key: str = "") -> str:
        it.effects.append(f"{key} starts")
        it.world.clock.sleep({"stuck": 10_000_000, "healthy": 400}.get(key, 1))
        it.effects.append(f"{key} ends")
        return key

    app.task(queue="work", name="work", timeout="10m")(work)
    app.task(queue="work", name="short", timeout="30s")(work)
    it.submit("short", args={"key": "stuck"})
    it.submit("work", args={"key": "healthy"})
    served = serve(it, threads_count=2)
    it.world.run(seconds=60)
    it.submit("work", args={"key": "late"})
    it.world.run(until=lambda: served.ended)
    assert served.codes == [1]
    assert it.effects == ["stuck starts", "healthy starts", "healthy ends"]
    assert it.world.telemetry.count("worker.unfit") == 1


def test_a_handler_that_heeds_its_timeout_late_does_not_retire_its_process():
    """It returns ten seconds after its time was over: its attempt has failed, its thread is had back, work goes on."""
    app = App("lab")
    it = Lab(app)
    app.task(queue="work", name="work")(lambda: it.effects.append("next"))
    app.task(queue="work", name="late", timeout="30s", retry=Retry(max_attempts=1))(lambda: it.world.clock.sleep(40))
    late = it.submit("late", max_attempts=1)
    served = serve(it)
    it.world.run(seconds=60)
    assert it.row(late).state is State.DEAD_LETTERED
    it.submit()
    it.world.run(seconds=60)
    assert it.effects == ["next"]
    assert not served.ended
    assert it.world.telemetry.count("worker.unfit") == 0


def test_a_dead_thread_ends_the_process_for_replacement():
    """A receiver that died without a word (nothing of ours lets it) is noticed within a tick."""
    it = lab()
    served = serve(it)

    def die(*_: object) -> list[Delivery]:
        raise Killed("the thread alone")

    it.world.run(seconds=1)
    it.queue.receive = die  # type: ignore[method-assign] - the fault
    it.world.run(until=lambda: served.ended, seconds=60)
    assert served.codes == [1]


def test_the_real_poll_is_given_up_some_time_after_it_should_have_answered():
    """A connection that died silently: the client's read timeout is longer than a long poll, and finite; and one try,
    so that the pause between polls is the receiver's."""
    config = Clients(lambda: 0, region="us-east-1").sqs_polls.meta.config
    assert SQS_WAIT_SECONDS_MAX < config.read_timeout < STALE_SECONDS / 2
    assert config.retries["total_max_attempts"] == 1
