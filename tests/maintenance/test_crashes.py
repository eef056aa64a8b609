"""Every duty, killed before and after each of its calls (enumerated), and run again: nothing is lost, nothing runs
twice, and every letter ends with one disposition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tenure.adapters.memory.message import Message
from tenure.core import limits, machine
from tenure.core.letter import quarantine_of, read_letter
from tenure.core.task import Row, State
from tenure.maintenance.discard import Discard
from tenure.maintenance.ingest import Ingest
from tenure.maintenance.parts import Parts
from tenure.maintenance.reconcile import Reconcile
from tenure.maintenance.redrive import Redrive
from tenure.maintenance.replay import NothingMatched, Replays
from tenure.maintenance.replay_record import Phase, ReplaySpec, ReplayState
from tenure.ports import Send
from tests.maintenance.crashing import Crash, Points, crashing, every_point
from tests.maintenance.kit import Kit

SPEC = ReplaySpec(filter="error:PDFError", reason="fixed", by="ann", rate_per_second=100)


@dataclass
class Scene:
    """A world with one of everything that maintenance meets."""

    kit: Kit = field(default_factory=Kit)
    dead: list[Row] = field(default_factory=list)
    """Dead letters of the cause that is replayed or discarded."""
    kept: list[Row] = field(default_factory=list)
    """Dead letters of another cause."""
    waiting: list[Row] = field(default_factory=list)
    """Tasks that should yet run, each in some trouble."""

    def __post_init__(self) -> None:
        kit = self.kit
        self.dead = [kit.bury(kit.submit(), "PDFError") for _ in range(3)]
        self.dead += [kit.bury(kit.submit(queue="ledger"), "PDFError") for _ in range(3)]
        self.dead.append(kit.bury(kit.submit(), "PDFError", letter=False))
        self.kept = [kit.bury(kit.submit(), "Timeout")]
        unsent = kit.submit(send=False)
        lapsed = kit.claim(kit.submit())
        kit.take_message(lapsed)
        moved = [kit.submit(), kit.submit(queue="ledger", ordering_key="m")]
        for row in moved:
            tier = kit.topology.tier(row.queue)
            queue = kit.world.queues(tier)
            (message,) = [m for m in queue.all() if f'"id":"{row.id}"' in m.body]
            queue._move(message, kit.world.dead(tier))
        self.waiting = [unsent, lapsed, *moved]
        letter = quarantine_of('{"Records":[]}', {"a": "b"}, "", "m1", "json")
        kit.world.dead(kit.topology.tier("media")).send_many([Send(letter.body, attributes=letter.attributes)])
        kit.advance(limits.RECONCILE_GRACE_SECONDS + 60)

    def recover(self) -> None:
        """What the schedules do after any death: reconcile and ingest, again and again, and workers run."""
        for _ in range(3):
            Reconcile(self.kit.parts).run_once()
            Ingest(self.kit.parts).run_once(force=True)
            self.kit.work()
            self.kit.advance(700)

    def check(self, *, replayed: bool, discarded: bool = False) -> None:
        """Nothing lost, nothing run twice, every letter with one disposition."""
        kit = self.kit
        for row in self.waiting:
            assert (kit.row(row.id).state, kit.runs[row.id]) == (State.COMPLETED, 1), row.id
        for row in self.dead:
            now = kit.row(row.id)
            assert now.disposition is not None
            if replayed:
                assert (now.state, now.disposition.kind, now.replays) == (State.COMPLETED, "replayed", 1)
            else:
                expected = "discarded" if discarded else "open"
                assert (now.state, now.disposition.kind) == (State.DEAD_LETTERED, expected)
            assert kit.runs[row.id] == (1 if replayed else 0)
        if replayed:
            ordered = [row.id for row in self.dead if row.queue == "ledger"]
            assert [task_id for task_id in kit.order if task_id in ordered] == ordered
        for row in self.kept:
            assert kit.row(row.id) == row
        letters = [read_letter(m.body, m.attributes) for name in ("media", "ledger") for m in self._letters(name)]
        open_ids = sorted(row.letter_id for row in [*self.kept, *([] if replayed or discarded else self.dead)])
        assert sorted(letter.letter_id for letter in letters if letter.kind == "buried") == open_ids
        assert [letter.kind for letter in letters if letter.kind != "buried"] == ["quarantined"]

    def _letters(self, queue: str) -> list[Message]:
        return self.kit.world.dead(self.kit.topology.tier(queue)).all()


Duty = Callable[[Parts], object]


def replay(parts: Parts) -> None:
    """Create a replay and run it; or go on with the one that there is."""
    replays = Replays(parts)
    if not replays.list():
        try:
            replays.create(SPEC)
        except NothingMatched:
            return
    replays.run_all()


def die(scene: Scene, duty: Duty, points: Points) -> None:
    """Run the duty until it dies, or to its end."""
    try:
        duty(crashing(scene.kit.parts, points))
    except Crash:
        scene.kit.advance(61)


def places(duty: Duty) -> list[Points]:
    """Where the duty can die in a fresh scene."""

    def counted(points: Points) -> None:
        duty(crashing(Scene().kit.parts, points))

    return list(every_point(counted))


def run_everywhere(duty: Duty, *, replayed: bool, discarded: bool = False) -> int:
    """Kill the duty at each place in a scene of its own, run it again, let everything recover, and check."""
    found = places(duty)
    for points in found:
        scene = Scene()
        die(scene, duty, points)
        duty(scene.kit.parts)
        scene.recover()
        scene.check(replayed=replayed, discarded=discarded)
    return len(found)


def test_a_replay_killed_anywhere() -> None:
    """Replay: create and run (R27)."""
    assert run_everywhere(replay, replayed=True) > 60


def test_a_replay_with_a_canary_killed_anywhere() -> None:
    """The canary's batch and its watch die as well as the rest."""
    spec = ReplaySpec(filter="error:PDFError", reason="r", by="ann", rate_per_second=100, canary=2, canary_seconds=900)

    def duty(parts: Parts) -> None:
        replays = Replays(parts)
        if not replays.list():
            replays.create(spec)
        replays.run_all(parts.clock.now_ms() + 100)

    for points in places(duty):
        scene = Scene()
        die(scene, duty, points)
        for _ in range(3):
            duty(scene.kit.parts)
            scene.kit.advance(limits.RECONCILE_GRACE_SECONDS + 1)
            Reconcile(scene.kit.parts).run_once()
            scene.kit.work()
        (state,) = [each for each in Replays(scene.kit.parts).list() if each.replayed or not each.over]
        ended = Replays(scene.kit.parts).run(state.id)
        assert (ended.phase, ended.replayed, ended.counts["left"]) == (Phase.DONE, 7, 0)
        scene.recover()
        scene.check(replayed=True)


