"""A replay as a durable, versioned item: what was asked, how far it has come, and who is at it.

It outlives whoever runs it. Before a batch is replayed its ids are written here, so that whoever goes on after a death
can tell from the rows which of them were done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from tenure.core.errors import TenureError, UsageError
from tenure.core.replaying import REPLAYS_MAX
from tenure.core.task import Stored
from tenure.ports import Item, Key

LIFE_SECONDS = 90 * 86_400
"""How long the record of an ended replay is kept."""
ACTIVE, ENDED = "!replays", "!replays-ended"
"""Places in the due index, beside those of queues: replays that still have work, and those that have none."""
RATE_MAX = 500.0
"""Tasks a second at most: what SQS's own redrive allows itself."""
RATE_MIN = 0.05
"""At least so many: a task every 20 seconds, so that a runner's own time limit is never slept through."""
REASON_CHARS_MAX = 256
"""A reason is kept in every row it changed."""
CANARY_MAX = 100
"""A canary is a handful of tasks whose ends are watched."""


class Phase(StrEnum):
    """How far a replay has come. The last three are its ends."""

    CANARY = "canary"
    WATCHING = "watching"
    RUNNING = "running"
    ABORTING = "aborting"
    DONE = "done"
    STOPPED = "stopped"
    """Its canary fell short, or could not be finished in time."""
    ABORTED = "aborted"


OVER = frozenset({Phase.DONE, Phase.STOPPED, Phase.ABORTED})


class ReplayNotFound(TenureError):
    """No replay is known by this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySpec:
    """What is asked.

    filter:           in the words of core/filters.py; only open dead letters of before its creation are taken.
    reason, by:       who wants it, and why; both are kept in every row and in the audit log.
    rate_per_second:  at most so many tasks in any second.
    limit:            at most so many tasks; 0 for all.
    canary:           so many first, spread over the causes; the rest only if enough of them complete.
    canary_share:     the share of the canary's tasks that must complete.
    canary_seconds:   how long their ends are waited for.
    replays_max:      a task replayed so often already is skipped.
    payload:          another payload, for a filter that picks exactly one task.

    Raises UsageError.
    """

    filter: str
    reason: str
    by: str
    rate_per_second: float = 10.0
    limit: int = 0
    canary: int = 0
    canary_share: float = 1.0
    canary_seconds: int = 900
    replays_max: int = REPLAYS_MAX
    payload: str | None = None

    def __post_init__(self) -> None:
        rules = (
            (
                0 < len(self.reason.strip()) <= REASON_CHARS_MAX,
                "reason",
                f"say why, in at most {REASON_CHARS_MAX} characters; it is kept with every task",
            ),
            (bool(self.by.strip()), "by", "say who asks for it"),
            (RATE_MIN <= self.rate_per_second <= RATE_MAX, "rate_per_second", f"{RATE_MIN:g} to {RATE_MAX:g}"),
            (self.limit >= 0, "limit", "0 for all, or how many at most"),
            (0 <= self.canary <= CANARY_MAX, "canary", f"0 to {CANARY_MAX}"),
            (0 < self.canary_share <= 1, "canary_share", "more than 0 and at most 1"),
            (1 <= self.canary_seconds <= 86_400, "canary_seconds", "1 to 86400"),
            (1 <= self.replays_max <= 100, "replays_max", "1 to 100"),
        )
        for holds, name, rule in rules:
            if not holds:
                raise UsageError(f"replay: {name} = {getattr(self, name)!r}: {rule}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayState:
    """A replay as its item holds it."""

    id: str
    spec: ReplaySpec
    phase: Phase
    created_at_ms: int
    operation: str
    """The audit operation that its creation began."""
    matched: int = 0
    """How many the filter picked when it was created."""
    canary_ids: tuple[str, ...] = ()
    canaries: tuple[tuple[str, int], ...] = ()
    """(id, replays after) of the canary's tasks that were replayed."""
    watching_since_ms: int = 0
    payload_at: Stored | None = None
    payload_digest: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    batch: tuple[tuple[str, int], ...] = ()
    """(id, replays before) of what is being replayed at this moment."""
    cursor: Mapping[str, int] = field(default_factory=dict)
    """Queue -> burial time up to which it is done."""
    last_at_ms: int = 0
    runner: str = ""
    runner_until_ms: int = 0
    ended_at_ms: int = 0
    note: str = ""
    """Why it ended as it did."""

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.phase in OVER

    @property
    def replayed(self) -> int:
        """Tasks replayed so far."""
        return self.counts.get("replayed", 0)

    def with_counts(self, **more: int) -> ReplayState:
        """So many more of each."""
        counts = {name: self.counts.get(name, 0) + more.get(name, 0) for name in {*self.counts, *more}}
        return replace(self, counts=counts)

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        found = asdict(self)
        found.pop("payload_at")
        found["spec"]["payload"] = None if self.spec.payload is None else "(edited)"
        return found | {"phase": self.phase.value, "counts": dict(self.counts), "replayed": self.replayed}


def replay_key(replay_id: str) -> Key:
    """Where a replay lies."""
    return Key(f"Y#{replay_id}", "Y")


def to_item(state: ReplayState) -> Item:
    """The replay as an item, still without version and write id."""
    data = asdict(state)
    data["phase"] = state.phase.value
    data["spec"] = _spec_data(state.spec)
    data["payload_at"] = list(asdict(state.payload_at).values()) if state.payload_at else None
    data["canaries"] = [list(each) for each in state.canaries]
    data["batch"] = [list(each) for each in state.batch]
    data["canary_ids"] = list(state.canary_ids)
    data["counts"], data["cursor"] = dict(state.counts), dict(state.cursor)
    name, at_ms = (ENDED, state.ended_at_ms) if state.over else (ACTIVE, state.created_at_ms)
    return Item(
        key=replay_key(state.id),
        version=1,
        write_id="",
        data=data,
        due=(name, 0, at_ms),
        expires_at_s=state.ended_at_ms // 1000 + LIFE_SECONDS if state.over else 0,
    )


def to_state(item: Item) -> ReplayState:
    """The replay in an item."""
    data = {name: value for name, value in item.data.items() if name in ReplayState.__dataclass_fields__}
    spec = dict(data["spec"])
    spec["rate_per_second"], spec["canary_share"] = spec["rate_millis"] / 1000, spec["share_millis"] / 1000
    del spec["rate_millis"], spec["share_millis"]
    data |= {
        "spec": ReplaySpec(**spec),
        "phase": Phase(data["phase"]),
        "payload_at": Stored(*data["payload_at"]) if data["payload_at"] else None,
        "canaries": tuple((id_, replays) for id_, replays in data["canaries"]),
        "batch": tuple((id_, replays) for id_, replays in data["batch"]),
        "canary_ids": tuple(data["canary_ids"]),
    }
    return ReplayState(**data)


def _spec_data(spec: ReplaySpec) -> dict[str, Any]:
    """Items hold whole numbers only. The payload is not kept here but where payloads lie."""
    data = asdict(spec) | {"payload": None}
    data["rate_millis"] = round(data.pop("rate_per_second") * 1000)
    data["share_millis"] = round(data.pop("canary_share") * 1000)
    return data
