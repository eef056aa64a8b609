"""What the simulated producers submit and what its handlers then do: drawn from a seed, and known to the auditor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

from tenure.core.submission import Options

TIMEOUT_SECONDS = 120
LEASE_SECONDS = 30

Kind = Literal["ok", "fail", "give_up", "kill", "snooze", "later", "hang", "checkpoint", "exit"]


@dataclass(frozen=True)
class Act:
    """What a handler does in one attempt: run for so long, then end so.

    ok: return. fail: raise. give_up: raise GiveUp. kill: end its whole process. snooze: Snooze(wait). later: RetryAfter
    (wait). hang: run past its timeout without looking up, then return. checkpoint: record one, then fail. exit:
    raise SystemExit.
    """

    kind: Kind
    seconds: float
    wait_seconds: float = 0
    heeds: bool = True
    """Whether it looks at its context while it runs."""


@dataclass(frozen=True)
class Planned:
    """A task that will be submitted, and how it will behave."""

    name: str
    task: str
    """The declared task: "work" (4 attempts), "trip" (async, 4), "once" (1), "post" (ordered, 3)."""
    key: str
    acts: tuple[Act, ...]
    """The n-th start of it does the n-th of these; the last is repeated."""
    submit_at_seconds: tuple[float, ...]
    """Submitted at each of these moments, by another producer each time."""
    idempotency_key: str | None = None
    delay_seconds: float = 0
    deadline_seconds: float | None = None
    cancel_at_seconds: float | None = None
    size_bytes: int = 0
    """Of a filler in its payload, so that some payloads lie beside the row and some in the bucket."""
    priority: Literal["high", "normal", "low"] = "normal"
    tenant: str = ""
    rival: bool = False
    """Every second of its producers submits another payload under the same key."""
    foreign: bool = False
    """Submitted by a program in another language: a message alone, as docs/envelope.md allows it."""

    @property
    def ordered(self) -> bool:
        """Whether it goes to the ordered queue."""
        return self.task == "post"

    def letter(self, producer: int = 0) -> str:
        """What a producer's payload is filled with."""
        return "g" if self.rival and producer % 2 else "f"

    def payload(self, producer: int = 0) -> dict[str, Any]:
        """Its arguments by name."""
        key = {"key": self.key} if self.ordered else {}
        return {"name": self.name, "filler": self.letter(producer) * self.size_bytes, **key}

    def options(self) -> Options:
        """The options of its submits."""
        return Options(idempotency_key=self.idempotency_key, delay=self.delay_seconds, deadline=self.deadline_seconds)

    def spends_seconds(self, starts: int) -> float:
        """What so many starts of it take at the most: its own delay and waits, its runs, retries' waits, and the time
        until a lost worker's message is back."""
        spent = self.delay_seconds
        for act in (self.acts[min(number, len(self.acts) - 1)] for number in range(starts)):
            spent += act.seconds + act.wait_seconds + {"kill": 160, "ok": 0, "give_up": 0}.get(act.kind, 60)
        return spent

    @property
    def deadly(self) -> bool:
        """Whether it ever kills its worker."""
        return any(act.kind == "kill" for act in self.acts)


def result_of(planned: Planned, fence: int) -> str:
    """What its handler returns: too long for the row where the payload is."""
    return f"{planned.name}#{fence}{'r' * min(planned.size_bytes, 2000)}"


MAX_ATTEMPTS = {"work": 4, "trip": 4, "once": 1, "post": 3}


@dataclass(frozen=True)
class Mix:
    """How much of what. Chances are per task."""

    tasks: int = 10
    ordered: float = 0.4
    keys: int = 2
    span_seconds: float = 900
    again: float = 0.3
    deadly: float = 0.1
    slow: float = 0.15
    foreign: float = 0.1
    awaited: float = 0.25
    """Of the tasks on standard queues: their handlers are async."""
    lives: float = 0.0
    """Submitted anew under its key, each time after so long that its row is forgotten by then."""
    large: float = 0.0
    """Its payload and result lie beside its row."""
    rivals: float = 0.0
    """Submitted with another payload under the same key at the same time, both too large for a message."""
    doomed: float = 0.0
    """Gives up at first, and is well once somebody has retried it."""


