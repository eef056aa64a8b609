"""Which queues there are, what serves them, and what they are called on AWS.

A *queue* is logical and served by exactly one *pool*. Each of its *tiers* is one SQS queue with its own DLQ; an
ordered queue has one tier and is FIFO. The same Topology is read by synth, by the embedded stack, by producers and
by workers, so that they cannot disagree.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tenure.core import limits
from tenure.core.errors import InvalidTopology, NotBuilt

NAME = r"^[a-z][a-z0-9-]{0,30}$"
Name = Annotated[str, Field(pattern=NAME)]
PRIORITIES = ("high", "normal", "low")
"""Tiers in the order in which a worker prefers them. Every queue has "normal"."""

_GROUP_ID = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Pool(_Model):
    """Compute that serves queues. Units: MiB of memory, vCPU in 1/1024 (Fargate), seconds of longest runtime."""

    name: Name
    kind: Literal["lambda", "fargate"] = "lambda"
    memory_mb: int = Field(default=512, ge=128, le=122_880)
    cpu: int = Field(default=512, ge=256, le=16_384)
    longest_runtime_seconds: int = Field(default=330, ge=1, le=86_400)
    concurrency: int = Field(default=10, ge=2, le=1000)
    """Lambda: the event source mapping's MaximumConcurrency."""
    batch_size: int = Field(default=10, ge=1, le=10)
    threads: int = Field(default=1, ge=1, le=256)
    """Tasks that one process runs at once (a Lambda invocation is one process)."""
    processes: int = Field(default=1, ge=1, le=64)
    """Fargate: processes under one container's supervisor."""
    tasks_min: int = Field(default=0, ge=0)
    tasks_max: int = Field(default=10, ge=1)
    spot: bool = False

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.kind == "lambda":
            if self.longest_runtime_seconds > limits.LAMBDA_TIMEOUT_SECONDS_MAX:
                raise ValueError(
                    f"longest_runtime_seconds: a Lambda pool runs at most {limits.LAMBDA_TIMEOUT_SECONDS_MAX} s, "
                    f'not {self.longest_runtime_seconds}. Lower it, or set kind = "fargate".'
                )
            if self.memory_mb > 10_240:
                raise ValueError(f"memory_mb: Lambda has at most 10240 MiB, not {self.memory_mb}.")
        if self.tasks_max < self.tasks_min:
            raise ValueError(f"tasks_max ({self.tasks_max}) is below tasks_min ({self.tasks_min}).")
        return self

    @property
    def stop_margin_seconds(self) -> int:
        """What a worker keeps back from its longest runtime to settle and hand over."""
        return 5


class Queue(_Model):
    """A logical queue."""

    name: Name
    pool: Name
    ordered: bool = False
    tiers: tuple[Literal["high", "normal", "low"], ...] = ("normal",)
    tracking: Literal["full", "lean"] = "full"
    on_bury: Literal["skip", "halt"] = "skip"
    """Ordered queues: whether the key's next task flows when its head is buried, or the key waits for a person."""
    retention_seconds: int = Field(
        default=limits.SQS_RETENTION_SECONDS_DEFAULT, ge=60, le=limits.SQS_RETENTION_SECONDS_MAX
    )
    receive_count_max: int = Field(default=limits.SQS_RECEIVE_COUNT_MAX, ge=10, le=limits.SQS_RECEIVE_COUNT_MAX)
    """SQS's own redrive, a backstop far above any budget of attempts, which tenure counts itself."""
    message_bytes_max: int = Field(
        default=limits.SQS_MESSAGE_BYTES_MAX, ge=limits.SQS_MESSAGE_BYTES_MIN, le=limits.SQS_MESSAGE_BYTES_MAX
    )
    """The queue's MaximumMessageSize. A payload that makes a message larger travels beside it."""
    owner: str = ""
    runbook: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.tiers)) != len(self.tiers) or "normal" not in self.tiers:
            raise ValueError(f'tiers: each tier once, and "normal" among them, not {list(self.tiers)}.')
        if self.ordered and self.tiers != ("normal",):
            raise ValueError(
                'tiers: an ordered queue has exactly the tier "normal"; order and priority exclude each other.'
            )
        if self.on_bury == "halt" and not self.ordered:
            raise ValueError('on_bury = "halt" needs ordered = true: only an ordering key can be halted.')
        return self


class Tier(_Model):
    """One SQS queue and its DLQ. URLs are known once deployed; names always are."""

    queue: str
    tier: str
    ordered: bool
    name: str
    dead_name: str
    url: str = ""
    dead_url: str = ""


