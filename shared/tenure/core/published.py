"""What a deployment publishes about itself, and how clients, workers and the CLI read it back.

One SSM parameter for each queue and one for table and bucket, each a JSON document with a version:

    /tenure/<app>/<environment>/stores           {"tenure":1,"table":"…","bucket":"…"}
    /tenure/<app>/<environment>/queues/<queue>   {"tenure":1,"queue":{…},"pool":{…},"urls":{"normal":["…","…"]}}

A parameter per queue, because a standard parameter holds 4 KB, and because adding a queue then changes nothing else.
A function is given its own slice as one environment variable instead, so that a cold start reads no parameter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from tenure.core import limits
from tenure.core.errors import InvalidTopology
from tenure.core.topology import Pool, Queue, Topology

VERSION = 1


def path(app: str, environment: str) -> str:
    """The path below which everything that an app publishes in an environment lies."""
    return f"/tenure/{app}/{environment}"


def parameters(topology: Topology) -> dict[str, str]:
    """Parameter name -> value for a deployed topology. Raises InvalidTopology if a value exceeds a parameter's 4 KB."""
    root = path(topology.app, topology.environment)
    found = {f"{root}/stores": _text({"table": topology.table_name, "bucket": topology.bucket_name})}
    for queue in topology.queues:
        urls = {tier: topology.urls[key] for tier in queue.tiers if (key := f"{queue.name}/{tier}") in topology.urls}
        document = {"queue": queue.model_dump(), "pool": topology.pool(queue.pool).model_dump(), "urls": urls}
        name = f"{root}/queues/{queue.name}"
        found[name] = _text(document)
        size_bytes = len(found[name].encode())
        if size_bytes > limits.SSM_PARAMETER_BYTES_MAX:
            raise InvalidTopology(
                f"queue {queue.name!r}: what is published of it is {size_bytes:,} bytes; a parameter holds "
                f"{limits.SSM_PARAMETER_BYTES_MAX:,}. Shorten its owner or runbook."
            )
    return found


def topology_of(app: str, environment: str, values: Mapping[str, str]) -> Topology:
    """The topology that `values` (parameter name -> value) tell of, back from `parameters`.

    Raises InvalidTopology if nothing is published there, or it was written by a newer tenure.
    """
    root = path(app, environment)
    stores = _document(f"{root}/stores", values)
    entries = [_document(name, values) for name in sorted(values) if name.startswith(f"{root}/queues/")]
    pools = {entry["pool"]["name"]: Pool.model_validate(entry["pool"]) for entry in entries}
    try:
        return Topology(
            app=app,
            environment=environment,
            queues=tuple(Queue.model_validate(entry["queue"]) for entry in entries),
            pools=tuple(pools.values()),
            urls={f"{e['queue']['name']}/{tier}": tuple(pair) for e in entries for tier, pair in e["urls"].items()},
            table=stores["table"],
            bucket=stores["bucket"],
        )
    except (ValidationError, KeyError, TypeError) as error:
        raise InvalidTopology(f"what is published under {root} cannot be read: {error}. Deploy it again.") from error


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


def _document(name: str, values: Mapping[str, str]) -> dict[str, Any]:
    text = values.get(name)
    if text is None:
        raise InvalidTopology(
            f"nothing is published at {name}: the environment is not deployed in this account and region, or its name "
            "is another. Deploy it, or correct the app's or the environment's name."
        )
    document: dict[str, Any] = json.loads(text)
    if document.get("tenure") != VERSION:
        raise InvalidTopology(
            f"{name} was written by version {document.get('tenure')!r} of the format; this tenure reads {VERSION}. "
            "Upgrade tenure here."
        )
    return document
