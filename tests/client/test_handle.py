"""A task in a producer's hand: status, result, cancel, and the story that `why` tells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.core import machine
from tenure.core.errors import NotFinished, ServiceError, TaskFailed, TaskNotFound, UsageError
from tenure.core.outcome import GiveUp, named
from tenure.core.task import State
from tenure.core.topology import Pool
from tenure.handle import Cancellation
from tenure.rows import Rows
from tests.support.shop import REFUSED, Shop, Table


@pytest.fixture
def shop() -> Shop:
    return Shop()


def work(shop: Shop, body: Any = lambda number: number * 2) -> Any:
    @shop.app.task(queue="media")
    def work(number: int) -> Any:
        shop.effects.append(number)
        return body(number)

    return work


def error() -> Any:
    return named("PDFError", "page 3 is torn")


# ---- status --------------------------------------------------------------------------------------------------------
def test_status_tells_where_a_task_is(shop: Shop) -> None:
    """State, attempt, times and progress of a task that runs, and of the same when it has ended."""
    handle = work(shop).options(tenant="r7").submit(4)
    shop.world.advance(10)
    shop.claim(handle.id)
    shop.change(handle.id, lambda row, stamp: machine.beat(row, stamp, 60, progress_permille=250))
    shop.world.advance(5)
    running = handle.status()
    assert (running.state, running.attempt, running.max_attempts, running.progress) == (State.LEASED, 1, 5, 0.25)
    assert running.elapsed_seconds == 15
    assert running.last_heartbeat_at_ms == running.started_at_ms == running.submitted_at_ms + 10_000
    assert not running.final
    shop.change(handle.id, lambda row, stamp: machine.succeed(row, stamp, None))
    shop.world.advance(100)
    ended = handle.status()
    assert (ended.state, ended.elapsed_seconds, ended.progress, ended.final) == (State.COMPLETED, 15, 1.0, True)


def test_status_tells_the_last_error(shop: Shop) -> None:
    """A failed attempt is told with its error, and the next attempt's number."""
    handle = work(shop).submit(1)
    shop.claim(handle.id)
    shop.change(handle.id, lambda row, s: machine.retry(row, s, error(), s.now_ms + 60_000, message_held=True))
    status = handle.status()
    assert (status.state, status.attempt) == (State.RETRYING, 2)
    assert status.error is not None
    assert status.error.message == "page 3 is torn"


def test_a_task_that_is_not_there_is_an_error(shop: Shop) -> None:
    """An id that was never submitted here, or whose row is gone, and a blank id."""
    handle = shop.client.handle("k-nobody")
    for ask in (handle.status, handle.result, handle.why, lambda: handle.cancel("x")):
        with pytest.raises(TaskNotFound, match="k-nobody"):
            ask()
    with pytest.raises(UsageError):
        shop.client.handle("  ")


def test_a_handle_can_be_made_again_from_its_id(shop: Shop) -> None:
    """By the task, with its types; by the client, as plain JSON."""
    from decimal import Decimal

    @shop.app.task(queue="media")
    def price(number: int) -> Decimal:
        return Decimal("1.10")

    made = price.submit(1)
    shop.work()
    assert repr(price.handle(made.id).result("0s")) == "Decimal('1.10')"
    assert shop.client.handle(made.id).result("0s") == "1.10"


@pytest.mark.parametrize("ask", ["status", "result", "cancel", "why"])
def test_a_handle_of_one_task_answers_nothing_about_another(shop: Shop, ask: str) -> None:
    """The row knows its task: another's result by the wrong types is a wrong value, and another's cancel a mistake."""
    other = work(shop)

    @shop.app.task(queue="media")
    def price(number: int) -> int:
        return number

    submitted = other.submit(4)
    shop.work()
    wrong = price.handle(submitted.id)
    with pytest.raises(UsageError, match=r"is of 'work', and this handle was made by 'price'\. Ask work\.handle"):
        wrong.cancel("mine") if ask == "cancel" else getattr(wrong, ask)()
    assert other.handle(submitted.id).result("0s") == 8
    assert shop.app.producer.handle(submitted.id).result("0s") == 8


# ---- result --------------------------------------------------------------------------------------------------------
def test_result_waits_for_the_end(shop: Shop) -> None:
    """It looks again and again, in virtual time here, until the task has ended."""
    handle = work(shop).submit(21)
    looks: list[float] = []
    sleep = shop.world.clock.sleep

    def watched(seconds: float) -> None:
        looks.append(seconds)
        sleep(seconds)
        if len(looks) == 12:
            shop.work()

    shop.world.clock.sleep = watched  # type: ignore[method-assign] # somebody works meanwhile
    assert handle.result(timeout="5m") == 42
    assert looks == sorted(looks)
    assert max(looks) <= 2.0


