"""Halted keys (R24): a buried head stops its key, what follows waits off SQS in order, and a person decides."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import tenure.keys
from tenure.application import App
from tenure.core import halting, machine
from tenure.core.errors import UsageError
from tenure.core.halting import WAITING_MAX, KeyPhase, KeyState, Waiting, has_room
from tenure.core.outcome import GiveUp
from tenure.core.task import State
from tenure.core.topology import Topology
from tenure.keys import Keys
from tenure.maintenance.discard import Discard
from tenure.maintenance.ingest import Ingest
from tenure.maintenance.keys import HaltedKeys, KeyNotHalted
from tenure.maintenance.parts import Parts
from tenure.maintenance.reconcile import Reconcile
from tests.maintenance.crashing import Crash, Points, crashing, every_point
from tests.support.lab import Lab, topology
from tests.support.lab import lab as lab_of


@dataclass
class Ledger:
    """An ordered queue that halts, a worker, and tasks of which some give up until they are mended."""

    broken: set[str] = field(default_factory=set)
    ran: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        app = App("lab")
        self.lab = Lab(app, "ledger")
        declared = topology()
        queues = [q.model_copy(update={"on_bury": "halt"}) if q.ordered else q for q in declared.queues]
        self.topology: Topology = declared.model_copy(update={"queues": tuple(queues)})

        @app.task(queue="ledger", name="work", ordered_by="key")
        def work(key: str, name: str) -> None:
            self.ran.append(name)
            if name in self.broken:
                raise GiveUp("bad iban")

        world = self.lab.world
        self.keys = Keys.of(self.topology, world.store, world.clock, world.entropy)
        self.engine = self.lab.engine(keys=self.keys)

    @property
    def parts(self) -> Parts:
        """The parts of a duty."""
        world = self.lab.world
        return Parts(
            world.store,
            world.queues,
            world.dead,
            world.payloads,
            world.clock,
            world.entropy,
            world.telemetry,
            self.topology,
        )

    @property
    def halted(self) -> HaltedKeys:
        """The duty, and what a person may do."""
        return HaltedKeys(self.parts)

    def submit(self, *names: str, key: str = "k") -> None:
        """Tasks called after their ids, in order."""
        for name in names:
            self.lab.submit(id=name, args={"key": key, "name": name}, ordering_key=key)

    def work(self, rounds: int = 30) -> None:
        """Receive and run until nothing is visible any more."""
        for _ in range(rounds):
            self.lab.work(self.engine)

    def sweep(self, minutes: int = 5) -> None:
        """What the schedules and workers do in so many minutes."""
        for _ in range(minutes):
            Reconcile(self.parts).run_once()
            self.work(5)
            self.lab.world.advance(60)

    def state(self, name: str) -> State:
        """A task's state."""
        return self.lab.row(name).state

    def key(self, name: str = "k") -> KeyState:
        """A key's state."""
        return self.keys.get("ledger", name) or KeyState(queue="ledger", key=name)


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger(broken={"a1"})
    made.submit("a1", "a2", "a3", "a4")
    made.submit("b1", "b2", key="other")
    made.work()
    return made


def test_a_buried_head_halts_its_key_and_no_other(ledger: Ledger) -> None:
    """Its successors do not run; they wait in their rows, in order, off SQS. Other keys flow."""
    assert sorted(ledger.ran) == ["a1", "b1", "b2"]
    key = ledger.key()
    assert (key.phase, key.heads, [each.id for each in key.waiting]) == (KeyPhase.HALTED, ("a1",), ["a2", "a3", "a4"])
    assert [ledger.state(name) for name in ("a1", "a2", "a3", "a4")] == [State.DEAD_LETTERED] + [State.WAITING] * 3
    assert ledger.lab.messages() == 0
    assert ledger.key("other").phase is KeyPhase.OPEN


def test_a_halted_key_stays_halted_for_as_long_as_it_takes(ledger: Ledger) -> None:
    """A week later nothing has run, been lost, or been sent again; later tasks wait behind the others."""
    ledger.submit("a5")
    ledger.work()
    for _ in range(7 * 24):
        Reconcile(ledger.parts).run_once()
        ledger.work(1)
        ledger.lab.world.advance(3600)
    assert sorted(ledger.ran) == ["a1", "b1", "b2"]
    assert [each.id for each in ledger.key().waiting] == ["a2", "a3", "a4", "a5"]


