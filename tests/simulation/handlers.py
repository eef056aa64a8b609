"""The simulated application: tasks whose handlers do what the workload planned for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tenure.application import App
from tenure.core.outcome import GiveUp, RetryAfter, Snooze
from tenure.core.retry import Retry
from tenure.worker.context import Context, context
from tests.simulation.evidence import End, Evidence, Start
from tests.simulation.workload import LEASE_SECONDS, MAX_ATTEMPTS, TIMEOUT_SECONDS, Act, Planned, result_of

SLICE_SECONDS = 5.0
"""How often a handler that heeds looks at its context."""


class Handlers:
    """Declares the app, and runs each start of each task as planned. `die` ends the process that calls it."""

    def __init__(self, plan: Mapping[str, Planned], evidence: Evidence, die: Callable[[], None]) -> None:
        self._plan = plan
        self._evidence = evidence
        self._world = evidence.world
        self._die = die
        self.app = self._declare()

    def _declare(self) -> App:
        app = App("sim")
        retry = Retry(max_attempts=MAX_ATTEMPTS["work"], base=5.0, cap=60.0)
        options: dict[str, Any] = {"timeout": float(TIMEOUT_SECONDS), "lease": float(LEASE_SECONDS)}

        @app.task(queue="work", retry=retry, **options)
        def work(name: str, filler: str = "") -> str:
            return self._handle(name, filler)

        @app.task(queue="work", retry=retry, **options)
        async def trip(name: str, filler: str = "") -> str:
            return await self._await(name, filler)

        @app.task(queue="work", retry=replace(retry, max_attempts=MAX_ATTEMPTS["once"]), **options)
        def once(name: str, filler: str = "") -> str:
            return self._handle(name, filler)

        @app.task(queue="ledger", retry=replace(retry, max_attempts=MAX_ATTEMPTS["post"]), ordered_by="key", **options)
        def post(name: str, key: str, filler: str = "") -> str:
            return self._handle(name, filler)

        return app

    def _handle(self, name: str, filler: str) -> str:
        ctx, planned, act = self._begin(name, filler)
        try:
            self._spend(act, ctx)
            self._finish(act, ctx, name)
        finally:
            self._ended(ctx)
        return result_of(planned, ctx.fence)

    async def _await(self, name: str, filler: str) -> str:
        ctx, planned, act = self._begin(name, filler)
        try:
            await self._spend_awaiting(act)
            self._finish(act, ctx, name)
        except GeneratorExit:
            raise  # its process is long dead, and what is left of it is being collected
        except BaseException:
            self._ended(ctx)
            raise
        self._ended(ctx)
        return result_of(planned, ctx.fence)

    def _begin(self, name: str, filler: str) -> tuple[Context, Planned, Act]:
        ctx, evidence, now_ms = context(), self._evidence, self._world.scheduler.now_ms
        planned = self._plan[name]
        assert len(filler) == planned.size_bytes, f"{name} was given a payload that is not its own"
        act = planned.acts[min(evidence.started[name], len(planned.acts) - 1)]
        evidence.started[name] += 1
        row = evidence.rows.get(ctx.task_id)
        who = evidence.process()
        seen = Start(name, ctx.task_id, ctx.fence, ctx.attempt, now_ms, who, row, act.kind, filler[:1])
        evidence.starts.append(seen)
        return ctx, planned, act

    def _finish(self, act: Act, ctx: Context, name: str) -> None:
        self._end(act, ctx)
        self._world.scheduler.step(f"effect {name}")
        self._evidence.effect(name, ctx.fence)

    def _ended(self, ctx: Context) -> None:
        self._evidence.ends.append(End(ctx.task_id, ctx.fence, self._world.scheduler.now_ms))

    @staticmethod
    async def _spend_awaiting(act: Act) -> None:
        """The same on an event loop. One that does not heed stays where it is although it is cancelled."""
        loop = asyncio.get_running_loop()
        until = loop.time() + act.seconds
        while loop.time() < until:
            try:
                await asyncio.sleep(until - loop.time())  # noqa: TID251 - virtual: the loop is the world's
            except asyncio.CancelledError:
                if act.heeds and act.kind != "hang":
                    raise

    def _spend(self, act: Act, ctx: Context) -> None:
        if not act.heeds or act.kind == "hang":
            self._world.clock.sleep(act.seconds)
            return
        left = act.seconds
        while left > 0:
            self._world.clock.sleep(min(SLICE_SECONDS, left))
            left -= SLICE_SECONDS
            if ctx.cancelled:
                ctx.remaining()  # raises LeaseLost if that is why
                raise ValueError("told to stop")

    def _end(self, act: Act, ctx: Context) -> None:
        if act.kind == "kill":
            self._die()
        elif act.kind == "fail":
            raise ValueError("planned failure")
        elif act.kind == "give_up":
            raise GiveUp("planned")
        elif act.kind == "exit":
            raise SystemExit(3)
        elif act.kind == "snooze":
            raise Snooze(act.wait_seconds)
        elif act.kind == "later":
            raise RetryAfter(act.wait_seconds)
        elif act.kind == "checkpoint":
            ctx.checkpoint({"x": "y" * 2000})
            raise ValueError("after a checkpoint")
