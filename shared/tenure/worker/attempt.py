"""One attempt: the handler called with its arguments and its context, and its ending made an outcome."""

from __future__ import annotations

import contextvars
import copy
import inspect
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from typing import Any

from tenure.application import TaskDefinition
from tenure.core import lease, limits, machine, outcome
from tenure.core.envelope import canonical
from tenure.core.errors import InvalidPayload, PayloadMissing, ServiceError
from tenure.core.machine import Stamp
from tenure.core.outcome import Failed, LeaseLost, Lost, Outcome, Released, Succeeded
from tenure.core.retry import Retry
from tenure.core.task import Row, Stored
from tenure.worker import context
from tenure.worker.coroutines import Coroutines
from tenure.worker.held import Held
from tenure.worker.holder import Holder
from tenure.worker.settling import UNSURE_SECONDS, EngineParts, Settler


class RunningAttempt:
    """An attempt while its handler runs: what Context asks of the engine."""

    def __init__(self, held: Held, row: Row, parts: EngineParts, holder: Holder, settler: Settler) -> None:
        self._held = held
        self._parts = parts
        self._holder = holder
        self._settler = settler
        self.task_id = row.id
        self.attempt = row.attempt
        self.fence = row.fence
        self._saved: dict[str, Any] | None = None
        self._saving = parts.threads.lock()
        """Held while what is saved is read, changed and written, so that no thread of a handler undoes another's."""

    def remaining(self) -> float:
        """Seconds until its timeout or its process's end."""
        ends = [at for at in (self._held.stops_at_ms, self._held.dies_at_ms) if at]
        return max(0.0, (min(ends) - self._parts.clock.now_ms()) / 1000) if ends else float("inf")

    def stopping(self) -> bool:
        """Whether the handler should stop."""
        return self._held.cancelled or self._held.lost

    def lost(self) -> bool:
        """Whether the lease is gone: told by the heartbeat, or settled over the handler's head by its timeout."""
        return self._held.lost or self._held.settled

    def set_progress(self, fraction: float) -> None:
        """Kept until the next heartbeat."""
        self._held.progress_permille = round(fraction * 1000)

    def load_checkpoint(self) -> Any:
        """The newest checkpoint's value."""
        with self._saving:
            return copy.deepcopy(self._load()["value"])

    def save_checkpoint(self, value: Any) -> None:
        """Write it with a beat, at once."""
        with self._saving:
            self._save(self._load() | {"value": value})

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Run once, record, give the record to later attempts."""
        with self._saving:
            steps = self._load()["steps"]
            if name in steps:
                return copy.deepcopy(steps[name])
        result = function()  # which may save something itself
        with self._saving:
            saved = self._load()
            if name in saved["steps"]:  # by another thread meanwhile; later attempts get that one, so this one does
                return copy.deepcopy(saved["steps"][name])
            self._save(saved | {"steps": saved["steps"] | {name: result}})
        return result

    def _load(self) -> dict[str, Any]:
        if self._saved is None:
            row = self._held.row
            place = row.checkpoint if row else None
            text = "" if place is None else place.value if place.kind == "inline" else self._checkpoint(place)
            self._saved = json.loads(text) if text else {"value": None, "steps": {}}
        return self._saved

    def _checkpoint(self, place: Stored) -> str:
        """Its text; "" where it has passed away, since a task may rest for longer than a checkpoint is kept: what was
        done is done again, rather than never anything more."""
        try:
            return self._parts.payloads.get(place)
        except PayloadMissing as error:
            self._parts.telemetry.emit("checkpoint.missing", task_id=self.task_id, error=str(error))
            return ""

    def _save(self, saved: dict[str, Any]) -> None:
        text = _json_text(saved, f"the checkpoint of task {self.task_id}")
        # The text first, outside the message's lock: the heartbeat thread waits for that, and others for it.
        now = self._parts.stamp()
        expires = now.now_ms // 1000 + limits.CHECKPOINT_LIFE_SECONDS
        place = self._settler.store(f"{self.task_id}/C/{now.write_id}", text, expires)

        def write(row: Row, stamp: Stamp) -> Row:
            lease_seconds = self._held.lease_seconds_at(stamp.now_ms)
            # Progress too: checkpoints that come faster than beats put every beat off.
            return machine.checkpointed(row, stamp, lease_seconds, place, self._held.progress_permille)

        if not self._holder.beat(self._held, write) or self.lost():
            raise LeaseLost(f"task {self.task_id}: this attempt no longer owns it; its checkpoint was not recorded")
        self._saved = json.loads(text)


def _returned(held: Held) -> None:
    """Its own return stands: what it left behind, and is still to end, is not timed."""
    if not held.timed_out:
        held.stops_at_ms = 0


def _json_text(value: Any, what: str) -> str:
    try:
        text = canonical(value)
        same = json.loads(text) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidPayload(f"{what} is not a JSON value: {error}") from None
    if not same:
        raise InvalidPayload(f"{what} would not come back as it is (a key that is not text, or a tuple).")
    return text


def _has_not_run(value: Any) -> bool:
    """Whether a return value stands for work that nobody has done, or waited for. A file is an iterator, and done."""
    unrun = (AsyncIterator, Awaitable, Future)
    return isinstance(value, unrun) or (isinstance(value, Iterator) and not isinstance(value, io.IOBase))


class Invoker:
    """Calls handlers and makes one of a closed set of outcomes of whatever they do."""

    def __init__(self, parts: EngineParts, holder: Holder, settler: Settler) -> None:
        self._parts = parts
        self._holder = holder
        self._settler = settler
        self.coroutines = Coroutines(parts.threads, parts.loops)

    def run(self, held: Held, row: Row) -> Outcome:
        """The outcome of one attempt. Never raises: whatever the handler does is that task's own ending."""
        definition = held.definition
        if definition is None:
            return Released(started=False)
        try:
            args, kwargs = definition.decode(self._payload(held, row))
        except (InvalidPayload, PayloadMissing) as error:  # neither is mended by waiting; a replay finds it put back
            return Failed(outcome.describe(error), retriable=False)
        except ServiceError as error:
            self._parts.telemetry.emit("payload.unread", task_id=row.id, error=str(error))
            return Released(started=False, wait_seconds=UNSURE_SECONDS)  # at once, it would go round as fast as it can
        now = self._parts.clock.now_ms()
        if held.lost or (held.row and lease.ended(held.row.lease_end_at_ms, now)):
            return Lost()  # while the payload was fetched; nothing is left to wait for between this look and the call
        held.stops_at_ms = now + round(definition.timeout_seconds * 1000)
        held.started_at_ms = now
        # As a new thread has it: what a handler sets (a tenant, the precision of decimals) is not the next one's.
        return contextvars.Context().run(self._attempt, held, row, definition, args, kwargs)

    def _attempt(self, held: Held, row: Row, definition: TaskDefinition, args: Any, kwargs: Any) -> Outcome:
        leave = context.enter(RunningAttempt(held, row, self._parts, self._holder, self._settler))
        try:
            value = self._call(held, definition.function, args, kwargs)
            return self._succeeded(held, value)
        except BaseException as error:  # SystemExit and the like are this task's failure, never the worker's end
            return self._failed(held, error)
        finally:
            leave()

    def _payload(self, held: Held, row: Row) -> str:
        """The arguments' text: the message's own if it is the row's, else where the row says (an edited payload)."""
        if held.envelope.payload is not None and held.envelope.digest == row.digest:
            return held.envelope.payload
        if row.payload is None:
            raise InvalidPayload(f"task {row.id} has no payload")
        return row.payload.value if row.payload.kind == "inline" else self._parts.payloads.get(row.payload)

    def _call(self, held: Held, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        if not inspect.iscoroutine(value):
            return value
        try:
            result, left = self.coroutines.run(
                value, lambda cancel: setattr(held, "interrupt", cancel), lambda: _returned(held)
            )
        finally:
            held.interrupt = None
        if left:
            self._parts.telemetry.emit("task.leftovers", task_id=held.envelope.id, count=left)
        return result

    def _succeeded(self, held: Held, value: Any) -> Outcome:
        definition = held.definition
        if definition is None or _has_not_run(value):
            kind = type(value).__name__
            error = InvalidPayload(
                f"the handler returned a {kind}, whose work is still to be done. Await or consume it in the handler."
            )
            return Failed(outcome.describe(error), retriable=False)
        try:
            return Succeeded(definition.encode_result(value))
        except Exception as error:
            # The work is done: completed without a result, rather than run again.
            return Succeeded(None, outcome.describe(error))

    def _failed(self, held: Held, error: BaseException) -> Outcome:
        if held.lost:
            return Lost()
        ending = outcome.of_exception(error, held.definition.retry if held.definition else Retry())
        if held.handing_over and isinstance(ending, Failed) and ending.retriable:
            return Released(started=True)
        return ending
