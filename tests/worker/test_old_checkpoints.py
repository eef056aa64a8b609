"""A checkpoint beside the row passes away in time; a task that rests for longer goes on without it."""

from __future__ import annotations

import tenure
from tenure import testing
from tenure.core import limits
from tenure.core.task import State


def test_a_task_that_rests_for_longer_than_its_checkpoint_is_kept_begins_anew() -> None:
    """Its handler sees no checkpoint, as in its first attempt, and a warning tells; it does not fail for ever."""
    app, seen = tenure.App("office"), []

    @app.task(queue="reports")
    def report() -> str:
        context = tenure.context()
        seen.append(context.last_checkpoint)
        if len(seen) == 1:
            context.checkpoint("x" * (limits.INLINE_BYTES_MAX + 1))
            raise tenure.Snooze(limits.CHECKPOINT_LIFE_SECONDS + 86_400)
        return "done"

    world = testing.connect(app)
    handle = report.submit()
    testing.run_all(app, world, patience="120d")
    assert (seen, handle.status().state) == ([None, None], State.COMPLETED)
    assert world.telemetry.count("checkpoint.missing") == 1


def test_a_checkpoint_outlives_a_rest_of_two_months() -> None:
    """A snooze over a holiday, or a replay after one, finds what was left."""
    app, seen = tenure.App("office"), []

    @app.task(queue="reports")
    def report() -> None:
        context = tenure.context()
        seen.append(context.last_checkpoint)
        if len(seen) == 1:
            context.checkpoint("x" * (limits.INLINE_BYTES_MAX + 1))
            raise tenure.Snooze("60d")

    world = testing.connect(app)
    report.submit()
    testing.run_all(app, world, patience="90d")
    assert [value and len(value) for value in seen] == [None, limits.INLINE_BYTES_MAX + 1]
