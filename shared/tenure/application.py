"""The App and its decorator: an explicit object that task code declares itself on. Nothing here does any I/O, and an
App is not connected to anything until `connect`.
"""

from __future__ import annotations

import asyncio
import difflib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from tenure.core.declaration import Declared, TaskDefinition, define
from tenure.core.durations import Duration
from tenure.core.errors import InvalidTask, InvalidTopology, NotConnected, UsageError
from tenure.core.retry import Retry
from tenure.core.submission import Options, Priority, Submission, not_a_call
from tenure.core.topology import NAME, Topology
from tenure.core.words import an
from tenure.handle import Handle, Progress, SubmitReport

__all__ = ["App", "AsyncTask", "Bound", "ConfiguredTask", "Producer", "Task", "TaskDefinition"]

P = ParamSpec("P")
R = TypeVar("R")


def _called_by_name(method: Callable[P, R]) -> Callable[P, R]:
    """A method whose signature stands, for checkers, but whose wrong calls are told in our words at run time."""
    takes = [name for name in inspect.signature(method).parameters if name != "self"]

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        unknown = next((name for name in kwargs if name not in takes), None)
        if unknown is not None:
            close = difflib.get_close_matches(unknown, takes, 1)
            hint = f"Did you mean {close[0]!r}?" if close else f"It takes: {', '.join(takes)}."
            raise TypeError(f"{method.__name__}() has no option {unknown!r}. {hint}")
        if len(args) > 1:
            wrong = InvalidTask if "queue" in takes else UsageError
            raise wrong(_by_name(method.__name__, args[1]))
        if "queue" in takes and "queue" not in kwargs:
            raise InvalidTask('which queue do the tasks go to? Declare them with @app.task(queue="...").')
        return method(*args, **kwargs)

    return call


def _by_name(method: str, given: object) -> str:
    """What to say to whoever gave something without its name."""
    if method == "task" and callable(given):
        name = getattr(given, "__name__", type(given).__name__)
        return f'@app.task stands above {name!r} without its queue. Write @app.task(queue="...") there.'
    example = "queue" if method == "task" else "tenant"
    return (
        f"{method}() takes its options by name, and was given {an(type(given).__name__)} without one. "
        f'Write {method}({example}="..."), say.'
    )


class Producer(Protocol):
    """What an App needs of a client (client.Client is one)."""

    def submit_one(self, submission: Submission) -> Handle[Any]:
        """Submit, or raise the named error that tells why nothing was submitted."""
        ...

    def submit_many(
        self, calls: Iterable[Prepared], *, progress: Progress | None = None, keep_outcomes: bool = True
    ) -> SubmitReport:
        """Submit many, with an outcome for each."""
        ...

    def handle(
        self, task_id: str, decode_result: Callable[[str | None], Any] | None = None, *, task: str = ""
    ) -> Handle[Any]:
        """A handle for a task that was submitted before; `task`: the name that it must be of."""
        ...


class Prepared(Protocol):
    """Something that can be submitted."""

    def submission(self) -> Submission:
        """Encode it. Raises InvalidPayload."""
        ...


@dataclass(frozen=True, slots=True)
class Bound(Generic[R]):
    """A call that has not been made: a task with its arguments, for `submit_many`."""

    definition: TaskDefinition
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    options: Options = field(default_factory=Options)

    def submission(self) -> Submission:
        """Encode the arguments. Raises InvalidPayload."""
        payload = self.definition.encode(self.args, self.kwargs)
        return Submission(self.definition.facts(), payload, self.options, self.definition.decode_result)


