"""An environment file's content, as data: which App, its queues and pools, and a `[deploy]` table for whoever deploys.

The same file is read by synth, by the embedded stack and by the CLI, so the reading of it lives in the library, and
the part that only a deployment needs is handed on unread. Reading the file itself is `tenure.environment_file`.

    name = "restaurant"                        # the App's name; with the environment's it makes every name on AWS
    app = "examples.restaurant.app:app"        # module:attribute of the App
    requirements = "examples/restaurant/requirements.txt"     # what the handlers import, beside tenure

    [pools.quick]                              # fields of tenure.core.topology.Pool, without its name
    kind = "lambda"
    [queues.media]                             # fields of tenure.core.topology.Queue, without its name
    pool = "quick"
    [deploy]                                   # read by the infrastructure only
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tenure.core.errors import InvalidTopology
from tenure.core.explain import explain, unknown
from tenure.core.topology import Name, Pool, Queue, Topology

MODULE_AND_ATTRIBUTE = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"
FIELDS = ("name", "app", "requirements", "pools", "queues", "deploy")

_Named = TypeVar("_Named", Pool, Queue)
_Model = TypeVar("_Model", bound=BaseModel)


class _Head(BaseModel):
    """The fields outside of any table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    app: Annotated[str, Field(pattern=MODULE_AND_ATTRIBUTE)]
    requirements: str = ""


class Environment(BaseModel):
    """One environment: what runs (`app`), and where (`topology`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    topology: Topology
    app: str
    """module:attribute of the App."""
    requirements: str = ""
    """Path, from the project's root, of the requirements that the handlers import; empty where there are none."""
    deploy: dict[str, Any] = Field(default_factory=dict)
    """The `[deploy]` table, unread: the infrastructure's own."""

    @property
    def name(self) -> str:
        """The environment's name, for example prod."""
        return self.topology.environment


Look = Callable[[Mapping[str, Any]], list[str]]
"""What whoever reads the `[deploy]` table finds wrong in it, a line each."""


def strictly(model: type[_Model], content: Mapping[str, Any]) -> _Model:
    """The model in a part of a parsed file, without turning "4" or 4.0 into 4: a file has numbers and texts of its own,
    and one in the other's place is a mistake. Raises ValidationError.

    By way of JSON, whose lists may be tuples in a strict model; those of Python may not.
    """
    return model.model_validate_json(json.dumps(content, default=str), strict=True)


def environment_of(name: str, content: Mapping[str, Any], source: str, look: Look | None = None) -> Environment:
    """The environment called `name` from a parsed file's content; `source` names the file in errors.

    look: what else is wrong with its `[deploy]` table, so that all is told at once.

    Raises InvalidTopology with every problem found, a line each: the field, the rule and the mend.
    """
    problems = [f"{key}: {unknown(key, FIELDS)}" for key in content if key not in FIELDS]
    head = {key: content[key] for key in ("name", "app", "requirements") if key in content}
    try:
        strictly(_Head, head)
    except ValidationError as error:
        problems += explain(error, "", _Head)
    pools = _named(Pool, content, "pools", problems)
    queues = _named(Queue, content, "queues", problems)
    topology = None if problems else _topology(name, content["name"], queues, pools, problems)
    deploy = content.get("deploy", {})
    if not isinstance(deploy, Mapping):
        problems.append("deploy: must be a table. Write a [deploy] section.")
    elif look is not None:
        problems += look(deploy)
    if topology is None or problems:
        raise _refusal(problems, source)
    return Environment(
        topology=topology,
        app=content["app"],
        requirements=content.get("requirements", ""),
        deploy=dict(deploy),
    )


def refuse(problems: list[str], source: str) -> None:
    """Raise InvalidTopology that lists `problems`, if there are any."""
    if problems:
        raise _refusal(problems, source)


def _refusal(problems: list[str], source: str) -> InvalidTopology:
    count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
    return InvalidTopology(f"{source} has {count}:\n" + "\n".join(f"  {problem}" for problem in problems))


def _topology(
    name: str, app: str, queues: tuple[Queue, ...], pools: tuple[Pool, ...], problems: list[str]
) -> Topology | None:
    try:
        return Topology(app=app, environment=name, queues=queues, pools=pools)
    except ValidationError as error:
        problems += explain(error, "", Topology)
        return None


def _named(model: type[_Named], content: Mapping[str, Any], table: str, problems: list[str]) -> tuple[_Named, ...]:
    """The models in `[table.<name>]`, each given its name; what is wrong is added to `problems`."""
    entries = content.get(table, {})
    if not isinstance(entries, Mapping) or not entries:
        problems.append(f"{table}: there is none. Write at least one [{table}.<name>] section.")
        return ()
    found = []
    for name, fields in entries.items():
        where = f"{table}.{name}"
        if not isinstance(fields, Mapping):
            problems.append(f"{where}: must be a table. Write a [{where}] section.")
        elif "name" in fields:
            problems.append(f"{where}.name: is the section's title already. Drop the line.")
        else:
            try:
                found.append(strictly(model, {**fields, "name": name}))
            except ValidationError as error:
                problems += explain(error, where, model)
    return tuple(found)
