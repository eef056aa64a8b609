"""Thousands of dead letters of five causes, on a server that speaks AWS's protocols.

The suite takes 1,000. `python -m tests.maintenance.test_ten_thousand` takes 10,000: some five minutes on a quiet
machine, nearly all of it the emulator's, which goes through the whole table for each query.
"""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from tenure.adapters import clients
from tenure.adapters.clients import Clients
from tenure.adapters.memory import World
from tenure.core import decide, machine
from tenure.core.decide import Arrival
from tenure.core.envelope import canonical, decode, digest_of
from tenure.core.machine import Lease, Stamp
from tenure.core.outcome import named
from tenure.core.task import Row, State, Stored
from tenure.core.topology import Pool, Queue, Tier, Topology
from tenure.local.provision import provision
from tenure.maintenance.ingest import Ingest
from tenure.maintenance.parts import Parts, letter_send
from tenure.maintenance.replay import Replays
from tenure.maintenance.replay_record import Phase, ReplaySpec
from tenure.ports import Sent
from tenure.rows import Stands
from tenure.wiring.maintenance import parts_of
from tests.support import ministack

LETTERS, MANY = 1_000, 10_000
CAUSES = ("PDFError", "Timeout", "BadImage", "QuotaExceeded", "NoSuchKey")
BROKEN = "PDFError"
RATE = 100.0
MEMORY_BYTES_MAX = 24 * 1024 * 1024
"""At its highest, of what plan and replay allocate: a page of rows and the SDK's buffers, whatever the letters."""

TOPOLOGY = Topology(
    app="letters", environment="test", queues=(Queue(name="work", pool="quick"),), pools=(Pool(name="quick"),)
)


class Hall:
    """An environment on ministack under a virtual clock, with its dead letters."""

    def __init__(self, url: str, letters: int = LETTERS) -> None:
        self.letters = letters
        self.world = World()
        aws = Clients(self.world.clock.now_ms, region="us-east-1", endpoint_url=url, credentials=("test", "test"))
        self.parts: Parts = replace(
            parts_of(provision(TOPOLOGY, aws), aws, clock=self.world.clock, telemetry=self.world.telemetry),
            entropy=self.world.entropy,
        )
        self.tier: Tier = self.parts.topology.tier("work")

    def stamp(self) -> Stamp:
        return Stamp(self.world.clock.now_ms(), self.world.entropy.token(), "test")

    def fill(self) -> None:
        """Dead letters in the table and the DLQ, as bury leaves them."""
        for start in range(0, self.letters, 200):
            rows = [self._dead(n) for n in range(start, start + 200)]
            answers = self.parts.rows.replace_many([(None, row) for row in rows])
            assert all(isinstance(answer, Stands) for answer in answers)
            sent = self.parts.dead(self.tier).send_many([letter_send(row, ordered=False) for row in rows])
            assert all(isinstance(each, Sent) for each in sent)
            self.world.advance(1)

    def _dead(self, n: int) -> Row:
        payload = canonical({"n": n})
        fresh = Row(
            id=f"t{n:05d}",
            birth=f"b{n}",
            task="render",
            queue="work",
            state=State.QUEUED,
            payload=Stored("inline", payload, len(payload)),
            digest=digest_of(payload),
        )
        claimed = machine.claim(machine.submitted(fresh, self.stamp()), self.stamp(), Lease(60, "t", "w", True, 5))
        error = named(CAUSES[n % len(CAUSES)], f"task {n}")
        return machine.confirm_letter(machine.bury(claimed, self.stamp(), error, "gave_up"), self.stamp())

    def work(self, broken: Sequence[str] = ()) -> None:
        """Run what lies in the queue; tasks whose last error is among `broken` die again."""
        queue = self.parts.main(self.tier)
        while deliveries := queue.receive(10, 0):
            rows = self.parts.rows.get_many([decode(each.body).id for each in deliveries])
            for delivery, row in zip(deliveries, rows, strict=True):
                arrival = Arrival(decode(delivery.body), delivery.receive_count)
                made = decide.admit(row, arrival, Lease(60, "t", "w", True, 5), self.stamp())
                assert isinstance(made, decide.Claim), made
                error = made.row.error
                if error is not None and error.type in broken:
                    ended = machine.bury(made.row, self.stamp(), error, "gave_up")
                else:
                    ended = machine.succeed(made.row, self.stamp(), None)
                for seen, new in ((row, made.row), (made.row, ended)):
                    assert isinstance(self.parts.rows.replace(seen, new), Stands)
            queue.delete_many([each.receipt for each in deliveries])