def test_an_abort_killed_anywhere() -> None:
    """An abort that dies is finished by whoever goes on; nothing more is replayed than was."""

    def begin(scene: Scene) -> ReplayState:
        replays = Replays(scene.kit.parts)
        state = replays.create(ReplaySpec(filter="error:PDFError", reason="r", by="ann", rate_per_second=1))
        return replays.run(state.id, stop_at_ms=scene.kit.now_ms + 1)

    def duty(parts: Parts) -> None:
        for state in Replays(parts).list():
            Replays(parts).abort(state.id, "bob", "no")

    def counted(points: Points) -> None:
        scene = Scene()
        begin(scene)
        duty(crashing(scene.kit.parts, points))

    for points in every_point(counted):
        scene = Scene()
        begun = begin(scene)
        die(scene, duty, points)
        duty(scene.kit.parts)
        state = Replays(scene.kit.parts).status(begun.id)
        assert 0 < begun.replayed < len(scene.dead)
        assert (state.phase, state.replayed) == (Phase.ABORTED, begun.replayed)
        assert state.replayed + state.counts["left"] == len(scene.dead)
        assert sum(1 for row in scene.dead if scene.kit.row(row.id).replays) == state.replayed


def test_a_discard_killed_anywhere() -> None:
    """Discard: each letter is discarded once, none is run."""
    assert run_everywhere(
        lambda parts: Discard(parts).run("error:PDFError", "ann", "obsolete"), replayed=False, discarded=True
    )


def test_an_ingest_killed_anywhere() -> None:
    """Ingest: moved letters run once, open letters stay."""
    assert run_everywhere(lambda parts: Ingest(parts).run_once(force=True), replayed=False) > 20


def test_a_reconcile_killed_anywhere() -> None:
    """Reconcile: rows before messages, letters before confirmations."""
    assert run_everywhere(lambda parts: Reconcile(parts).run_once(), replayed=False) > 20


def test_a_redrive_killed_anywhere() -> None:
    """A foreign letter is in a queue at every moment: sent before it is deleted."""

    def duty(parts: Parts) -> None:
        Redrive(parts).run("media", "ann", "ours after all")

    for points in places(duty):
        scene = Scene()
        die(scene, duty, points)
        kit = scene.kit
        foreign = [body for body in (*kit.letters(), *kit.bodies()) if body == '{"Records":[]}']
        assert len(foreign) in (1, 2)
        kit.advance(121)
        duty(kit.parts)
        assert '{"Records":[]}' not in kit.letters()
        assert '{"Records":[]}' in kit.bodies()


@pytest.mark.parametrize("first", [replay, lambda parts: Discard(parts).run("error:PDFError", "bob", "obsolete")])
def test_a_replay_and_a_discard_at_once_give_one_disposition(first: Duty) -> None:
    """Whoever is first at a letter decides; the other leaves it, wherever the first one died."""
    for points in places(first):
        scene = Scene()
        die(scene, first, points)
        Discard(scene.kit.parts).run("error:PDFError", "bob", "obsolete")
        replay(scene.kit.parts)
        scene.recover()
        for row in scene.dead:
            now = scene.kit.row(row.id)
            assert now.disposition is not None
            ran = scene.kit.runs[row.id]
            assert (now.disposition.kind, ran) in (("replayed", 1), ("discarded", 0))
            assert now.final


def test_the_harness_dies_where_it_says() -> None:
    """A crash before a call leaves nothing of it, one after it leaves all."""
    for after in (False, True):
        kit = Kit()
        row = kit.submit()
        parts = crashing(kit.parts, Points(1, after))
        with pytest.raises(Crash):
            parts.rows.replace(row, machine.cancel(row, kit.stamp(), "x"))
        assert (kit.row(row.id).state is State.CANCELLED) is after
