"""Memory and file descriptors of processes over time, and whether they stay flat. Linux: it reads /proc."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median

RSS_GROWTH_MAX = 1.15
"""The last quarter's median against the first quarter's."""
DESCRIPTORS_MORE_MAX = 4
"""A pool of connections opens one more when two calls happen to coincide for the first time; a leak grows on."""
SECONDS_MIN = 300.0
"""A shorter stretch is not judged: an interpreter takes minutes to have met all that it will meet."""
QUARTER_SAMPLES_MIN = 5
KIB = 1024


@dataclass(frozen=True, slots=True)
class Sample:
    """What a process held at a moment. at_seconds: since the run began; age_seconds: since the process did."""

    role: str
    at_seconds: float
    age_seconds: float
    rss_mib: float
    descriptors: int
    threads: int


@dataclass(frozen=True, slots=True)
class Trend:
    """How one figure of one role moved. `flat` is None where the stretch is too short to tell, or nobody asks."""

    role: str
    what: str
    first: float
    last: float
    peak: float
    samples: int
    flat: bool | None


def sample(role: str, pid: int, at_seconds: float, age_seconds: float) -> Sample | None:
    """A process as it is now; None if it has just ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    if "VmRSS" not in fields:  # a zombie has none
        return None
    rss_mib = int(fields["VmRSS"].split()[0]) / KIB
    return Sample(role, at_seconds, age_seconds, rss_mib, descriptors, int(fields["Threads"]))


def trends(samples: list[Sample], role: str, begin_seconds: float, end_seconds: float, *, judged: bool) -> list[Trend]:
    """Memory, descriptors and threads of a role between two moments of the run."""
    mine = [each for each in samples if each.role == role and begin_seconds <= each.at_seconds <= end_seconds]
    quarter = (end_seconds - begin_seconds) / 4
    first = [each for each in mine if each.at_seconds < begin_seconds + quarter]
    last = [each for each in mine if each.at_seconds > end_seconds - quarter]
    if not first or not last:
        return []
    long_enough = end_seconds - begin_seconds >= SECONDS_MIN and min(len(first), len(last)) >= QUARTER_SAMPLES_MIN

    def trend(what: str, growth: float, more: float) -> Trend:
        begun, ended = (median(getattr(each, what) for each in part) for part in (first, last))
        flat = ended <= begun * growth + more if judged and long_enough else None
        return Trend(role, what, begun, ended, max(getattr(each, what) for each in mine), len(mine), flat)

    return [
        trend("rss_mib", RSS_GROWTH_MAX, 0.0),
        trend("descriptors", 1.0, DESCRIPTORS_MORE_MAX),
        trend("threads", 1.0, DESCRIPTORS_MORE_MAX),
    ]
