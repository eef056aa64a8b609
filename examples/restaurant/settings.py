"""Where the restaurant keeps its files, and whom it tells. The one reader of the environment in this example."""

import os
import tempfile
from pathlib import Path

STORE = "RESTAURANT_STORE"
PARTNERS = "RESTAURANT_PARTNERS"


def store_address() -> str:
    """A directory, or `s3://bucket/prefix`. Unset: a directory under the machine's own temporary one, which is enough
    for one machine and for nothing more."""
    return os.environ.get(STORE) or str(Path(tempfile.gettempdir()) / "tenure-restaurant")


def partners_url() -> str:
    """The partner's base address, such as `http://127.0.0.1:8090`. Raises LookupError if none is set."""
    url = os.environ.get(PARTNERS, "")
    if not url:
        raise LookupError(f"{PARTNERS} is not set: the address of the partner that orders are announced to.")
    return url
