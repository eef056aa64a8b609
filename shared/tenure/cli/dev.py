"""`tenure dev`: the embedded stack, its workers and what they do, in one terminal."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from rich.live import Live

from tenure import running
from tenure.adapters.clock import SystemClock
from tenure.cli import render, screen
from tenure.cli.options import with_session
from tenure.cli.session import Session
from tenure.core.errors import UsageError
from tenure.ports import Clock

if TYPE_CHECKING:
    from tenure.local.snapshot import Snapshot
    from tenure.local.stack import EmbeddedStack

LOOK_SECONDS = 0.5
"""Between two looks at the table. A look that takes long is not repeated sooner than after nine times as long."""
EVENTS_SHOWN = 12
EVENTS_TOLD = 10_000
"""Happenings of one look that the plain output goes through."""
NOTES_SHOWN = 3
DRAIN_SECONDS = 30.0
"""What running tasks get after the first Ctrl-C."""


@click.command()
@click.option("--port", type=int, default=0, help="Port of the emulated AWS. [default: a free one]")
@click.option("--plain", is_flag=True, help="A line for each event instead of a screen; always so without a terminal.")
@with_session
def dev(session: Session, port: int, plain: bool) -> None:
    """Run everything on this machine: queues, workers, emulated AWS.

    Needs no docker, no AWS account and no network. Commands in another terminal, in the same directory and with the
    same --env, find it by themselves. Ctrl-C lets running tasks end, then stops; everything it held is forgotten.
    """
    environment = session.project()
    other = session.running()
    if other is not None:
        raise UsageError(
            f"an embedded stack of environment {other.environment!r} runs here already, as process {other.pid}, at "
            f"{other.endpoint_url}. Stop it first, or start this one with another --env."
        )
    app = session.load_app()
    app.check(environment.topology)
    from tenure.local.stack import EmbeddedStack, StackOptions  # moto is slow to load: not before all else is right

    logs = running.folder(session.directory) / "logs"
    options = StackOptions(session.directory, logs, keeps_logs=False, port=port)
    tasks = [task.facts() for task in app.tasks.values()]
    stack = EmbeddedStack(environment.topology, session.app_path, options, tasks=tasks)
    session.note(f"Starting {environment.topology.app} · {environment.name} …")
    watch = _Watch(session, stack, SystemClock())
    with watch.signals():
        try:
            stack.start()
            note = running.leave(session.directory, _running(stack))
            try:
                watch.run(plain=plain or session.wants_json or not session.console.is_terminal)
            finally:
                note.unlink(missing_ok=True)
        finally:
            stack.stop(0.0)
    session.note("Stopped.")


def _running(stack: EmbeddedStack) -> running.Running:
    topology = stack.topology
    return running.Running(stack.emulator.url, os.getpid(), topology.app, topology.environment)


class _Watch:
    """Shows the stack until it is asked to stop, then drains it."""

    def __init__(self, session: Session, stack: EmbeddedStack, clock: Clock) -> None:
        self._session = session
        self._stack = stack
        self._clock = clock
        self._asked = 0
        self._began_at_ms = clock.now_ms()
        self._told: set[tuple[Any, ...]] = set()

    def signals(self) -> render.Restored:
        """Ctrl-C and SIGTERM count from here on; restored at the end."""
        return render.Restored({number: self._ask for number in (signal.SIGINT, signal.SIGTERM)})

    def _ask(self, *_: Any) -> None:
        self._asked += 1

    def run(self, *, plain: bool) -> None:
        """Until Ctrl-C or SIGTERM, and what runs then has ended; a second one ends it at once."""
        if plain:
            self._tell_start()
            for snapshot in self._looks():
                self._tell(snapshot)
            return
        with Live(console=self._session.console, auto_refresh=False) as live:
            for snapshot in self._looks():
                live.update(screen.draw(self._view(snapshot)), refresh=True)

    def _looks(self) -> Iterator[Snapshot]:
        """What the table holds, again and again, until the stack is to be stopped."""
        drains_until_ms = 0
        while self._asked < 2:
            if self._asked and not drains_until_ms:
                drains_until_ms = self._clock.now_ms() + round(DRAIN_SECONDS * 1000)
                self._stack.drain()
            began_at_ms = self._clock.now_ms()
            yield self._stack.snapshot()
            if drains_until_ms and (self._stack.drained or self._clock.now_ms() >= drains_until_ms):
                return
            self._rest((self._clock.now_ms() - began_at_ms) / 1000)

    def _rest(self, took_seconds: float) -> None:
        asked, until_ms = self._asked, self._clock.now_ms() + round(max(LOOK_SECONDS, 9 * took_seconds) * 1000)
        while self._asked == asked and self._clock.now_ms() < until_ms:
            self._clock.sleep(0.05)

    # ---- a screen --------------------------------------------------------------------------------------------------
    def _view(self, snapshot: Snapshot) -> screen.View:
        notes = list(self._stack.notes)[-NOTES_SHOWN:]
        return screen.View(
            topology=self._stack.topology,
            endpoint_url=self._stack.emulator.url,
            counts=snapshot.counts(),
            events=snapshot.events(EVENTS_SHOWN),
            workers=self._stack.workers(),
            up_seconds=(self._clock.now_ms() - self._began_at_ms) / 1000,
            notes=[f"{render.time(at_ms)[11:19]}  {what}: {detail}" for at_ms, what, detail in notes],
            draining=self._asked > 0,
        )

    # ---- lines -----------------------------------------------------------------------------------------------------
    def _tell_start(self) -> None:
        if self._session.wants_json:
            render.as_json({"endpoint_url": self._stack.emulator.url, "pid": os.getpid()})
        else:
            click.echo(f"AWS is emulated at {self._stack.emulator.url}; logs are in {running.FOLDER}/logs.")

    def _tell(self, snapshot: Snapshot) -> None:
        """What happened since the last look, a line each, earliest first."""
        lines: list[tuple[tuple[Any, ...], str]] = []
        for at_ms, what, detail in list(self._stack.notes):
            lines.append(((at_ms, what, detail), f"{render.time(at_ms)[11:19]}  {what}: {detail}"))
        for happening, row in snapshot.events(EVENTS_TOLD):
            clock_time, task, task_id, event, detail = (cell.plain for cell in screen.event_cells(happening, row))
            text = f"{clock_time}  {task_id}  {task:<20}  {event:<14}  {detail}".rstrip()
            lines.append(((happening.at_ms, row.id, happening.event, happening.fence), text))
        for key, text in sorted(lines, key=lambda line: line[0][0]):
            if key not in self._told:
                self._told.add(key)
                click.echo(text)
