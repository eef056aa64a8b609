"""The Lambda runtime's own duties: the invocation's end, threads, what survives between invocations."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenure.application import App
from tenure.core.limits import SKEW_SECONDS
from tenure.core.task import State
from tenure.core.topology import Pool
from tenure.ports import Delivery
from tenure.worker.context import context
from tenure.worker.lambda_runtime import MARGIN_SECONDS_MIN, SQSRecord, delivery_of, margin_of
from tests.support.lab import Lab
from tests.support.runtimes import Context, Function, record_of


def lab(handler: Any, timeout: str = "5m", **task: Any) -> Lab:
    app = App("lab")
    made = Lab(app)
    app.task(queue="work", name="work", timeout=timeout, **task)(handler)
    return made


class Simulated:
    """A function in a simulated process, so that its handlers' time passes on threads."""

    def __init__(self, it: Lab, threads: int = 1) -> None:
        self.it = it
        self.function = Function(it, threads=threads)
        self.listed: list[list[str]] = []

    def invoke(self, seconds: float = 300.0, limit: int = 10) -> float:
        """One invocation; the seconds it took."""
        event = self.function.event(limit)
        before, began = len(self.listed), self.it.world.clock.now_ms()
        self.it.world.spawn("f1", lambda: self.listed.append(self.function.invoke(event, seconds)))
        self.it.world.run(until=lambda: len(self.listed) > before)
        return (self.it.world.clock.now_ms() - began) / 1000


def test_what_has_not_started_when_the_time_runs_out_goes_back_at_once_and_free_of_charge():
    """Five tasks of 20 s, 70 s of time, one thread: three run; a fourth would be cut off, so it and the fifth are
    visible again before the answer is given."""
    began: list[str] = []
    it = Lab(App("lab"))

    def work(key: str = "") -> str:
        began.append(key)
        it.world.clock.sleep(20)
        return key

    it.app.task(queue="work", name="work")(work)
    ids = [it.submit(args={"key": str(number)}) for number in range(5)]
    served = Simulated(it)
    took = served.invoke(seconds=70)
    assert len(began) == 3
    assert took < 62
    assert len(served.listed[0]) == 2
    rows = [it.row(task_id) for task_id in ids]
    assert [row.state for row in rows] == [State.COMPLETED] * 3 + [State.QUEUED] * 2
    assert all((row.attempt, row.failures, row.lease_token) == (1, 0, "") for row in rows)
    assert len(it.receive()) == 2


def test_of_those_that_may_have_killed_a_worker_an_invocation_runs_one_and_gives_the_rest_back_at_once():
    """Three whose worker died, and one that is new: it runs, then one of the three; the others are visible again
    before that one's handler is called, free of charge, since whatever waits behind a killer is hidden for as long as
    the function may run."""
    began: list[str] = []
    visible: list[int] = []
    it = Lab(App("lab"))

    def work(key: str = "") -> str:
        visible.append(it.queue.depth().visible)
        began.append(key)
        return key

    it.app.task(queue="work", name="work")(work)
    lost = [it.submit(args={"key": f"lost {number}"}) for number in range(3)]
    it.admit(it.engine("dies"))
    it.world.advance(400)
    it.submit(args={"key": "new"})
    served = Simulated(it)
    served.invoke()
    assert began[0] == "new"
    assert len(began) == 2
    assert visible == [2, 2]
    assert len(served.listed[0]) == 2
    rows = sorted((it.row(task_id) for task_id in lost), key=lambda row: row.state)
    assert [row.state for row in rows] == [State.COMPLETED, State.LEASED, State.LEASED]
    assert [row.failures + row.losses for row in rows] == [0, 0, 0]
    served.invoke()
    served.invoke()
    assert sorted(began) == ["lost 0", "lost 1", "lost 2", "new"]


def test_threads_run_as_many_at_once_as_the_pool_says():
    """Ten tasks of 10 s on five threads take two turns, not ten."""
    it = Lab(App("lab"))
    it.app.task(queue="work", name="work")(lambda: it.world.clock.sleep(10))
    for _ in range(10):
        it.submit()
    served = Simulated(it, threads=5)
    assert served.invoke() < 25
    assert served.listed == [[]]


def test_a_handler_that_heeds_is_told_to_stop_in_time_and_its_task_goes_back():
    it = Lab(App("lab"))

    def work() -> None:
        while not context().cancelled:
            it.world.clock.sleep(1)
        raise RuntimeError("stopped")

    it.app.task(queue="work", name="work", timeout="1h")(work)
    task_id = it.submit()
    served = Simulated(it)
    assert served.invoke(seconds=60) < 60
    assert len(served.listed[0]) == 1
    row = it.row(task_id)
    assert (row.state, row.lease_token) == (State.RETRYING, "")
    assert len(it.receive()) == 1


