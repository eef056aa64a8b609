"""How far a task is can be seen while it runs, whatever else its handler writes."""

from __future__ import annotations

import tenure
from tenure.core.task import State
from tests.support.lab import Lab


def test_progress_is_seen_though_checkpoints_come_faster_than_heartbeats() -> None:
    """Each checkpoint renews the lease and so puts the next heartbeat off: it must carry the progress itself."""
    app = tenure.App("lab")
    seen: list[int] = []

    @app.task(queue="work", lease="30s")
    def steps() -> None:
        ctx = tenure.context()
        for done in (1, 2, 3):
            it.world.clock.sleep(8)
            ctx.progress(done / 4)
            ctx.checkpoint(done)
            engine.holder.tick()
            seen.append(it.row(task_id).progress_permille)

    it = Lab(app)
    engine = it.engine()
    task_id = it.submit("steps")
    it.work(engine)
    assert it.row(task_id).state is State.COMPLETED
    assert seen == [250, 500, 750]
