"""Leases: who holds them, who keeps them, who is blamed when they lapse, and how they are given back."""

from __future__ import annotations

from tenure.core.retry import Retry
from tenure.core.task import State
from tenure.worker.context import context
from tests.support.lab import Lab, lab


class TestLeases:
    def test_a_live_lease_is_never_taken_over(self) -> None:
        """R10: handed back for the rest of it, and nothing counted."""
        it = lab()
        task_id = it.submit()
        TestLeases.claim_and_die(it, "w1")
        it.world.advance(31)  # the queue gives the message again: its visibility is shorter than the lease
        it.send(it.row(task_id))
        it.work(it.engine("w2"))
        assert it.effects == []
        row = it.row(task_id)
        assert (row.fence, row.losses, row.worker) == (1, 0, "w1")

    def test_a_lease_that_lapsed_alone_is_a_loss_and_is_taken_over(self) -> None:
        """R10, R11."""
        it = lab(lease="30s")
        task_id = it.submit()
        self.claim_and_die(it, "w1")
        it.world.advance(70)
        it.work(it.engine("w2"))
        row = it.row(task_id)
        assert (row.state, row.losses, row.attempt, row.fence) == (State.COMPLETED, 1, 2, 2)

    def test_neighbours_in_a_batch_are_not_blamed_for_a_death(self) -> None:
        """R11: five claimed in company and lost count nothing; the next claim of each is alone."""
        it = lab(lease="30s", retry=Retry(max_attempts=2))
        tasks = [it.submit() for _ in range(5)]
        dying = it.engine("w1", max_running=2)
        units = it.admit(dying)
        assert all(unit.members[0].row is not None for unit in units), "claimed together"
        it.world.advance(70)  # its process is gone
        survivor = it.engine("w2", max_running=2)
        units = it.admit(survivor)
        assert [unit.exclusive for unit in units] == [True] * 5
        for unit in units:
            survivor.run(unit)
        assert [(it.row(t).state, it.row(t).losses) for t in tasks] == [(State.COMPLETED, 0)] * 5

    def test_a_task_that_kills_its_worker_is_buried_as_worker_lost(self) -> None:
        """R11: budgets compare failures and losses, so two deaths alone use two attempts up."""
        it = lab(lease="30s", retry=Retry(max_attempts=2))
        task_id = it.submit()
        for worker in ("w1", "w2"):
            self.claim_and_die(it, worker)
            it.world.advance(70)
        it.work(it.engine("w3"))
        row = it.row(task_id)
        assert (row.state, row.reason, row.attempt) == (State.DEAD_LETTERED, "worker_lost", 2)
        assert it.effects == []
        assert len(it.letters()) == 1

    def test_a_lease_that_ended_before_the_handler_was_called_runs_nothing(self) -> None:
        """R13."""
        it = lab(lease="30s")
        it.submit()
        it.submit()
        engine = it.engine(max_running=2)
        units = it.admit(engine)
        it.world.advance(31)
        for unit in units:
            engine.run(unit)
        assert it.effects == []
        assert len(it.events("lease.lost")) == 2

    @staticmethod
    def claim_and_die(it: Lab, worker: str) -> None:
        """Claim as a worker does just before it runs a task, and be gone."""
        engine = it.engine(worker)
        [unit] = it.admit(engine)
        held = unit.members[0]
        assert engine._claim(held, alone=True) == "claimed"


