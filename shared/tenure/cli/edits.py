"""Notices that an app's code was edited since it was loaded. Its workers run what they loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

INSTALLED = ("site-packages", "dist-packages")
"""Folders of packages that were installed: of a virtual environment in the project, too."""


class Edits:
    """The files as they were when this was made."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._seen = {path: _stamp(path) for path in paths}

    @classmethod
    def of_project(
        cls, directory: Path, besides: Iterable[Path] = (), modules: Mapping[str, ModuleType] | None = None
    ) -> Edits:
        """Of every module loaded from the project's directory, and other files of it."""
        loaded = dict(sys.modules) if modules is None else modules
        files = [Path(file) for module in loaded.values() if (file := getattr(module, "__file__", None))]
        own = [file for file in files if file.is_relative_to(directory) and not set(INSTALLED) & set(file.parts)]
        return cls([*own, *besides])

    def first(self) -> Path | None:
        """A file that is not as it was, or None."""
        return next((path for path, stamp in self._seen.items() if _stamp(path) != stamp), None)


def _stamp(path: Path) -> tuple[int, int] | None:
    """When it was written, and its size; None where it is not."""
    try:
        found = path.stat()
    except OSError:  # gone, or not to be looked at: as good as gone
        return None
    return found.st_mtime_ns, found.st_size
