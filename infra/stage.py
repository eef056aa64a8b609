"""One environment: its three stacks, in the order in which they stand on each other."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk
from constructs import Construct

from infra.bundle import Bundle, bundle
from infra.constructs.task_executor import ingredients
from infra.environment import Settings
from infra.fit import check_app
from infra.stacks.compute import ComputeStack
from infra.stacks.data import DataStack
from infra.stacks.operations import OperationsStack


@dataclass(frozen=True)
class Stage:
    """The stacks of one environment."""

    data: DataStack
    compute: ComputeStack
    operations: OperationsStack

    @property
    def stacks(self) -> tuple[cdk.Stack, ...]:
        """All of them."""
        return (self.data, self.compute, self.operations)


def add_stage(scope: Construct, settings: Settings, program: Bundle | None = None) -> Stage:
    """Put the stacks of an environment into an app. `program`: what functions run; made if not given.

    Not a cdk.Stage: its stacks would not be the app's own, and `cdk deploy --all` deploys none but those.
    Raises InvalidTopology where App and environment do not fit.
    """
    app = check_app(settings)
    data = DataStack(scope, settings=settings, tasks=[task.facts() for task in app.tasks.values()])
    compute = ComputeStack(
        scope, settings=settings, stores=data.stores, bundle=program or bundle(ingredients(settings))
    )
    operations = OperationsStack(scope, settings=settings, stores=data.stores, workers=compute.workers)
    return Stage(data, compute, operations)
