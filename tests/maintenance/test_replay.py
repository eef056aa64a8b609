"""Replays take what they say, at the rate they say, once; and stop when they should."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from tenure.core.envelope import canonical, decode
from tenure.core.errors import InvalidPayload, ServiceError, UsageError
from tenure.core.task import State
from tenure.maintenance.audit import Audit
from tenure.maintenance.ingest import Ingest
from tenure.maintenance.pace import batch_of, interval_ms
from tenure.maintenance.reconcile import Reconcile
from tenure.maintenance.replay import NothingMatched, Replays
from tenure.maintenance.replay_record import Phase, ReplayNotFound, ReplaySpec
from tenure.ports import NotSent, Send, Sent
from tests.maintenance.kit import Kit


@pytest.fixture
def kit() -> Kit:
    return Kit()


def spec(filter: str = "", **options: Any) -> ReplaySpec:
    return ReplaySpec(filter=filter, reason="fixed", by="ann", **({"rate_per_second": 100.0} | options))


def test_a_plan_groups_by_cause_and_moves_nothing(kit: Kit) -> None:
    """A dry run tells causes, the oldest, and what would be skipped and why."""
    for error, count in (("PDFError", 5), ("Timeout", 2)):
        for _ in range(count):
            kit.bury(kit.submit(), error)
    often = kit.submit()
    for _ in range(3):
        often = kit.bury(often)
        (state,) = [Replays(kit.parts).create(spec(f"id:{often.id}"))]
        Replays(kit.parts).run(state.id)
        often = kit.row(often.id)
    kit.bury(often)
    before = {item.key: item.version for item in kit.world.store.all()}
    planned = Replays(kit.parts).plan(spec())
    assert [(group.error, group.count) for group in planned.causes()] == [("PDFError", 5), ("Timeout", 2)]
    assert dict(planned.skipped) == {"replayed 3 times already (at most 3)": 1}
    assert planned.oldest_at_ms
    assert before == {item.key: item.version for item in kit.world.store.all()}


def test_a_replay_runs_each_matching_task_once(kit: Kit) -> None:
    """Matching dead letters run again with a new budget; others keep letter, attributes and disposition."""
    wanted = [kit.bury(kit.submit(tenant="acme", traceparent="00-1-1-01"), "PDFError") for _ in range(25)]
    others = [kit.bury(kit.submit(), "Timeout") for _ in range(5)]
    replays = Replays(kit.parts)
    state = replays.run(replays.create(spec("error:PDFError")).id)
    assert (state.phase, state.replayed, state.matched) == (Phase.DONE, 25, 25)
    envelopes = [decode(body) for body in kit.bodies()]
    assert {(each.tenant, each.traceparent) for each in envelopes} == {("acme", "00-1-1-01")}
    kit.work()
    for row in wanted:
        now = kit.row(row.id)
        assert (now.state, now.failures, now.replays, kit.runs[row.id]) == (State.COMPLETED, 0, 1, 1)
        assert now.disposition is not None
        assert (now.disposition.kind, now.disposition.by) == ("replayed", "ann")
        assert now.disposition.reason.startswith("fixed")
    assert [kit.row(row.id) for row in others] == others
    Ingest(kit.parts).run_once(force=True)
    assert len(kit.letters()) == 5


def test_a_finished_task_is_never_run_again(kit: Kit) -> None:
    """A replay works from rows: a letter whose task has completed since brings nothing back."""
    row = kit.bury(kit.submit())
    replays = Replays(kit.parts)
    replays.run(replays.create(spec()).id)
    kit.work()
    with pytest.raises(NothingMatched):
        replays.create(spec())
    assert kit.runs[row.id] == 1


@pytest.mark.parametrize("rate", [1.0, 7.0, 10.0, 15.0, 60.0, 0.5])
def test_no_second_holds_more_than_the_rate(kit: Kit, rate: float) -> None:
    """Whatever window of a second one looks at, it holds at most the rate (at least one)."""
    rows = [kit.bury(kit.submit()) for _ in range(40)]
    replays = Replays(kit.parts)
    replays.run(replays.create(spec(rate_per_second=rate)).id)
    at_ms = sorted(d.at_ms for row in rows if (d := kit.row(row.id).disposition))
    most = max(sum(1 for other in at_ms if start <= other < start + 1000) for start in at_ms)
    assert most <= max(1, rate)
    assert (at_ms[-1] - at_ms[0]) / 1000 <= 41 / rate + 1


def test_the_pace_divides_the_rate() -> None:
    """Batch and interval give the rate itself, never more."""
    for rate in (0.05, 0.3, 1, 7, 11, 15, 37, 100, 499, 500):
        size, gap = batch_of(rate), interval_ms(rate)
        assert -(-1000 // gap) * size <= max(1, rate)


def test_a_canary_that_falls_short_stops_the_rest(kit: Kit) -> None:
    """A cause that is still broken shows in the canary, which takes from every cause; the rest stays where it is."""
    good = [kit.bury(kit.submit(), "Timeout") for _ in range(30)]
    bad = [kit.bury(kit.submit(), "PDFError") for _ in range(3)]
    replays = Replays(kit.parts)
    state = replays.create(spec(canary=4))
    assert replays.run(state.id, stop_at_ms=kit.now_ms + 1).phase is not Phase.RUNNING
    replays.run(state.id, stop_at_ms=kit.now_ms + 1)
    kit.work(fail=lambda row: row.id in {each.id for each in bad})
    ended = replays.run(state.id)
    assert ended.phase is Phase.STOPPED
    assert ended.note == "its canary fell short: 2 of 4 completed, 2 did not"
    assert sum(kit.runs.values()) == 4
    assert ended.replayed + ended.counts["left"] == len(good) + len(bad)


def test_a_canary_that_comes_right_lets_the_rest_go(kit: Kit) -> None:
    """After enough of the canary has completed, the rest follows, and nothing twice."""
    for _ in range(30):
        kit.bury(kit.submit())
    replays = Replays(kit.parts)
    state = replays.create(spec(canary=5, canary_share=0.8))
    while not kit.bodies():
        replays.run(state.id, stop_at_ms=kit.now_ms + 1)
    assert len(kit.bodies()) == 5
    failing = decode(kit.bodies()[0]).id
    kit.work(fail=lambda row: row.id == failing)
    ended = replays.run(state.id)
    kit.work()
    assert (ended.phase, ended.replayed, ended.counts["left"]) == (Phase.DONE, 30, 0)
    assert set(kit.runs.values()) == {1}
    assert kit.row(failing).state is State.DEAD_LETTERED


def test_a_canary_that_is_never_finished_stops_in_time(kit: Kit) -> None:
    """Canary tasks that nobody runs do not hold a replay for ever, nor let the rest go."""
    for _ in range(10):
        kit.bury(kit.submit())
    replays = Replays(kit.parts)
    state = replays.run(replays.create(spec(canary=2, canary_seconds=300)).id)
    assert state.phase is Phase.STOPPED
    assert "not finished in 300 s" in state.note
    assert len(kit.bodies()) == 2


def test_an_abort_stops_before_the_next_batch(kit: Kit) -> None:
    """What was replayed stays replayed, the rest stays dead, and the numbers add up."""
    for _ in range(100):
        kit.bury(kit.submit())
    replays = Replays(kit.parts)
    state = replays.create(spec(rate_per_second=10))
    replays.run(state.id, stop_at_ms=kit.now_ms + 3000)
    aborted = replays.abort(state.id, "bob", "wrong filter")
    assert aborted.phase is Phase.ABORTED
    assert 0 < aborted.replayed < 100
    assert aborted.replayed + aborted.counts["left"] == 100
    assert len(kit.bodies()) == aborted.replayed
    assert replays.run(state.id).phase is Phase.ABORTED
    assert "bob" in aborted.note


def test_an_abort_reaches_the_runner_that_is_at_it(kit: Kit) -> None:
    """A runner in the middle of its work sees an abort with its next batch, and ends with exact counts."""
    for _ in range(60):
        kit.bury(kit.submit())
    replays = Replays(kit.parts)
    state = replays.create(spec(rate_per_second=10))
    thread = kit.world.threads.start("abort", lambda: _abort_after(kit, replays, state.id))
    ended = replays.run(state.id)
    thread.join()
    assert ended.phase is Phase.ABORTED
    assert len(kit.bodies()) == ended.replayed < 60
    assert ended.replayed + ended.counts["left"] == 60


def _abort_after(kit: Kit, replays: Replays, replay_id: str) -> None:
    kit.world.clock.sleep(2.5)
    replays.abort(replay_id, "bob", "enough")


def test_two_replays_at_once_double_nothing(kit: Kit) -> None:
    """Two replays of the same letters, and two runners of one, replay each task once between them."""
    for _ in range(60):
        kit.bury(kit.submit())
    replays = Replays(kit.parts)
    first, second = (replays.create(spec(rate_per_second=20)) for _ in range(2))

    def runner(replay_id: str) -> None:
        replays.run(replay_id)

    threads = [kit.world.threads.start(s.id, partial(runner, s.id)) for s in (first, second, first)]
    for thread in threads:
        thread.join()
    states = [replays.run(each.id) for each in (first, second)]
    assert [state.phase for state in states] == [Phase.DONE, Phase.DONE]
    assert sum(state.replayed for state in states) == 60
    for state in states:
        assert state.replayed + state.counts["elsewhere"] + state.counts["left"] == 60
    kit.work()
    assert set(kit.runs.values()) == {1}


def test_tasks_that_die_again_are_not_replayed_again_by_the_same_replay(kit: Kit) -> None:
    """A replay takes what was dead when it was created; and no task more often than its maximum, by however many."""
    rows = [kit.bury(kit.submit()) for _ in range(5)]
    for round_ in range(5):
        try:
            state = Replays(kit.parts).create(spec(replays_max=2))
        except NothingMatched:
            assert round_ == 2
            break
        kit.advance(1)
        Replays(kit.parts).run(state.id)
        kit.work(fail=lambda row: True)
    assert [kit.runs[row.id] for row in rows] == [2] * 5


def test_what_died_again_before_the_replay_came_to_it_is_left(kit: Kit) -> None:
    """A task that somebody else replayed, and that died again since this replay was created, is not its to take."""
    row = kit.bury(kit.submit())
    replays = Replays(kit.parts)
    first = replays.create(spec(canary=1))
    kit.advance(1)
    replays.run(replays.create(spec()).id)
    kit.work(fail=lambda row: True)
    ended = replays.run(first.id)
    assert (ended.phase, ended.replayed) == (Phase.DONE, 0)
    assert kit.row(row.id).replays == 1


def test_an_edited_payload_is_validated_before_anything_moves(kit: Kit) -> None:
    """A payload that its task does not take is refused, and the dead letter stays as it was."""
    row = kit.bury(kit.submit())

    def validate(task: str, payload: str) -> str:
        raise InvalidPayload(f"{task}: no")

    with pytest.raises(InvalidPayload):
        Replays(kit.parts, validate).create(spec(f"id:{row.id}", payload="{}"))
    with pytest.raises(UsageError, match="where the app is known"):
        Replays(kit.parts).create(spec(f"id:{row.id}", payload="{}"))
    assert kit.row(row.id) == row
    assert not kit.bodies()
    assert not Replays(kit.parts).list()


@pytest.mark.parametrize("size", [10, 5000, 100_000])
def test_an_edited_payload_replaces_the_old_one(kit: Kit, size: int) -> None:
    """The edited payload travels with the replay, wherever its size puts it."""
    row = kit.bury(kit.submit())
    payload = canonical({"n": "x" * size})
    replays = Replays(kit.parts, lambda task, text: canonical(__import__("json").loads(text)))
    replays.run(replays.create(spec(f"id:{row.id}", payload=payload)).id)
    place = kit.row(row.id).payload
    assert place is not None
    assert (place.value if place.kind == "inline" else kit.world.payloads.get(place)) == payload
    (body,) = kit.bodies()
    assert decode(body).digest == kit.row(row.id).digest != row.digest


def test_an_edited_payload_is_for_one_task(kit: Kit) -> None:
    """A filter that picks several refuses an edited payload."""
    for _ in range(2):
        kit.bury(kit.submit())
    with pytest.raises(UsageError, match="picks several"):
        Replays(kit.parts, lambda task, text: text).create(spec(payload="{}"))


def test_ordered_keys_keep_the_order_of_their_submits(kit: Kit) -> None:
    """However they were buried, tasks of one key are replayed in the order in which they were submitted."""
    rows = []
    for n in range(30):
        rows.append(kit.submit(queue="ledger", ordering_key=f"k{n % 3}"))
        kit.advance(1)
    for row in reversed(rows):
        kit.bury(row)
    replays = Replays(kit.parts)
    state = replays.run(replays.create(spec("queue:ledger")).id)
    assert state.replayed == 30
    kit.work()
    for key in ("k0", "k1", "k2"):
        mine = [row.id for row in rows if row.ordering_key == key]
        assert [id_ for id_ in kit.order if id_ in mine] == mine


def test_a_successor_does_not_pass_a_message_that_was_not_taken(kit: Kit) -> None:
    """Its batch stops there, and the next runner sends the key's messages in their order (R23)."""
    rows = [kit.bury(kit.submit(queue="ledger")) for _ in range(3)]
    replays = Replays(kit.parts)
    state = replays.create(spec("queue:ledger"))
    main = kit.world.queues(kit.topology.tier("ledger"))
    send = main.send_many

    def unanswered(sends: Sequence[Send]) -> list[Sent | NotSent]:
        main.send_many = send  # type: ignore[method-assign] # once
        return [NotSent(False, "ServiceUnavailable", "no answer came") for _ in sends]

    main.send_many = unanswered  # type: ignore[method-assign] # the fault
    with pytest.raises(ServiceError, match="was not sent"):
        replays.run(state.id)
    assert kit.bodies("ledger") == []
    kit.advance(61)
    assert replays.run(state.id).phase is Phase.DONE
    kit.work()
    assert kit.order == [row.id for row in rows]


