"""Carries out checked submits: payload, row if absent, then message; and what each answer on the way means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tenure.core import limits, machine
from tenure.core.draft import Draft, delay_seconds
from tenure.core.errors import KeyConflict, ServiceError, SubmitRefused, TenureError, TooLarge, UnsupportedVersion
from tenure.core.machine import Stamp
from tenure.core.resubmission import Conflict, Found, Rely, Reopen, resubmit
from tenure.core.task import Row, State
from tenure.core.topology import Tier
from tenure.ports import Clock, Entropy, NotSent, PayloadStore, Send, Sent, TaskQueue, Telemetry
from tenure.rows import Overtaken, RowOutcome, Rows, Stands, Unknown

ROW_TRIES = 5
"""How often a submit decides again on a row that others keep moving under its key."""


@dataclass(frozen=True, slots=True)
class Ways:
    """What a submit is carried out through."""

    rows: Rows
    payloads: PayloadStore
    queues: Callable[[Tier], TaskQueue]
    clock: Clock
    entropy: Entropy
    telemetry: Telemetry


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of one submit. `row` is the task's as this submit left or found it; of a failed one, as drafted."""

    draft: Draft
    row: Row
    status: Literal["submitted", "found", "unconfirmed", "failed"]
    error: TenureError | None = None
    reopened: bool = False
    unsent: bool = False
    """Of one that was found: its message may never have been sent."""

    @property
    def to_send(self) -> bool:
        """Whether its message is still to be sent."""
        return self.row.state is State.QUEUED and (
            self.status == "submitted" or (self.status == "found" and self.unsent)
        )


