"""The producer's side: row if absent, then send. It needs no task code, and loads no worker.

What may go wrong on the way has one answer each. A definite refusal by SQS takes the row back (`cancelled`, refused)
and is raised. A send without an answer is a success: the row stands, and reconcile sends what nobody got. A row without
an answer is not sent, and raised: a message whose row may not exist would run nothing.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tenure.core.codec import plain_payload
from tenure.core.draft import Draft, Fresh, draft
from tenure.core.errors import InvalidTopology, TenureError, UsageError
from tenure.core.machine import Stamp
from tenure.core.submission import Options, Submission, TaskFacts, as_json, not_a_call
from tenure.core.topology import Tier, Topology
from tenure.handle import Handle, ItemOutcome, Progress, SubmitCounts, SubmitReport, World
from tenure.ports import Clock, Entropy, PayloadStore, TaskQueue, Telemetry
from tenure.rows import Rows
from tenure.submitting import Batch, Submitted, Ways

BATCH_ITEMS = 100
"""Submits worked on together: their rows are written side by side, their messages sent by ten."""
BATCH_PAYLOAD_BYTES = 8_388_608
"""A batch is closed earlier once it holds so much payload, so that memory stays bounded whatever is submitted."""
FAILURES_KEPT = 1000
"""Failures told one by one where the outcomes are not kept."""
UNTOLD = "tenure: it is not known whether task {id} was submitted"
"""Note at a KeyboardInterrupt that came between the first write of a submit and its answer."""


class Submittable(Protocol):
    """A call that can be submitted: what `Task.bind` and `Client.bind` give."""

    def submission(self) -> Submission:
        """Encode it. Raises InvalidPayload."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """A call by task name, not yet made. See Client.bind."""

    task: TaskFacts
    payload: Mapping[str, Any]
    options: Options

    def submission(self) -> Submission:
        """Check the payload against what is known of the task. Raises InvalidPayload."""
        return Submission(self.task, plain_payload(self.task, self.payload), self.options)


@dataclass(frozen=True, kw_only=True)
class Client:
    """Submits tasks of one app in one environment, and finds them again. Safe to share between threads.

    tasks:        what is known of the app's tasks, for submits by name.
    waiting_hint: a sentence for whoever waits in vain for a result, where nobody works by itself (in a test).
    """

    app_name: str
    topology: Topology
    rows: Rows
    payloads: PayloadStore
    queues: Callable[[Tier], TaskQueue]
    clock: Clock
    entropy: Entropy
    telemetry: Telemetry
    tasks: Mapping[str, TaskFacts] = field(default_factory=dict)
    waiting_hint: str = ""

    # ---- by name -----------------------------------------------------------------------------------------------
    def bind(
        self, task: str, payload: Mapping[str, Any], *, options: Options | None = None, queue: str | None = None
    ) -> Call:
        """A call of a task by name, not yet made.

        payload: the arguments by name, as JSON knows them.
        queue:   needed only for a task of which nothing is published; it is then taken at your word.

        Raises UsageError for a task that nothing is known of.
        """
        return Call(self._facts(task, queue), payload, options or Options())

    def submit(
        self, task: str, payload: Mapping[str, Any], *, options: Options | None = None, queue: str | None = None
    ) -> Handle[Any]:
        """Submit a task by name; see `bind` for the arguments and `submit_one` for what is raised.

        The names of the arguments are checked against what is published of the task (if anything is), and that the
        values are plain JSON. Their types are not published: a value that does not fit is found by the worker, which
        buries the task at once, as InvalidPayload.
        """
        return self.submit_one(self.bind(task, payload, options=options, queue=queue).submission())

    async def asubmit(
        self, task: str, payload: Mapping[str, Any], *, options: Options | None = None, queue: str | None = None
    ) -> Handle[Any]:
        """`submit` in a thread, so that the event loop goes on."""
        return await asyncio.to_thread(self.submit, task, payload, options=options, queue=queue)

    def handle(
        self, task_id: str, decode_result: Callable[[str | None], Any] | None = None, *, task: str = ""
    ) -> Handle[Any]:
        """A handle for a task that was submitted before, here or elsewhere. Asks nobody.

        decode_result: how its result is read; as plain JSON by default.
        task:          the name of the task that it must be of; any by default.
        """
        return Handle(task_id, self._world(), decode_result or as_json, task=task)

    def hidden_seconds(self, queue: str) -> int:
        """For how long a queue hides a message that was received; 0 for a queue that is no longer there."""
        try:
            return self.topology.visibility_seconds(queue)
        except InvalidTopology:
            return 0

    # ---- one and many ------------------------------------------------------------------------------------------
    def submit_one(self, submission: Submission) -> Handle[Any]:
        """Submit one task.

        Raises, before anything exists, a UsageError by kind (InvalidTask, InvalidTopology, InvalidPayload, TooLarge,
        NotBuilt); KeyConflict where the key stands for other work; SubmitRefused if SQS said no, after the row was
        taken back; ServiceError if the table did not answer, so that it is not known whether the task exists.
        A KeyboardInterrupt while it is under way bears a note with the task's id.
        """
        made = self._draft(submission)
        try:
            outcome = Batch(self._ways(), set()).run([made])[0]
        except KeyboardInterrupt as error:
            error.add_note(UNTOLD.format(id=made.row.id))
            raise
        if outcome.error is not None:
            raise outcome.error
        return self._handle(outcome)

    def submit_many(
        self, calls: Iterable[Submittable], *, progress: Progress | None = None, keep_outcomes: bool = True
    ) -> SubmitReport:
        """Submit many calls in batches; each has its own outcome, and one that fails hinders none.

        calls:         any iterable of any length, read as the batches go.
        progress:      called after each batch with the counts so far.
        keep_outcomes: False keeps only the counts and the first failures, so that memory does not grow with `calls`.

        What `calls` itself raises is raised on, with a note of how many were dealt with: all before it were submitted.
        Raises UsageError for an item that is no call.
        """
        run = _Run(self, progress, keep_outcomes)
        try:
            for call in _iterable(calls):
                run.add(call)
        except BaseException as error:
            run.flush()
            error.add_note(f"tenure: the {run.counts.done} calls before this were dealt with: {run.counts}")
            raise
        run.flush()
        return SubmitReport(run.counts, tuple(run.outcomes))

    async def asubmit_many(
        self, calls: Iterable[Submittable], *, progress: Progress | None = None, keep_outcomes: bool = True
    ) -> SubmitReport:
        """`submit_many` in a thread; `calls` is read and `progress` called there too."""
        return await asyncio.to_thread(self.submit_many, calls, progress=progress, keep_outcomes=keep_outcomes)

    # ---- pieces ------------------------------------------------------------------------------------------------
    def _facts(self, name: str, queue: str | None) -> TaskFacts:
        known = self.tasks.get(name)
        if known is not None and queue in (None, known.queue):
            return known
        if known is not None:
            raise UsageError(f"task {name!r} goes to queue {known.queue!r}, not to {queue!r}. Leave the queue out.")
        if queue is None:
            names = ", ".join(sorted(self.tasks)) or "none"
            near = difflib.get_close_matches(name, self.tasks, n=1)
            meant = f"Did you mean {near[0]!r}? " if near else ""
            raise UsageError(
                f"nothing is published of a task {name!r} in environment {self.topology.environment!r} of app "
                f"{self.app_name!r}. {meant}Published: {names}. Deploy the task first, or "
                "name its queue (queue=, --queue)."
            )
        return TaskFacts(name=name, queue=queue)

    def _draft(self, submission: Submission) -> Draft:
        stamp = Stamp(self.clock.now_ms(), self.entropy.token(), by=self.app_name)
        fresh = Fresh(self.entropy.token(), self.entropy.token())
        made = draft(submission, self.topology, fresh, stamp, self.payloads.kind_for)
        self.queues(made.tier)  # a queue that cannot be reached at all is met here, before anything exists
        return made

    def _ways(self) -> Ways:
        return Ways(self.rows, self.payloads, self.queues, self.clock, self.entropy, self.telemetry)

    def _world(self) -> World:
        hint = f" {self.waiting_hint}" if self.waiting_hint else ""
        return World(
            self.rows, self.payloads, self.clock, self.entropy, self.telemetry, hint, hidden_seconds=self.hidden_seconds
        )

    def _handle(self, outcome: Submitted) -> Handle[Any]:
        decode = outcome.draft.submission.decode_result
        return Handle(outcome.row.id, self._world(), decode, found=outcome.status == "found")


class _Run:
    """One submit_many under way."""

    def __init__(self, client: Client, progress: Progress | None, keep: bool) -> None:
        self._client, self._progress, self._keep = client, progress, keep
        self._held: set[tuple[str, str]] = set()
        self._waiting: list[tuple[int, Draft]] = []
        self._waiting_bytes = 0
        self._failed: list[ItemOutcome] = []
        self._seen = 0
        self.counts = SubmitCounts()
        self.outcomes: list[ItemOutcome] = []

    def add(self, call: Submittable) -> None:
        index, self._seen = self._seen, self._seen + 1
        if not hasattr(call, "submission"):
            raise UsageError(not_a_call(index, call, "TASK.bind(...), or client.bind(NAME, {...})"))
        try:
            made = self._client._draft(call.submission())
        except TenureError as error:
            self._failed.append(ItemOutcome(index, "failed", error=error))
        else:
            self._waiting.append((index, made))
            self._waiting_bytes += len(made.submission.payload)
        full = len(self._waiting) + len(self._failed) >= BATCH_ITEMS
        if full or self._waiting_bytes >= BATCH_PAYLOAD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Submit what is waiting, and tell of it."""
        if not self._waiting and not self._failed:
            return
        made = Batch(self._client._ways(), self._held).run([each for _, each in self._waiting])
        done = [self._item(index, one) for (index, _), one in zip(self._waiting, made, strict=True)]
        done = sorted([*done, *self._failed], key=lambda item: item.index)
        self._waiting, self._failed, self._waiting_bytes = [], [], 0
        self.counts = _added(self.counts, done)
        if self._keep:
            self.outcomes += done
        elif len(self.outcomes) < FAILURES_KEPT:
            self.outcomes += [item for item in done if item.error is not None][: FAILURES_KEPT - len(self.outcomes)]
        if self._progress is not None:
            self._progress(self.counts)

    def _item(self, index: int, outcome: Submitted) -> ItemOutcome:
        if outcome.error is not None:
            return ItemOutcome(index, "failed", error=outcome.error)
        return ItemOutcome(index, outcome.status, self._client._handle(outcome))


def _iterable(calls: Iterable[Submittable]) -> Iterable[Submittable]:
    if hasattr(calls, "submission"):
        raise UsageError("submit_many takes many calls, and was given one. Put it in a list, or use submit.")
    return calls


def _added(counts: SubmitCounts, items: Sequence[ItemOutcome]) -> SubmitCounts:
    def more(status: str) -> int:
        return sum(1 for item in items if item.status == status)

    return SubmitCounts(
        submitted=counts.submitted + more("submitted"),
        found=counts.found + more("found"),
        unconfirmed=counts.unconfirmed + more("unconfirmed"),
        failed=counts.failed + more("failed"),
    )