class _Submits(Generic[P, R]):
    """The ways to submit a task; the same on a task and on a task with options."""

    _app: App
    _definition: TaskDefinition
    _options: Options

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R]:
        """This call, not yet made. Checked when it is submitted."""
        return Bound(self._definition, args, kwargs, self._options)

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Submit this call, to be run by a worker.

        Raises NotConnected, InvalidPayload, TooLarge, KeyConflict or another UsageError before anything exists;
        SubmitRefused if SQS said no (nothing is left that could run); ServiceError if the table gave no answer.
        """
        return self._app.producer.submit_one(self.bind(*args, **kwargs).submission())

    async def asubmit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """`submit` without holding up the event loop: it runs in a thread."""
        return await asyncio.to_thread(self.submit, *args, **kwargs)

    def submit_many(
        self, calls: Iterable[Bound[Any]], *, progress: Progress | None = None, keep_outcomes: bool = True
    ) -> SubmitReport:
        """Submit calls made by `bind`, of this task or of others of its App, in batches; one that fails hinders none.

        calls:         any iterable, of any length; it is read as the batches go, so a generator need not fit in memory.
        progress:      called after each batch with the counts so far.
        keep_outcomes: False keeps the counts and the first failures only, for millions of calls.

        Raises UsageError for an item that is no such call; those before it were submitted.
        """
        bound = calls if hasattr(calls, "submission") else self._bound(calls)
        return self._app.producer.submit_many(bound, progress=progress, keep_outcomes=keep_outcomes)

    def _bound(self, calls: Iterable[Bound[Any]]) -> Iterator[Bound[Any]]:
        for index, call in enumerate(calls):
            if not hasattr(call, "submission"):
                raise UsageError(not_a_call(index, call, f"{self._definition.name}.bind(...)"))
            yield call

    async def asubmit_many(
        self, calls: Iterable[Bound[Any]], *, progress: Progress | None = None, keep_outcomes: bool = True
    ) -> SubmitReport:
        """`submit_many` in a thread; `calls` is read and `progress` called there too."""
        return await asyncio.to_thread(self.submit_many, calls, progress=progress, keep_outcomes=keep_outcomes)

    def handle(self, task_id: str) -> Handle[R]:
        """A handle for a task of this kind that was submitted before. Asks nobody: that the id is another task's is
        told, as UsageError, by the first question to it. `client.handle(id)` is for tasks of any kind."""
        return self._app.producer.handle(task_id, self._definition.decode_result, task=self._definition.name)


class ConfiguredTask(_Submits[P, R]):
    """A task with the options of its next submits. Made by `Task.options`."""

    def __init__(self, app: App, definition: TaskDefinition, options: Options) -> None:
        self._app, self._definition, self._options = app, definition, options


class _Declared(_Submits[P, R]):
    def __init__(self, app: App, definition: TaskDefinition) -> None:
        self._app, self._definition, self._options = app, definition, Options()
        functools.update_wrapper(cast(Any, self), definition.function)

    @property
    def definition(self) -> TaskDefinition:
        """What was declared."""
        return self._definition

    @property
    def name(self) -> str:
        """The task's name, as it stands in messages and rows."""
        return self._definition.name

    @_called_by_name
    def options(  # noqa: PLR0913 - the keywords are the options, and a checker sees each
        self,
        *,
        tenant: str = "",
        priority: Priority = "normal",
        delay: Duration = 0,
        idempotency_key: str | None = None,
        deadline: Duration | None = None,
        traceparent: str = "",
        after: object = None,
    ) -> ConfiguredTask[P, R]:
        """This task with options for its submits; see Options for what each means. Raises UsageError or NotBuilt."""
        chosen = Options(
            tenant=tenant,
            priority=priority,
            delay=delay,
            idempotency_key=idempotency_key,
            deadline=deadline,
            traceparent=traceparent,
            after=after,
        )
        return ConfiguredTask(self._app, self._definition, chosen)

    def __repr__(self) -> str:
        return f"<task {self._definition.name} of app {self._app.name}: {self._definition.place}>"


class Task(_Declared[P, R]):
    """A declared task. Called, it is the plain function that it was declared on; `submit` gives it to a worker."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the handler here and now, as if it were not a task."""
        value: R = self._definition.function(*args, **kwargs)
        return value


class AsyncTask(_Declared[P, R]):
    """A task whose handler is `async def`. Called, it gives the handler's own coroutine."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the handler here and now; await what it gives."""
        coroutine: Coroutine[Any, Any, R] = self._definition.function(*args, **kwargs)
        return coroutine