def test_a_retried_head_that_succeeds_opens_its_key(ledger: Ledger) -> None:
    """The head runs first, then what waited, in order; then the key is open."""
    ledger.broken.clear()
    assert ledger.halted.retry_heads("ledger", "k", "ann", "the iban is mended") == 1
    ledger.sweep(10)
    assert [name for name in ledger.ran if name.startswith("a")] == ["a1", "a1", "a2", "a3", "a4"]
    assert ledger.key().phase is KeyPhase.OPEN
    ledger.submit("a5")
    ledger.work()
    assert ledger.ran[-1] == "a5"


def test_a_retried_head_that_dies_again_keeps_its_key_halted(ledger: Ledger) -> None:
    """A second burial is the same head's."""
    ledger.halted.retry_heads("ledger", "k", "ann", "try")
    ledger.sweep(10)
    assert [name for name in ledger.ran if name.startswith("a")] == ["a1", "a1"]
    assert (ledger.key().phase, ledger.key().heads) == (KeyPhase.HALTED, ("a1",))


def test_a_head_past_its_deadline_is_not_retried(ledger: Ledger) -> None:
    """Opened it would only expire, and its key with it open: refused with what to do, and nothing behind it runs."""
    ledger.lab.change("a1", deadline_at_ms=ledger.lab.world.clock.now_ms() + 60_000)
    ledger.lab.world.advance(61)
    with pytest.raises(UsageError, match=r"head a1 cannot be retried: its deadline has passed.*skip-head"):
        ledger.halted.retry_heads("ledger", "k", "ann", "mended")
    ledger.sweep()
    assert (ledger.state("a1"), ledger.state("a2")) == (State.DEAD_LETTERED, State.WAITING)
    assert ledger.halted.skip_heads("ledger", "k", "ann", "too late") == 1
    ledger.sweep()
    assert ledger.ran[-3:] == ["a2", "a3", "a4"]


def test_a_skipped_head_lets_the_rest_flow_in_order(ledger: Ledger) -> None:
    """The head's letter is closed with a reason, and what waited runs."""
    assert ledger.halted.skip_heads("ledger", "k", "ann", "not owed") == 1
    ledger.sweep(10)
    assert [name for name in ledger.ran if name.startswith("a")] == ["a1", "a2", "a3", "a4"]
    disposition = ledger.lab.row("a1").disposition
    assert disposition is not None
    assert (disposition.kind, disposition.reason) == ("discarded", "not owed")
    assert ledger.key().phase is KeyPhase.OPEN


def test_a_drained_key_cancels_what_waits(ledger: Ledger) -> None:
    """Drain ends the waiting tasks and leaves the head to be decided about."""
    assert ledger.halted.drain("ledger", "k", "ann", "the account is closed") == 3
    assert [ledger.state(name) for name in ("a2", "a3", "a4")] == [State.CANCELLED] * 3
    assert ledger.key().waiting == ()
    assert ledger.key().phase is KeyPhase.HALTED
    ledger.halted.skip_heads("ledger", "k", "ann", "closed")
    assert ledger.key().phase is KeyPhase.OPEN


def test_a_head_that_is_buried_while_its_key_drains_halts_it_again(ledger: Ledger) -> None:
    """What was released behind it waits again, at its old place."""
    ledger.broken = {"a3"}
    ledger.halted.skip_heads("ledger", "k", "ann", "skip")
    ledger.sweep(10)
    assert [name for name in ledger.ran if name.startswith("a")] == ["a1", "a2", "a3"]
    assert [each.id for each in ledger.key().waiting] == ["a4"]
    ledger.submit("a5")
    ledger.broken.clear()
    ledger.work()
    ledger.halted.retry_heads("ledger", "k", "ann", "mended")
    ledger.sweep(10)
    assert [name for name in ledger.ran if name.startswith("a")] == ["a1", "a2", "a3", "a3", "a4", "a5"]