def test_a_handler_that_does_not_return_leaves_its_lease_to_lapse_and_its_process_to_be_replaced():
    """The invocation answers in time; nothing of the task is written, its message comes back when the lease has lapsed;
    and the next invocation takes nothing, gives all back at once, and asks for another process."""
    it = Lab(App("lab"))
    it.app.task(queue="work", name="work", timeout="1h")(lambda: it.world.clock.sleep(100_000))
    task_id = it.submit()
    served = Simulated(it)
    assert served.invoke(seconds=60) < 60
    assert len(served.listed[0]) == 1
    row = it.row(task_id)
    assert row.state is State.LEASED
    assert it.receive() == []
    assert served.function.engine.holder.all() == [], "nothing would beat it after a thaw"
    it.world.run(seconds=(row.lease_end_at_ms - it.world.clock.now_ms()) / 1000 + SKEW_SECONDS + 2)
    again = it.receive()
    assert len(again) == 1
    it.queue.set_visibility_many([(again[0].receipt, 0)])

    assert served.invoke() < 1
    assert served.function.replaced == 1
    assert len(served.listed[1]) == 1
    assert len(it.receive()) == 1, "given back at once"
    assert it.row(task_id) == row


def test_no_heartbeat_survives_the_invocation():
    """Started for it, joined before the answer: a thawed heartbeat of an earlier invocation would beat by a clock that
    has jumped."""
    it = Lab(App("lab"))
    it.app.task(queue="work", name="work")(lambda: it.world.clock.sleep(90))
    served = Simulated(it)
    for _ in range(3):
        it.submit()
        served.invoke()
        assert served.function.engine.holder._thread is None
        assert served.function.engine.holder.all() == []
        assert served.function.engine.running == 0
    assert served.listed == [[], [], []]


def test_the_first_beat_shortens_visibility_to_the_lease():
    """R16: AWS wants the queue's visibility above the function's timeout; a crash after the first beat must not cost
    all of it. The process dies 30 s in; the message is back a lease after the last beat, not after 300 s."""
    it = Lab(App("lab"))
    it.app.task(queue="work", name="work", lease="60s")(lambda: it.world.clock.sleep(200))
    it.submit()
    deliveries = it.queue.receive(10, 0, 310)
    function = Function(it)
    event = {"Records": [record_of(d, it.tier.name) for d in deliveries]}
    it.world.spawn("f1", lambda: function.invoke(event))
    it.world.run(seconds=30)
    it.world.kill("f1")
    it.world.run(seconds=40)
    assert it.receive() == []
    it.world.run(seconds=20)
    assert len(it.receive()) == 1


def test_async_handlers_keep_their_loop_over_three_invocations_in_one_process():
    """S29 at the adapter: a client bound to the first loop works in the third invocation, and nothing was closed."""
    loops: list[Any] = []

    async def work() -> str:
        loop = asyncio.get_running_loop()
        loops.append(loop)
        await asyncio.sleep(0)  # noqa: TID251 - a handler's own yield to its loop, of no length
        return "ok"

    it = lab(work)
    function = Function(it)
    try:
        for _ in range(3):
            it.submit()
            assert function.invoke(function.event()) == []
    finally:
        function.engine.close()
    assert len({id(loop) for loop in loops}) == 1
    assert len(loops) == 3


@pytest.mark.parametrize(
    ("left", "margin"), [(300, 5), (900, 5), (20, 5), (8, 2), (3, MARGIN_SECONDS_MIN), (0.5, MARGIN_SECONDS_MIN)]
)
def test_the_margin_never_eats_a_short_function(left, margin):
    assert margin_of(left, Pool(name="p")) == margin


def test_a_context_that_tells_no_time_is_given_the_pool_s():
    """A test invoke from a console or a laptop passes anything at all."""
    it = lab(lambda: "ok")
    it.submit()
    function = Function(it)
    assert function.runtime.handle(function.event(), None) == {"batchItemFailures": []}
    assert function.engine.dies_at_ms - it.world.clock.now_ms() <= 300_000


def test_metrics_are_written_before_the_answer_and_a_failure_to_write_changes_nothing():
    it = lab(lambda: "ok")
    it.submit()
    function = Function(it)
    flushed: list[int] = []

    def flush() -> None:
        flushed.append(1)
        raise OSError("a closed pipe")

    object.__setattr__(function.runtime._parts, "flush", flush)
    assert function.runtime.handle(function.event(), Context(it)) == {"batchItemFailures": []}
    assert flushed == [1]


@pytest.mark.parametrize("count", ["abc", "", None, "-1", [1], float("inf"), {}])
def test_a_count_that_cannot_be_read_does_not_pass_for_a_first_delivery(count):
    """R9: such a message is read about before it is claimed."""
    record = SQSRecord({"messageId": "m", "body": "{}", "attributes": {"ApproximateReceiveCount": count}})
    assert delivery_of(record, 5).receive_count == 0
    assert delivery_of(SQSRecord({"messageId": "m"}), 5).receive_count == 0


def test_attributes_and_group_arrive_as_the_queue_has_them():
    """What an event says of a message is what ReceiveMessage would: binary attributes as base64, types kept."""
    told = Delivery(
        "m", "r", "body", 3, 5, 9, "g", "d", "17", {"a": "x", "n": "1", "b": "AAE="}, {"n": "Number", "b": "Binary"},
        "arn:dead",
    )  # fmt: skip
    assert delivery_of(SQSRecord(record_of(told, "q")), 9) == told
