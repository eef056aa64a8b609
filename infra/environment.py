"""The `[deploy]` table of an environment file: what a deployment needs to know beyond queues and pools.

Queues, pools and the App are read by the library (`tenure.core.environment`), because the embedded stack and the CLI
read them too. This is the rest, as one validated model. Every field has a default that is safe to forget except
`removal`: whether data outlives the stack is for a person to say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tenure.core import limits
from tenure.core.environment import Environment, refuse, strictly
from tenure.core.explain import explain
from tenure.core.topology import Queue, Topology
from tenure.environment_file import read_environment

ALARM_METRICS_MAX = 10
"""Metrics that one alarm on a metric math expression may read. AmazonCloudWatch/…/Create-alarm-on-metric-math.html"""

SECRETIVE = re.compile(r"SECRET|PASSW|TOKEN|CREDENTIAL|PRIVATE|API_?KEY", re.IGNORECASE)
"""Names of variables that would hold a secret."""

Seconds = Annotated[int, Field(ge=60, le=limits.SQS_RETENTION_SECONDS_MAX)]
LogDays = Literal[1, 7, 14, 30, 90, 180, 365, 731, 1827, 3653]
"""Some of the retentions that CloudWatch Logs takes. Service model of logs, PutRetentionPolicy."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Network(_Model):
    """Where Fargate tasks run. Lambda workers run outside of any VPC: they speak to AWS's own services only."""

    kind: Literal["public", "endpoints", "existing"] = "public"
    """public: subnets with an internet gateway, tasks with a public address and no way in; costs nothing while idle.
    endpoints: subnets without a way out, and interface endpoints for what a worker calls; about 7 USD a month each in
    each zone. existing: a VPC that is there already, named by the three fields below."""
    vpc_id: str = ""
    availability_zones: tuple[str, ...] = ()
    subnet_ids: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _complete(self) -> Self:
        named = bool(self.vpc_id and self.availability_zones and self.subnet_ids)
        if self.kind == "existing" and not named:
            raise ValueError('kind = "existing" needs vpc_id, availability_zones and subnet_ids. Add them.')
        if self.kind != "existing" and (self.vpc_id or self.availability_zones or self.subnet_ids):
            raise ValueError(
                f'vpc_id, availability_zones and subnet_ids are read with kind = "existing" only, not with '
                f'"{self.kind}". Drop them, or change kind.'
            )
        if len(self.subnet_ids) != len(self.availability_zones):
            raise ValueError("subnet_ids and availability_zones go in pairs: one zone for each subnet.")
        return self


class Alarms(_Model):
    """Who is told, and when. Counts are within one evaluation period (see constructs/alarms.py for the periods)."""

    addresses: tuple[Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")], ...] = ()
    """Electronic mail addresses; each confirms its subscription once."""
    oldest_seconds: Seconds = 900
    """Age of the oldest message of a queue and tier at which somebody should look."""
    oldest_seconds_of: dict[str, Seconds] = Field(default_factory=dict)
    """The same for single queues, by name."""
    duration_fraction: float = Field(default=0.9, gt=0, le=1)
    """Of a function's timeout: an invocation that long will soon be cut."""
    worker_errors: int = Field(default=5, ge=1)
    """Failed invocations of one function in five minutes. Task failures are not among them: tenure settles those."""
    leases_lost: int = Field(default=5, ge=1)
    """Lost leases in five minutes."""
    duplicates: int = Field(default=500, ge=1)
    """Messages in five minutes whose task was over already: SQS delivers twice at times, not by the hundred."""
    retries: int = Field(default=500, ge=1)
    """Retries in five minutes, of all queues: a retry storm."""


class Deployment(_Model):
    """What differs between environments beyond queues and pools."""

    removal: Literal["retain", "destroy"]
    """retain: table, bucket and queues outlive the stack, and neither stack nor table can be deleted by accident.
    destroy: everything goes, the data with it."""
    python_version: Literal["3.11", "3.12", "3.13", "3.14"] = "3.14"
    architecture: Literal["arm64", "x86_64"] = "arm64"
    account: str = Field(default="", pattern=r"^(\d{12})?$")
    """If given, a deployment into any other account is refused."""
    region: str = Field(default="", pattern=r"^([a-z]{2}(-[a-z]+)+-\d)?$")
    log_retention_days: LogDays = 30
    permissions_boundary: str = ""
    """Name of the managed policy that bounds every role that the stacks make."""
    customer_key: bool = False
    """Encrypt queues, table and bucket with a key of one's own (1 USD a month, and a charge for its use)."""
    recursion: Literal["terminate", "allow"] = "terminate"
    """What Lambda does with a chain Lambda -> SQS -> the same Lambda after about 16 rounds: docs/adr/0031."""
    backlog_per_task: int = Field(default=10, ge=1)
    """Messages that one Fargate task is expected to work off before another is started."""
    services: tuple[str, ...] = ()
    """AWS services that handlers call through boto3. Named, the asset keeps their models and tenure's own and drops the
    other 440, which is two thirds of its size; empty, it keeps all."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the handlers. Open to whoever may see a function: never a secret."""
    files_variable: str = ""
    """If given, the workers share a bucket for the handlers' own files, and this variable holds its s3:// address."""
    submits: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """queue -> queues that its handlers submit to; their role may send to these and no others."""
    acknowledged: dict[str, str] = Field(default_factory=dict)
    """cdk-nag findings that this environment accepts as a whole, each with its reason."""
    network: Network = Network()
    alarms: Alarms = Alarms()

    @model_validator(mode="after")
    def _open_variables(self) -> Self:
        for name in (*self.variables, *([self.files_variable] if self.files_variable else [])):
            if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name) or name.startswith(("AWS_", "TENURE_")):
                raise ValueError(
                    f"variables: {name!r} is no name for a handler's variable: capitals, digits and _, and not AWS_ or "
                    "TENURE_ in front. Rename it."
                )
            if SECRETIVE.search(name):
                raise ValueError(
                    f"variables: {name} looks like a secret, and anyone who may see the function would see it. Keep it "
                    "in Secrets Manager, give its name here (say, as PARTNER_SETTINGS), and let the handler fetch it."
                )
        return self