def draw(seed: int, mix: Mix) -> list[Planned]:
    """The tasks of one seed."""
    random = Random(f"workload {seed}")
    plan = [_again(random, _task(random, f"t{number}", mix), mix) for number in range(mix.tasks)]
    chance = Random(f"async {seed}")
    return [
        replace(each, task="trip") if each.task == "work" and chance.random() < mix.awaited else each for each in plan
    ]


def _again(random: Random, planned: Planned, mix: Mix) -> Planned:
    """The task, submitted more often than it would be."""
    at = planned.submit_at_seconds[0]
    key = f"key {planned.name}"
    if mix.large and not planned.size_bytes and random.random() < mix.large:
        planned = replace(planned, size_bytes=2000)
    if mix.rivals and random.random() < mix.rivals:
        moments = (at, at, at + 20)
        planned = replace(planned, submit_at_seconds=moments, idempotency_key=key, rival=True, size_bytes=60_000)
    elif mix.lives and random.random() < mix.lives:
        delay = random.choice((0.0, 300.0))  # a next life that is delayed is met unclaimed by what is left of the last
        moments = (at, at + delay + random.choice((420.0, 460.0, 500.0)), at + delay + random.choice((560.0, 950.0)))
        planned = replace(planned, submit_at_seconds=moments, idempotency_key=key, delay_seconds=delay)
        planned = replace(planned, deadline_seconds=None)
    return planned if not planned.foreign or planned.idempotency_key is None else replace(planned, foreign=False)


def _task(random: Random, name: str, mix: Mix) -> Planned:
    ordered = random.random() < mix.ordered
    task = "post" if ordered else ("once" if random.random() < 0.1 else "work")
    at = round(random.random() * mix.span_seconds, 3)
    again = random.random() < mix.again
    moments = (at, *(at + random.choice((0.0, 5.0, 200.0)) for _ in range(random.randint(1, 2)))) if again else (at,)
    deadline = random.choice((30.0, 120.0, 1200.0)) if random.random() < 0.1 else None
    delay = random.choice((20.0, 300.0, 899.0, 2000.0)) if not ordered and random.random() < 0.2 else 0.0
    foreign = not ordered and not again and not delay and deadline is None and random.random() < mix.foreign
    return Planned(
        name=name,
        task=task,
        key=f"k{random.randrange(mix.keys)}" if ordered else "",
        acts=_acts(random, mix),
        submit_at_seconds=moments,
        idempotency_key=f"key {name}" if again else None,
        delay_seconds=delay,
        deadline_seconds=None if deadline is None else delay + deadline,
        cancel_at_seconds=at + random.choice((1.0, 30.0, 100.0, 400.0)) if random.random() < 0.12 else None,
        size_bytes=random.choice((2000, 2000 if foreign else 20_000)) if random.random() < 0.15 else 0,
        priority="high" if not ordered and random.random() < 0.3 else "normal",
        tenant=random.choice(("", "acme", "a name with blanks")) if not ordered else "",
        foreign=foreign,
    )


def _acts(random: Random, mix: Mix) -> tuple[Act, ...]:
    drawn = random.random()
    if drawn < mix.deadly:
        return (_act(random, mix, "kill"),) * random.choice((1, 9)) + (_act(random, mix, "ok"),)
    if mix.doomed and random.random() < mix.doomed:
        return (_act(random, mix, "give_up"),) * random.choice((1, 1, 2)) + (_act(random, mix, "ok"),)
    kinds: list[list[Kind]] = [
        ["ok"],
        ["ok"],
        ["ok"],
        ["fail", "ok"],
        ["fail", "fail", "ok"],
        ["fail"],
        ["give_up"],
        ["exit", "ok"],
        ["snooze", "ok"],
        ["snooze", "snooze", "fail", "ok"],
        ["later", "ok"],
        ["hang", "ok"],
        ["checkpoint", "ok"],
    ]
    return tuple(_act(random, mix, kind) for kind in random.choice(kinds))


def _act(random: Random, mix: Mix, kind: Kind) -> Act:
    slow = random.random() < mix.slow
    seconds = random.choice((25.0, 50.0)) if slow else random.choice((0.0, 0.1, 1.0, 4.0))
    if kind == "hang":
        seconds = TIMEOUT_SECONDS + random.choice((2.0, 50.0))
    wait = {"snooze": (3.0, 70.0, 1000.0), "later": (5.0, 100.0, 1500.0)}.get(kind, (0.0,))
    return Act(kind, seconds, random.choice(wait), heeds=random.random() < 0.7)