def test_what_waits_again_keeps_its_old_place(ledger: Ledger) -> None:
    """A task released behind a head that is then buried comes before what arrived after it, however SQS has them."""
    ledger.broken = {"a3"}
    ledger.submit("a5")
    ledger.halted.skip_heads("ledger", "k", "ann", "skip")
    ledger.sweep(10)
    assert [each.id for each in ledger.key().waiting] == ["a4", "a5"]
    ledger.broken.clear()
    ledger.halted.retry_heads("ledger", "k", "ann", "mended")
    ledger.sweep(10)
    assert [name for name in ledger.ran if name.startswith("a")] == ["a1", "a2", "a3", "a3", "a4", "a5"]


def test_arrivals_while_a_key_drains_wait_behind(ledger: Ledger) -> None:
    """A task that arrives before those that waited have run does not pass them."""
    ledger.submit("a5")
    ledger.halted.skip_heads("ledger", "k", "ann", "skip")
    ledger.submit("a6")
    ledger.sweep(10)
    assert [name for name in ledger.ran if name.startswith("a")] == [f"a{n}" for n in range(1, 7)]
    assert ledger.key().phase is KeyPhase.OPEN


def test_a_replay_or_discard_by_filter_decides_as_well(ledger: Ledger) -> None:
    """A key opens whichever way its head was decided about."""
    Discard(ledger.parts).run("id:a1", "ann", "gone")
    ledger.sweep(10)
    assert [name for name in ledger.ran if name.startswith("a")] == ["a1", "a2", "a3", "a4"]


def test_a_decided_key_behind_very_many_others_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many older keys stay halted, each is looked at in turn, a bounded number of them in a run."""
    monkeypatch.setattr(tenure.keys, "LISTED_MAX", 4)
    names = [f"h{n}" for n in range(10)]
    ledger = Ledger(broken=set(names))
    for name in names:
        ledger.submit(name, f"{name}-next", key=name)
        ledger.work(4)
        ledger.lab.world.advance(1)
    head = ledger.lab.row("h9")
    ledger.lab.rows.replace(head, machine.discard(head, ledger.lab.stamp(), "not needed"))
    looked = []
    for _ in range(3):
        looked.append(ledger.halted.run_once().counts["keys"])
        ledger.lab.world.advance(60)
    ledger.sweep(9)
    assert looked == [4, 4, 4]
    assert (ledger.ran.count("h9-next"), ledger.key("h9").phase) == (1, KeyPhase.OPEN)
    assert all(ledger.key(name).phase is KeyPhase.HALTED for name in names[:9])


def test_only_halted_keys_of_halting_queues_are_decided_about(ledger: Ledger) -> None:
    """An open key, an unknown one and a queue that skips are refused by name."""
    with pytest.raises(KeyNotHalted, match="open"):
        ledger.halted.get("ledger", "other")
    with pytest.raises(UsageError, match="does not halt"):
        ledger.halted.get("work", "k")


def test_a_worker_lost_too_often_halts_its_key_too() -> None:
    """A burial by whoever takes the last lapsed lease over halts as one by its own worker does."""
    ledger = Ledger()
    ledger.submit("a1", "a2")
    row = ledger.lab.row("a1")
    lapsed = replace(row, version=2, state=State.LEASED, lease_end_at_ms=1, claimed_alone=True, losses=4, fence=5)
    ledger.lab.rows.replace(row, lapsed)
    ledger.work()
    assert (ledger.state("a1"), ledger.state("a2")) == (State.DEAD_LETTERED, State.WAITING)


def test_a_key_that_cannot_be_read_lets_nothing_pass(ledger: Ledger) -> None:
    """If the key row cannot be read, its tasks are handed back unrun."""
    ledger.submit("a5")
    ledger.lab.world.faults = type(ledger.lab.world.faults)(store_read_fails=1.0)
    ledger.work(2)
    assert "a5" not in ledger.ran
    ledger.lab.world.faults = type(ledger.lab.world.faults)()
    ledger.lab.world.advance(60)
    ledger.work(2)
    assert ledger.state("a5") is State.WAITING


def test_a_key_keeps_as_many_as_its_item_can() -> None:
    """Beyond that tasks stay in SQS, handed back."""
    places = tuple(Waiting(f"{n:020d}", f"t{n}") for n in range(WAITING_MAX))
    full = KeyState(queue="ledger", key="k", phase=KeyPhase.HALTED, waiting=places)
    assert not has_room(full, "new")
    assert has_room(full, "t3")


def test_what_is_sent_for_a_full_key_passes_those_that_it_has_no_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A retried head, and then what is released, do not wait behind arrivals that lock the key's group in SQS."""
    monkeypatch.setattr(halting, "WAITING_MAX", 1)
    ledger = Ledger(broken={"a1"})
    ledger.submit("a1", "a2", "a3", "a4", "a5")
    ledger.work()
    assert [ledger.state(name) for name in ("a2", "a3")] == [State.WAITING, State.QUEUED]
    ledger.broken.clear()
    ledger.ran.clear()
    ledger.halted.retry_heads("ledger", "k", "ann", "mended")
    ledger.sweep(40)
    assert ledger.ran == ["a1", "a2", "a3", "a4", "a5"]