@dataclass(frozen=True, slots=True)
class Settings:
    """One environment file, read whole."""

    environment: Environment
    deployment: Deployment

    @property
    def topology(self) -> Topology:
        """Queues and pools."""
        return self.environment.topology

    @property
    def prefix(self) -> str:
        """Prefix of stack names, for example restaurant-prod."""
        return f"{self.topology.app}-{self.topology.environment}"

    def oldest_seconds(self, queue: Queue) -> int:
        """The age at which the alarm on a queue's oldest message goes off."""
        return self.deployment.alarms.oldest_seconds_of.get(queue.name, self.deployment.alarms.oldest_seconds)


def read_settings(path: Path) -> Settings:
    """The environment file at `path`. Raises InvalidTopology: the field, the rule and the mend, a line each."""
    return settings_of(read_environment(path, _problems), str(path))


def settings_of(environment: Environment, source: str) -> Settings:
    """The settings in an environment as the library read it; `source` names the file. Raises InvalidTopology."""
    refuse(_problems(environment.deploy), source)
    settings = Settings(environment, strictly(Deployment, environment.deploy))
    refuse(_contradictions(settings), source)
    return settings


def _problems(deploy: Mapping[str, Any]) -> list[str]:
    """What is wrong with a `[deploy]` table by itself."""
    try:
        strictly(Deployment, deploy)
    except ValidationError as error:
        return explain(error, "deploy", Deployment)
    return []


def _contradictions(settings: Settings) -> list[str]:
    """What each part allows and the whole does not."""
    known = {queue.name for queue in settings.topology.queues}
    named = [(f"alarms.oldest_seconds_of.{name}", name) for name in settings.deployment.alarms.oldest_seconds_of]
    for source, targets in settings.deployment.submits.items():
        named += [(f"submits.{source}", name) for name in (source, *targets)]
    strangers = [
        f"deploy.{where}: there is no queue {name!r}. Queues: {', '.join(sorted(known))}."
        for where, name in named
        if name not in known
    ]
    late = [
        f"queues.{queue.name}: the alarm on its oldest message goes off at {settings.oldest_seconds(queue)} s, but SQS "
        f"deletes that message at {queue.retention_seconds} s. Lower deploy.alarms.oldest_seconds_of.{queue.name}, or "
        "raise the queue's retention_seconds."
        for queue in settings.topology.queues
        if settings.oldest_seconds(queue) >= queue.retention_seconds
    ]
    return strangers + late + _crowded_pools(settings.topology)


def _crowded_pools(topology: Topology) -> list[str]:
    """Fargate pools with more queues than the alarm that scales them can read: two metrics for each tier."""
    tiers = {pool.name: topology.tiers(pool.name) for pool in topology.pools if pool.kind == "fargate"}
    return [
        f"pools.{name}: it serves {len(of)} tiers of queues, and the alarm that scales a Fargate pool reads at most "
        f"{ALARM_METRICS_MAX // 2}. Give some queues a pool of their own."
        for name, of in tiers.items()
        if len(of) > ALARM_METRICS_MAX // 2
    ]