def test_result_gives_up_when_its_time_is_over(shop: Shop) -> None:
    """NotFinished after the time given, neither earlier nor much later, with the state as it is."""
    handle = work(shop).submit(1)
    began = shop.world.clock.now_ms()
    with pytest.raises(NotFinished, match="is queued after 30s"):
        handle.result()
    assert shop.world.clock.now_ms() - began == 30_000
    with pytest.raises(NotFinished):
        handle.result("0s")


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (lambda row, s: machine.bury(row, s, error(), "gave_up"), "dead_lettered: PDFError: page 3 is torn"),
        (lambda row, s: machine.cancel(row, s, "not needed"), "cancelled: not needed"),
        (machine.expire, "expired: deadline"),
    ],
)
def test_a_task_that_ended_otherwise_has_no_result(shop: Shop, end: Any, told: str) -> None:
    """TaskFailed says how it ended and why, at once."""
    handle = work(shop).submit(1)
    shop.change(handle.id, end)
    with pytest.raises(TaskFailed, match=told):
        handle.result()


def test_a_failing_table_is_waited_out(shop: Shop) -> None:
    """A read that fails is one look among many; only if all fail is it raised, when the time is over."""
    handle = work(shop).submit(1)
    shop.work()
    quiet = shop.world.faults
    shop.world.faults = replace(quiet, store_read_fails=0.8)
    assert handle.result("10m") == 2
    shop.world.faults = replace(quiet, store_read_fails=1.0)
    with pytest.raises(ServiceError):
        handle.result("5s")


def test_a_result_beside_the_row_is_fetched(shop: Shop) -> None:
    """Large results lie elsewhere; the handle brings them all the same."""
    handle = work(shop, lambda number: "r" * 100_000).submit(1)
    shop.work()
    assert shop.row(handle.id).result.kind == "object"  # type: ignore[union-attr] # it has one
    assert handle.result("0s") == "r" * 100_000


# ---- cancel --------------------------------------------------------------------------------------------------------
def test_a_queued_task_is_cancelled_and_never_runs(shop: Shop) -> None:
    """Its message finds the row ended, and nothing happens."""
    handle = work(shop).submit(1)
    assert handle.cancel("not needed") is Cancellation.CANCELLED
    shop.work()
    assert shop.effects == []
    assert shop.messages() == []
    assert handle.status().reason == "not needed"


@pytest.mark.parametrize("delay", ["1h", "10m"])
def test_a_delayed_task_is_cancelled(shop: Shop, delay: str) -> None:
    """With its message in SQS or none."""
    handle = work(shop).options(delay=delay).submit(1)
    assert handle.cancel("not needed") is Cancellation.CANCELLED


def test_a_running_task_is_asked(shop: Shop) -> None:
    """It goes on until its handler looks; a second cancel changes nothing; a retry would end it."""
    handle = work(shop).submit(1)
    shop.claim(handle.id)
    assert handle.cancel("too slow") is Cancellation.REQUESTED
    asked = shop.row(handle.id)
    assert handle.cancel("really") is Cancellation.REQUESTED
    assert shop.row(handle.id) == asked
    assert (asked.state, asked.cancel_reason) == (State.LEASED, "too slow")
    assert handle.status().cancel_requested


def test_a_finished_task_is_not_cancelled(shop: Shop) -> None:
    """It says that it was too late, and the row stays as it was."""
    handle = work(shop).submit(1)
    shop.work()
    before = shop.row(handle.id)
    assert handle.cancel("late") is Cancellation.TOO_LATE
    assert shop.row(handle.id) == before


def test_a_cancel_that_is_overtaken_is_decided_again(shop: Shop) -> None:
    """A worker claims between look and write: the cancel becomes a request, and nothing of the claim is lost."""
    handle = work(shop).submit(1)
    store = shop.world.store
    real = store.write_many

    def claimed_first(writes: Any) -> Any:
        store.write_many = real  # type: ignore[method-assign] # once
        shop.claim(handle.id)
        return real(writes)

    store.write_many = claimed_first  # type: ignore[method-assign] # the moment between look and write
    assert handle.cancel("too slow") is Cancellation.REQUESTED
    row = shop.row(handle.id)
    assert (row.state, row.fence) == (State.LEASED, 1)


def test_a_cancel_says_why(shop: Shop) -> None:
    """A blank reason is refused; a long one is cut."""
    handle = work(shop).submit(1)
    with pytest.raises(UsageError, match="say why"):
        handle.cancel("  ")
    handle.cancel("because " * 1000)
    assert len(handle.status().reason.encode()) <= 512


def test_a_cancel_without_an_answer_is_no_success(shop: Shop) -> None:
    """If the table never answers, it is raised."""
    silent = shop.another_client(rows=Rows(Table(shop, applied=False, times=1000)))
    handle = silent.handle(work(shop).submit(1).id)
    with pytest.raises(ServiceError, match="the cancel was not recorded"):
        handle.cancel("not needed")
    assert handle.status().state is State.QUEUED


