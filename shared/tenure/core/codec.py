"""A handler's arguments and its result as JSON text, and back, without a value changing on the way.

The payload is one JSON object: the arguments by the names of the handler's parameters, written as pydantic writes the
annotated types. A parameter without an annotation (or `Any`) takes what JSON itself knows. Every encode is proved: the
text is decoded again, and what comes out must be what went in, equal and of the same type; else InvalidPayload.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from tenure.core.envelope import canonical, parse
from tenure.core.errors import InvalidPayload, InvalidTask
from tenure.core.fidelity import difference, holds_set, names_set, zoneless
from tenure.core.submission import TaskFacts
from tenure.core.words import an

_BYTES_AS_BASE64 = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
"""JSON has no bytes. As UTF-8, some would pass and some not; as base64, all do."""

_EMPTY = inspect.Parameter.empty


class Codec:
    """Encodes and decodes one task's arguments and result. What pydantic needs is built at the first use, once."""

    def __init__(self, task: str, function: Callable[..., Any], local_names: Mapping[str, Any] | None = None) -> None:
        self._task = task
        self._function = function
        self._local_names = dict(local_names or {})
        self.signature = inspect.signature(function)

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], always: str | None = None) -> str:
        """The canonical payload of a call.

        always: a parameter that is written even when the call leaves it to its default (an ordering key's).

        Raises InvalidPayload for a call that the signature does not take, or a value that would not arrive as it is.
        """
        arguments = self._bind(args, kwargs)
        if always is not None and always not in arguments:
            arguments[always] = self.signature.parameters[always].default
        encoded = {name: self._encode_one(name, value) for name, value in arguments.items()}
        return canonical(encoded)

    def decode(self, payload: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The (args, kwargs) of a payload, validated strictly. Raises InvalidPayload."""
        given = self._object(payload)
        unknown = sorted(set(given) - set(self.signature.parameters))
        if unknown:
            raise self._invalid(f"it has no parameter {unknown[0]!r}. Its parameters: {self._names()}")
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        skipped = False
        for name, parameter in self.signature.parameters.items():
            if name not in given:
                if parameter.default is _EMPTY:
                    raise self._invalid(f"its argument `{name}` is missing")
                skipped = True
                continue
            value = _validated(self._adapters[name], given[name], f"`{name}`", self._invalid)
            if parameter.kind is not inspect.Parameter.POSITIONAL_ONLY:
                kwargs[name] = value
            elif skipped:
                raise self._invalid(f"its argument `{name}` is given, but not the positional ones before it")
            else:
                args.append(value)
        return tuple(args), kwargs

    def encode_result(self, value: Any) -> str | None:
        """The text of a handler's return value; None for None. Raises InvalidPayload for what cannot be stored."""
        if value is None:
            return None
        return canonical(_proved(self._result, value, "the result", self._invalid))

    def decode_result(self, text: str | None) -> Any:
        """The return value that `encode_result` wrote. Raises InvalidPayload."""
        if text is None:
            return None
        return _validated(self._result, _loads(text, self._invalid), "the result", self._invalid)

    def check(self) -> None:
        """Build what decoding needs. Raises InvalidTask, naming the parameter whose type cannot be carried."""
        _ = self._adapters, self._result

    def payload_schema(self) -> dict[str, Any]:
        """The JSON Schema of a payload: an object of the arguments. Raises InvalidTask as `check`."""
        adapters = self._adapters
        mode: typing.Literal["validation"] = "validation"
        keys = [(name, mode, adapter) for name, adapter in adapters.items()]
        schemas, shared = TypeAdapter.json_schemas(keys, by_alias=True)
        parameters = self.signature.parameters
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: dict(schemas[name, mode]) for name in adapters},
            "required": [name for name in adapters if parameters[name].default is _EMPTY],
            "additionalProperties": False,
        }
        for name, parameter in parameters.items():
            if parameter.default is not _EMPTY:
                plain = adapters[name].dump_python(parameter.default, mode="json", fallback=repr)
                schema["properties"][name]["default"] = plain
        return schema | ({"$defs": shared["$defs"]} if "$defs" in shared else {})

    def result_schema(self) -> dict[str, Any]:
        """The JSON Schema of a result. Raises InvalidTask as `check`."""
        return self._result.json_schema(mode="serialization")

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise self._invalid(f"{error}. Its parameters: {self._names()}") from None

    def _encode_one(self, name: str, value: Any) -> Any:
        if holds_set(value):
            raise self._invalid(
                f"`{name}` holds a set, which has no order, so the same call would not have the same text twice. "
                "Take a list instead, and send sorted(...)"
            )
        return _proved(self._adapters[name], value, f"`{name}`", self._invalid)

    def _object(self, payload: str) -> dict[str, Any]:
        value = _loads(payload, self._invalid)
        if not isinstance(value, dict):
            raise self._invalid(f"its payload is a JSON {type(value).__name__}, not an object of arguments")
        return value

    def _names(self) -> str:
        return ", ".join(self.signature.parameters) or "none"

    def _invalid(self, what: str) -> InvalidPayload:
        return InvalidPayload(f"task {self._task!r}: {what}.")

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        function = annotated_function(self._function)
        try:
            return typing.get_type_hints(function, localns=self._local_names, include_extras=True)
        except (NameError, TypeError, SyntaxError, AttributeError) as error:
            raise InvalidTask(
                f"task {self._task!r}: an annotation of its handler cannot be read ({error}). The handler's types must "
                "be importable from its module at run time, not only while type checking."
            ) from error

    @functools.cached_property
    def _adapters(self) -> dict[str, TypeAdapter[Any]]:
        return {name: self._parameter(name) for name in self.signature.parameters}

    def _parameter(self, name: str) -> TypeAdapter[Any]:
        adapter = self._adapter(self._hints.get(name, Any), f"parameter `{name}`")
        if names_set(adapter.core_schema):
            raise InvalidTask(
                f"task {self._task!r}: parameter `{name}` has a type with a set in it, which has no order, so the same "
                "call would not have the same text twice. Take a list instead, and send sorted(...)."
            )
        return adapter

    @functools.cached_property
    def _result(self) -> TypeAdapter[Any]:
        return self._adapter(self._hints.get("return", Any), "its result")

    def _adapter(self, annotation: Any, what: str) -> TypeAdapter[Any]:
        try:
            try:
                return TypeAdapter(annotation, config=_BYTES_AS_BASE64)
            except PydanticUserError as error:
                if error.code != "type-adapter-config-unused":
                    raise
                return TypeAdapter(annotation)  # a model or dataclass brings its own configuration
        except (PydanticUserError, NameError, TypeError) as error:
            first = str(error).splitlines()[0]
            raise InvalidTask(
                f"task {self._task!r}: {what} has a type that pydantic cannot carry as JSON ({first}). Use JSON's "
                "types, dataclasses, pydantic models, or an Annotated type with its own serialiser."
            ) from error


