"""Judges a run from its evidence. It shares no code with the engine: it knows what was submitted and what was seen."""

from __future__ import annotations

from collections import defaultdict

from tenure.core import limits
from tenure.core.task import FINAL, Row, State
from tests.simulation.evidence import Evidence, Start
from tests.simulation.fault import Fault, Terms
from tests.simulation.small_print import SmallPrint
from tests.simulation.workload import MAX_ATTEMPTS, Planned, result_of

__all__ = ["Auditor", "Fault"]

SKEW_MS = 5000
PAUSE_NOTICED_MS = 15_000
STARTS_MAX = 60
SENDS_MAX = 20


class Auditor:
    """Looks for broken rules."""

    def __init__(
        self, plan: list[Planned], evidence: Evidence, terms: Terms | None = None, *, may_lapse: bool = False
    ) -> None:
        self._plan = {planned.name: planned for planned in plan}
        self._evidence = evidence
        self._terms = terms or Terms(may_lapse=may_lapse)
        self._may_lapse = self._terms.may_lapse
        self.faults: list[Fault] = []
        self._claims = {
            (change.after.id, change.after.fence): change
            for change in evidence.changes
            if _is_claim(change.before, change.after)
        }

    def audit(self) -> list[Fault]:
        """Every broken rule."""
        self._nothing_lost()
        self._one_ending()
        self._fences()
        self._strangers()
        self._attempts()
        self._no_run_out_of_place()
        self._order()
        self._halted_keys()
        self._deletes()
        self._letters()
        self._results()
        self._innocents()
        self._alone()
        self._paused()
        self._cancels()
        self.faults += SmallPrint(self._plan, self._evidence, self._terms).audit()
        return self.faults

    def _fault(self, rule: str, task_id: str, detail: str = "") -> None:
        self.faults.append(Fault(rule, task_id, detail))

    def _name(self, task_id: str) -> str:
        names = self._evidence.names
        if task_id not in names:  # its producer died before it was told
            names.update({start.task_id: start.name for start in self._evidence.starts if start.task_id == task_id})
        return names.get(task_id, "")

    # ---- the rules ---------------------------------------------------------------------------------------------
    def _nothing_lost(self) -> None:
        """Whatever a producer was told is submitted has ended, and no row is left open."""
        rows = self._evidence.rows
        for told in self._evidence.told:
            if told.what == "submitted" and told.task_id not in rows:
                self._fault("lost", told.task_id, "a submit was acknowledged, and there is no row")
        for row in rows.values():
            if row.state not in FINAL:
                self._fault("unfinished", row.id, f"left {row.state}")
        for name, planned in self._plan.items():
            ids = {t.task_id for t in self._evidence.told if t.what == "submitted" and t.name == name}
            if planned.idempotency_key is not None and len(ids) > 1:
                self._fault("doubled submit", min(ids), f"one key became {len(ids)} tasks")

    def _one_ending(self) -> None:
        """What has ended stays as it ended; only a replay may open it."""
        for change in self._evidence.changes:
            before, after = change.before, change.after
            if before is None or before.state not in FINAL or before.birth != after.birth:
                continue
            replayed = after.replays > before.replays
            reopened = before.reason == "refused"
            if after.state != before.state and not replayed and not reopened:
                self._fault("second ending", after.id, f"{before.state} became {after.state}")

    def _fences(self) -> None:
        """Each claim has a fence of its own, higher than all before it; each start has its claim's."""
        for change in self._evidence.changes:
            before, after = change.before, change.after
            claimed = after.state is State.LEASED and (before is None or before.lease_token != after.lease_token)
            if claimed and before is not None and after.fence <= before.fence:
                self._fault("fence did not rise", after.id, f"{before.fence} -> {after.fence}")
            if claimed and before is not None and change.at_ms < before.lease_end_at_ms:
                self._fault("live lease taken", after.id, f"{before.lease_end_at_ms - change.at_ms} ms before its end")
        seen: dict[tuple[str, int], int] = {}
        for start in self._evidence.starts:
            since_ms = start.at_ms - seen.get((start.task_id, start.fence), 0)
            if since_ms < self._terms.life_seconds * 1000:
                self._fault("one fence started twice", start.task_id, f"fence {start.fence}")
            seen[start.task_id, start.fence] = start.at_ms
        highest: dict[str, int] = {}
        for effect in self._evidence.effects:
            if effect.accepted and effect.fence < highest.get(effect.name, 0):
                self._fault("late effect accepted", effect.name, f"fence {effect.fence}")
            highest[effect.name] = max(effect.fence, highest.get(effect.name, 0))

    def _strangers(self) -> None:
        """While a lease is live, only its holder settles."""
        settled = (State.COMPLETED, State.RETRYING, State.QUEUED, State.DEAD_LETTERED)
        for change in self._evidence.changes:
            before = change.before
            if before is None or before.state is not State.LEASED or change.after.state not in settled:
                continue
            if change.process != before.worker and change.at_ms < before.lease_end_at_ms:
                self._fault("settled by a stranger", before.id, f"{change.process}, held by {before.worker}")

    def _attempts(self) -> None:
        """Failures and losses never exceed the budget; starts and sends are bounded."""
        for row in self._evidence.rows.values():
            if row.failures + row.losses > MAX_ATTEMPTS.get(row.task, STARTS_MAX):
                self._fault("budget exceeded", row.id, f"{row.failures} failures, {row.losses} losses")
            if row.sends > SENDS_MAX:
                self._fault("flood", row.id, f"sent {row.sends} times")
            if self._evidence.started[self._name(row.id)] > STARTS_MAX:
                self._fault("unbounded", row.id, "started over and over")

    def _no_run_out_of_place(self) -> None:
        """No start after the end, before the due time, past the deadline, or after a cancel was granted."""
        ended: dict[str, list[tuple[int, Row]]] = defaultdict(list)
        for change in self._evidence.changes:
            if change.after.state in FINAL:
                ended[change.after.id].append((change.at_ms, change.after))
        for start in self._evidence.starts:
            for at_ms, row in ended[start.task_id]:
                same_life = start.row is not None and start.row.replays == row.replays and row.reason != "refused"
                same_life = same_life and start.row is not None and start.row.birth == row.birth
                remembered = start.at_ms - at_ms < self._terms.life_seconds * 1000
                if at_ms < start.at_ms and same_life and remembered:
                    self._fault("ran after its end", start.task_id, f"{row.state} {start.at_ms - at_ms} ms before")
            self._start_in_time(start)

    def _start_in_time(self, start: Start) -> None:
        row = start.row
        if row is None:
            self._fault("ran without a row", start.task_id)
            return
        claimed = self._claims.get((start.task_id, start.fence))
        if claimed is None:
            self._fault("ran without a claim", start.task_id, f"fence {start.fence}")
            return
        before = claimed.before
        if before and before.state is not State.LEASED and claimed.at_ms < before.due_at_ms - SKEW_MS:
            self._fault("ran too early", start.task_id, f"{before.due_at_ms - claimed.at_ms} ms before it was due")
        decided_at_ms = claimed.after.last_started_at_ms  # the write may have been on its way for a while
        if row.deadline_at_ms and decided_at_ms > row.deadline_at_ms + SKEW_MS:
            self._fault("ran past its deadline", start.task_id, f"by {decided_at_ms - row.deadline_at_ms} ms")
        if before and before.cancel_requested_at_ms:
            self._fault("ran though cancelled", start.task_id, "its cancel was asked for before this claim")
        if row.fence != start.fence or row.state is not State.LEASED:
            self._fault("started on a lost lease", start.task_id, f"its row was {row.state}, fence {row.fence}")
        elif start.at_ms > row.lease_end_at_ms + SKEW_MS:
            self._fault("started on a lapsed lease", start.task_id, f"{start.at_ms - row.lease_end_at_ms} ms after")

    def _order(self) -> None:
        """Within a key, in the order in which messages first came into the queue, a task starts only after all
        before it have ended."""
        arrived: dict[str, int] = {}
        for number, mail in enumerate(self._evidence.mail):
            if mail.what == "sent" and mail.envelope is not None and mail.envelope.key and not mail.letter:
                arrived.setdefault(mail.envelope.id, number)
        keys = {row.id: row.ordering_key for row in self._evidence.rows.values() if row.ordering_key}
        ended: dict[str, int] = {}
        for change in self._evidence.changes:
            if self._lets_others_by(change.after):
                ended.setdefault(change.after.id, change.at_ms)
        for start in self._evidence.starts:
            key = keys.get(start.task_id)
            for other in [i for i, k in keys.items() if key and k == key and i != start.task_id]:
                before = arrived.get(other, 10**9) < arrived.get(start.task_id, -1)
                if before and ended.get(other, 10**15) > start.at_ms:
                    self._fault("out of order", start.task_id, f"started before {self._name(other)} = {other} ended")

    def _lets_others_by(self, row: Row) -> bool:
        """Whether what comes after it on its key may run: it has ended, and where dead letters halt their key, it is
        no open one."""
        is_open = row.disposition is not None and row.disposition.kind == "open"
        return row.state in FINAL and not (self._terms.halts and row.state is State.DEAD_LETTERED and is_open)

    def _halted_keys(self) -> None:
        """People have decided about every dead head, so that no key is left halted and nothing waits."""
        for key in sorted(self._evidence.keys_halted):
            self._fault("key left halted", "", f"key {key}")

    def _deletes(self) -> None:
        """A message leaves the queue only when its task has ended, or its row has taken over the wait."""
        for mail in self._evidence.mail:
            if mail.what not in ("deleted", "expired") or mail.letter or "-dead" in mail.queue:
                continue
            row = mail.row
            if mail.envelope is None or row is None or row.birth != mail.envelope.birth:
                continue
            if row.state not in FINAL and not self._done_with(row.id, mail.envelope.sends, mail.at_ms):
                self._fault(f"{mail.what} too early", row.id, f"its row is {row.state}")
            buried = row.state is State.DEAD_LETTERED and not row.replays and not _is_discarded(row)
            if buried and not self._has_letter(row.id, mail.at_ms):
                self._fault(f"{mail.what} before its letter was sent", row.id)
        for row in self._evidence.rows.values():
            if any(m.envelope is not None and m.envelope.id == row.id for m in self._left()):
                self._fault("message left", row.id, f"its row is {row.state}")

    def _done_with(self, task_id: str, sends: int, at_ms: int) -> bool:
        """Whether a row had said by then that it needs this message no longer: it may then be deleted at any later
        time, even after a replay or a re-send under a new number."""
        return any(
            (change.after.message_gone or change.after.state in (*FINAL, State.WAITING)) and change.after.sends >= sends
            for change in self._evidence.changes
            if change.after.id == task_id and change.at_ms <= at_ms
        )

    def _has_letter(self, task_id: str, at_ms: int) -> bool:
        return any(
            m.letter and m.what == "sent" and m.envelope is not None and m.envelope.id == task_id and m.at_ms <= at_ms
            for m in self._evidence.mail
        )

    def _left(self) -> list:  # type: ignore[type-arg] # a list of mail
        gone = {m.message_id for m in self._evidence.mail if m.what in ("deleted", "expired", "moved", "purged")}
        return [
            m for m in self._evidence.mail if m.what == "sent" and m.message_id not in gone and "-dead" not in m.queue
        ]

    def _letters(self) -> None:
        """A dead letter has a letter and its row knows; nothing else has one. What a person discarded needs none."""
        letters = {m.envelope.id for m in self._evidence.mail if m.envelope and m.letter and m.what == "sent"}
        missing = self._evidence.bells_missing()
        for row in self._evidence.rows.values():
            buried = row.state is State.DEAD_LETTERED and not _is_discarded(row)
            if buried and (row.id not in letters or row.id in missing):
                self._fault("dead without a letter", row.id)
            if row.state is not State.DEAD_LETTERED and row.id in letters and not row.replays:
                self._fault("letter of a living task", row.id)

    def _results(self) -> None:
        """A completed task's result is that of the very attempt that completed it, whose effect was accepted."""
        effects = {(e.name, e.fence) for e in self._evidence.effects}
        for row in self._evidence.rows.values():
            if row.state is not State.COMPLETED:
                continue
            name = self._name(row.id)
            planned = self._plan.get(name)
            wanted = f'"{result_of(planned, row.fence)}"' if planned else ""
            unstorable = row.reason == "result_not_storable" and len(wanted) > limits.INLINE_BYTES_MAX
            if unstorable:
                pass  # its place beside the row could not be written, and the row says so
            elif row.result is None or self._evidence.text_of(row.result) != wanted:
                self._fault("wrong result", row.id, f"{row.result}")
            if (name, row.fence) not in effects:
                self._fault("completed without its effect", row.id)

    def _innocents(self) -> None:
        """Only what was alone when its worker went may be charged for it, and never more often than workers went."""
        harmed = {name for _, name in self._evidence.deaths + self._evidence.stalls}
        for row in self._evidence.rows.values():
            claims = [c.after for c in self._evidence.changes if c.after.id == row.id and _is_claim(c.before, c.after)]
            chargeable = sum(
                1 for claim in claims if claim.claimed_alone and (claim.worker in harmed or self._may_lapse)
            )
            if row.losses > chargeable:
                self._fault("innocent charged", row.id, f"{row.losses} losses, {chargeable} workers went")

    def _paused(self) -> None:
        """Nothing of a paused queue is claimed, once every worker has had the time to notice."""
        if self._may_lapse or self._evidence.stalls:
            return  # a claim may then be under way for longer than any pause lasts
        for (task_id, _), claim in self._claims.items():
            before = [
                (at, on) for queue, at, on in self._evidence.pauses if queue == claim.after.queue and at <= claim.at_ms
            ]
            if before and before[-1][1] and claim.at_ms > before[-1][0] + PAUSE_NOTICED_MS:
                self._fault("ran while paused", task_id, f"{claim.at_ms - before[-1][0]} ms after the pause")

    def _cancels(self) -> None:
        """After a cancel was granted nothing runs (see above); after one was asked for, only a success still counts."""
        asked = {t.task_id: t.at_ms for t in self._evidence.told if t.what == "cancel" and t.detail == "requested"}
        for task_id, at_ms in asked.items():
            row = self._evidence.rows[task_id]
            if row.submitted_at_ms > at_ms + SKEW_MS:
                continue  # another life
            if row.state not in (State.COMPLETED, State.CANCELLED) and not row.replays:
                self._fault("cancel forgotten", row.id, f"it ended {row.state}")

    def dawdled(self, patience_seconds: float) -> list[Fault]:
        """Standard tasks that took this much longer than what they themselves spent and asked for."""
        for row in self._evidence.rows.values():
            planned = self._plan.get(self._name(row.id))
            if planned is None or row.ordering_key or row.replays or row.state not in FINAL:
                continue
            took_seconds = (row.ended_at_ms - row.submitted_at_ms) / 1000
            starts = sum(1 for start in self._evidence.starts if start.task_id == row.id)
            if took_seconds > planned.spends_seconds(starts) + patience_seconds:
                self._fault(
                    "dawdled", row.id, f"{took_seconds:.0f} s for {planned.spends_seconds(starts):.0f} s of work"
                )
        return self.faults

    def _alone(self) -> None:
        """Who takes a lapsed lease over is alone with it: nothing else runs in that process meanwhile."""
        ended = {(end.task_id, end.fence): end.at_ms for end in self._evidence.ends}
        runs = [(s.process, s.at_ms, ended.get((s.task_id, s.fence), 10**15), s) for s in self._evidence.starts]
        for process, begin, end, start in runs:
            claimed = self._claims.get((start.task_id, start.fence))
            if claimed is None:
                continue
            if claimed.before is not None and claimed.before.state is State.LEASED and not claimed.after.claimed_alone:
                self._fault("taken over in company", start.task_id, f"fence {start.fence}")
            if not claimed.after.claimed_alone:
                continue
            for other, at_ms, until_ms, beside in runs:
                if other == process and beside is not start and at_ms < end and begin < until_ms:
                    self._fault("not alone", start.task_id, f"{beside.name} ran beside it in {process}")


def _is_claim(before: Row | None, after: Row) -> bool:
    return after.state is State.LEASED and (before is None or before.lease_token != after.lease_token)


def _is_discarded(row: Row) -> bool:
    return row.disposition is not None and row.disposition.kind == "discarded"