Act = Callable[[Parts], Any]


def decided(act: Act) -> list[Points]:
    """Every place where the duty dies in a halted ledger."""

    def counted(points: Points) -> None:
        act(crashing(halted_ledger().parts, points))

    return list(every_point(counted))


def halted_ledger() -> Ledger:
    """One head buried, three tasks waiting."""
    made = Ledger(broken={"a1"})
    made.submit("a1", "a2", "a3", "a4")
    made.work()
    made.broken.clear()
    return made


@pytest.mark.parametrize(
    "act",
    [
        lambda parts: HaltedKeys(parts).skip_heads("ledger", "k", "ann", "skip"),
        lambda parts: HaltedKeys(parts).retry_heads("ledger", "k", "ann", "retry"),
    ],
    ids=["skip", "retry"],
)
def test_killed_anywhere_order_holds(act: Act) -> None:
    """Skip and retry, killed before and after each of their calls, and done again: all run once, in order."""
    for points in decided(act):
        ledger = halted_ledger()
        with contextlib.suppress(Crash):
            act(crashing(ledger.parts, points))
        with contextlib.suppress(KeyNotHalted):
            act(ledger.parts)
        ledger.sweep(15)
        ran = [name for name in ledger.ran if name != "a1"]
        assert ran == ["a2", "a3", "a4"], points
        assert ledger.key().phase is KeyPhase.OPEN


def test_a_sweep_killed_anywhere_order_holds() -> None:
    """Reconcile's release of what waited, killed at each of its calls."""

    def act(parts: Parts) -> None:
        HaltedKeys(parts).run_once()

    def begin() -> Ledger:
        made = halted_ledger()
        Discard(made.parts).run("id:a1", "ann", "gone")
        return made

    def counted(points: Points) -> None:
        act(crashing(begin().parts, points))

    for points in every_point(counted):
        ledger = begin()
        with contextlib.suppress(Crash):
            act(crashing(ledger.parts, points))
        ledger.submit("a5")
        ledger.sweep(15)
        assert ledger.ran == ["a1", "a2", "a3", "a4", "a5"], points


def test_a_worker_killed_anywhere_order_holds() -> None:
    """The worker that buries the head and parks the rest, killed at each call of the table: none passes the head."""
    for at in range(1, 40):
        for after in (False, True):
            ledger = Ledger(broken={"a1"})
            ledger.submit("a1", "a2", "a3")
            points = Points(at, after)
            parts = crashing(ledger.parts, points)
            keys = Keys.of(ledger.topology, parts.store, parts.clock, parts.entropy)
            dying = _engine(ledger, parts, keys)
            try:
                ledger.lab.work(dying)
            except Crash:
                ledger.lab.world.advance(120)
            ledger.sweep(10)
            Ingest(ledger.parts).run_once(force=True)
            assert set(ledger.ran) == {"a1"}, points
            assert ledger.state("a1") is State.DEAD_LETTERED
            ledger.broken.clear()
            ledger.halted.skip_heads("ledger", "k", "ann", "skip")
            ledger.sweep(10)
            assert [name for name in ledger.ran if name != "a1"] == ["a2", "a3"], points


def _engine(ledger: Ledger, parts: Parts, keys: Keys) -> Any:
    """A worker over parts that die."""
    lab = lab_of(queue="ledger")
    lab.app, lab.world, lab.rows = ledger.lab.app, ledger.lab.world, parts.rows
    return lab.engine("w0", keys=keys)