class Batch:
    """Submits carried out together: their rows are written side by side, their messages sent by ten.

    held: ordering groups, as (SQS queue, group), of which a send went unanswered. What follows in such a group is
    written but not sent, so that it cannot overtake; reconcile sends them in order. Shared by the batches of one call.
    """

    def __init__(self, ways: Ways, held: set[tuple[str, str]]) -> None:
        self._ways, self._held = ways, held

    def run(self, drafts: Sequence[Draft]) -> list[Submitted]:
        """Carry out each; an outcome for each, in order. Raises nothing for one of them."""
        done = [self._put_payload(each) for each in drafts]
        self._write_rows(done)
        resent = self._send(done)
        self._take_back(done, resent)
        for each in done:
            self._tell(each)
        return done

    # ---- payload and row ---------------------------------------------------------------------------------------
    def _put_payload(self, made: Draft) -> Submitted:
        place = made.row.payload
        if place is not None and place.kind != "inline":
            due_s = max(made.row.due_at_ms, made.stamp.now_ms) // 1000
            try:
                self._ways.payloads.put(place, made.submission.payload, due_s + limits.PAYLOAD_LIFE_SECONDS)
            except TenureError as error:
                return Submitted(made, made.row, "failed", error)
        return Submitted(made, made.row, "submitted")

    def _write_rows(self, done: list[Submitted]) -> None:
        places = [i for i, each in enumerate(done) if each.error is None]
        answers = self._ways.rows.replace_many([(None, done[i].row) for i in places])
        for i, answer in zip(places, answers, strict=True):
            done[i] = self._after_row(done[i].draft, answer)

    def _after_row(self, made: Draft, answer: RowOutcome) -> Submitted:
        wrote: Rely | Reopen | None = None
        for _ in range(ROW_TRIES):
            if isinstance(answer, Unknown):
                answer = self._look(made, answer)
            if isinstance(answer, Stands):
                return _stood(made, answer.row, wrote)
            if isinstance(answer, Unknown):
                return Submitted(made, made.row, "failed", _unanswered(made, answer))
            if answer.row is None:  # whatever was met there has passed its time to live meanwhile
                wrote, answer = None, self._ways.rows.replace(None, made.row)
                continue
            decision = resubmit(answer.row, made.row, made.stamp)
            if isinstance(decision, Conflict | Found):
                return _met(made, decision)
            wrote, answer = decision, self._ways.rows.replace(answer.row, decision.row)
        moving = ServiceError(f"task {made.row.id}: its row kept moving, so it was not submitted. Submit it again.")
        return Submitted(made, made.row, "failed", moving)

    def _look(self, made: Draft, unknown: Unknown) -> RowOutcome:
        """Read what an unanswered write has left: a row that bears its write id stands."""
        try:
            row = self._ways.rows.get(made.row.id)
        except (ServiceError, UnsupportedVersion):
            return unknown
        if row is None:
            return unknown  # not there yet: the write may still arrive
        return Stands(row) if row.write_id == made.stamp.write_id else Overtaken(row)

    # ---- message -----------------------------------------------------------------------------------------------
    def _send(self, done: list[Submitted]) -> dict[int, NotSent]:
        """Send what is to be sent, each queue's in order. Returns the definite refusals by place."""
        refused: dict[int, NotSent] = {}
        by_queue: dict[str, list[int]] = {}
        for i, each in enumerate(done):
            if each.to_send:
                by_queue.setdefault(each.draft.tier.name, []).append(i)
        for places in by_queue.values():
            for i, answer in self._send_to(done[places[0]].draft.tier, places, done):
                if isinstance(answer, Sent):
                    continue
                if answer.definite and done[i].status == "submitted":
                    refused[i] = answer
                else:
                    done[i] = self._unconfirmed(done[i], answer)
        return refused

    def _send_to(
        self, tier: Tier, places: Sequence[int], done: Sequence[Submitted]
    ) -> list[tuple[int, Sent | NotSent]]:
        answers: list[tuple[int, Sent | NotSent]] = []
        sends: list[tuple[int, Send]] = []
        for i in places:
            made = self._message(done[i])
            if isinstance(made, Send):
                sends.append((i, made))
            else:
                answers.append((i, made))
        sent = self._ways.queues(tier).send_many([send for _, send in sends])
        return answers + list(zip([i for i, _ in sends], sent, strict=True))

    def _message(self, each: Submitted) -> Send | NotSent:
        made, row = each.draft, each.row
        if (made.tier.name, made.group) in self._held:
            return NotSent(False, "HeldBack", "an earlier message of its group may not have been sent")
        try:
            body = made.body(row)
        except TooLarge as error:  # a row opened again has longer numbers than the draft that was checked
            return NotSent(True, "TooLarge", str(error))
        deduplication_id = row.deduplication_id if made.tier.ordered else ""
        return Send(body, made.group, deduplication_id, delay_seconds(row, self._ways.clock.now_ms()))

    def _unconfirmed(self, each: Submitted, answer: NotSent) -> Submitted:
        tier, row = each.draft.tier, each.row
        if tier.ordered:
            self._held.add((tier.name, each.draft.group))
        self._ways.telemetry.emit(
            "send.unknown", task_id=row.id, task=row.task, queue=row.queue, code=answer.code, error=answer.message
        )
        return each if each.status == "found" else replace(each, status="unconfirmed")

    # ---- refusals ----------------------------------------------------------------------------------------------
    def _take_back(self, done: list[Submitted], refused: dict[int, NotSent]) -> None:
        """End the rows whose messages SQS refused for certain, as long as nobody has moved them, and before another
        submit of the key may count on them without a write."""
        until_ms = self._ways.clock.now_ms() - limits.TAKE_BACK_SECONDS * 1000
        in_time = {i: answer for i, answer in refused.items() if done[i].row.submitted_at_ms > until_ms}
        for i in refused.keys() - in_time.keys():
            done[i] = self._unconfirmed(done[i], refused[i])
        changes = [(done[i].row, self._refused_row(done[i].row, answer)) for i, answer in in_time.items()]
        if not changes:
            return
        outcomes = self._ways.rows.replace_many(changes)
        for (i, answer), outcome in zip(in_time.items(), outcomes, strict=True):
            done[i] = self._after_refusal(done[i], answer, outcome)

    def _refused_row(self, row: Row, answer: NotSent) -> Row:
        stamp = Stamp(self._ways.clock.now_ms(), self._ways.entropy.token())
        return machine.refuse(row, stamp, answer.code)

    def _after_refusal(self, each: Submitted, answer: NotSent, outcome: RowOutcome) -> Submitted:
        why = f"{answer.code}: {answer.message}"
        if isinstance(outcome, Stands):
            return replace(each, row=outcome.row, status="failed", error=SubmitRefused(each.row.id, why))
        if isinstance(outcome, Overtaken):  # somebody has moved it, so it lives
            return self._unconfirmed(each, answer)
        error = ServiceError(
            f"task {each.row.id}: SQS refused its message ({why}), and the table did not answer when its row was to be "
            "taken back. Reconcile may still send it; cancel it by its id, or submit it again under the same key."
        )
        return replace(each, status="failed", error=error)

    def _tell(self, each: Submitted) -> None:
        row = each.row
        if each.error is None:
            self._ways.telemetry.emit(_event(each), task_id=row.id, task=row.task, queue=row.queue)
        elif isinstance(each.error, SubmitRefused):
            self._ways.telemetry.emit(
                "task.refused", task_id=row.id, task=row.task, queue=row.queue, error=each.error.reason
            )
        elif isinstance(each.error, ServiceError):
            self._ways.telemetry.emit(
                "submit.unknown", task_id=row.id, task=row.task, queue=row.queue, error=str(each.error)
            )


def _stood(made: Draft, row: Row, wrote: Rely | Reopen | None) -> Submitted:
    """What a write that stands comes to, by what it was for: on another's row, over a refused one, or a new one."""
    if isinstance(wrote, Rely):
        return Submitted(made, row, "found", unsent=wrote.send)
    return Submitted(made, row, "submitted", reopened=wrote is not None)


def _met(made: Draft, decision: Conflict | Found) -> Submitted:
    """What a row comes to that is left as it was found."""
    if isinstance(decision, Found):
        return Submitted(made, decision.row, "found", unsent=decision.send)
    return Submitted(made, made.row, "failed", KeyConflict(decision.row.id, decision.row.state.value))


def _event(each: Submitted) -> str:
    if each.status == "found":
        return "task.found"
    if each.reopened:
        return "task.reopened"
    return "task.scheduled" if each.row.state is State.SCHEDULED else "task.submitted"


def _unanswered(made: Draft, answer: Unknown) -> ServiceError:
    keyed = made.submission.options.idempotency_key is not None
    again = (
        "Submit it again: its key finds it if it exists" if keyed else "An idempotency key makes it safe to try again"
    )
    return ServiceError(
        f"task {made.row.id}: the table did not say whether its row was written ({answer.error}), so no message was "
        f"sent. If the row stands, reconcile sends it. {again}."
    )