def test_a_cancel_whose_reply_is_lost_is_recognised(shop: Shop) -> None:
    """The row bears its write id, so it is not taken for somebody else's."""
    deaf = shop.another_client(rows=Rows(Table(shop, applied=True, times=1)))
    assert deaf.handle(work(shop).submit(1).id).cancel("not needed") is Cancellation.CANCELLED


# ---- why -----------------------------------------------------------------------------------------------------------
STORIES: list[tuple[str, Any]] = [
    ("It became ready 5s ago; no worker has it.", lambda shop, id: None),
    ("Worker w1 began attempt 1 of 5 5s ago", lambda shop, id: shop.claim(id)),
    (
        "Its next attempt is due in 55s (1 failed and 0 lost of 5 attempts).",
        lambda shop, id: (
            shop.claim(id),
            shop.change(id, lambda row, s: machine.retry(row, s, error(), s.now_ms + 60_000, message_held=True)),
        ),
    ),
    (
        "It was buried 5s ago: gave_up (1 failed and 0 lost of 5 attempts). The dead letter is open.",
        lambda shop, id: shop.change(id, lambda row, s: machine.bury(row, s, error(), "gave_up")),
    ),
    (
        "It was cancelled 5s ago: no need",
        lambda shop, id: shop.change(id, lambda row, s: machine.cancel(row, s, "no need")),
    ),
    ("passed before it was done", lambda shop, id: shop.change(id, machine.expire)),
    ("Its handler returned 5s ago, in attempt 1.", lambda shop, id: shop.work()),
]


@pytest.mark.parametrize(("told", "make"), STORIES)
def test_why_tells_every_state(shop: Shop, told: str, make: Any) -> None:
    """Where the task is, since when, and what happens next, in words."""
    handle = work(shop).options(tenant="r7").submit(1)
    make(shop, handle.id)
    shop.world.advance(5)
    story = handle.why()
    assert told in story
    assert story.startswith(f"Task {handle.id} (work for tenant r7) on queue media/normal is ")
    assert "submit" in story.splitlines()[-1] or "History:" in story


def test_why_tells_a_lapsed_lease_and_a_cancel(shop: Shop) -> None:
    """A worker that died and a cancel that waits for it are both told."""
    handle = work(shop).submit(1)
    shop.claim(handle.id)
    handle.cancel("too slow")
    shop.world.advance(120)
    story = handle.why()
    assert "the worker has died or stalled" in story
    assert "A cancel was asked for 2m ago: too slow" in story


def test_why_tells_when_a_dead_workers_task_comes_back(shop: Shop) -> None:
    """To the moment: with the lease's end after a beat; before the first, when the queue shows the message again."""
    pools = tuple(Pool(name=pool.name) for pool in shop.topology.pools)
    client = replace(shop.client, topology=shop.topology.model_copy(update={"pools": pools}))
    task = work(shop)
    handle = client.handle(task.submit(1).id)
    shop.claim(handle.id)
    assert "is back by 2027-01-15 08:05:40 UTC (in 5m40s); before its first beat, its queue hides it" in handle.why()
    shop.world.advance(70)
    assert "comes back by 2027-01-15 08:05:40 UTC (in 4m30s)" in handle.why()
    shop.world.advance(280)
    assert "another worker takes it over as soon as one is free; its message is back" in handle.why()
    other = client.handle(task.submit(1).id)
    shop.claim(other.id)
    shop.world.advance(20)
    shop.change(other.id, lambda row, stamp: machine.beat(row, stamp, 60))
    assert "If that worker dies now, its message is back by 2027-01-15 08:07:21 UTC (in 1m11s)." in other.why()


def test_why_tells_what_is_due_later(shop: Shop) -> None:
    """A scheduled task, a delayed one, and one that SQS refused."""
    task = work(shop)
    assert "it has no message" in task.options(delay="1h").submit(1).why()
    assert "SQS holds its message until then" in task.options(delay="5m").submit(1).why()
    shop.queue().answers = [REFUSED]
    report = task.submit_many([task.bind(1)])
    assert "SQS refused its message" in shop.client.handle(report.failures[0].error.task_id).why()  # type: ignore[union-attr] # SubmitRefused has one


def test_why_shows_no_payload_and_no_result(shop: Shop) -> None:
    """It may be pasted into a ticket."""

    @shop.app.task(queue="media")
    def secret(word: str) -> str:
        return word

    handle = secret.submit("hunter2")
    before = handle.why()
    shop.work()
    assert "hunter2" not in before + handle.why()


def test_a_failure_is_told_with_its_error(shop: Shop) -> None:
    """The error's type, message and fingerprint stand in the story."""

    def torn(number: int) -> Any:
        raise GiveUp("page 3 is torn")

    handle = work(shop, torn).submit(1)
    shop.work()
    assert "GiveUp: page 3 is torn" in handle.why()
    assert "Next: nothing, until somebody replays or discards it." in handle.why()
