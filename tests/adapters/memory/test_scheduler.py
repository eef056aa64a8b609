"""Virtual time and simulated threads."""

from contextlib import suppress

import pytest

from tenure.core.errors import ServiceError
from tenure.ports import Send
from tenure.testing import Faults, World


def test_sleep_in_a_quiet_world_takes_virtual_time_only():
    """A day passes at once."""
    world = World()
    before = world.clock.now_ms()
    world.clock.sleep(86_400)
    assert world.clock.now_ms() - before == 86_400_000


def test_a_free_thread_runs_as_virtual_time_passes():
    """A heartbeat in a started thread beats each 20 s of the time that the test lets pass, and ends on its signal."""
    world = World()
    stop, beats = world.threads.signal(), []

    def beat():
        while not stop.wait(20):
            beats.append(world.clock.now_ms())

    thread = world.threads.start("beat", beat)
    world.advance(70)
    assert len(beats) == 3
    stop.set()
    assert thread.join(5)


def test_a_lock_excludes_and_a_join_times_out():
    """Threads that wait for a lock or a join count as waiting, so time goes on."""
    world = World()
    lock, order = world.threads.lock(), []

    def holder():
        with lock:
            world.clock.sleep(10)
            order.append("first")

    thread = world.threads.start("holder", holder)
    assert not thread.join(5)
    with lock:
        order.append("second")
    assert order == ["first", "second"]
    assert thread.join()


def _two_workers(seed, faults=None):
    world = World(seed, faults)
    queue, seen = world.queue("q"), []

    def work():
        while True:
            with suppress(ServiceError):
                for delivery in queue.receive(3, 20):
                    seen.append(delivery.body)
                    queue.delete_many([delivery.receipt])

    def submit():
        for i in range(20):
            queue.send_many([Send(str(i))])
            world.clock.sleep(1)

    world.spawn("a", work)
    world.spawn("b", work)
    world.spawn("c", submit)
    world.run(seconds=200)
    world.close()
    return world.scheduler.trace, seen


def test_a_seed_is_one_run():
    """The same seed twice is the same run, step by step; another seed is another run."""
    assert _two_workers(7, Faults.rough()) == _two_workers(7, Faults.rough())
    assert _two_workers(7, Faults.rough())[0] != _two_workers(8, Faults.rough())[0]


def test_every_message_is_seen_once_where_nothing_goes_wrong():
    """Two simulated workers share a queue."""
    assert sorted(_two_workers(1)[1], key=int) == [str(i) for i in range(20)]


def test_a_killed_process_has_no_effect_any_more():
    """Even code that swallows every exception cannot act after its process died."""
    world = World()
    queue, ended = world.queue("q"), []

    def stubborn():
        for _ in range(10):
            try:
                world.clock.sleep(1)
                queue.send_many([Send("late")])
            except BaseException as error:
                ended.append(type(error).__name__)

    world.spawn("w", stubborn)
    world.run(seconds=3.5)
    sent = len(queue.all())
    world.kill("w")
    world.run(seconds=60)
    assert sent == len(queue.all())
    assert set(ended) == {"Killed"}


@pytest.mark.parametrize("seed", range(5))
def test_a_call_that_is_on_its_way_when_its_process_is_killed_is_not_made(seed):
    """Killed by another thread while it waits in the middle of a call: that very call has no effect either."""
    world = World(seed=seed)
    queue, seen = world.queue("q"), []

    def sender():
        while True:
            queue.send_many([Send("x")])

    def killer():
        world.clock.sleep(0.1)
        world.kill("w")
        seen.append(len(queue.all()))

    world.spawn("w", sender)
    world.spawn("k", killer)
    world.run(seconds=2)
    assert seen == [len(queue.all())]
    assert seen[0] > 0


