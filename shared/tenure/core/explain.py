"""What pydantic found wrong in a file that a person wrote, said as field, rule and mend.

A person who mistypes a key in an environment file should read one line about that key, not a library's traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

_Detail = Mapping[str, Any]

_NAME_RULE = "must be a name: a lower-case letter, then at most 30 lower-case letters, digits or hyphens"


def explain(error: ValidationError, where: str, model: type[BaseModel]) -> list[str]:
    """One line for each problem: "<where>.<field>: <rule>, not <value>. <mend>". `model` lists the fields there are."""
    return [_line(detail, where, model) for detail in error.errors(include_url=False)]


def unknown(key: str, known: Iterable[str]) -> str:
    """The rule and the mend for a key that nobody reads: the nearest known one, else all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(key, names, n=1)
    return f"is not a field here. Did you mean {near[0]}?" if near else f"is not a field here. Use: {', '.join(names)}."


def _line(detail: _Detail, where: str, model: type[BaseModel]) -> str:
    path = ".".join([part for part in (where, *(str(each) for each in detail["loc"])) if part])
    kind = str(detail["type"])
    if kind == "value_error":
        # One of our own rules: its text already names the field, the rule and the mend.
        text = str(detail["msg"]).removeprefix("Value error, ")
        return f"{path}: {text}" if path else text
    if kind == "extra_forbidden":
        return f"{path}: {unknown(str(detail['loc'][-1]), _fields(model, detail['loc'][:-1]))}"
    if kind == "missing":
        return f"{path}: is missing. Add it."
    rule, mend = _rule(kind, detail)
    return f"{path}: {rule}, not {detail['input']!r}. {mend}"


def _fields(model: type[BaseModel], path: Iterable[Any]) -> Iterable[str]:
    """The fields of the model at `path` below `model`, as far as each step is a model."""
    for step in path:
        field = model.model_fields.get(str(step))
        inner = getattr(field, "annotation", None)
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return ()
        model = inner
    return model.model_fields


def _bound(words: str, key: str) -> Callable[[_Detail], tuple[str, str]]:
    return lambda detail: (f"must be {words} {detail['ctx'][key]}", "Write a value within the bound.")


def _pattern(detail: _Detail) -> tuple[str, str]:
    pattern = detail["ctx"]["pattern"]
    if pattern.startswith("^[a-z][a-z0-9-]"):
        return _NAME_RULE, "Rename it."
    if ":" in pattern:
        return "must be module:attribute", 'Write for example "shop.tasks:app".'
    return f"must match {pattern}", "Mend the value."


_RULES: dict[str, Callable[[_Detail], tuple[str, str]]] = {
    "greater_than_equal": _bound("at least", "ge"),
    "greater_than": _bound("above", "gt"),
    "less_than_equal": _bound("at most", "le"),
    "less_than": _bound("below", "lt"),
    "string_pattern_mismatch": _pattern,
    "literal_error": lambda detail: (f"must be {detail['ctx']['expected']}", "Choose one of these."),
}
_KINDS = {
    "int": ("must be a whole number", "Write it without quotes, for example 300."),
    "float": ("must be a number", "Write it without quotes, for example 0.8."),
    "bool": ("must be true or false", "Write it without quotes."),
    "string": ("must be text", 'Write it in quotes, for example "media".'),
    "tuple": ("must be a list", 'Write for example ["high", "normal"].'),
    "list": ("must be a list", 'Write for example ["a", "b"].'),
    "model": ("must be a table", "Write a [section] with its fields."),
    "dict": ("must be a table", "Write a [section] with its fields."),
}


def _rule(kind: str, detail: _Detail) -> tuple[str, str]:
    if kind in _RULES:
        return _RULES[kind](detail)
    for prefix, said in _KINDS.items():
        if kind.startswith(prefix + "_"):
            return said
    text = str(detail["msg"])
    return text[:1].lower() + text[1:], "Mend the value."
