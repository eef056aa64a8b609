"""Who runs beside whom: a task that may have killed its worker is never charged to, or hidden behind, another."""

from __future__ import annotations

from tenure.application import App
from tenure.core.retry import Retry
from tests.support.lab import Lab


def ordered_lab(max_attempts: int = 3) -> Lab:
    """A lab on the ordered queue, with one task that succeeds."""
    app = App("lab")
    made = Lab(app, "ledger")

    @app.task(queue="ledger", name="work", ordered_by="key", retry=Retry(max_attempts=max_attempts))
    def work(key: str = "") -> None:
        made.effects.append(key)

    return made


def submit(lab: Lab, key: str) -> str:
    return lab.submit(ordering_key=key, args={"key": key})


def test_an_ordered_task_whose_worker_died_is_taken_over_alone_and_charged() -> None:
    """R11 in a process that runs several at once: found by the simulator, where such a task killed for ever."""
    lab = ordered_lab()
    suspect = submit(lab, "a")
    lab.receive()
    lab.change(suspect, state="leased", fence=1, lease_token="dead", worker="dead", lease_end_at_ms=1)
    submit(lab, "b")
    lab.world.advance(60)
    worker = lab.engine(max_running=4)
    units = {unit.members[0].envelope.key: unit for unit in lab.admit(worker)}
    assert (units["a"].exclusive, units["b"].exclusive) == (True, False)
    worker.run(units["a"])
    claims = [told for told in lab.events("task.claimed") if told["task_id"] == suspect]
    assert [told["alone"] for told in claims] == [True]


def test_an_ordered_task_with_one_attempt_runs_alone_from_the_start() -> None:
    """R11: its only death could else never be charged."""
    lab = ordered_lab(max_attempts=1)
    submit(lab, "a")
    assert [unit.exclusive for unit in lab.admit(lab.engine(max_running=4))] == [True]


def test_a_group_that_cannot_be_read_counts_as_suspect_and_keeps_its_order() -> None:
    """A throttled read neither lets a suspect run in company nor hands a head back from before its successors."""
    lab = ordered_lab()
    submit(lab, "a")
    lab.receive()
    lab.world.advance(60)
    submit(lab, "a")
    worker = lab.engine(max_running=4)
    deliveries = lab.receive()
    lab.world.faults = type(lab.world.faults)(store_read_fails=1)
    units = worker.admit(lab.inbox(), deliveries)
    assert [(unit.exclusive, len(unit.members)) for unit in units] == [(True, 2)]
    lab.world.faults = type(lab.world.faults).none()
    worker.run(units[0])
    assert lab.effects == ["a", "a"]


def test_what_turns_suspect_between_read_and_claim_goes_back_instead_of_running_in_company() -> None:
    """R11: found by the simulator (seed 128): another worker took it and was lost while this one's claim was slow."""
    lab = ordered_lab()
    suspect = submit(lab, "a")
    worker = lab.engine(max_running=4)
    (unit,) = lab.admit(worker)
    assert not unit.exclusive
    lab.change(suspect, state="leased", fence=1, lease_token="dead", worker="dead", lease_end_at_ms=1)
    worker.run(unit)
    assert lab.effects == []
    (unit,) = lab.admit(worker)
    assert unit.exclusive
    worker.run(unit)
    assert lab.effects == ["a"]
