"""A child of a fork, and how it ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

HANGS_AFTER_SECONDS = 30


def exit_code_of_a_fork(work: Callable[[], bool]) -> int:
    """Fork, and let the child do `work`: 0 if it answers true, 1 if not, 2 if it raises, -14 if it hangs, and less
    than zero for any other signal that ends it."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            signal.alarm(HANGS_AFTER_SECONDS)
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
