"""The poller: places, turns between tiers, requests while idle, the order of messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tenure.application import App
from tenure.core.errors import ServiceError
from tenure.core.topology import Pool, Queue, Topology
from tenure.ports import Delivery, Send
from tenure.worker.acks import DirectAck
from tenure.worker.held import Inbox, Unit
from tenure.worker.liveness import LivenessFile
from tests.support.lab import Lab
from tests.support.runtimes import Served, serve, serve_all


class Counting:
    """A queue that notes its receives: (limit, wait seconds, messages)."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.receives: list[tuple[int, int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def receive(self, limit: int, wait_seconds: int, visibility_seconds: int | None = None) -> list[Delivery]:
        found: list[Delivery] = self._queue.receive(limit, wait_seconds, visibility_seconds)
        self.receives.append((limit, wait_seconds, len(found)))
        return found


class Shop:
    """Labs for the tiers of one queue (and a second queue) in one world, served by one poller."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.app = App("lab")
        topology = Topology(
            app="lab",
            environment="test",
            queues=(
                Queue(name="work", pool="many", tiers=("high", "normal", "low")),
                Queue(name="ledger", pool="many", ordered=True),
            ),
            pools=(Pool(name="many", kind="fargate"),),
        )
        base = Lab(self.app)
        self.world = base.world
        self.world.topology = topology
        self.done: list[str] = []
        self.queues: dict[str, Counting] = {}
        self.labs: dict[str, Lab] = {}
        for tier in topology.tiers():
            lab = Lab(self.app, world=self.world)
            lab.tier, lab.queue, lab.dead = tier, self.world.queues(tier), self.world.dead(tier)
            name = tier.tier if tier.queue == "work" else tier.queue
            self.labs[name], self.queues[name] = lab, Counting(lab.queue)

        def work(key: str = "") -> str:
            self.done.append(key)
            self.world.clock.sleep(seconds)
            return key

        self.app.task(queue="work", name="work")(work)

    def submit(self, where: str, count: int = 1, **options: Any) -> None:
        for _ in range(count):
            self.labs[where].submit(args={"key": where}, **options)

    def serve(self, *names: str, **parts: Any) -> Served:
        def connect(name: str) -> Callable[[], Inbox]:
            lab, queue = self.labs[name], self.queues[name]
            ack = DirectAck(queue, self.world.telemetry)  # type: ignore[arg-type] - a queue by delegation
            return lambda: Inbox(lab.tier, queue, lab.dead, ack)  # type: ignore[arg-type] - as above

        served = [connect(name) for name in names or ("high", "normal", "low")]
        return serve_all(self.labs["normal"], "w1", served, **parts)


def test_an_idle_process_asks_three_times_a_minute_and_queue():
    """An hour without a message: one long poll after the other on each queue, nothing else."""
    shop = Shop()
    shop.serve(threads_count=4)
    shop.world.run(seconds=3600)
    for queue in shop.queues.values():
        assert len(queue.receives) <= 181
        assert {wait for _, wait, _ in queue.receives} <= {20}


def test_a_queue_that_answers_every_long_poll_at_once_is_not_asked_in_a_loop():
    """Not as SQS does: a proxy, a double, a fault. A request a second and no more."""
    it = Lab()
    asked: list[int] = []
    it.queue.receive = lambda *_: asked.append(1) or []  # type: ignore[method-assign, func-returns-value] - the fault
    serve(it)
    it.world.run(seconds=60)
    assert 50 <= len(asked) <= 61


def test_a_message_is_received_at_once_on_whichever_queue_it_comes():
    """No queue waits for another's long poll."""
    shop = Shop(seconds=0)
    shop.serve()
    for number, name in enumerate(("low", "high", "normal"), start=1):
        shop.world.run(seconds=33)
        shop.submit(name)
        shop.world.run(seconds=0.5)
        assert len(shop.done) == number


def test_a_single_message_costs_one_receive_of_its_own():
    """Of 20 lone messages none is followed by a second, empty poll for it."""
    shop = Shop(seconds=0)
    shop.serve("normal", threads_count=4)
    for _ in range(20):
        shop.submit("normal")
        shop.world.run(seconds=10)
    assert len(shop.queues["normal"].receives) <= 21


def test_never_more_is_received_than_there_is_room_for():
    """A hundred messages, three threads: every receive asks for at most as many as are free, and none is held long."""
    shop = Shop(seconds=30)
    shop.submit("normal", 40)
    shop.serve("normal", threads_count=3)
    for _ in range(60):
        shop.world.run(seconds=2)
        assert shop.labs["normal"].queue.depth().in_flight <= 3
    assert all(limit <= 3 for limit, _, _ in shop.queues["normal"].receives)
    assert len(shop.done) >= 9


def test_a_busy_process_polls_nothing():
    """All places taken for an hour: not one receive."""
    shop = Shop(seconds=3000)
    shop.submit("normal", 2)
    shop.serve(threads_count=2)
    shop.world.run(seconds=100)
    before = {name: len(queue.receives) for name, queue in shop.queues.items()}
    shop.world.run(seconds=2500)
    assert {name: len(queue.receives) for name, queue in shop.queues.items()} == before


def test_all_tiers_with_a_backlog_share_by_weight():
    """105 turns of one place: high's are by far the most, low's come all the same."""
    shop = Shop()
    for name in ("high", "normal", "low"):
        shop.submit(name, 120)
    shop.serve()
    shop.world.run(until=lambda: len(shop.done) >= 105)
    counts = Counter(shop.done[:105])
    assert 70 <= counts["high"] <= 90, counts
    assert 12 <= counts["normal"] <= 28, counts
    assert 3 <= counts["low"] <= 10, counts


