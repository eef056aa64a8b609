"""The stack that tells: alarms, the dashboard, and what people are allowed."""

from __future__ import annotations

from constructs import Construct

from infra.constructs.alarms import Alarms
from infra.constructs.dashboard import Dashboard
from infra.constructs.people import People
from infra.constructs.stores import Stores
from infra.constructs.workers import Workers
from infra.environment import Settings
from infra.stacks.base import EnvironmentStack


class OperationsStack(EnvironmentStack):
    """Alarms, dashboard, policies for producers and operators."""

    def __init__(self, scope: Construct, *, settings: Settings, stores: Stores, workers: Workers) -> None:
        super().__init__(scope, "operations", settings=settings)
        self.alarms = Alarms(self, "Alarms", settings=settings, stores=stores, workers=workers)
        self.dashboard = Dashboard(
            self, "Dashboard", settings=settings, stores=stores, workers=workers, alarms=self.alarms
        )
        self.people = People(self, "People", stores=stores)
