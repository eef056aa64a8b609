"""The auditor sees: each of these defects, put into the real code for a moment, is found within a few seeds.

A simulation that is always green proves nothing by itself. Each defect is a rule left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

import tenure.rows
from tenure.adapters.memory.store import MemoryStore
from tenure.core import decide, lease, machine
from tenure.worker.engine import Engine
from tenure.worker.holder import Holder
from tenure.worker.settling import Settler
from tests.simulation.verdict import judge

SEEDS_MAX = 40


def every_write_stands() -> Any:
    """R2: no guard on a write."""
    apply = MemoryStore._apply

    def unguarded(self: MemoryStore, write: Any) -> Any:
        found = self._live(write.item.key)
        return apply(self, replace(write, expected=(found.version, found.birth) if found else None))

    return mock.patch.object(MemoryStore, "_apply", unguarded)


def own_writes_are_not_known_again() -> Any:
    """R3: a lost reply is taken for another's write."""
    return mock.patch.object(tenure.rows, "own_write", return_value=False)


def the_fence_does_not_rise() -> Any:
    """R1: a claim keeps the old fence."""
    claim = machine.claim
    return mock.patch.object(
        machine, "claim", lambda row, stamp, new: replace(claim(row, stamp, new), fence=max(1, row.fence))
    )


def a_live_lease_is_taken() -> Any:
    """R10: nobody waits for a lease to lapse."""
    return mock.patch.object(lease, "lapsed", lambda end, now: now > end - 25_000)


def company_is_charged() -> Any:
    """R11: neighbours of a killer lose budget too."""
    return mock.patch.object(machine, "taken_over_losses", lambda row: 1 if row.state == "leased" else 0)


def suspects_run_in_company() -> Any:
    """R11: a task that may have killed its worker runs beside others again."""
    return mock.patch.object(decide, "must_run_alone", return_value=False)


def any_leased_row_is_adopted() -> Any:
    """R12: the token is not looked at."""

    def adopt(held: Any, overtaken: Any) -> Any:
        if overtaken.row is None or overtaken.row.state != "leased":
            return None
        held.row = overtaken.row
        return overtaken.row

    return mock.patch.object(Holder, "adopt", staticmethod(adopt))


def the_clock_is_not_looked_at_before_the_start() -> Any:
    """R13: a handler starts on a lapsed lease."""
    return mock.patch.object(lease, "ended", return_value=False)


def a_lost_lease_deletes() -> Any:
    """R15: whoever lost its lease deletes the message all the same."""
    settle = Settler.settle

    def settle_and_delete(self: Settler, held: Any, outcome: Any) -> bool:
        done = settle(self, held, outcome)
        if not done:
            held.inbox.ack.delete(held.delivery)
        return done

    return mock.patch.object(Settler, "settle", settle_and_delete)


def the_message_goes_before_the_row() -> Any:
    """R19: delete, then write."""
    settle = Settler.settle

    def delete_first(self: Settler, held: Any, outcome: Any) -> bool:
        held.inbox.ack.delete(held.delivery)
        return settle(self, held, outcome)

    return mock.patch.object(Settler, "settle", delete_first)


def nobody_looks_after_a_retry() -> Any:
    """R20: a waiting row has no place in the due index."""
    waiting = machine._waiting_until
    return mock.patch.object(machine, "_waiting_until", lambda *a: {**waiting(*a), "check_at_ms": 0})


def no_letter_is_sent() -> Any:
    """R21: a buried task's message is deleted without a letter."""

    def finish(self: Settler, held: Any, row: Any) -> bool:
        held.inbox.ack.delete(held.delivery)
        return True

    return mock.patch.object(Settler, "finish_burial", finish)


def what_has_ended_runs_again() -> Any:
    """R10: a redelivery of finished work is claimed."""

    def meet(row: Any, arrival: Any, stamp: Any) -> Any:
        return decide.Claim(
            replace(row, state="leased", version=row.version + 1, write_id=stamp.write_id, fence=row.fence + 1)
        )

    return mock.patch.object(decide, "_meet_final", meet)


def due_times_are_ignored() -> Any:
    """R10: not due yet, and run all the same."""
    not_now = decide._not_now
    return mock.patch.object(decide, "_not_now", lambda row, *rest: not_now(replace(row, due_at_ms=0), *rest))


def deadlines_and_cancels_are_ignored() -> Any:
    """R10: nothing ends a task that may not run any more."""
    return mock.patch.object(decide, "end_instead_of_run", return_value=None)


def successors_do_not_wait() -> Any:
    """R23: the rest of a group runs whatever became of its head."""
    run_one = Engine._run_one
    return mock.patch.object(Engine, "_run_one", lambda self, *a: run_one(self, *a) or True)


DEFECTS: list[tuple[Callable[[], Any], str, str]] = [
    (every_write_stands, "rough", "fence did not rise"),
    (own_writes_are_not_known_again, "replies", "innocent charged"),
    (the_fence_does_not_rise, "deadly", "one fence started twice"),
    (a_live_lease_is_taken, "rough", "live lease taken"),
    (company_is_charged, "deadly", "innocent charged"),
    (suspects_run_in_company, "deadly", "taken over in company"),
    (any_leased_row_is_adopted, "lapses", "settled by a stranger"),
    (the_clock_is_not_looked_at_before_the_start, "services", "started on"),
    (a_lost_lease_deletes, "storm", "deleted too early"),
    (the_message_goes_before_the_row, "keys", "deleted too early"),
    (nobody_looks_after_a_retry, "quiet", "unfinished"),
    (no_letter_is_sent, "rough", "deleted before its letter"),
    (what_has_ended_runs_again, "replies", "ran after its end"),
    (due_times_are_ignored, "replies", "ran too early"),
    (deadlines_and_cancels_are_ignored, "storm", "ran "),
    (successors_do_not_wait, "keys", "out of order"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("defect", "setting", "rule"), DEFECTS, ids=lambda value: getattr(value, "__name__", None))
def test_a_defect_is_found(defect, setting, rule):
    """Within so many seeds of the setting that suits it, and by the rule that it breaks."""
    with defect():
        for seed in range(SEEDS_MAX):
            if any(fault.rule.startswith(rule) for fault in judge(seed, setting).faults):
                return
    pytest.fail(f"{defect.__doc__} Not noticed in {SEEDS_MAX} seeds.")
