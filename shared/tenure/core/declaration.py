"""What a task is, as its decorator says: checked where it is declared, before there is any task to lose."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tenure.core import limits
from tenure.core.codec import Codec, annotated_function
from tenure.core.durations import Duration, seconds_of, text_of
from tenure.core.errors import InvalidTask
from tenure.core.retry import Retry
from tenure.core.submission import TaskFacts
from tenure.core.topology import NAME, Topology

_TASK_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDefinition:
    """A declared task: its facts, its handler, and how its arguments and its result become JSON."""

    name: str
    version: int
    queue: str
    timeout_seconds: float
    lease_seconds: float
    retry: Retry
    ordered_by: str | None
    function: Callable[..., Any]
    is_async: bool
    codec: Codec = field(repr=False, compare=False)

    @property
    def place(self) -> str:
        """Where its handler is written, for people: module:function."""
        return place_of(self.function)

    def facts(self) -> TaskFacts:
        """What a producer must know of it."""
        parameters = self.codec.signature.parameters.values()
        return TaskFacts(
            required=tuple(p.name for p in parameters if p.default is p.empty),
            optional=tuple(p.name for p in parameters if p.default is not p.empty),
            name=self.name,
            queue=self.queue,
            version=self.version,
            ordered_by=self.ordered_by,
            max_attempts=self.retry.max_attempts,
        )

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The payload of a call as canonical JSON text. Raises InvalidPayload (see core/codec.py)."""
        return self.codec.encode(args, kwargs, self.ordered_by)

    def decode(self, payload: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The (args, kwargs) of a payload. Raises InvalidPayload."""
        return self.codec.decode(payload)

    def encode_result(self, value: Any) -> str | None:
        """The JSON text of a return value; None for None. Raises InvalidPayload for what cannot be stored."""
        return self.codec.encode_result(value)

    def decode_result(self, text: str | None) -> Any:
        """The return value in a text that `encode_result` wrote. Raises InvalidPayload."""
        return self.codec.decode_result(text)

    def unfit(self, topology: Topology) -> str:
        """Why this task cannot run on these queues and pools, with the mend; empty if it can.

        Raises InvalidTopology where its queue does not exist, and InvalidTask for a type that cannot be carried.
        """
        self.codec.check()
        queue = topology.queue(self.queue)
        pool = topology.pool(queue.pool)
        mismatch = ordering_mismatch(self.name, self.ordered_by, queue.name, queue.ordered)
        if mismatch:
            return mismatch
        room = pool.longest_runtime_seconds - pool.stop_margin_seconds
        if self.timeout_seconds > room:
            return (
                f"task {self.name!r} may run for {text_of(self.timeout_seconds)}, but pool {pool.name!r}, which serves "
                f"queue {queue.name!r}, leaves it {text_of(room)} (longest_runtime_seconds less the stop margin). "
                "Lower the task's timeout, or raise the pool's longest_runtime_seconds."
            )
        return ""


def ordering_mismatch(task: str, ordered_by: str | None, queue: str, ordered: bool) -> str:
    """Why a task and its queue disagree about order, with the mend; empty if they agree."""
    if ordered_by and not ordered:
        return (
            f"task {task!r} is ordered_by {ordered_by!r}, but queue {queue!r} is a standard queue and keeps no order. "
            "Set ordered = true for that queue, or drop ordered_by."
        )
    if ordered and not ordered_by:
        return (
            f"queue {queue!r} is ordered, so task {task!r} must say by what: declare it with "
            'ordered_by="<name of a parameter>", or move it to a standard queue.'
        )
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What the decorator was given."""

    queue: str
    name: str | None
    timeout: Duration
    lease: Duration
    retry: Retry
    ordered_by: str | None
    version: int


def define(function: Callable[..., Any], declared: Declared, local_names: Mapping[str, Any]) -> TaskDefinition:
    """The definition of a task. Raises InvalidTask, with the mend, for one that could not work."""
    name = _name(function, declared.name)
    where = f"task {name!r} ({place_of(function)})"
    _refuse_shape(function, where)
    codec = _codec(name, function, where, local_names)
    _refuse_parameters(codec.signature, where)
    if declared.ordered_by is not None and declared.ordered_by not in list(codec.signature.parameters):
        raise InvalidTask(
            f"{where}: ordered_by={declared.ordered_by!r} names no parameter of its handler. "
            f"Parameters: {', '.join(codec.signature.parameters) or 'none'}."
        )
    _refuse_retry(declared.retry, where)
    _refuse_version(declared.version, where)
    _refuse_queue(declared.queue, where)
    return TaskDefinition(
        name=name,
        version=declared.version,
        queue=declared.queue,
        timeout_seconds=_within(declared.timeout, "timeout", where, _TIMEOUT),
        lease_seconds=_within(declared.lease, "lease", where, _LEASE),
        retry=declared.retry,
        ordered_by=declared.ordered_by,
        function=function,
        is_async=inspect.iscoroutinefunction(annotated_function(function)),
        codec=codec,
    )


_TIMEOUT = (limits.TIMEOUT_SECONDS_MIN, limits.TIMEOUT_SECONDS_MAX)
_LEASE = (limits.LEASE_SECONDS_MIN, limits.LEASE_SECONDS_MAX)


def place_of(function: Callable[..., Any]) -> str:
    """Where a handler is written: module:function. Of a callable object, its class."""
    found = annotated_function(function)
    return f"{getattr(found, '__module__', '?')}:{getattr(found, '__qualname__', repr(found))}"


def _name(function: Callable[..., Any], given: str | None) -> str:
    if not callable(function):
        raise InvalidTask(f"{function!r} cannot be a task: it is not callable.")
    name = given if given is not None else getattr(function, "__name__", None)
    if name is None or name == "<lambda>":
        kind = "a lambda" if name else f"a {type(function).__name__} object"
        raise InvalidTask(f'{kind} ({place_of(function)}) has no name of its own: declare it with name="...".')
    if not isinstance(name, str) or not _TASK_NAME.fullmatch(name):
        raise InvalidTask(
            f"{name!r} cannot be a task's name: a letter or _, then letters, digits and _ . : - up to 100 characters."
        )
    return name


def _refuse_shape(function: Callable[..., Any], where: str) -> None:
    code = annotated_function(function)
    if inspect.isclass(function):
        raise InvalidTask(f"{where}: a class cannot be a handler. Declare a function that builds and uses it.")
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise InvalidTask(
            f"{where}: its handler is a generator, and nobody would iterate over it. "
            "Return a list, or submit a task for each thing that it would yield."
        )


def _codec(name: str, function: Callable[..., Any], where: str, local_names: Mapping[str, Any]) -> Codec:
    try:
        return Codec(name, function, local_names)
    except (ValueError, TypeError) as error:
        raise InvalidTask(
            f"{where}: its handler has no signature that can be read ({error}). Wrap it in a function of your own."
        ) from error


def _refuse_parameters(signature: inspect.Signature, where: str) -> None:
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            raise InvalidTask(
                f"{where}: *{parameter.name} cannot be sent: a payload is an object of named arguments. Take a list."
            )
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            raise InvalidTask(
                f"{where}: **{parameter.name} would take any misspelt argument. Name the parameters, or take a dict."
            )
    first = next(iter(signature.parameters), "")
    if first in ("self", "cls"):
        raise InvalidTask(
            f"{where}: its first parameter is `{first}`. Declare a function; a method's object is not sent."
        )


def _refuse_retry(retry: object, where: str) -> None:
    if not isinstance(retry, Retry):
        raise InvalidTask(f"{where}: retry={retry!r} is no policy. Write retry=Retry(max_attempts=...).")


def _refuse_version(version: object, where: str) -> None:
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InvalidTask(f"{where}: version={version!r}: a whole number from 1.")


def _refuse_queue(queue: object, where: str) -> None:
    if not isinstance(queue, str) or not re.fullmatch(NAME, queue):
        raise InvalidTask(
            f"{where}: queue={queue!r} is no queue's name: a small letter, then small letters, digits and -."
        )


def _within(value: Duration, option: str, where: str, bounds: tuple[int, int]) -> float:
    seconds = seconds_of(value, f"{where}: {option}")
    least, most = bounds
    if not least <= seconds <= most:
        raise InvalidTask(f"{where}: {option}={value!r}: from {text_of(least)} to {text_of(most)}.")
    return seconds
