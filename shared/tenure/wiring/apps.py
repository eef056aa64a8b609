"""The App that a worker or a duty is told of by name."""

from __future__ import annotations

import importlib

from tenure.application import App
from tenure.core.errors import UsageError


def load_app(where: str) -> App:
    """The App at `module:attribute`. Raises UsageError, telling what is not there; an error in the user's own module
    is the user's to see as it is."""
    module_name, _, attribute = where.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise
        raise UsageError(
            f"TENURE_APP={where!r}: there is no module {error.name!r}. Name the module as Python imports it, and see "
            "that it is in the bundle."
        ) from None
    app = getattr(module, attribute, None)
    if not isinstance(app, App):
        raise UsageError(f"TENURE_APP={where!r}: {module_name} has no tenure.App called {attribute!r}.")
    return app
