"""The only reader of the environment variables. Read once, at a program's start, into frozen models; what is wrong is
told by the variable's name.

TENURE_ENVIRONMENT   the environment: "prod", say
TENURE_APP           module:attribute of the App; workers and maintenance import it
TENURE_POOL          the pool that a worker belongs to
TENURE_TOPOLOGY      the topology, or the part of it that is needed, as JSON; without it, what is published is read
TENURE_LOG_LEVEL     "INFO" by default
TENURE_LIVENESS_FILE where a poller tells that it is alive; LIVENESS_FILE by default
AWS_REGION, AWS_ENDPOINT_URL, and what AWS sets in its own runtimes
TENURE_PATIENCE_SECONDS for how long a worker waits for each answer at least; the embedded stack sets it, AWS needs none
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tenure.core.environment import MODULE_AND_ATTRIBUTE
from tenure.core.errors import InvalidTopology, UsageError
from tenure.core.explain import explain
from tenure.core.topology import Name, Topology

LIVENESS_FILE = "/tmp/tenure-alive"
"""A container's root is read-only; /tmp is what it may write."""

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: Name
    topology: Topology | None = None
    """None: what is published is to be read."""
    log_level: LogLevel = "INFO"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.topology is not None and self.topology.environment != self.environment:
            raise ValueError(
                f"the topology is of environment {self.topology.environment!r}, not of {self.environment!r}: "
                "correct TENURE_TOPOLOGY or TENURE_ENVIRONMENT"
            )
        return self


class ProducerConfig(_Config):
    """What a producer is told by its environment."""


class MaintenanceConfig(_Config):
    """What a maintenance duty is told. `app`: module:attribute of the App."""

    app: Annotated[str, Field(pattern=MODULE_AND_ATTRIBUTE)]


class WorkerConfig(MaintenanceConfig):
    """What a worker is told.

    agent_uri:     ECS_AGENT_URI, on Fargate: where scale-in protection is asked for. "" elsewhere.
    function_name: AWS_LAMBDA_FUNCTION_NAME, on Lambda. "" elsewhere.
    instance:      what tells this worker from its siblings in logs: Lambda's log stream, or the container's host name.
    liveness_file: TENURE_LIVENESS_FILE, for pollers.
    """

    pool: Name
    agent_uri: str = ""
    function_name: str = ""
    instance: str = ""
    liveness_file: str = LIVENESS_FILE


def liveness_file(environ: Mapping[str, str] | None = None) -> str:
    """Where a poller tells that it is alive: for its container's health check, which needs to know nothing else."""
    return _variables(environ).get("TENURE_LIVENESS_FILE") or LIVENESS_FILE


def environment_name(environ: Mapping[str, str] | None = None) -> str | None:
    """The environment that TENURE_ENVIRONMENT names; None where it is not set."""
    return _variables(environ).get("TENURE_ENVIRONMENT") or None


def patience_seconds(environ: Mapping[str, str] | None = None) -> int:
    """TENURE_PATIENCE_SECONDS; 0 where it is not set. Raises UsageError if it is no whole number."""
    told = _variables(environ).get("TENURE_PATIENCE_SECONDS") or "0"
    if not told.isdecimal():
        raise UsageError(f"the variable TENURE_PATIENCE_SECONDS={told!r}: a whole number of seconds.")
    return int(told)


def endpoint_url(environ: Mapping[str, str] | None = None) -> str | None:
    """Where AWS_ENDPOINT_URL leads the SDK; None where it is not set. The SDK reads it too: this tells that it does."""
    return _variables(environ).get("AWS_ENDPOINT_URL") or None


def region(environ: Mapping[str, str] | None = None) -> str | None:
    """AWS_REGION; None where it is not set, and the SDK looks at AWS_DEFAULT_REGION and the profile, as it does by
    itself. AWS's other SDKs, its documentation and Lambda all say AWS_REGION, which this SDK does not read."""
    return _variables(environ).get("AWS_REGION") or None


def producer_config(environment: str | None = None, environ: Mapping[str, str] | None = None) -> ProducerConfig:
    """A producer's configuration; `environment` goes before TENURE_ENVIRONMENT.

    A TENURE_TOPOLOGY of another environment than the one asked for is not used. Raises UsageError where nothing names
    the environment, or what does is no name, and InvalidTopology for a TENURE_TOPOLOGY that cannot be read.
    """
    variables = _variables(environ)
    chosen = environment or variables.get("TENURE_ENVIRONMENT")
    if not chosen:
        raise UsageError('which environment? Say connect(environment="..."), or set the variable TENURE_ENVIRONMENT.')
    topology = _topology(variables)
    if topology is not None and topology.environment != chosen:
        topology = None
    said = {"environment": f"environment={environment!r}"} if environment else {}
    return _read(ProducerConfig, {"environment": chosen, "topology": topology, **_log_level(variables)}, said)


def maintenance_config(environ: Mapping[str, str] | None = None) -> MaintenanceConfig:
    """A maintenance duty's configuration. Raises UsageError, naming the variable, or InvalidTopology."""
    return _read(MaintenanceConfig, _shared(_variables(environ)))


def worker_config(environ: Mapping[str, str] | None = None) -> WorkerConfig:
    """A worker's configuration. Raises UsageError, naming the variable, or InvalidTopology."""
    variables = _variables(environ)
    own = {
        "pool": variables.get("TENURE_POOL"),
        "agent_uri": variables.get("ECS_AGENT_URI", ""),
        "function_name": variables.get("AWS_LAMBDA_FUNCTION_NAME", ""),
        "instance": variables.get("AWS_LAMBDA_LOG_STREAM_NAME") or variables.get("HOSTNAME", ""),
        "liveness_file": liveness_file(variables),
    }
    return _read(WorkerConfig, _shared(variables) | own)


def _shared(variables: Mapping[str, str]) -> dict[str, object]:
    return {
        "app": variables.get("TENURE_APP"),
        "environment": variables.get("TENURE_ENVIRONMENT"),
        "topology": _topology(variables),
        **_log_level(variables),
    }


def _variables(environ: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if environ is None else environ


def _log_level(variables: Mapping[str, str]) -> dict[str, str]:
    level = variables.get("TENURE_LOG_LEVEL")
    return {"log_level": level.upper()} if level else {}


def _topology(variables: Mapping[str, str]) -> Topology | None:
    text = variables.get("TENURE_TOPOLOGY")
    if not text:
        return None
    try:
        return Topology.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidTopology(
            f"the variable TENURE_TOPOLOGY does not hold a topology: {where}: {first['msg']}. The "
            "deployment writes it: deploy again, or unset it to read what is published."
        ) from None


C = TypeVar("C", bound=_Config)

_VARIABLE = {
    "app": "TENURE_APP",
    "environment": "TENURE_ENVIRONMENT",
    "pool": "TENURE_POOL",
    "log_level": "TENURE_LOG_LEVEL",
}


def _read(model: type[C], values: Mapping[str, object], said: Mapping[str, str] | None = None) -> C:
    """`values` as the model. `said`: those that did not come from a variable, as the caller said them."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        told = _VARIABLE.get(name, name)
        if name in _VARIABLE and values.get(name) is None:
            raise UsageError(f"the variable {told} is not set. Set it where this program is started.") from None
        what = (said or {}).get(name) or f"the variable {told}={values.get(name)!r}"
        rule = explain(error, "", model)[0].removeprefix(f"{name}: ")
        raise UsageError(f"{what}: {rule}" if name else f"{rule}.") from None
