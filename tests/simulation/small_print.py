"""More rules of the auditor: lives, payloads, budgets, announced sends, letters, and waits for nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from tenure.core.task import FINAL, Row, State
from tests.simulation.evidence import Change, Evidence
from tests.simulation.fault import Fault, Terms
from tests.simulation.workload import MAX_ATTEMPTS, Planned

FREE_ACTS = ("snooze",)
"""What a handler may do for nothing."""
KEPT_WAITING_MS = 100_000
"""How late an ordered task may start that is due again, where nothing goes wrong: others of its worker run first."""


class SmallPrint:
    """Looks for broken rules; see Auditor."""

    def __init__(self, plan: Mapping[str, Planned], evidence: Evidence, terms: Terms) -> None:
        self._plan = plan
        self._evidence = evidence
        self._terms = terms

    def audit(self) -> Iterator[Fault]:
        """Every broken rule."""
        yield from self._lives()
        yield from self._payloads()
        yield from self._budget_left()
        yield from self._free_attempts()
        yield from self._last_letters()
        yield from self._cancels_heeded()
        if self._terms.sure:
            yield from self._swallowed()
            yield from self._kept_waiting()

    def _planned(self, task_id: str) -> Planned | None:
        return self._plan.get(self._evidence.names.get(task_id, ""))

    def _lives(self) -> Iterator[Fault]:
        """A life begins where no row is, and not before the one before it may be forgotten."""
        last: dict[str, Row] = {}
        for change in self._evidence.changes:
            before, after = change.before, change.after
            if before is not None and before.birth != after.birth:
                yield Fault("life overwritten", after.id, f"a row of birth {before.birth} by one of {after.birth}")
            old = last.get(after.id)
            if before is None and old is not None:
                if old.state not in FINAL:
                    yield Fault("forgotten while open", after.id, f"it was {old.state}")
                elif change.at_ms < old.ended_at_ms + self._terms.life_seconds * 1000 - 5000:
                    yield Fault("forgotten too early", after.id, f"{(change.at_ms - old.ended_at_ms) / 1000:.0f} s old")
            last[after.id] = after

    def _payloads(self) -> Iterator[Fault]:
        """A handler is given what was submitted under its key, never what a refused submit brought along."""
        told: dict[str, set[str]] = defaultdict(set)
        for answer in self._evidence.told:
            if answer.what == "submitted":
                told[answer.task_id].add(answer.rival)
        for start in self._evidence.starts:
            taken = told[start.task_id]
            if len(taken) != 1 or len(self._lives_of(start.task_id)) > 1:
                continue
            if start.filler and start.filler not in taken:
                yield Fault("wrong payload", start.task_id, f"fence {start.fence} was given a refused submit's")

    def _lives_of(self, task_id: str) -> set[str]:
        return {change.after.birth for change in self._evidence.changes if change.after.id == task_id}

    def _budget_left(self) -> Iterator[Fault]:
        """A task is buried when its attempts are used up, or it gave up, or its time is over; never before."""
        for change in self._evidence.changes:
            row = change.after
            if not _is_burial(change):
                continue
            gave_up = any(s.task_id == row.id and s.act == "give_up" for s in self._evidence.starts)
            known = row.task in MAX_ATTEMPTS and self._planned(row.id) is not None
            if not known or gave_up or row.deadline_at_ms:
                continue
            if row.failures + row.losses < MAX_ATTEMPTS[row.task]:
                yield Fault("buried with budget left", row.id, f"{row.failures} failures, {row.losses} losses")

    def _free_attempts(self) -> Iterator[Fault]:
        """An attempt that was begun and given back costs something, unless it left a checkpoint or asked for later."""
        acts = {(start.task_id, start.fence): start.act for start in self._evidence.starts}
        for change in self._evidence.changes:
            before, after = change.before, change.after
            if before is None or before.state is not State.LEASED or after.state not in (State.QUEUED, State.RETRYING):
                continue
            act = acts.get((before.id, before.fence), "snooze")
            if act not in FREE_ACTS and after.failures == before.failures and after.checkpoint_fence != after.fence:
                yield Fault("attempt cost nothing", after.id, f"fence {before.fence}, which did: {act}")

    def _last_letters(self) -> Iterator[Fault]:
        """Of each dead letter that is open at the end a letter was sent since its burial, and one lies in the DLQ."""
        letters = [mail for mail in self._evidence.mail if mail.letter and "-dead" in mail.queue and mail.envelope]
        left = self._evidence.letters_left
        for row in self._evidence.rows.values():
            if row.state is not State.DEAD_LETTERED or row.disposition is None or row.disposition.kind != "open":
                continue
            sent = [m for m in letters if m.what == "sent" and m.envelope and m.envelope.id == row.id]
            if not any(m.at_ms >= row.ended_at_ms - 5000 for m in sent):
                yield Fault("dead without a letter", row.id, "none was sent since it was buried")
            elif all(m.message_id not in left for m in sent):
                yield Fault("letter lost", row.id, "its dead letter is open, and none lies in the DLQ")

    def _cancels_heeded(self) -> Iterator[Fault]:
        """Once a running task was asked to stop, nobody claims it any more."""
        asked = {t.task_id: t.at_ms for t in self._evidence.told if t.what == "cancel" and t.detail == "requested"}
        births: dict[str, str] = {}
        for change in self._evidence.changes:
            row = change.after
            if change.at_ms <= asked.get(row.id, 0):
                births[row.id] = row.birth
            elif _is_claim(change) and not row.replays and births.get(row.id) == row.birth:
                yield Fault("ran though cancelled", change.after.id, "claimed after it was asked to stop")

    def _swallowed(self) -> Iterator[Fault]:
        """Each send that a row announces comes to its queue, and each burial has a letter of its own."""
        letters = Counter(m.envelope.id for m in self._evidence.mail if m.what == "sent" and m.letter and m.envelope)
        burials = Counter(change.after.id for change in self._evidence.changes if _is_burial(change))
        for task_id, count in burials.items():
            if letters[task_id] < count:
                yield Fault("burial without a letter", task_id, f"{count} burials, {letters[task_id]} letters")
        came = {(m.envelope.id, m.envelope.sends) for m in self._evidence.mail if m.what == "sent" and m.envelope}
        for row in self._evidence.rows.values():
            missing = [number for number in range(1, row.sends + 1) if (row.id, number) not in came]
            if missing and self._planned(row.id) is not None and row.reason != "refused":
                yield Fault("send swallowed", row.id, f"numbers {missing} of {row.sends}")

    def _kept_waiting(self) -> Iterator[Fault]:
        """An ordered task that is due again starts soon, where no worker was lost and none is held up by a hang."""
        if self._evidence.deaths or any(start.act == "hang" for start in self._evidence.starts):
            return
        starts: dict[str, list[int]] = defaultdict(list)
        for start in self._evidence.starts:
            starts[start.task_id].append(start.at_ms)
        for change in self._evidence.changes:
            row = change.after
            if row.state is not State.RETRYING or not row.ordering_key:
                continue
            next_ms = next((at_ms for at_ms in starts[row.id] if at_ms > change.at_ms), None)
            due_ms = max(row.due_at_ms, change.at_ms)
            if next_ms is not None and next_ms > due_ms + KEPT_WAITING_MS:
                yield Fault("kept waiting", row.id, f"{(next_ms - due_ms) / 1000:.0f} s after it was due")


def _is_burial(change: Change) -> bool:
    dead = State.DEAD_LETTERED
    return change.after.state is dead and (change.before is None or change.before.state is not dead)


def _is_claim(change: Change) -> bool:
    before, after = change.before, change.after
    return after.state is State.LEASED and (before is None or before.lease_token != after.lease_token)