class _Decorator:
    """What `App.task(...)` gives: applied to a function, it declares the task."""

    def __init__(self, app: App, declared: Declared) -> None:
        self._app, self._declared = app, declared

    @overload
    def __call__(  # type: ignore[overload-overlap] # the first that fits is meant: a coroutine's result is its own
        self, function: Callable[P, Coroutine[Any, Any, R]]
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Task[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> Any:
        definition = define(function, self._declared, _local_names(function))
        self._app.add(definition)
        return AsyncTask(self._app, definition) if definition.is_async else Task(self._app, definition)


class App:
    """An application: a name, and the tasks declared on it. A name is small letters, digits and -, up to 31."""

    def __init__(self, name: str) -> None:
        _refuse_app_name(name)
        self._name = name
        self._tasks: dict[str, TaskDefinition] = {}
        self._producer: Producer | None = None

    @property
    def name(self) -> str:
        """The application's name."""
        return self._name

    @property
    def tasks(self) -> Mapping[str, TaskDefinition]:
        """What is declared so far, by name."""
        return MappingProxyType(self._tasks)

    @property
    def producer(self) -> Producer:
        """The client that submits go through. Raises NotConnected."""
        if self._producer is None:
            raise NotConnected(
                f"app {self._name!r} is not connected, so nothing can be submitted. Call "
                'app.connect(environment="...") once, when your program starts.'
            )
        return self._producer

    @_called_by_name
    def task(  # noqa: PLR0913 - the keywords are the declaration, and a checker sees each
        self,
        *,
        queue: str,
        name: str | None = None,
        timeout: Duration = "5m",
        lease: Duration = "60s",
        retry: Retry | None = None,
        ordered_by: str | None = None,
        version: int = 1,
    ) -> _Decorator:
        """Declare a function as a task of this app.

        queue:      the logical queue that its tasks go to.
        name:       its name in messages and rows; the function's own by default. Renaming strands what is queued.
        timeout:    how long one attempt may run: 1 s to 24 h.
        lease:      how long after its last beat a worker counts as dead: 10 s to 12 h. Not a limit on the run.
        retry:      Retry(...); five attempts with backoff by default.
        ordered_by: on an ordered queue, the parameter whose value is the ordering key.
        version:    raised when a payload changes shape: workers that still declare a lower one do not run such a task.

        Raises InvalidTask where the declaration cannot work (generators, *args, a name that is taken, ...).
        """
        declared = Declared(
            queue=queue,
            name=name,
            timeout=timeout,
            lease=lease,
            retry=Retry() if retry is None else retry,
            ordered_by=ordered_by,
            version=version,
        )
        return _Decorator(self, declared)

    def add(self, definition: TaskDefinition) -> None:
        """Take a definition into this app. Raises InvalidTask if its name is taken."""
        taken = self._tasks.get(definition.name)
        if taken is not None and taken.place == definition.place:
            raise InvalidTask(
                f"task {definition.name!r} is declared twice at {taken.place}: that declaration ran twice, or two "
                'functions there bear one name. Declare it once, or give one of them another name="...".'
            )
        if taken is not None:
            raise InvalidTask(
                f"task {definition.name!r} is declared twice: by {taken.place} and by {definition.place}. "
                'Give one of them another name="...".'
            )
        self._tasks[definition.name] = definition

    def connect(self, environment: str | None = None, *, client: Producer | None = None) -> Producer:
        """Connect to an environment, so that tasks can be submitted; call it again to connect elsewhere.

        environment: "prod", say; its queues are read from what was published at deployment. By default, the variable
                     TENURE_ENVIRONMENT. If `tenure dev` runs it in the current directory, that is connected to.
        client:      a ready client instead (tests, the embedded stack).

        Raises InvalidTopology if the environment is not deployed, and ServiceError if it could not be read (no region,
        no credentials, no answer, no permission); both say what to do.
        """
        if client is None:
            from tenure.wiring.producer import connect

            client = connect(self._name, environment=environment)
        self._producer = client
        return client

    def check(self, topology: Topology) -> None:
        """Raise for tasks that cannot run on these queues and pools, naming all of them: the error of the only one, or
        InvalidTask with a line for each. Raises InvalidTask or InvalidTopology."""
        found = [error for each in self._tasks.values() if (error := _unfit(each, topology)) is not None]
        if len(found) == 1:
            raise found[0]
        if found:
            lines = dict.fromkeys(f"- {error}" for error in found)  # two tasks on one missing queue say the same
            raise InvalidTask("\n".join([f"{len(found)} tasks do not fit their queues and pools:", *lines]))

    def __repr__(self) -> str:
        return f"<app {self._name}: {len(self._tasks)} tasks>"


def _unfit(definition: TaskDefinition, topology: Topology) -> UsageError | None:
    try:
        why = definition.unfit(topology)
    except (InvalidTask, InvalidTopology) as error:
        return error
    return InvalidTask(why) if why else None


def _refuse_app_name(name: object) -> None:
    if not isinstance(name, str) or not re.fullmatch(NAME, name):
        raise InvalidTask(
            f"App({name!r}): a small letter, then up to 30 small letters, digits and -; it is part of queue names."
        )


def _local_names(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The names that a handler's annotations may mean when it is declared inside a function (a test's, say): those of
    the frame that declares it. Of a module's own function, none are needed."""
    if "<locals>" not in getattr(function, "__qualname__", ""):
        return {}
    frame = sys._getframe(2)
    return dict(frame.f_locals)
