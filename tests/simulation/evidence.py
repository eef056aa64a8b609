"""What was seen of a simulated run, and by whom it can be retold. The auditor knows this and the workload, no more."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tenure.adapters.memory import World
from tenure.adapters.memory.message import Message
from tenure.adapters.memory.queue import MemoryQueue
from tenure.core.envelope import Envelope, decode
from tenure.core.errors import DecodeError
from tenure.core.task import FINAL, Row
from tenure.ports import Item
from tenure.rows import to_row


@dataclass(frozen=True)
class Start:
    """A handler was called."""

    name: str
    task_id: str
    fence: int
    attempt: int
    at_ms: int
    process: str
    row: Row | None
    """The row as the table held it at that moment."""


@dataclass(frozen=True)
class End:
    """A handler returned or raised."""

    task_id: str
    fence: int
    at_ms: int


@dataclass(frozen=True)
class Effect:
    """A handler wrote downstream, where a lower fence than the highest seen is refused."""

    name: str
    fence: int
    at_ms: int
    accepted: bool


@dataclass(frozen=True)
class Change:
    """A write of a row that took effect."""

    before: Row | None
    after: Row
    at_ms: int
    process: str


@dataclass(frozen=True)
class Mail:
    """Something that happened to a message."""

    what: str
    queue: str
    envelope: Envelope | None
    message_id: str
    letter: bool
    row: Row | None
    at_ms: int
    process: str


@dataclass(frozen=True)
class Told:
    """A producer's or an operator's answer, as it got it."""

    what: str
    name: str
    task_id: str
    detail: str
    at_ms: int


@dataclass
class Evidence:
    """Everything seen in one run."""

    world: World
    starts: list[Start] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    mail: list[Mail] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    deaths: list[tuple[int, str]] = field(default_factory=list)
    """(at_ms, process): killed, by chaos or by a handler."""
    stalls: list[tuple[int, str]] = field(default_factory=list)
    rows: dict[str, Row] = field(default_factory=dict)
    open_rows: int = 0
    names: dict[str, str] = field(default_factory=dict)
    """Task id -> the workload's name for it."""
    highest_fence: Counter[str] = field(default_factory=Counter)
    started: Counter[str] = field(default_factory=Counter)

    def watch_store(self) -> None:
        """See every write of a row."""
        self.world.store.watchers.append(self._written)

    def watch_queue(self, queue: MemoryQueue) -> None:
        """See every message of a queue come and go."""
        queue.watchers.append(lambda what, message: self._mailed(what, queue.name, message))

    def process(self) -> str:
        """Who acts now."""
        thread = self.world.scheduler.current()
        return thread.process.name if thread else "test"

    def effect(self, name: str, fence: int) -> bool:
        """A write downstream; whether it was accepted."""
        accepted = fence >= self.highest_fence[name]
        self.highest_fence[name] = max(fence, self.highest_fence[name])
        self.effects.append(Effect(name, fence, self.world.scheduler.now_ms, accepted))
        return accepted

    def tell(self, what: str, name: str, task_id: str, detail: str = "") -> None:
        """Note an answer."""
        self.told.append(Told(what, name, task_id, detail, self.world.scheduler.now_ms))

    def _written(self, before: Item | None, after: Item) -> None:
        if after.key.sk != "R":
            return
        row = to_row(after)
        old = self.rows.get(row.id) if before is not None else None
        self.open_rows += (row.state not in FINAL) - (old is not None and old.state not in FINAL)
        self.rows[row.id] = row
        self.changes.append(Change(old, row, self.world.scheduler.now_ms, self.process()))

    def _mailed(self, what: str, queue: str, message: Message) -> None:
        envelope: Envelope | None
        try:
            envelope = decode(message.body)
        except DecodeError:
            envelope = None
        row = self.rows.get(envelope.id) if envelope else None
        letter = "tenure-letter" in message.attributes
        now = self.world.scheduler.now_ms
        self.mail.append(Mail(what, queue, envelope, message.message_id, letter, row, now, self.process()))

    # ---- retelling ---------------------------------------------------------------------------------------------
    def story(self, task_id: str) -> str:
        """All that happened to one task, in order, one line each."""
        name = self.names.get(task_id, "?")
        lines: list[tuple[int, int, str]] = []

        def add(at_ms: int, text: str) -> None:
            lines.append((at_ms, len(lines), text))

        for change in self.changes:
            if change.after.id == task_id:
                add(change.at_ms, f"{change.process:16} row: {_row_text(change.before, change.after)}")
        for mail in self.mail:
            if mail.envelope is not None and mail.envelope.id == task_id:
                kind = "letter" if mail.letter else f"message(sends {mail.envelope.sends})"
                add(mail.at_ms, f"{mail.process:16} {kind} {mail.message_id[:6]} {mail.what} ({mail.queue})")
        for start in self.starts:
            if start.task_id == task_id:
                add(start.at_ms, f"{start.process:16} handler starts, fence {start.fence}, attempt {start.attempt}")
        for effect in self.effects:
            if effect.name == name:
                word = "accepted" if effect.accepted else "refused"
                add(effect.at_ms, f"{'':16} effect of fence {effect.fence} {word}")
        for told in self.told:
            if told.task_id == task_id or (told.name == name and not told.task_id):
                add(told.at_ms, f"{'':16} {told.what}: {told.detail}")
        for at_ms, process in self.deaths:
            add(at_ms, f"{process:16} DIES")
        for at_ms, process in self.stalls:
            add(at_ms, f"{process:16} stalls")
        for event in self.world.telemetry.events:
            if event.fields.get("task_id") == task_id:
                rest = " ".join(f"{k}={v}" for k, v in event.fields.items() if k not in ("task_id", "task", "queue"))
                add(event.at_ms, f"{event.process:16}   says {event.event} {rest}")
        start_ms = self.changes[0].at_ms if self.changes else 0
        body = [f"  {(at - start_ms) / 1000:10.3f} {text}" for at, _, text in sorted(lines)]
        return "\n".join([f"  story of {name} = {task_id}:", *body])


def _row_text(before: Row | None, after: Row) -> str:
    fields: dict[str, Any] = {
        "v": after.version,
        "fence": after.fence,
        "failures": after.failures,
        "losses": after.losses,
        "sends": after.sends,
    }
    marks = [name for name in ("claimed_alone", "message_gone", "letter_confirmed") if getattr(after, name, False)]
    if after.cancel_requested_at_ms:
        marks.append("cancel_requested")
    told = " ".join(f"{name}={value}" for name, value in fields.items())
    return f"{before.state if before else 'none'} -> {after.state} {told} {' '.join(marks)} {after.reason}"
