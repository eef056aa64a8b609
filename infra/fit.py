"""Whether the App and the environment fit: checked at synth, where a mistake costs a minute and no task."""

from __future__ import annotations

import importlib

from infra.environment import Settings
from tenure.application import App
from tenure.core.declaration import TaskDefinition
from tenure.core.durations import text_of
from tenure.core.errors import InvalidTopology, UsageError
from tenure.core.topology import Topology, refuse_unbuilt


def check_app(settings: Settings) -> App:
    """The App that the environment names, imported and checked against its queues and pools.

    Raises InvalidTopology with every misfit, a line each: the task, the rule and the mend; NotBuilt for a queue's
    option that this version does not carry out.
    """
    for queue in settings.topology.queues:
        refuse_unbuilt(queue)
    app = load_app(settings.environment.app)
    problems = [] if app.name == settings.topology.app else [_misnamed(app.name, settings)]
    for definition in app.tasks.values():
        problems += misfits(definition, settings.topology)
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        raise InvalidTopology(
            f"{settings.environment.app} does not fit environment {settings.environment.name!r}:\n{lines}"
        )
    return app


def load_app(path: str) -> App:
    """The App at module:attribute. Raises InvalidTopology if it is not there, or is something else."""
    module, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise InvalidTopology(
            f"app = {path!r}: {error}. Run the command from the project's root, install what the tasks import, or "
            "correct the path."
        ) from error
    except AttributeError:
        raise InvalidTopology(f"app = {path!r}: module {module} has no {attribute!r}. Correct the name.") from None
    if not isinstance(found, App):
        raise InvalidTopology(f"app = {path!r} is a {type(found).__name__}, not a tenure.App. Name the App's variable.")
    return found


def misfits(definition: TaskDefinition, topology: Topology) -> list[str]:
    """Why a task cannot run in this topology, each with its mend."""
    try:
        found = definition.unfit(topology)
    except UsageError as error:
        return [f"task {definition.name!r}: {error}"]
    return [each for each in (found, _lease_misfit(definition, topology)) if each]


def _lease_misfit(definition: TaskDefinition, topology: Topology) -> str:
    """A lease that outlives the function: a crashed worker's task would wait longer than any run of it may take."""
    queue = topology.queue(definition.queue)
    pool = topology.pool(queue.pool)
    if pool.kind == "lambda" and definition.lease_seconds > pool.longest_runtime_seconds:
        return (
            f"task {definition.name!r} has a lease of {text_of(definition.lease_seconds)}, but pool {pool.name!r} runs "
            f"nothing for longer than {text_of(pool.longest_runtime_seconds)}, so a lost task would wait longer than a "
            "run may take. Lower the task's lease, or raise the pool's longest_runtime_seconds."
        )
    return ""


def _misnamed(name: str, settings: Settings) -> str:
    return (
        f"its App is called {name!r}, but the environment file says name = {settings.topology.app!r}; producers that "
        f"connect as {name!r} would find nothing. Make them the same."
    )
