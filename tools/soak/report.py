"""The figures of a soak, as a table for people and for docs/soak.md."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

from tenure.core.task import Row, State
from tools.soak.audit import Check, Evidence, takeovers
from tools.soak.drive import Settings, Told
from tools.soak.fleet import Fleet
from tools.soak.plan import counted
from tools.soak.watch import QUARTER_SAMPLES_MIN, SECONDS_MIN, Trend

BEGIN, END = "<!-- figures: written by the soak -->", "<!-- /figures -->"
WORDS = {"rss_mib": "memory, MiB", "descriptors": "file descriptors", "threads": "threads"}
PASSED_OVER = ("task.retried", "task.buried")
"""Told of tasks that were to fail: no sign of trouble."""


@dataclass(frozen=True, slots=True)
class Result:
    """All that a run has to show."""

    settings: Settings
    told: Told
    seen: Evidence
    checks: Sequence[Check]
    trends: Sequence[Trend]
    events: Mapping[str, int]
    """Event -> how often the workers' logs tell it, warnings and worse only."""
    fleet: Fleet
    stopped: Mapping[str, int]
    """How the workers ended when the run was over."""
    versions: Mapping[str, str]
    load: float

    @property
    def holds(self) -> bool:
        """Whether every check holds, and nothing that was judged grew."""
        grew = any(trend.flat is False for trend in self.trends)
        return all(check.holds for check in self.checks) and not grew

    @property
    def planned(self) -> int:
        """Tasks that were to be submitted."""
        return len(self.settings.tasks)


def figures(result: Result) -> str:
    """The table, as Markdown that also reads well on a terminal."""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    told = [
        f"Run of {datetime.now(UTC):%Y-%m-%d}, seed {result.settings.seed}; {versions}; {platform.system()} with "
        f"{_processors()} processors, whose load average over the last quarter of an hour was {result.load:.1f}.",
        "",
        _table(("what", "figure"), _work(result) + _deaths(result) + _trouble(result)),
        "",
        _table(("process", "what", "first quarter", "last quarter", "peak", "samples", "flat"), _flatness(result)),
        "",
        _table(("check", "holds"), [(check.name, str(check)) for check in result.checks]),
    ]
    return "\n".join(told)


def write(result: Result, page: Path) -> None:
    """Put the figures between the page's marks. Raises ValueError where it has none."""
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise ValueError(f"{page.name} lacks the marks {BEGIN} and {END}: between them the figures are written")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    page.write_text(f"{before}{BEGIN}\n{figures(result)}\n{END}{after}", encoding="utf-8")


def events_in(logs: Sequence[Path]) -> Counter[str]:
    """Event -> how often these logs tell it. Lines that are no events count as such."""
    found: Counter[str] = Counter()
    for log in logs:
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                told = json.loads(line)
            except ValueError:
                found["lines that are no events"] += bool(line.strip())
                continue
            if isinstance(told, dict) and "_aws" not in told:
                found[str(told.get("event", "other log lines"))] += 1
    return found


def _work(result: Result) -> list[tuple[str, str]]:
    rows, told = result.seen.rows.values(), result.told
    states = Counter(row.state for row in rows)
    kinds = counted(list(result.settings.tasks))
    spans = sorted((row.ended_at_ms - row.submitted_at_ms) / 1000 for row in rows if _is(result, row, "quick"))
    cuts = quantiles(spans, n=100) if len(spans) > 1 else [0.0] * 99
    untouched = [row for row in rows if _is(result, row, "quick") and row.fence == 1]
    return [
        ("tasks planned, submitted", f"{result.planned:,}, {len(result.seen.submitted):,}"),
        ("of these, by kind", ", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common())),
        ("submitting took, all ended after", f"{told.submit_seconds / 60:.1f} min, {told.seconds / 60:.1f} min"),
        ("tasks a second while submitting", f"{len(result.seen.submitted) / max(1.0, told.submit_seconds):.1f}"),
        ("completed, dead-lettered", f"{states[State.COMPLETED]:,}, {states[State.DEAD_LETTERED]:,}"),
        ("in any other state", str(len(rows) - states[State.COMPLETED] - states[State.DEAD_LETTERED])),
        ("rows lost", str(len(set(result.seen.submitted) - set(result.seen.rows)))),
        ("letters in the DLQ (of distinct tasks)", f"{len(result.seen.letters)} ({len(set(result.seen.letters))})"),
        ("deepest the queue was, visible messages", str(told.depth_peak)),
        ("quick tasks, submit to end: median, 99 %", f"{median(spans or [0]):.1f} s, {cuts[98]:.1f} s"),
        ("quick tasks done at their first claim", f"{len(untouched):,} of {len(spans):,}"),
    ]


def _is(result: Result, row: Row, kind: str) -> bool:
    return result.seen.submitted.get(row.id) == kind


def _deaths(result: Result) -> list[tuple[str, str]]:
    rows = result.seen.rows.values()
    runs = len({(effect.task_id, effect.fence) for effect in result.seen.effects})
    again = Counter(effect.task_id for effect in result.seen.effects if effect.step == "end")
    took = [takeovers(row) for row in rows]
    return [
        ("workers' ends", ", ".join(f"{what} {count}" for what, count in sorted(result.fleet.ends.items())) or "none"),
        ("worker processes begun", str(result.fleet.starts)),
        ("SIGTERM to all when the run was over", ", ".join(f"{how} {n}" for how, n in result.stopped.items())),
        ("leases of the dead taken over", f"{sum(took)} (of {sum(count > 0 for count in took)} tasks)"),
        ("losses charged to tasks", str(sum(row.losses for row in rows))),
        ("runs with an effect", f"{runs:,}"),
        ("tasks whose work was done twice (killed between work and row)", str(sum(n > 1 for n in again.values()))),
    ]


def _trouble(result: Result) -> list[tuple[str, str]]:
    events = {name: count for name, count in result.events.items() if name not in PASSED_OVER}
    reconciled = result.told.reconciled
    return [
        ("reconcile", ", ".join(f"{name} {count}" for name, count in sorted(reconciled.items()) if count) or "no run"),
        ("warnings in logs", ", ".join(f"{name} {count}" for name, count in sorted(events.items())) or "none"),
        ("the run's own calls that failed", ", ".join(f"{k} {n}" for k, n in result.told.faults.items()) or "none"),
    ]


def _flatness(result: Result) -> list[tuple[str, ...]]:
    words = {True: "yes", False: "**NO**", None: "not judged"}
    return [
        (
            trend.role,
            WORDS[trend.what],
            f"{trend.first:.1f}" if trend.what == "rss_mib" else f"{trend.first:.0f}",
            f"{trend.last:.1f}" if trend.what == "rss_mib" else f"{trend.last:.0f}",
            f"{trend.peak:.0f}",
            str(trend.samples),
            words[trend.flat],
        )
        for trend in result.trends
    ] or [(f"fewer than {QUARTER_SAMPLES_MIN} samples or {SECONDS_MIN:.0f} s", "", "", "", "", "", "not judged")]


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(cells[n]) for cells in (head, *lines)) for n in range(len(head))]
    told = [head, ["-" * width for width in widths], *lines]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |" for cells in told
    )


def _processors() -> int:
    return len([line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("processor")])