def test_each_fifo_replay_has_its_own_deduplication_id(kit: Kit) -> None:
    """A replay within five minutes of the last send is not swallowed, nor is the one after it (S33)."""
    row = kit.bury(kit.submit(queue="ledger"))
    seen = {row.deduplication_id}
    for _ in range(2):
        replays = Replays(kit.parts)
        replays.run(replays.create(spec()).id)
        (message,) = kit.world.queues(kit.topology.tier("ledger")).all()
        seen.add(message.deduplication_id)
        kit.bury(kit.row(row.id))
    assert len(seen) == 3


def test_a_limit_bounds_a_replay(kit: Kit) -> None:
    """At most `limit` tasks, the canary's among them."""
    for _ in range(30):
        kit.bury(kit.submit())
    replays = Replays(kit.parts)
    state = replays.run(replays.create(spec(limit=7)).id)
    assert (state.replayed, state.counts["left"]) == (7, 23)
    assert len(kit.bodies()) == 7


def test_an_unanswered_send_is_made_good_by_reconcile(kit: Kit) -> None:
    """A replay's message that SQS did not take is sent by reconcile: the row stands."""
    kit.bury(kit.submit())
    replays = Replays(kit.parts)
    state = replays.create(spec())
    kit.world.faults = type(kit.world.faults)(send_unanswered=1.0)
    assert replays.run(state.id).counts["unsent"] == 1
    kit.world.faults = type(kit.world.faults)()
    kit.advance(300)
    Reconcile(kit.parts).run_once()
    kit.work()
    assert set(kit.runs.values()) == {1}