def test_a_stalled_process_waits_and_others_go_on():
    """A stall holds all threads of one process for its virtual time."""
    world = World()
    seen = []

    def tick(name):
        for _ in range(5):
            world.clock.sleep(1)
            seen.append((name, (world.clock.now_ms() - 1_800_000_000_000) // 1000))

    world.spawn("a", lambda: tick("a"))
    world.spawn("b", lambda: tick("b"))
    world.stall("a", 30)
    world.run(seconds=100)
    assert [at for name, at in seen if name == "b"] == [1, 2, 3, 4, 5]
    assert min(at for name, at in seen if name == "a") >= 30


def test_what_escapes_from_a_simulated_thread_fails_the_run():
    """A defect in a simulated thread is never silent."""
    world = World()

    def broken():
        world.clock.sleep(1)
        raise ValueError("defect")

    world.spawn("a", broken)
    with pytest.raises(RuntimeError, match="defect"):
        world.run()


def test_the_clock_of_a_process_may_be_off():
    """Skew is the process's own; time passes alike."""
    world = World()
    world.process("late", skew_ms=-2000)
    assert world.clock.now_ms() - world.clock_for("late").now_ms() == 2000


def test_a_process_dies_at_the_step_it_is_told():
    """`at_step` stops between any two calls: the basis of crash-point enumeration."""
    sent = []
    for step in range(1, 7):  # a step may also come after a call
        world = World()
        queue = world.queue("q")
        world.process("p").at_step(step, world.process("p").kill)
        world.spawn("p", lambda queue=queue: [queue.send_many([Send("x")]) for _ in range(3)])
        world.run()
        sent.append(len(queue.all()))
    assert sent == [0, 1, 2, 3, 3, 3]


def test_a_request_on_the_wire_may_be_carried_out_after_its_sender_died():
    """Half of the requests that a process died at arrive all the same, later, and without it."""
    arrived = 0
    for seed in range(40):
        world = World(seed, Faults(late_seconds=100))
        queue = world.queue("q")
        process = world.process("p")
        process.at_step(1, process.kill)
        sender = process.start(lambda queue=queue: queue.send_many([Send("x")]))
        world.run(until=lambda sender=sender: sender.ended)
        assert queue.all() == []
        world.run(seconds=100)
        arrived += len(queue.all())
    assert 10 < arrived < 30


def _three_in_turn(choices):
    """Three processes that each send twice; `choices` says who of those able goes on, the first where it is used up."""
    world, left, seen = World(), list(choices), []
    queue = world.queue("q")

    def choose(able):
        seen.append(tuple(f"{each.process.name}{'>' if each.answered else ''}" for each in able))
        return able[left.pop(0) if left else 0]

    world.scheduler.chooser = choose
    for name in "abc":
        world.spawn(name, lambda n=name: [queue.send_many([Send(f"{n}{i}")]) for i in range(2)] and None)
    world.run()
    world.close()
    return [message.body for message in queue.all()], seen, world.scheduler.trace


def test_a_chooser_decides_who_runs_next_and_everybody_is_able():
    """At each yield point it is shown all who have not ended, whatever their calls would take, and its word counts."""
    sent, seen, _ = _three_in_turn([])
    assert sent == ["a0", "a1", "b0", "b1", "c0", "c1"]
    assert seen[:3] == [("a", "b", "c"), ("a", "b", "c"), ("a>", "b", "c")], "begun, before the call, before its answer"
    sent, seen, _ = _three_in_turn([2, 2, 1, 1, 0, 0])
    assert sent == ["c0", "b0", "a0", "a1", "b1", "c1"]
    assert _three_in_turn([2, 2, 1])[2] == _three_in_turn([2, 2, 1])[2] != _three_in_turn([2, 2, 0])[2]


def test_a_chooser_may_change_the_world_and_be_asked_again():
    """None means: look again at who is able; time that it moved has woken a sleeper."""
    world, seen = World(), []
    start_ms = world.clock.now_ms()

    def choose(able):
        seen.append([each.process.name for each in able])
        if len(seen) == 2:
            world.scheduler.now_ms += 60_000
            return None
        return able[-1]

    world.scheduler.chooser = choose
    world.spawn("busy", lambda: world.queue("q").send_many([Send("x")]) and None)
    world.spawn("asleep", lambda: world.clock.sleep(60))
    world.run()
    assert seen[:3] == [["busy", "asleep"], ["busy"], ["busy", "asleep"]]
    assert world.clock.now_ms() - start_ms < 61_000
