"""Which beginnings of a run are the same but for the order of calls that do not touch each other.

Two calls touch each other if they are of one process, or of one queue or the table and not both reads. Where everybody
has seen the same, everybody goes on the same, so what follows needs to be explored once (Mazurkiewicz traces). Moments
differ by a few milliseconds and random tokens by their value; no rule looks at either.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

READS = ("store.get", "store.due", "store.dead", "payload.get")
EVERYTHING = ""


@dataclass
class History:
    """What has been done so far, as one number that does not depend on the order of what does not touch."""

    _processes: dict[str, int] = field(default_factory=dict)
    _writes: dict[str, int] = field(default_factory=dict)
    _reads: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, process: str, who: str, call: str) -> None:
        """`who` of a process makes a call; an empty one may touch everything."""
        where = call.split(" ", 1)[0].split(".", 1)[0]
        places = [where] if where else list(self._writes)
        seen = [self._writes.get(place, 0) for place in (EVERYTHING, *sorted(places))]
        seen += [self._processes.get(process, 0)] if where else sorted(self._processes.values())
        reading = call in READS
        if not reading:
            for place in sorted([where] if where else self._reads):
                seen += sorted(self._reads.pop(place, []))
        mark = hash((who, call, *seen))
        self._processes[process] = mark
        if reading:
            self._reads[where].append(mark)
        else:
            self._writes[where] = mark

    def mark(self) -> int:
        """Equal for equal histories."""
        reads = frozenset((where, *sorted(marks)) for where, marks in self._reads.items())
        return hash((frozenset(self._processes.items()), frozenset(self._writes.items()), reads))
