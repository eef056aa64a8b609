"""Watching an embedded stack until it is asked to stop: on a screen, or a line for each thing that happens.

Who watches must not decide over what is watched: whatever goes wrong while something is shown is told, once, and the
stack goes on.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from tenure import running
from tenure.cli import render, screen
from tenure.cli.edits import Edits
from tenure.cli.session import Session
from tenure.cli.visible import in_line, say
from tenure.ports import Clock

if TYPE_CHECKING:
    from tenure.local.snapshot import Snapshot
    from tenure.local.stack import EmbeddedStack

LOOK_SECONDS = 0.5
"""Between two looks at the table. A look that takes long is not repeated sooner than after nine times as long."""
EVENTS_TOLD = 10_000
"""Happenings of one look that the plain output goes through."""
DRAIN_SECONDS = 30.0
"""What running tasks get after the first Ctrl-C."""


class Watch:
    """Shows the stack until it is asked to stop, then drains it."""

    def __init__(self, session: Session, stack: EmbeddedStack, clock: Clock, edits: Edits) -> None:
        self._session = session
        self._stack = stack
        self._clock = clock
        self._edits: Edits | None = edits
        self._asked = 0
        self._began_at_ms = clock.now_ms()
        self._told: set[str] = set()
        self._faults: set[str] = set()

    def signals(self) -> render.Restored:
        """Ctrl-C and SIGTERM count from here on; restored at the end."""
        return render.Restored({number: self._ask for number in (signal.SIGINT, signal.SIGTERM)})

    def _ask(self, *_: Any) -> None:
        self._asked += 1

    def run(self, *, plain: bool) -> None:
        """Until Ctrl-C or SIGTERM, and what runs then has ended; a second one ends it at once."""
        if plain:
            self._tell_start()
            self._show(
                self._tell,
                lambda told: self._session.complain(told.plain),
                on_drain=lambda: self._session.note(screen.DRAINING),
            )
            return
        with Live(console=self._session.console, auto_refresh=False) as live:

            def put(shown: RenderableType) -> None:
                live.update(shown, refresh=True)

            self._show(lambda snapshot: put(screen.draw(self._view(snapshot))), put, on_drain=lambda: None)

    def _show(
        self, show: Callable[[Snapshot], None], say: Callable[[Text], None], *, on_drain: Callable[[], None]
    ) -> None:
        """Show look after look. What cannot be shown is said, once."""
        for look in self._looks(on_drain):
            try:
                show(look())
            except BrokenPipeError:  # nobody looks any more
                raise
            except Exception as error:
                self._fault(error, say)

    def _fault(self, error: Exception, say: Callable[[Text], None]) -> None:
        told = f"{type(error).__name__}: {error}"
        if told in self._faults:
            return
        self._faults.add(told)
        with open(running.folder(self._session.directory) / "logs" / "screen.log", "a", encoding="utf-8") as log:
            log.write("".join(traceback.format_exception(error)))
        say(
            render.block(
                f"The screen failed ({told}). That is a defect in tenure; the stack and its tasks go on, and other "
                f"terminals can ask it. Its traceback is in {running.FOLDER}/logs/screen.log."
            )
        )

    def _looks(self, on_drain: Callable[[], None]) -> Iterator[Callable[[], Snapshot]]:
        """How to look at the table, again and again, until the stack is to be stopped."""
        drains_until_ms = 0
        while self._asked < 2:
            if self._asked and not drains_until_ms:
                drains_until_ms = self._clock.now_ms() + round(DRAIN_SECONDS * 1000)
                on_drain()
                self._stack.drain()
            self._look_for_edits()
            began_at_ms = self._clock.now_ms()
            yield self._stack.snapshot
            if drains_until_ms and (self._stack.drained or self._clock.now_ms() >= drains_until_ms):
                return
            self._rest((self._clock.now_ms() - began_at_ms) / 1000)

    def _rest(self, took_seconds: float) -> None:
        asked, until_ms = self._asked, self._clock.now_ms() + round(max(LOOK_SECONDS, 9 * took_seconds) * 1000)
        while self._asked == asked and self._clock.now_ms() < until_ms:
            self._clock.sleep(0.05)

    def _look_for_edits(self) -> None:
        edited = self._edits.first() if self._edits else None
        if edited is not None:
            self._edits = None
            name = self._session.shown(edited)
            self._stack.note(f"{name} has changed", "workers run what they loaded; restart tenure dev to take it up")

    # ---- a screen --------------------------------------------------------------------------------------------------
    def _view(self, snapshot: Snapshot) -> screen.View:
        size = self._session.console.size
        return screen.View(
            topology=self._stack.topology,
            endpoint_url=self._stack.emulator.url,
            counts=snapshot.counts(),
            events=snapshot.events(screen.EVENTS_SHOWN),
            workers=self._stack.workers(),
            up_seconds=(self._clock.now_ms() - self._began_at_ms) / 1000,
            notes=[_note_text(note) for note in list(self._stack.notes)[-screen.NOTES_SHOWN :]],
            draining=self._asked > 0,
            width=size.width,
            height=size.height,
        )

    # ---- lines -----------------------------------------------------------------------------------------------------
    def _tell_start(self) -> None:
        if self._session.wants_json:
            render.as_json({"endpoint_url": self._stack.emulator.url, "pid": os.getpid()})
        else:
            say(f"AWS is emulated at {self._stack.emulator.url}; logs are in {running.FOLDER}/logs.")

    def _tell(self, snapshot: Snapshot) -> None:
        """What happened since the last look, a line each, earliest first."""
        from tenure.local.snapshot import moment

        lines = [(note[0], repr(note), _note_text(note)) for note in list(self._stack.notes)]
        for happening, row in snapshot.events(EVENTS_TOLD):
            clock_time, task, task_id, event, detail = (cell.plain for cell in screen.event_cells(happening, row))
            text = f"{clock_time}  {task_id}  {task:<20}  {event:<14}  {detail}".rstrip()
            lines.append((moment(happening.at_ms), f"{happening.at_ms!r} {row.id} {event} {happening.fence!r}", text))
        for _, key, text in sorted(lines, key=lambda line: line[0]):
            if key not in self._told:
                self._told.add(key)
                say(text)


def _note_text(note: tuple[int, str, str]) -> str:
    at_ms, what, detail = note
    return in_line(f"{render.time(at_ms)[11:19]}  {what}: {detail}")