def test_a_high_message_goes_before_a_backlog_of_low():
    """The place that comes free next is its own: it waits for one running task at most."""
    shop = Shop(seconds=2)
    shop.submit("low", 50)
    shop.serve()
    shop.world.run(seconds=21)
    before = len(shop.done)
    shop.submit("high")
    shop.world.run(seconds=5)
    assert "high" in shop.done[before : before + 2]
    assert sum(found for _, _, found in shop.queues["high"].receives) == 1, "held for a moment, not received again"


def test_quiet_queues_do_not_keep_a_busy_one_from_any_place():
    """Two tiers in idle long polls hold no place: the third uses all four threads at once."""
    shop = Shop(seconds=10)
    shop.serve(threads_count=4)
    shop.world.run(seconds=5)
    shop.submit("low", 12)
    shop.world.run(seconds=5)
    assert len(shop.done) == 4
    shop.world.run(seconds=31)
    assert len(shop.done) == 12


def test_ordered_groups_take_a_place_each_and_keep_their_order():
    """Two groups on two threads: a group's tasks run one after another, the groups beside each other."""
    shop = Shop(seconds=1)
    ledger = shop.labs["ledger"]
    for number in range(5):
        for key in ("a", "b"):
            ledger.submit(args={"key": f"{key}{number}"}, ordering_key=key)
    shop.serve("ledger", threads_count=2)
    shop.world.run(seconds=8)
    assert len(shop.done) == 10
    for key in ("a", "b"):
        assert [name for name in shop.done if name[0] == key] == [f"{key}{number}" for number in range(5)]


def test_a_group_needs_one_place_however_many_of_it_come():
    """One of two places is taken for long; two messages of one group run in the other without waiting for a second."""
    shop = Shop(seconds=1)
    shop.app.task(queue="ledger", name="long", timeout="3h")(lambda: shop.world.clock.sleep(3600))
    ledger = shop.labs["ledger"]
    shop.serve("ledger", threads_count=2)
    shop.world.run(seconds=1)
    ledger.submit("long", ordering_key="other")
    shop.world.run(seconds=1)
    ledger.submit(args={"key": "a1"}, ordering_key="a", send=False, id="a1")
    ledger.submit(args={"key": "a2"}, ordering_key="a", send=False, id="a2")
    for task_id in ("a1", "a2"):
        ledger.send(ledger.row(task_id))
    shop.world.run(seconds=4)
    assert shop.done == ["a1", "a2"]


def test_every_place_is_had_back_whatever_happens_to_what_was_received():
    """Foreign messages, finished tasks, failures: after them all places are free."""
    shop = Shop(seconds=0)
    lab = shop.labs["normal"]
    lab.queue.send_many([Send("hello")] * 7)
    shop.submit("normal", 7)
    served = shop.serve("normal", threads_count=5)
    shop.world.run(seconds=100)
    assert served.poller._slots.free == 5
    assert len(shop.done) == 7


def test_an_engine_that_breaks_its_word_costs_no_runner():
    """It never raises. If it does, its one runner and its place are there for all the others."""
    shop = Shop(seconds=0)
    shop.submit("normal", 4)
    served = shop.serve("normal", threads_count=1)
    engine = served.poller._parts.engine
    run = engine.run

    def broken(unit: Unit) -> None:
        engine.run = run  # type: ignore[method-assign] # once
        raise RuntimeError("a defect of ours")

    engine.run = broken  # type: ignore[method-assign, assignment] # the fault
    shop.world.run(seconds=200)
    assert len(shop.done) == 3
    assert not served.ended
    assert served.poller._slots.free == 1


def test_a_hungry_poll_that_fails_gives_its_places_back():
    """It had taken them before it asked."""
    shop = Shop(seconds=0)
    shop.submit("normal", 30)
    served = shop.serve("normal", threads_count=2)
    receive = shop.queues["normal"].receive

    def failing(limit: int, wait_seconds: int, visibility_seconds: int | None = None) -> list[Delivery]:
        if wait_seconds == 0:
            shop.queues["normal"].receive = receive  # type: ignore[method-assign] # once
            raise ServiceError("no answer came")
        return receive(limit, wait_seconds, visibility_seconds)

    shop.queues["normal"].receive = failing  # type: ignore[method-assign] # the fault
    shop.world.run(seconds=100)
    assert shop.world.telemetry.count("poll.failed") == 1
    assert len(shop.done) == 30
    assert served.poller._slots.free == 2


def test_gathered_metrics_are_written_each_minute_and_at_the_end():
    it = Lab()
    flushed: list[int] = []
    served = serve(it, flush=lambda: flushed.append(it.world.clock.now_ms()))
    it.world.run(seconds=305)
    assert len(flushed) == 5
    served.poller.drain()
    it.world.run(until=lambda: served.ended)
    assert len(flushed) == 6


def test_a_sign_of_life_that_cannot_be_written_is_told_once_and_costs_no_task(tmp_path):
    """A volume that is not mounted: the health check will fail, and until then the process works."""
    shop = Shop(seconds=0)
    shop.serve("normal", liveness=LivenessFile(tmp_path / "not mounted" / "alive"))
    shop.submit("normal")
    shop.world.run(seconds=60)
    assert shop.done == ["normal"]
    assert shop.world.telemetry.count("worker.unfit") == 1


def test_a_poller_whose_parent_is_gone_drains():
    it = Lab()
    gone: list[int] = []
    served = serve(it, abandoned=lambda: bool(gone))
    it.world.run(seconds=30)
    assert not served.ended
    gone.append(1)
    it.world.run(until=lambda: served.ended, seconds=30)
    assert served.codes == [0]
