"""Whose error it is that was raised while an app was imported: the app's, told by the place in its own files."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import tenure
from tenure.cli.edits import INSTALLED
from tenure.cli.errors import sentence
from tenure.core.errors import TenureError, UsageError


def of_app(error: BaseException, app_path: str, directory: Path) -> UsageError:
    """The error as its author needs it: the last place in the project's own files, and what it says."""
    told = str(error) if isinstance(error, TenureError) else _named(error)
    mend = ""
    if isinstance(error, ModuleNotFoundError):
        mend = " Install it beside tenure, or correct the import."
    return UsageError(f"{_place(error, directory)}: {sentence(told)}{mend} So {app_path} could not be imported.")


def _named(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, SyntaxError):
        line = f": {error.text.strip()}" if error.text else ""
        return f"{name}: {error.msg}{line}"
    return f"{name}: {error}" if str(error) else name


def _place(error: BaseException, directory: Path) -> str:
    """file:line, the file as it is called from the project's directory."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(Path(error.filename), directory)}:{error.lineno or 1}"
    frames = list(_frames(error))
    own = [frame for frame in frames if _is_own(frame[0], directory)] or frames
    if not own:
        return "your app"
    path, line = own[-1]
    return f"{_shown(path, directory)}:{line}"


def _frames(error: BaseException) -> Iterator[tuple[Path, int]]:
    """Those of files, without Python's import system, tenure's own and Python's library."""
    not_theirs = (Path(tenure.__file__).parent, Path(sys.base_prefix) / "lib")
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        if path.is_absolute() and not any(path.is_relative_to(place) for place in not_theirs):
            yield path, line


def _is_own(path: Path, directory: Path) -> bool:
    return path.is_relative_to(directory) and not set(INSTALLED) & set(path.parts)


def _shown(path: Path, directory: Path) -> str:
    return str(path.relative_to(directory)) if path.is_relative_to(directory) else str(path)
