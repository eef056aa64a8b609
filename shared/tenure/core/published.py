"""What a deployment publishes about itself, and how clients, workers and the CLI read it back.

One SSM parameter for each queue and one for table and bucket, each a JSON document with a version:

    /tenure/<app>/<environment>/stores           {"tenure":1,"table":"…","bucket":"…"}
    /tenure/<app>/<environment>/queues/<queue>   {"tenure":1,"queue":{…},"pool":{…},"urls":{"normal":["…","…"]},
                                                  "tasks":{"resize_photo":{…}}}

A parameter per queue, because a standard parameter holds 4 KB, and because adding a queue then changes nothing else.
A function is given its own slice as one environment variable instead, so that a cold start reads no parameter.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tenure.core import limits
from tenure.core.errors import InvalidTopology
from tenure.core.submission import TaskFacts
from tenure.core.topology import Pool, Queue, Topology

VERSION = 1


def path(app: str, environment: str) -> str:
    """The path below which everything that an app publishes in an environment lies."""
    return f"/tenure/{app}/{environment}"


def parameters(topology: Topology, tasks: Iterable[TaskFacts] = ()) -> dict[str, str]:
    """Parameter name -> value for a deployed topology and the tasks that run on it.

    Of many tasks on one queue the names of their arguments are left out, so that they fit into the parameter; their
    producers then learn of a misspelt argument from the worker. Raises InvalidTopology if a value still exceeds 4 KB.
    """
    declared = list(tasks)
    root = path(topology.app, topology.environment)
    found = {f"{root}/stores": _text({"table": topology.table_name, "bucket": topology.bucket_name})}
    for queue in topology.queues:
        urls = {tier: topology.urls[key] for tier in queue.tiers if (key := f"{queue.name}/{tier}") in topology.urls}
        document = {"queue": queue.model_dump(), "pool": topology.pool(queue.pool).model_dump(), "urls": urls}
        mine = [task for task in declared if task.queue == queue.name]
        found[f"{root}/queues/{queue.name}"] = _fitting(queue, document, mine)
    return found


def _fitting(queue: Queue, document: dict[str, Any], tasks: Sequence[TaskFacts]) -> str:
    size_bytes = 0
    for with_arguments in (True, False):
        text = _text(document | {"tasks": {task.name: _facts(task, with_arguments) for task in tasks}})
        size_bytes = len(text.encode())
        if size_bytes <= limits.SSM_PARAMETER_BYTES_MAX:
            return text
    raise InvalidTopology(
        f"queue {queue.name!r}: what is published of it is {size_bytes:,} bytes; a parameter holds "
        f"{limits.SSM_PARAMETER_BYTES_MAX:,}. Shorten its owner or runbook, or give some of its {len(tasks)} tasks a "
        "queue of their own."
    )


def _facts(task: TaskFacts, with_arguments: bool) -> dict[str, Any]:
    """A task as it is published: what is at its default is left out."""
    facts: dict[str, Any] = {}
    for name, default in (("version", 1), ("ordered_by", None), ("max_attempts", TaskFacts.MAX_ATTEMPTS)):
        if getattr(task, name) != default:
            facts[name] = getattr(task, name)
    if with_arguments and task.required is not None:
        facts |= {"required": list(task.required), "optional": list(task.optional)}
    return facts


def tasks_of(app: str, environment: str, values: Mapping[str, str]) -> dict[str, TaskFacts]:
    """The tasks that `values` tell of, by name, back from `parameters`. Raises InvalidTopology."""
    root = path(app, environment)
    found: dict[str, TaskFacts] = {}
    for name in sorted(values):
        if name.startswith(f"{root}/queues/"):
            entry = _document(name, values)
            queue = name.removeprefix(f"{root}/queues/")
            try:
                found |= {task: _task(task, queue, facts) for task, facts in entry.get("tasks", {}).items()}
            except (AttributeError, TypeError) as error:
                raise _unreadable(name, error) from error
    return found


def _task(name: str, queue: str, facts: Mapping[str, Any]) -> TaskFacts:
    required = facts.get("required")
    return TaskFacts(
        name=name,
        queue=queue,
        version=facts.get("version", 1),
        ordered_by=facts.get("ordered_by"),
        max_attempts=facts.get("max_attempts", TaskFacts.MAX_ATTEMPTS),
        required=None if required is None else tuple(required),
        optional=tuple(facts.get("optional", ())),
    )


def topology_of(app: str, environment: str, values: Mapping[str, str]) -> Topology:
    """The topology that `values` (parameter name -> value) tell of, back from `parameters`.

    Raises InvalidTopology if nothing is published there, or it was written by a newer tenure.
    """
    root = path(app, environment)
    stores = _document(f"{root}/stores", values)
    entries = [_document(name, values) for name in sorted(values) if name.startswith(f"{root}/queues/")]
    try:
        pools = {entry["pool"]["name"]: Pool.model_validate(entry["pool"]) for entry in entries}
        return Topology(
            app=app,
            environment=environment,
            queues=tuple(Queue.model_validate(entry["queue"]) for entry in entries),
            pools=tuple(pools.values()),
            urls={f"{e['queue']['name']}/{tier}": tuple(pair) for e in entries for tier, pair in e["urls"].items()},
            table=stores["table"],
            bucket=stores["bucket"],
        )
    except (ValidationError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(root, error) from error


def slice_of(topology: Topology, *, queue: str | None = None, pool: str | None = None) -> Topology:
    """The topology with one queue only, or one pool's queues only, and no pool that they do not need."""
    queues = tuple(q for q in topology.queues if queue in (None, q.name) and pool in (None, q.pool))
    needed = {q.pool for q in queues}
    kept = {q.name for q in queues}
    return topology.model_copy(
        update={
            "queues": queues,
            "pools": tuple(p for p in topology.pools if p.name in needed),
            "urls": {key: pair for key, pair in topology.urls.items() if key.partition("/")[0] in kept},
        }
    )


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps({"tenure": VERSION, **document}, sort_keys=True, separators=(",", ":"))


def _unreadable(name: str, error: Exception) -> InvalidTopology:
    told = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False)
        told = "; ".join(f"{'.'.join(str(step) for step in each['loc'])}: {each['msg']}" for each in found)
    return InvalidTopology(f"what is published at {name} cannot be read: {told}. Deploy it again.")


def _document(name: str, values: Mapping[str, str]) -> dict[str, Any]:
    text = values.get(name)
    if text is None:
        raise InvalidTopology(
            f"nothing is published at {name}: the environment is not deployed in this account and region, or its name "
            "is another. Deploy it, or correct the app's or the environment's name."
        )
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable(name, error) from None
    if not isinstance(document, dict):
        raise _unreadable(name, TypeError(f"a JSON {type(document).__name__}, not an object"))
    if document.get("tenure") != VERSION:
        raise InvalidTopology(
            f"{name} was written by version {document.get('tenure')!r} of the format; this tenure reads {VERSION}. "
            "Upgrade tenure here."
        )
    return document
