"""A declaration that cannot work is refused where it stands, by name and with the mend; a good one says what it is."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import FrozenInstanceError, dataclass
from datetime import timedelta
from typing import Any

import pytest

from tenure.application import App, AsyncTask, TaskDefinition
from tenure.core.errors import InvalidPayload, InvalidTask, NotBuilt, UsageError
from tenure.core.retry import Retry
from tenure.core.submission import Options
from tenure.testing import topology_of


@pytest.fixture
def app() -> App:
    return App("shop")


class Greeter:
    """A handler with a state of its own."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __call__(self, name: str) -> str:
        return f"{self.word} {name}"

    def method(self, name: str) -> str:
        return name


class AsyncGreeter:
    async def __call__(self, name: str) -> str:
        return name


# ---- what a declaration says ---------------------------------------------------------------------------------------
def test_a_definition_holds_what_was_declared(app: App) -> None:
    """Durations become seconds, and what is left out has its documented default."""

    @app.task(queue="media", timeout="2m", lease=timedelta(seconds=90), retry=Retry(max_attempts=7), version=3)
    def resize(photo: str) -> str:
        """Make it smaller."""
        return photo

    @app.task(queue="media")
    def plain() -> None: ...

    full, least = app.tasks["resize"], app.tasks["plain"]
    assert (full.timeout_seconds, full.lease_seconds, full.retry.max_attempts, full.version) == (120, 90, 7, 3)
    assert (least.timeout_seconds, least.lease_seconds, least.retry, least.version) == (300, 60, Retry(), 1)
    assert full.place.endswith("test_declaration:test_a_definition_holds_what_was_declared.<locals>.resize")
    with pytest.raises(FrozenInstanceError):
        full.queue = "other"  # type: ignore[misc] # that is the point
    with pytest.raises(TypeError):
        app.tasks["other"] = full  # type: ignore[index] # that is the point


def test_a_task_is_still_its_function(app: App) -> None:
    """Called, it runs here and now; its name, documentation and signature are the function's own."""
    import inspect

    @app.task(queue="media")
    def resize(photo: str, width: int = 5) -> tuple[str, int]:
        """Make it smaller."""
        return photo, width

    assert resize("p", width=2) == ("p", 2)
    assert (resize.__name__, resize.__doc__) == ("resize", "Make it smaller.")
    assert list(inspect.signature(resize).parameters) == ["photo", "width"]
    assert "resize" in repr(resize)


def test_an_async_task_is_still_its_coroutine(app: App) -> None:
    """Called, it gives the coroutine; its definition says that it is async."""

    @app.task(queue="media")
    async def fetch(url: str) -> str:
        return url

    assert isinstance(fetch, AsyncTask)
    assert asyncio.run(fetch("u")) == "u"
    assert fetch.definition.is_async


@pytest.mark.parametrize(
    ("handler", "is_async"),
    [
        (Greeter("hello"), False),
        (AsyncGreeter(), True),
        (Greeter("hello").method, False),
        (functools.partial(Greeter("hello")), False),
        (functools.partial(functools.partial(AsyncGreeter())), True),
    ],
)
def test_callable_objects_methods_and_partials_are_handlers(
    app: App, handler: Callable[..., Any], is_async: bool
) -> None:
    """Their signature is read, async is recognised within them, and their types hold."""
    task = app.task(queue="media", name="greet")(handler)
    assert task.definition.is_async is is_async
    assert task.definition.decode(task.definition.encode(("Ada",), {})) == ((), {"name": "Ada"})
    with pytest.raises(InvalidPayload, match="`name`"):
        task.definition.encode((5,), {})


def test_what_a_partial_has_bound_is_not_asked_for(app: App) -> None:
    """A bound argument may be left out, and may be given anew."""

    def resize(photo: str, width: int) -> str:
        return f"{photo}@{width}"

    definition = app.task(queue="media", name="thumb")(functools.partial(resize, width=5)).definition
    assert definition.facts().required == ("photo",)
    args, kwargs = definition.decode('{"photo":"p"}')
    assert definition.function(*args, **kwargs) == "p@5"


def test_a_local_class_can_be_a_parameters_type(app: App) -> None:
    """Annotations are read where the handler is declared, inside a function too."""

    @dataclass
    class Local:
        number: int

    @app.task(queue="media")
    def take(value: Local) -> None: ...

    assert take.definition.decode('{"value":{"number":3}}') == ((), {"value": Local(3)})


# ---- what is refused -----------------------------------------------------------------------------------------------
def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


class Generates:
    def __call__(self) -> Iterator[int]:
        yield 1


