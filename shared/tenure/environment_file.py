"""Reads an environment file from disk. What its content means is `tenure.core.environment`."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tenure.core.environment import Environment, Look, environment_of
from tenure.core.errors import InvalidTopology


def read_environment(path: Path, look: Look | None = None) -> Environment:
    """The environment in the TOML file at `path`; the environment's name is the file's name without `.toml`.

    look: what else is wrong with its `[deploy]` table, for whoever reads that.

    Raises InvalidTopology if the file is missing, is not TOML, or contradicts itself; the text says what to mend.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        there = ", ".join(sorted(each.stem for each in path.parent.glob("*.toml"))) or "none"
        raise InvalidTopology(
            f"there is no environment {path.stem!r}: {path} does not exist. Environments there: {there}."
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidTopology(
            f"{path} is not TOML: its byte {error.start + 1} is not UTF-8. Save it as UTF-8."
        ) from None
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidTopology(f"{path} is not TOML: {error}. Mend that line.") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or lists in lists without end
        raise InvalidTopology(f"{path} cannot be read: {error}. Write what tenure asks for, and no more.") from None
    return environment_of(path.stem, content, str(path), look)
