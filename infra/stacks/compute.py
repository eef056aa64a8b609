"""The stack that runs: it holds nothing that could be lost."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from infra.bundle import Bundle
from infra.constructs.stores import Stores
from infra.constructs.workers import Workers
from infra.environment import Settings
from infra.stacks.base import EnvironmentStack


class ComputeStack(EnvironmentStack):
    """Functions, services and maintenance."""

    def __init__(self, scope: Construct, *, settings: Settings, stores: Stores, bundle: Bundle) -> None:
        # A bucket for the handlers' own files would be data; nothing else here is.
        super().__init__(scope, "compute", settings=settings, keeps_data=bool(settings.deployment.files_variable))
        self.workers = Workers(self, "Workers", settings=settings, stores=stores, bundle=bundle)

    @property
    def availability_zones(self) -> list[str]:
        """Two zones, whichever they are: asking AWS for their names would make synth need an account."""
        zones = cdk.Fn.get_azs()
        return [cdk.Fn.select(0, zones), cdk.Fn.select(1, zones)]
