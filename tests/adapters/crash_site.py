"""moto in this process, with a clock of the test's own, and what it holds: looked at, taken out and put back without a
request. A request takes milliseconds, and there are a thousand points at which one may be stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
from moto import mock_aws
from moto.backends import get_backend
from moto.core import DEFAULT_ACCOUNT_ID

from tenure.adapters import items
from tenure.core import limits
from tenure.core.task import Row
from tenure.core.topology import Pool, Queue, Topology
from tenure.local import atomic_moto
from tenure.local.provision import provision
from tenure.rows import to_row
from tests.adapters.wire import Moment, Wire
from tests.support.faults import retry_at_once


@dataclass(frozen=True)
class Held:
    """All that an environment held at one moment."""

    now_ms: int
    table: Any
    queues: dict[str, Any]
    objects: dict[str, Any]


class Site:
    """A clock, the wire of whoever is stopped and that of everybody else, and an environment for each kind of queue."""

    def __init__(self) -> None:
        self.clock = Moment()
        self.victim = Wire(self.clock)
        self.others = Wire(self.clock)
        self._environments = {ordered: self._environment(ordered) for ordered in (False, True)}

    def _environment(self, ordered: bool) -> Topology:
        queue = Queue(name="ledger" if ordered else "work", pool="many", ordered=ordered)
        pool = Pool(name="many", kind="fargate", threads=2)
        return provision(
            Topology(app="crash", environment=queue.name, queues=(queue,), pools=(pool,)), self.others.clients
        )

    def empty(self, ordered: bool) -> Topology:
        """An environment without a row, a message, a letter or an object."""
        topology = self._environments[ordered]
        self.put_back(topology, Held(self.clock.now_ms(), {}, dict.fromkeys(_urls(topology), ((), ())), {}))
        return topology

    def take(self, topology: Topology) -> Held:
        """A copy of all that an environment holds now."""
        return Held(
            self.clock.now_ms(),
            deepcopy(_table(topology)),
            {url: deepcopy((_queue(url)._messages, _queue(url)._pending_messages)) for url in _urls(topology)},
            {key: list(_objects(topology).getlist(key)) for key in _objects(topology)},
        )

    def put_back(self, topology: Topology, held: Held) -> None:
        """It holds just that again, and it is that time again."""
        self.clock.set(held.now_ms)
        _table(topology).clear()
        _table(topology).update(deepcopy(held.table))
        _objects(topology).clear()
        for key, versions in held.objects.items():  # the objects themselves are never changed once they are put
            _objects(topology).setlist(key, list(versions))
        for url, content in held.queues.items():
            messages, pending = deepcopy(content)
            _queue(url)._messages[:] = messages
            _queue(url)._pending_messages.clear()
            _queue(url)._pending_messages.update(pending)

    def purge(self, url: str) -> None:
        """Every message of a queue is gone."""
        _queue(url)._messages.clear()
        _queue(url)._pending_messages.clear()

    def rows(self, topology: Topology) -> dict[str, Row]:
        """Every row in the table, by task id."""
        found = [each.to_json()["Attributes"] for hashed in _table(topology).values() for each in hashed.values()]
        kept = (items.from_attributes(each) for each in found if each["sk"] == {"S": "R"})
        return {row.id: row for row in map(to_row, (item for item in kept if item.key.pk.startswith("T#")))}

    def bodies(self, url: str) -> list[str]:
        """The messages that a queue has, in whatever condition."""
        return [message.body for message in _queue(url)._messages]


def _urls(topology: Topology) -> list[str]:
    return [url for tier in topology.tiers() for url in (tier.url, tier.dead_url)]


def _table(topology: Topology) -> Any:
    return _moto("dynamodb").tables[topology.table_name].items


def _objects(topology: Topology) -> Any:
    return _moto("s3", "aws").buckets[topology.bucket_name].keys


def _queue(url: str) -> Any:
    return _moto("sqs").queues[url.rpartition("/")[2]]


def _moto(service: str, region: str = "us-east-1") -> Any:
    return get_backend(service)[DEFAULT_ACCOUNT_ID][region]  # type: ignore[call-overload] # its names are literals


@contextmanager
def site() -> Iterator[Site]:
    """One for a module: what is made on it has names of its own."""
    atomic_moto.install()
    with mock_aws(), pytest.MonkeyPatch.context() as patch:
        made = Site()
        patch.setattr("moto.sqs.models.unix_time_millis", lambda: float(made.clock.now_ms()))
        patch.setattr(limits, "DUE_SHARDS", 1)  # else most requests of a reconcile would read a shard without a row
        retry_at_once(patch)
        yield made
