"""The soak's audit and its judgement of memory can fail: each is shown what it is there to find."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tenure.core.task import Happening, Row, State
from tools.soak.audit import CHECKS, Effect, Evidence, audit
from tools.soak.plan import KILLS, KILLS_WITHIN, counted, plan
from tools.soak.watch import Sample, trends

TOOK_OVER = Happening(1, "claim", 2, "took over, lost 0")


def row(task_id: str, state: State = State.COMPLETED, **more: object) -> Row:
    blank = Row(id=task_id, birth="b", task="quick", queue="work", state=state, fence=1)
    return replace(blank, **more)  # type: ignore[arg-type] # fields by name


def effects(*told: tuple[str, int, str]) -> list[Effect]:
    return [Effect(task_id, fence, at_ms, step) for at_ms, (task_id, fence, step) in enumerate(told)]


DONE = [("t", 1, "begin"), ("t", 1, "end")]
SOUND = Evidence(
    submitted={"t": "quick", "d": "gives_up"},
    rows={"t": row("t"), "d": row("d", State.DEAD_LETTERED, reason="gave_up")},
    effects=effects(*DONE, ("d", 1, "begin")),
    letters=["d"],
)


def rows(**changed: Row | None) -> dict[str, Row]:
    return {task_id: each for task_id, each in {**SOUND.rows, **changed}.items() if each is not None}


def test_a_sound_run_passes_every_check() -> None:
    """Else the rest would show nothing."""
    assert [check.name for check in audit(SOUND) if not check.holds] == []
    assert len(audit(SOUND)) == len(CHECKS)


AGAIN = [("t", 1, "begin"), ("t", 1, "end"), ("t", 2, "begin"), ("t", 2, "end")]


@pytest.mark.parametrize(
    ("seen", "broken"),
    [
        (replace(SOUND, planned=3), "all that was planned was submitted"),
        (replace(SOUND, refused=["quick 3: no answer"]), "every submit was accepted"),
        (replace(SOUND, rows=rows(t=None)), "nothing is lost"),
        (replace(SOUND, rows=rows(t=row("t", State.QUEUED))), "nothing is lost"),
        (replace(SOUND, rows=rows(x=row("x"))), "nothing is lost"),
        (replace(SOUND, rows=rows(t=row("t", State.DEAD_LETTERED))), "each task ended as it was to end"),
        (replace(SOUND, rows=rows(d=row("d", State.DEAD_LETTERED, reason="worker_lost"))), "each task ended as"),
        (
            replace(
                SOUND,
                rows=rows(t=row("t", fence=2)),
                effects=effects(("t", 1, "begin"), ("t", 2, "begin"), ("t", 1, "end"), ("t", 2, "end")),
            ),
            "one owner at a time",
        ),
        (replace(SOUND, effects=effects(("t", 1, "begin"))), "what is completed was done whole"),
        (replace(SOUND, effects=effects(*DONE, ("d", 2, "begin"))), "nothing ran after its end"),
        (replace(SOUND, rows=rows(t=row("t", fence=2)), effects=effects(*AGAIN)), "nothing was done again"),
        (replace(SOUND, rows=rows(t=row("t", lease_token="x"))), "no row holds a lease"),
        (replace(SOUND, rows=rows(t=row("t", check_at_ms=1))), "no row holds a lease"),
        (replace(SOUND, waiting=1), "the queue is empty"),
        (replace(SOUND, letters=[]), "each dead letter rings"),
        (replace(SOUND, letters=["d", "t"]), "each dead letter rings"),
    ],
)
def test_each_check_finds_what_it_is_there_for(seen: Evidence, broken: str) -> None:
    """A row that is gone, an effect of a dead lease, a letter too few: the check of that name breaks and says who."""
    found = [check for check in audit(seen) if not check.holds]
    assert any(check.name.startswith(broken) for check in found)
    assert all(str(check).startswith("**NO**: ") for check in found)


def test_work_done_twice_is_allowed_where_a_worker_was_lost_over_it() -> None:
    """A worker killed between its work and its row leaves it to be done again: at least once is what is promised."""
    lost = replace(SOUND, rows=rows(t=row("t", fence=2, history=(TOOK_OVER,))), effects=effects(*AGAIN))
    assert all(check.holds for check in audit(lost))


def samples(rss: Sequence[float], descriptors: Sequence[int]) -> list[Sample]:
    pairs = zip(rss, descriptors, strict=True)
    return [Sample("worker", n * 10.0, n * 10.0, mib, held, 9) for n, (mib, held) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("rss", "descriptors", "flat"),
    [
        ([70.0] * 100, [12] * 100, [True, True]),
        ([70.0 + n * 0.3 for n in range(100)], [12] * 100, [False, True]),
        ([70.0] * 100, [12 + n // 8 for n in range(100)], [True, False]),
        ([70.0] * 20, [12] * 20, [None, None]),
    ],
)
def test_what_grows_is_not_flat(rss: list[float], descriptors: list[int], flat: list[bool | None]) -> None:
    """A leak of 0.3 MiB or of a descriptor now and then is seen; a stretch too short to tell is not judged."""
    found = trends(samples(rss, descriptors), "worker", 0.0, (len(rss) - 1) * 10.0, judged=True)
    assert [trend.flat for trend in found if trend.what != "threads"] == flat


def test_the_plan_is_the_seeds_and_kills_early_enough() -> None:
    """The same seed plans the same tasks, another one others; and whoever kills has the time to be taken over."""
    tasks = plan(20_000, 1)
    assert tasks == plan(20_000, 1)
    assert tasks != plan(20_000, 2)
    assert (len(tasks), counted(tasks)["killer"], counted(tasks)["poison"]) == (20_000, 20, 5)
    assert max(task.number for task in tasks if task.kind in KILLS) <= 20_000 * KILLS_WITHIN + len(KILLS) + 25