def star(*names: str) -> None: ...
def double_star(**names: str) -> None: ...


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (generator, {}, "is a generator, and nobody would iterate over it. Return a list"),
    (async_generator, {}, "is a generator"),
    (functools.partial(generator), {"name": "g"}, "is a generator"),
    (Generates(), {"name": "g"}, "is a generator"),
    (star, {}, r"\*names cannot be sent.*Take a list"),
    (double_star, {}, r"\*\*names would take any misspelt argument"),
    (Greeter.method, {}, "its first parameter is `self`"),
    (Greeter, {}, "a class cannot be a handler"),
    (lambda: None, {}, 'a lambda .* has no name of its own: declare it with name="..."'),
    (Greeter("x"), {}, "a Greeter object .* has no name of its own"),
    (functools.partial(print), {}, "a partial object .* has no name of its own"),
    ("text", {}, "is not callable"),
    (test_an_async_task_is_still_its_coroutine, {"name": "two words"}, "cannot be a task's name"),
    (test_an_async_task_is_still_its_coroutine, {"name": ""}, "cannot be a task's name"),
    (test_an_async_task_is_still_its_coroutine, {"name": "work\n"}, "cannot be a task's name"),
    (test_an_async_task_is_still_its_coroutine, {"ordered_by": "tenant"}, "names no parameter.*Parameters: app"),
    (test_an_async_task_is_still_its_coroutine, {"version": 0}, "a whole number from 1"),
    (test_an_async_task_is_still_its_coroutine, {"retry": 5}, "retry=5 is no policy"),
    (test_an_async_task_is_still_its_coroutine, {"ordered_by": ["app"]}, "names no parameter"),
    (test_an_async_task_is_still_its_coroutine, {"version": True}, "a whole number from 1"),
    (test_an_async_task_is_still_its_coroutine, {"queue": "Media"}, "is no queue's name"),
    (test_an_async_task_is_still_its_coroutine, {"queue": "media\n"}, "is no queue's name"),
    (test_an_async_task_is_still_its_coroutine, {"timeout": "0s"}, "timeout='0s': from 1s to 1d"),
    (test_an_async_task_is_still_its_coroutine, {"timeout": "25h"}, "from 1s to 1d"),
    (test_an_async_task_is_still_its_coroutine, {"lease": "9s"}, "lease='9s': from 10s to 12h"),
    (test_an_async_task_is_still_its_coroutine, {"lease": "13h"}, "from 10s to 12h"),
]


@pytest.mark.parametrize(("handler", "options", "told"), REFUSED)
def test_what_cannot_work_is_refused_where_it_is_declared(
    app: App, handler: Any, options: dict[str, Any], told: str
) -> None:
    """By name, with what to do, and without a trace of it in the app."""
    with pytest.raises(InvalidTask, match=told):
        app.task(**({"queue": "media"} | options))(handler)
    assert not app.tasks


@pytest.mark.parametrize("option", ["timeout", "lease"])
@pytest.mark.parametrize("value", ["soon", -1, None, True, float("nan"), "5 parsecs"])
def test_what_is_no_duration_is_refused(app: App, option: str, value: Any) -> None:
    """The error names the task, the option and how a duration is written."""
    with pytest.raises(UsageError, match=f"task 'plain'.*{option}"):
        app.task(**{"queue": "media", "name": "plain", option: value})(lambda: None)


def test_a_name_stands_for_one_task(app: App) -> None:
    """A second declaration of a name is refused with both places."""
    app.task(queue="media", name="resize")(lambda: None)
    with pytest.raises(InvalidTask, match=r"'resize' is declared twice: by .*<lambda> and by .*generator_free"):

        @app.task(queue="media", name="resize")
        def generator_free() -> None: ...


def test_one_place_that_declares_twice_is_told_once(app: App) -> None:
    """A declaration that runs again is no quarrel between two places."""

    def declare() -> None:
        @app.task(queue="media")
        def resize() -> None: ...

    declare()
    with pytest.raises(InvalidTask, match=r"'resize' is declared twice at .*resize: that declaration ran twice"):
        declare()


def test_a_decorator_without_its_queue_is_told(app: App) -> None:
    """The mend stands in the error, whichever way the queue is missing; and nothing is declared."""
    anything: Any = app

    def resize() -> None: ...

    with pytest.raises(InvalidTask, match=r"above 'resize' without its queue\. Write @app\.task\(queue="):
        anything.task(resize)
    with pytest.raises(InvalidTask, match=r"@app\.task\(queue="):
        anything.task(timeout="5m")
    with pytest.raises(InvalidTask, match="by name, and was given a str"):
        anything.task("media")
    assert not app.tasks


def test_an_option_that_does_not_exist_is_told_with_the_one_that_is_meant(app: App) -> None:
    """TypeError, as for any call, without names that are none of the caller's."""
    task: Any = app.task(queue="media", name="plain")(lambda: None)
    with pytest.raises(TypeError) as told:
        task.options(dealy="5m")
    assert str(told.value) == "options() has no option 'dealy'. Did you mean 'delay'?"
    with pytest.raises(TypeError, match=r"no option 'colour'\. It takes: tenant, priority, delay"):
        task.options(colour="red")
    with pytest.raises(UsageError, match="by name, and was given a str"):
        task.options("r7")
    with pytest.raises(TypeError, match=r"task\(\) has no option 'retries'\. Did you mean 'retry'"):
        app.task(queue="media", retries=5)  # type: ignore[call-arg] # that is the point