def test_status_and_audit_tell_who_did_what(kit: Kit) -> None:
    """A replay's beginning and end are recorded with caller, reason and counts; it is listed and can be looked up."""
    for _ in range(3):
        kit.bury(kit.submit())
    replays = Replays(kit.parts)
    state = replays.run(replays.create(spec()).id)
    assert [each.id for each in replays.list()] == [state.id]
    assert replays.status(state.id) == state
    with pytest.raises(ReplayNotFound):
        replays.status("nope")
    records = list(Audit(kit.world.store, kit.world.clock, kit.world.entropy).read(kit.now_ms - 1000))
    assert [(each.phase, each.action, each.by, each.reason) for each in records] == [
        ("ended", "replay", "ann", "fixed"),
        ("begun", "replay", "ann", "fixed"),
    ]
    assert (records[1].counts["count"], records[0].counts["replayed"]) == (3, 3)


def test_letters_of_one_millisecond_are_all_seen(kit: Kit) -> None:
    """Hundreds of letters buried in the same millisecond, more than a page, are each taken once."""
    for _ in range(450):
        kit.bury(kit.submit())
    assert len({kit.row(f"t{n + 1:05d}").ended_at_ms for n in range(450)}) == 1
    replays = Replays(kit.parts)
    state = replays.run(replays.create(spec(rate_per_second=500)).id)
    assert (state.replayed, state.counts["left"]) == (450, 0)
    counts = Counter(decode(body).id for body in kit.bodies())
    assert set(counts.values()) == {1}


def test_bad_specs_are_refused_by_name() -> None:
    """Each field says what it takes."""
    zero: dict[str, Any] = dict.fromkeys(("rate_per_second", "canary_share", "replays_max", "canary_seconds"), 0)
    for name, value in {**zero, "limit": -1, "canary": 1000}.items():
        with pytest.raises(UsageError, match=name):
            spec(**{name: value})
    with pytest.raises(UsageError, match="reason"):
        ReplaySpec(filter="", reason=" ", by="ann")