class Topology(_Model):
    """An app's queues and pools in one environment."""

    app: Name
    environment: Name
    queues: tuple[Queue, ...]
    pools: tuple[Pool, ...]
    urls: dict[str, tuple[str, str]] = Field(default_factory=dict)
    """Where deployed: "<queue>/<tier>" -> (queue URL, DLQ URL)."""
    table: str = ""
    bucket: str = ""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for kind, names in (("queue", [q.name for q in self.queues]), ("pool", [p.name for p in self.pools])):
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                raise ValueError(f"{kind} {twice[0]!r} is declared twice.")
        pools = {p.name for p in self.pools}
        for queue in self.queues:
            if queue.pool not in pools:
                known = ", ".join(sorted(pools)) or "none"
                raise ValueError(f"queue {queue.name!r}: no pool is called {queue.pool!r}. Pools: {known}.")
            for tier in queue.tiers:
                longest = dead_name(self.app, self.environment, queue.name, tier, queue.ordered)
                if len(longest) > limits.SQS_NAME_CHARS_MAX:
                    raise ValueError(f"queue {queue.name!r}: its SQS name {longest!r} exceeds 80 characters.")
        return self

    @property
    def table_name(self) -> str:
        """The state table: as deployed, else by convention."""
        return self.table or f"{self.app}-{self.environment}-tasks"

    @property
    def bucket_name(self) -> str:
        """The payload bucket: as deployed; empty where there is none (payloads then stay within DynamoDB's limits)."""
        return self.bucket

    def queue(self, name: str) -> Queue:
        """The queue of this name. Raises InvalidTopology, naming those there are."""
        for queue in self.queues:
            if queue.name == name:
                return queue
        known = ", ".join(q.name for q in self.queues) or "none"
        raise InvalidTopology(
            f"no queue {name!r} in environment {self.environment!r} of app {self.app!r}. Declared queues: {known}. "
            "Add it to the environment file, or use one of these."
        )

    def pool(self, name: str) -> Pool:
        """The pool of this name. Raises InvalidTopology."""
        for pool in self.pools:
            if pool.name == name:
                return pool
        raise InvalidTopology(f"no pool {name!r} in environment {self.environment!r} of app {self.app!r}.")

    def tier(self, queue_name: str, tier: str = "normal") -> Tier:
        """The SQS queue and DLQ of one tier. Raises InvalidTopology for a tier that the queue does not have."""
        queue = self.queue(queue_name)
        if tier not in queue.tiers:
            why = "it is ordered" if queue.ordered else f"its tiers are {', '.join(queue.tiers)}"
            raise InvalidTopology(f"queue {queue_name!r} has no tier {tier!r}: {why}.")
        url, dead_url = self.urls.get(f"{queue_name}/{tier}", ("", ""))
        return Tier(
            queue=queue_name,
            tier=tier,
            ordered=queue.ordered,
            name=queue_name_on_sqs(self.app, self.environment, queue_name, tier, queue.ordered),
            dead_name=dead_name(self.app, self.environment, queue_name, tier, queue.ordered),
            url=url,
            dead_url=dead_url,
        )

    def tiers(self, pool: str | None = None) -> tuple[Tier, ...]:
        """Every tier, of one pool's queues or of all, in order of preference."""
        picked = [q for q in self.queues if pool is None or q.pool == pool]
        found = [self.tier(q.name, t) for q in picked for t in q.tiers]
        return tuple(sorted(found, key=lambda t: PRIORITIES.index(t.tier)))

    def visibility_seconds(self, queue_name: str) -> int:
        """The queue's visibility timeout, derived: never set by hand.

        Lambda: AWS refuses a mapping whose queue hides messages for less than the function's timeout, so the timeout
        plus a margin; the worker's first beat shortens it to the lease. Fargate: one lease, renewed by beats.
        """
        pool = self.pool(self.queue(queue_name).pool)
        if pool.kind == "lambda":
            return pool.longest_runtime_seconds + 2 * pool.stop_margin_seconds
        return 60


def queue_name_on_sqs(app: str, environment: str, queue: str, tier: str, ordered: bool) -> str:
    """The SQS queue's name by convention, for example shop-dev-media-normal or shop-dev-ledger-normal.fifo."""
    return f"{app}-{environment}-{queue}-{tier}" + (".fifo" if ordered else "")


def dead_name(app: str, environment: str, queue: str, tier: str, ordered: bool) -> str:
    """The DLQ's name by convention: the queue's with -dead before any .fifo."""
    return f"{app}-{environment}-{queue}-{tier}-dead" + (".fifo" if ordered else "")


def group_id(value: str) -> str:
    """`value` as a MessageGroupId: itself where SQS takes it, else a stable hash ("h:" + 40 hex digits).

    SQS takes 1 to 128 alphanumeric and punctuation characters, no spaces (service model, SendMessage).
    """
    if _GROUP_ID.fullmatch(value) and not value.startswith("h:"):
        return value
    return "h:" + hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def shard_of(task_id: str) -> int:
    """The due-index shard of a task: stable, spread evenly over limits.DUE_SHARDS."""
    return hashlib.sha256(task_id.encode()).digest()[0] % limits.DUE_SHARDS


def refuse_unbuilt(queue: Queue) -> None:
    """Raise NotBuilt for the queue options that this version knows but does not carry out."""
    if queue.tracking == "lean":
        raise NotBuilt(f'queue {queue.name!r}: tracking = "lean" is not built yet; use "full".')
