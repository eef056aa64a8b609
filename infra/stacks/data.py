"""The stack that keeps: what it holds outlives every deployment of the others."""

from __future__ import annotations

from collections.abc import Iterable

from constructs import Construct

from infra.constructs.stores import Stores
from infra.environment import Settings
from infra.stacks.base import EnvironmentStack
from tenure.core.submission import TaskFacts


class DataStack(EnvironmentStack):
    """Queues, table, bucket, key and the published topology."""

    def __init__(self, scope: Construct, *, settings: Settings, tasks: Iterable[TaskFacts]) -> None:
        super().__init__(scope, "data", settings=settings, keeps_data=True)
        self.stores = Stores(self, "Stores", settings=settings, tasks=tasks)