class TestHeartbeat:
    def test_a_beat_renews_the_lease_and_hides_the_message_row_first(self) -> None:
        """R14."""
        it = lab(lease="30s")
        calls: list[str] = []
        it.submit()
        it.submit()
        engine = it.engine(max_running=2)
        it.admit(engine)
        write, hide = it.world.store.write_many, it.queue.set_visibility_many
        it.world.store.write_many = lambda w: calls.append("row") or write(w)  # type: ignore[method-assign] # seen
        it.queue.set_visibility_many = lambda c: calls.append("hide") or hide(c)  # type: ignore[method-assign] # seen
        it.world.advance(9)
        engine.holder.tick()
        assert calls == [], "a task that ends within a third of its lease never pays"
        it.world.advance(2)
        engine.holder.tick()
        assert calls == ["row", "hide", "row", "hide"]

    def test_a_beaten_lease_outlives_its_first_term(self) -> None:
        it = lab(lease="30s")
        one, _ = it.submit(), it.submit()
        engine = it.engine(max_running=2)
        units = it.admit(engine)
        for _ in range(10):
            it.world.advance(11)
            engine.holder.tick()
        for unit in units:
            engine.run(unit)
        assert (it.row(one).state, it.row(one).fence) == (State.COMPLETED, 1)

    def test_past_sqs_s_twelve_hours_only_the_row_is_beaten(self) -> None:
        """R18: a task of thirteen hours. Its message comes back, meets the live lease, and the success stands."""
        hidden: list[int] = []

        def long() -> None:
            for _ in range(78):
                it.world.advance(600)
                engine.holder.tick()
            it.work(it.engine("w2"))

        it = lab(long, timeout="1d", lease="30m")
        task_id = it.submit()
        engine = it.engine()
        hide = it.queue.set_visibility_many
        it.queue.set_visibility_many = lambda c: hidden.append(c[0][1]) or hide(c)  # type: ignore[method-assign] # seen
        it.work(engine)
        assert it.effects == [("", 1)]
        assert it.row(task_id).state is State.COMPLETED
        assert [why["why"] for why in it.events("task.handed_back")] == ["another worker holds a live lease"]
        assert all(hidden), "a beat that hides for no time at all shows the message to everybody"
        assert len(hidden) == 71 + 1, "one for each beat within the twelve hours, and the hand-back"

    def test_a_handler_past_its_timeout_is_settled_as_failed_while_it_runs(self) -> None:
        seen: list[str] = []

        def slow() -> None:
            it.world.advance(21)
            engine.holder.tick()
            engine.holder.stop()  # waits for what settles it
            seen.append(it.row(task_id).state)
            context().progress(0.5)

        it = lab(slow, timeout="20s", lease="60s")
        task_id = it.submit()
        engine = it.engine()
        it.work(engine)
        row = it.row(task_id)
        assert seen == [State.RETRYING]
        assert row.error is not None
        assert (row.state, row.failures, row.error.type) == (State.RETRYING, 1, "TimedOut")
        assert it.messages() == 1


class TestRelease:
    def test_unstarted_tasks_go_back_at_once_and_cost_nothing(self) -> None:
        """R17."""
        it = lab()
        tasks = [it.submit(), it.submit()]
        engine = it.engine(max_running=2)
        for unit in it.admit(engine):
            engine.release(unit)
        assert [(it.row(t).state, it.row(t).attempt, it.row(t).lease_token) for t in tasks] == [
            (State.QUEUED, 1, "")
        ] * 2
        assert len(it.receive()) == 2, "visible again at once"

    def test_a_started_task_handed_over_without_a_checkpoint_counts_a_failure(self) -> None:

        def handler() -> None:
            engine.hand_over()
            assert context().cancelled
            raise RuntimeError("stopping")

        it = lab(handler)
        task_id = it.submit()
        engine = it.engine()
        it.work(engine)
        row = it.row(task_id)
        assert (row.state, row.failures) == (State.RETRYING, 1)

    def test_a_started_task_handed_over_with_a_newer_checkpoint_costs_nothing(self) -> None:

        def handler() -> None:
            context().checkpoint({"page": 3})
            engine.hand_over()
            raise RuntimeError("stopping")

        it = lab(handler)
        task_id = it.submit()
        engine = it.engine()
        it.work(engine)
        row = it.row(task_id)
        assert (row.state, row.failures, row.history[-1].event) == (State.RETRYING, 0, "release")

    def test_units_past_the_stop_time_are_released_unstarted(self) -> None:
        it = lab()
        task_id = it.submit()
        engine = it.engine()
        [unit] = it.admit(engine)
        engine.run(unit, stop_at_ms=it.world.clock.now_ms())
        assert it.effects == []
        assert it.row(task_id).state is State.QUEUED