@pytest.fixture
def hall(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hall]:
    for seconds in ("ANSWER_SECONDS", "TABLE_SECONDS"):
        monkeypatch.setattr(clients, seconds, 60)
    with ministack.running() as url:
        made = Hall(url)
        made.fill()
        yield made


def spec(text: str = "", canary: int = 0) -> ReplaySpec:
    return ReplaySpec(filter=text, reason="fixed", by="ann", rate_per_second=RATE, canary=canary)


@pytest.mark.ministack
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_letters_of_five_causes(hall: Hall) -> None:
    """Grouped; planned without moving anything; a canary stops a cause that is still broken; then all are replayed at
    the rate, in flat memory, each with one message, and the numbers add up."""
    drill(hall)


def drill(hall: Hall) -> None:
    """All of it, in order."""
    planned = Replays(hall.parts).plan(spec())
    assert {group.error: group.count for group in planned.causes()} == dict.fromkeys(
        CAUSES, hall.letters // len(CAUSES)
    )
    assert hall.parts.main(hall.tier).depth().visible == 0
    a_broken_cause_is_stopped(hall)
    all_are_replayed_at_the_rate(hall)
    each_has_one_message(hall)
    report = Ingest(hall.parts, letters_max=2 * hall.letters).run_once(force=True)
    assert report.counts["drained"] == hall.letters
    assert hall.parts.dead(hall.tier).depth().visible == 0


def a_broken_cause_is_stopped(hall: Hall) -> None:
    """Five of the cause die again, and no other of it moves."""
    replays = Replays(hall.parts)
    begun = replays.create(spec(f"error:{BROKEN}", canary=5))
    while replays.status(begun.id).phase is not Phase.WATCHING:
        replays.run(begun.id, stop_at_ms=hall.world.clock.now_ms() + 1)
    hall.work(broken=[BROKEN])
    ended = replays.run(begun.id)
    assert (ended.phase, ended.replayed) == (Phase.STOPPED, 5)
    assert ended.replayed + ended.counts["left"] == hall.letters // len(CAUSES)


def all_are_replayed_at_the_rate(hall: Hall) -> None:
    """Ten thousand in a hundred virtual seconds, in flat memory."""
    hall.world.advance(1)
    replays = Replays(hall.parts)
    begun = replays.create(spec())
    tracemalloc.start()
    began_ms = hall.world.clock.now_ms()
    done = replays.run(begun.id)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    seconds = (hall.world.clock.now_ms() - began_ms) / 1000
    assert (done.phase, done.replayed, done.counts["left"]) == (Phase.DONE, hall.letters, 0)
    assert hall.letters / RATE - 1 <= seconds <= hall.letters / RATE + 5
    assert peak < MEMORY_BYTES_MAX
    print(f"{hall.letters} in {seconds:.0f} virtual seconds, at most {peak / 1e6:.1f} MB")
    told = [each.at_ms for each in hall.world.telemetry.events if each.event == "task.replayed"]
    assert max(Counter(at_ms // 1000 for at_ms in told if at_ms >= began_ms).values()) <= RATE


def each_has_one_message(hall: Hall) -> None:
    """Every task once in the queue, none left dead."""
    queue = hall.parts.main(hall.tier)
    found: Counter[str] = Counter()
    while deliveries := queue.receive(10, 0):
        found.update(decode(each.body).id for each in deliveries)
        queue.delete_many([each.receipt for each in deliveries])
    assert (len(found), set(found.values())) == (hall.letters, {1})
    assert Replays(hall.parts).plan(spec()).count == 0


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch, ministack.running() as endpoint:
        for each in ("ANSWER_SECONDS", "TABLE_SECONDS"):
            patch.setattr(clients, each, 60)
        many = Hall(endpoint, MANY)
        many.fill()
        drill(many)