def plain_payload(task: TaskFacts, arguments: Mapping[str, Any]) -> str:
    """The canonical payload of a call by name: plain JSON data, checked against what is published of the task.

    Raises InvalidPayload for values that JSON does not know, and for arguments that are unknown or missing.
    """

    def invalid(what: str) -> InvalidPayload:
        return InvalidPayload(f"task {task.name!r}: {what}.")

    if not isinstance(arguments, Mapping):
        raise invalid(f"its payload is of type {type(arguments).__name__}, not an object of arguments by name")
    given = dict(arguments)
    if task.required is not None:
        takes = (*task.required, *task.optional)
        unknown = [name for name in given if name not in takes]
        missing = [name for name in task.required if name not in given]
        if unknown:
            raise invalid(f"it has no parameter {unknown[0]!r}. Its parameters: {', '.join(takes) or 'none'}")
        if missing:
            raise invalid(f"its argument `{missing[0]}` is missing")
    if holds_set(given):
        raise invalid("its payload holds a set, which JSON does not know. Send a list")
    return canonical(_proved(_PLAIN, given, "its payload", invalid))


_PLAIN: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


def annotated_function(function: Callable[..., Any]) -> Any:
    """The function that bears the annotations and the code: within partials, behind a callable object's __call__."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return type(function).__call__


def _proved(adapter: TypeAdapter[Any], value: Any, what: str, invalid: Callable[[str], InvalidPayload]) -> Any:
    """`value` as plain JSON data, once it is proved that it comes back as it is."""
    if told := zoneless(value, what):
        raise invalid(told)
    try:
        raw = adapter.dump_json(value, by_alias=True, round_trip=True, warnings="error")
        plain = json.loads(raw)
        text = canonical(plain)
        text.encode("utf-8")
        arrived = adapter.validate_json(text, strict=True)
    except ValidationError as error:
        raise invalid(f"{what} would not be taken back from its JSON: {_first(error)}") from None
    except Exception as error:  # a serialiser or validator of the user's own may raise anything
        part = _misfit(adapter, value, what)
        raise invalid(part or f"{what}, {an(type(value).__name__)}, {_unwritten(error)}") from None
    changed = difference(value, arrived, what)
    if changed:
        told_mend = "Send it" in changed  # a moment's own, and its type is not what is wrong with it
        raise invalid(
            changed if told_mend else f"{changed}. Annotate the parameter with its type, or send what JSON knows"
        )
    return plain


def _misfit(adapter: TypeAdapter[Any], value: Any, what: str) -> str | None:
    """Which part of a value does not fit its type, as a sentence without its end; None where that cannot be said.

    The serialiser names no place. So the value is written as it is, and the place is where it is not taken back, or
    comes back as something else.
    """
    try:
        arrived = adapter.validate_json(
            adapter.dump_json(value, by_alias=True, round_trip=True, warnings="none"), strict=True
        )
    except ValidationError as error:
        return f"{what} does not fit its type: {_first(error)}" if error.errors()[0]["loc"] else None
    except Exception:  # whatever it is, it is the error that is being told
        return None
    changed = difference(value, arrived, what)
    return f"{changed}. Send it as the type that its annotation names" if changed else None


def _validated(adapter: TypeAdapter[Any], plain: Any, what: str, invalid: Callable[[str], InvalidPayload]) -> Any:
    try:
        value = adapter.validate_json(canonical(plain), strict=True)
    except ValidationError as error:
        raise invalid(f"{what} does not fit its type: {_first(error)}") from None
    except Exception as error:  # a validator of the user's own may raise anything
        raise invalid(f"{what} cannot be read: {_sentence(error)}") from None
    if told := zoneless(value, what):
        raise invalid(told)
    return value


def _loads(text: str, invalid: Callable[[str], InvalidPayload]) -> Any:
    try:
        return parse(text)
    except (ValueError, RecursionError) as error:
        raise invalid(f"not JSON ({_sentence(error)})") from None


def _first(error: ValidationError) -> str:
    """The first complaint, without the value: a payload may hold what no log should."""
    found = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in found["loc"])
    return f"{found['msg']}" + (f" (at {where})" if where else "")


def _unwritten(error: BaseException) -> str:
    """Why a value was not written, as the end of a sentence: it does not fit its type, or nothing could write it."""
    text = str(error)
    expected = re.search(r"Expected `([^`]+)`", text)
    return f"does not fit its type ({expected[1]})" if expected else f"cannot be written as JSON: {_sentence(error)}"


def _sentence(error: BaseException) -> str:
    """What an error of encoding says, without the value that it would show."""
    line = next(iter(str(error).splitlines()), "") or type(error).__name__
    return re.sub(r"(?i)\[?input_value=.*|character '.*'", "", line)[:200].rstrip(".: ")
