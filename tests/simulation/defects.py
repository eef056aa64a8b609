"""Defects put into the real code for a moment, each a rule left out. tests/simulation/planted.py says who finds it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import tenure.rows
from tenure.adapters.memory.store import MemoryStore
from tenure.core import decide, draft, halting, ingest, lease, letter, machine
from tenure.core.decide import Settlement
from tenure.core.outcome import named
from tenure.core.task import Row
from tenure.keys import Keys
from tenure.maintenance import parts
from tenure.maintenance.scan import Scan
from tenure.worker import settling
from tenure.worker.engine import Engine
from tenure.worker.holder import Holder
from tenure.worker.settling import Settler


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


# ---- rows and texts ------------------------------------------------------------------------------------------------
def own_writes_are_known_by_their_values() -> Any:
    """R3: whoever finds the values that it wrote takes the write for its own."""

    def equal(seen: Row | None, written: Row) -> bool:
        return seen is not None and (seen.version, seen.fence, seen.state) == (
            written.version,
            written.fence,
            written.state,
        )

    return mock.patch.object(tenure.rows, "own_write", equal)


def lives_are_not_told_apart() -> Any:
    """R5: neither a write nor a delivery looks at the birth."""
    apply, admit = MemoryStore._apply, decide.admit

    def by_version_alone(self: MemoryStore, write: Any) -> Any:
        found = self._live(write.item.key)
        if found is not None and write.expected is not None:
            write = replace(write, expected=(write.expected[0], found.birth))
        return apply(self, write)

    def any_birth(row: Any, arrival: Any, *rest: Any) -> Any:
        return admit(row, replace(arrival, envelope=replace(arrival.envelope, birth="")), *rest)

    return _both(
        mock.patch.object(MemoryStore, "_apply", by_version_alone), mock.patch.object(decide, "admit", any_birth)
    )


def results_of_all_attempts_share_a_place() -> Any:
    """R4: a result lies under its task's name, whichever attempt it is of."""
    store = Settler.store
    return mock.patch.object(
        Settler, "store", lambda self, key, *rest: store(self, key.rsplit("/", 1)[0] if "/S/" in key else key, *rest)
    )


def payloads_of_all_submits_share_a_place() -> Any:
    """R4: a payload lies under its task's name, whichever submit brought it."""
    at = draft._at

    def shared(made: Any, kind: str) -> Any:
        done = at(made, kind)
        place = done.row.payload
        if place.kind != "inline":
            place = replace(place, value=place.value.rsplit("/", 1)[0])
        return replace(done, row=replace(done.row, payload=place))

    return mock.patch.object(draft, "_at", shared)


def final_rows_are_forgotten_at_once() -> Any:
    """R5: a final row does not outlive the messages that speak of it."""
    return mock.patch.object(machine, "expires_at_s", lambda stamp: stamp.now_ms // 1000 + 60)


# ---- budgets and endings -------------------------------------------------------------------------------------------
def budgets_count_claims() -> Any:
    """R11: whatever raised the fence, snoozes too, uses the budget up."""
    why = decide._why_no_more

    def by_fence(row: Row, *rest: Any) -> str:
        return why(replace(row, failures=row.fence - row.fence_floor - 1, losses=0), *rest)

    return mock.patch.object(decide, "_why_no_more", by_fence)


def releases_are_free() -> Any:
    """R17: a started task is given back for nothing, however often."""
    return mock.patch.object(
        decide, "_give_back", lambda row, outcome, stamp: Settlement(machine.release(row, stamp, None), "hide", 0.0)
    )


def cancels_are_forgotten_by_who_settles() -> Any:
    """R19: a task that was asked to stop is retried."""
    settle = decide.settle
    return mock.patch.object(decide, "settle", lambda row, *rest: settle(replace(row, cancel_requested_at_ms=0), *rest))


# ---- order ---------------------------------------------------------------------------------------------------------
def only_a_failure_holds_the_rest() -> Any:
    """R23: the rest of a group runs after a snooze, a lost lease or a write without an answer."""
    run_one = Engine._run_one

    def run(self: Engine, held: Any, unit: Any) -> bool:
        final = run_one(self, held, unit)
        return final or held.row is None or held.row.failures == 0

    return mock.patch.object(Engine, "_run_one", run)


def ordered_tasks_leave_the_queue_to_wait() -> Any:
    """R20: a long wait lets a successor by."""
    return mock.patch.object(decide, "fits_visibility", lambda seconds, **_: seconds <= 900)


def the_rest_of_a_group_is_not_given_back() -> Any:
    """R23: what a head holds up stays hidden, and locks its group, until its visibility lapses."""
    give_back = Engine._give_back

    def keep(self: Engine, members: Any) -> None:
        ordered = [held for held in members if held.inbox.tier.ordered]
        for held in ordered:
            self.holder.drop(held)
        give_back(self, [held for held in members if held not in ordered])

    return mock.patch.object(Engine, "_give_back", keep)


def sends_share_a_deduplication_id() -> Any:
    """R23: SQS swallows what is sent again within five minutes."""
    return mock.patch.object(Row, "deduplication_id", property(lambda self: self.id))


def keys_are_not_halted() -> Any:
    """R24: a head is buried, and its successor flows."""
    return mock.patch.object(Keys, "halt", return_value=None)


def released_tasks_stay_in_their_group() -> Any:
    """R24: a retried head and what is released wait behind arrivals that their key has no room for, for ever."""
    return mock.patch.object(halting, "lane", return_value="")


# ---- letters -------------------------------------------------------------------------------------------------------
def letters_share_a_deduplication_id() -> Any:
    """R21: SQS swallows the letter of a second burial."""

    def shared(row: Row, payload: str | None) -> Any:
        return replace(letter.letter_of(row, payload), group=row.id, deduplication_id=row.id)

    return _both(mock.patch.object(settling, "letter_of", shared), mock.patch.object(parts, "letter_of", shared))


def what_sqs_moved_is_buried() -> Any:
    """R22: a message that SQS moved by itself is taken for a dead letter, whatever budget its task has left."""
    error = named("WorkerLost", "its message was received too often")

    def moved(row: Row, sends: int, stamp: Any) -> Any:
        return ingest.BuryMoved(machine.bury(row, stamp, error, machine.WORKER_LOST))

    return mock.patch.object(ingest, "_moved", moved)


def nobody_sends_missing_letters() -> Any:
    """R26: reconcile leaves dead letters alone."""
    reconcile = decide.reconcile

    def leave(row: Row, *rest: Any) -> Any:
        return decide.Leave() if row.state == "dead_lettered" else reconcile(row, *rest)

    return mock.patch.object(decide, "reconcile", leave)


def a_letter_met_twice_is_two_letters() -> Any:
    """R26: a scan that is given one letter twice deletes it as the second of two."""
    begin = Scan.__init__

    def begin_and_wrap(self: Any, *rest: Any) -> None:
        begin(self, *rest)
        receive, count = self._dead.receive, itertools.count()

        def renamed(*wanted: Any) -> Any:
            return [replace(each, message_id=f"{each.message_id}-{next(count)}") for each in receive(*wanted)]

        self._dead = mock.Mock(wraps=self._dead, receive=renamed)

    return mock.patch.object(Scan, "__init__", begin_and_wrap)


@contextmanager
def _both(one: Any, other: Any) -> Iterator[None]:
    with one, other:
        yield