@pytest.mark.parametrize("name", ["", "Shop", "shop_app", "-shop", "s" * 32, "shop\n", 5, None])
def test_an_app_has_a_name_that_queues_can_bear(name: Any) -> None:
    """It becomes part of names on AWS, so it is checked at once."""
    with pytest.raises(InvalidTask, match="small letter"):
        App(name)


class Opaque:
    """No type that JSON knows."""


def opaque(thing: Opaque) -> None: ...
def missing(thing: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821 - a name that does not exist
def answer() -> Opaque: ...  # type: ignore[empty-body] # never called


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (opaque, "parameter `thing` has a type that pydantic cannot carry"),
        (missing, "an annotation of its handler cannot be read"),
        (answer, "its result has a type that pydantic cannot carry"),
    ],
)
def test_a_type_that_cannot_be_carried_is_found_by_check_and_by_use(
    app: App, handler: Callable[..., Any], told: str
) -> None:
    """Types may be declared after the handler, so they are read at the first use, and by App.check before any."""
    definition = app.task(queue="media")(handler).definition
    with pytest.raises(InvalidTask, match=told):
        app.check(topology_of(app))
    with pytest.raises(InvalidTask, match=told):
        definition.encode_result(1) if handler is answer else definition.encode((1,), {})


def test_after_is_not_built(app: App) -> None:
    """The option is known, and refused by name rather than ignored."""
    task = app.task(queue="media", name="plain")(lambda: None)
    with pytest.raises(NotBuilt, match=r"after=: .* is not built yet"):
        task.options(after=[object()])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"priority": "urgent"}, 'one of "high", "normal", "low"'),
        ({"tenant": "  "}, 'tenant=.*or "" for none'),
        ({"tenant": None}, 'tenant=None.*or "" for none'),
        ({"traceparent": None}, "not a W3C trace context"),
        ({"delay": "-1s"}, "delay"),
        ({"delay": "367d"}, "at most 366 days"),
        ({"deadline": "5m", "delay": "5m"}, "make the deadline longer than the delay"),
        ({"deadline": 0}, "make the deadline longer"),
        ({"traceparent": "00-abc"}, "not a W3C trace context"),
        ({"traceparent": f"00-{'a' * 32}-{'b' * 16}-01\n"}, "not a W3C trace context"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], told: str) -> None:
    """Where they are given, long before a submit."""
    with pytest.raises(UsageError, match=told):
        Options(**options)


def test_options_are_frozen_and_hold_seconds() -> None:
    """A typed object: no option can be misspelt, none can change later."""
    options = Options(delay="20m", deadline=timedelta(hours=1), priority="high")
    assert (options.delay_seconds, options.deadline_seconds) == (1200, 3600)
    with pytest.raises(FrozenInstanceError):
        options.delay = 5  # type: ignore[misc] # that is the point
    with pytest.raises(TypeError, match="urgency"):
        Options(urgency="high")  # type: ignore[call-arg] # that is the point


# ---- decoding ------------------------------------------------------------------------------------------------------
def definition(app: App) -> TaskDefinition:
    def resize(photo: str, /, width: int, *, fast: bool = False) -> None: ...

    return app.task(queue="media")(resize).definition


def test_arguments_are_handed_over_as_the_signature_asks(app: App) -> None:
    """Positional-only ones by position, all others by name, and what is left out to its default."""
    made = definition(app)
    assert made.encode(("p", 5), {"fast": True}) == '{"fast":true,"photo":"p","width":5}'
    assert made.decode('{"width":5,"photo":"p"}') == (("p",), {"width": 5})


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ("[]", "not an object of arguments"),
        ("nonsense", "not JSON"),
        ('{"photo":NaN,"width":1}', "not JSON"),
        ('{"photo":"p"}', "its argument `width` is missing"),
        ('{"photo":"p","width":1,"depth":2}', "no parameter 'depth'"),
        ('{"photo":"p","width":"1"}', "`width` does not fit its type"),
        ('{"photo":"p","width":1.5}', "`width` does not fit its type"),
        ('{"photo":"p","width":true}', "`width` does not fit its type"),
        ('{"photo":"p","width":1,"fast":1}', "`fast` does not fit its type"),
        ('{"photo":"p","width":1,"width":2}', "the member 'width' stands twice"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_payload_that_does_not_fit_is_named(app: App, payload: str, told: str) -> None:
    """Whoever wrote it, in whatever language: InvalidPayload with the argument's name, and nothing else is raised."""
    with pytest.raises(InvalidPayload, match=told):
        definition(app).decode(payload)


def test_a_payload_in_another_languages_hand_is_taken(app: App) -> None:
    """Blanks, escapes and members in any order are JSON all the same."""
    args, kwargs = definition(app).decode('{ "width" : 5,\n "photo" : "\\u0070" }')
    assert (args, kwargs) == (("p",), {"width": 5})


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), (("p",), {}), (("p", 1, 2), {}), (("p", 1), {"depth": 2})])
def test_a_call_that_the_signature_does_not_take_is_refused(app: App, args: Any, kwargs: Any) -> None:
    """At submit, with the parameters that there are."""
    with pytest.raises(InvalidPayload, match="Its parameters: photo, width, fast"):
        definition(app).encode(args, kwargs)
