"""What a command works with: the environment it was told, the app, and everything that answers for them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tenure import config
from tenure.application import App
from tenure.cli import render
from tenure.cli.blame import of_app
from tenure.cli.visible import say
from tenure.client import Client
from tenure.core.environment import Environment
from tenure.core.errors import UsageError
from tenure.core.topology import Tier, Topology
from tenure.environment_file import read_environment
from tenure.ports import Clock, Entropy, PayloadStore, TaskQueue, TaskStore, Telemetry
from tenure.rows import Rows

if TYPE_CHECKING:
    from tenure.running import Running

FOLDERS = (Path("environments"), Path("infra/environments"))
"""Where environment files lie in a project, below the directory that a command is run in."""


@dataclass(frozen=True)
class Reach:
    """An app in one environment. `where` tells a person what answers: AWS in some region, or the embedded stack."""

    topology: Topology
    store: TaskStore
    payloads: PayloadStore
    queue: Callable[[Tier], TaskQueue]
    dead: Callable[[Tier], TaskQueue]
    clock: Clock
    entropy: Entropy
    telemetry: Telemetry
    client: Client
    where: str

    @property
    def rows(self) -> Rows:
        """The tasks' rows."""
        return Rows(self.store)


class Opener:
    """Opens an environment for a session. Tests hand in another one, as click's `obj`."""

    def open(self, session: Session) -> Reach:
        """Connect, as the session's options say. Raises UsageError and ServiceError."""
        from tenure.cli.connect import connect

        return connect(session)


class Session:
    """One run of one command."""

    def __init__(
        self,
        environment: str | None,
        app: str | None,
        *,
        wants_json: bool,
        opener: Opener,
        directory: Path | None = None,
    ) -> None:
        self.environment = environment or config.environment_name() or "dev"
        self.wants_json = wants_json
        self.directory = directory or Path.cwd()
        self._app = app
        self._opener = opener
        self._reach: Reach | None = None

    # ---- what is meant -----------------------------------------------------------------------------------------
    @cached_property
    def console(self) -> Console:
        """Standard output, for people."""
        return render.console()

    @property
    def file_path(self) -> Path:
        """Where the environment file is, or would be."""
        paths = [self.directory / folder / f"{self.environment}.toml" for folder in FOLDERS]
        found = [path for path in paths if path.exists()] or [path for path in paths if path.parent.is_dir()]
        return (found or paths)[0]

    @cached_property
    def file(self) -> Environment | None:
        """The environment file, read; None where there is none. Raises InvalidTopology for a wrong one."""
        return read_environment(self.file_path) if self.file_path.exists() else None

    @property
    def app_name(self) -> str:
        """The app's name. Raises UsageError where nothing tells it."""
        if self._app and ":" not in self._app:
            return self._app
        if self._app:
            return self.load_app().name
        if self.file is not None:
            return self.file.topology.app
        raise UsageError(
            f"which app is meant? There is no environment file {self.shown(self.file_path)} here. Run tenure from "
            "your project's root, name the app with --app, or begin a project with `tenure init`."
        )

    @property
    def app_path(self) -> str:
        """module:attribute of the App. Raises UsageError where nothing tells it."""
        if self._app and self.has_app_path:
            return self._app
        if self.file is not None:
            return self.file.app
        raise UsageError(
            f"where is the app's code? There is no environment file {self.shown(self.file_path)} here. Run tenure "
            "from your project's root, or say --app module:attribute."
        )

    @property
    def names_app(self) -> bool:
        """Whether --app was given."""
        return bool(self._app)

    @property
    def has_app_path(self) -> bool:
        """Whether --app says where the app's code is."""
        return bool(self._app and ":" in self._app)

    def project(self) -> Environment:
        """The environment file. Raises InvalidTopology, with those there are, where it is missing."""
        return self.file or read_environment(self.file_path)

    def load_app(self) -> App:
        """The App, imported from the project. Raises UsageError if it is not one, or if its code raises anything."""
        module, _, attribute = self.app_path.partition(":")
        if str(self.directory) not in sys.path:
            sys.path.insert(0, str(self.directory))
        mend = (
            "Correct --app module:attribute, or leave it out."
            if self.has_app_path
            else f"Correct `app` in {self.shown(self.file_path)}, or say --app module:attribute."
        )
        try:
            found = getattr(importlib.import_module(module), attribute, None)
        except (Exception, SystemExit) as error:
            named = error.name if isinstance(error, ModuleNotFoundError) else None
            if named is None or not f"{module}.".startswith(f"{named}."):
                raise of_app(error, self.app_path, self.directory) from error
            raise UsageError(
                f"{self.app_path}: there is no module {named!r} below {self.directory}. Run tenure from your "
                f"project's root. {mend}"
            ) from None
        if not isinstance(found, App):
            what = "does not exist" if found is None else f"is a {type(found).__name__}"
            raise UsageError(
                f"{self.app_path} {what}; it must be the tenure.App that the tasks are declared on. {mend}"
            )
        return found

    def fitting_app(self, topology: Topology) -> App:
        """The App, which goes by the environment's name and whose tasks fit its queues. Raises UsageError."""
        app = self.load_app()
        if app.name != topology.app:
            raise UsageError(
                f"the App is called {app.name!r} and {self.shown(self.file_path)} says {topology.app!r}: its messages "
                "would go to queues of another name. Make them the same."
            )
        app.check(topology)
        return app

    def reach(self) -> Reach:
        """The environment, connected to. The same for the whole run.

        Raises UsageError where --app names no App, even for a command that needs no code: a slip in it would else look
        like an app without tasks.
        """
        if self._reach is None:
            if self.has_app_path:
                self.load_app()
            self._reach = self._opener.open(self)
        return self._reach

    def running(self) -> Running | None:
        """The embedded stack that `tenure dev` runs here under this environment's name, meant or not."""
        from tenure.running import find

        return find(self.directory, self.environment)

    # ---- what is said ------------------------------------------------------------------------------------------
    def note(self, text: str) -> None:
        """Something beside the result: on standard error, and not at all for JSON."""
        if not self.wants_json:
            say(text, dim=True, err=True)

    def complain(self, text: str) -> None:
        """Something that went wrong, on standard error; the command goes on."""
        say(text, head="Failed: ", colour="red", err=True)

    def not_yet(self, text: str) -> None:
        """Something that goes on though the command ends, on standard error."""
        say(text, head="Not yet: ", colour="yellow", err=True)

    def heading(self, text: str) -> None:
        """A heading between blocks of text."""
        self.console.print()
        self.console.print(text, style="bold")

    def shown(self, path: Path) -> str:
        """A path as a person in the project's directory would write it."""
        return str(path.relative_to(self.directory)) if path.is_relative_to(self.directory) else str(path)
