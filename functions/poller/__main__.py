"""python -m functions.poller: a container's first process, which keeps the pool's number of pollers running.

`python -m functions.poller INDEX` is one of those.
"""

from __future__ import annotations

import signal
import sys

if __name__ == "__main__":
    # The kernel keeps SIGTERM from a container's first process until it is taken; what follows takes seconds to load.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    from tenure.config import worker_config

    if len(sys.argv) == 1:
        from tenure.wiring.container import run_container

        sys.exit(run_container(worker_config(), [sys.executable, "-m", "functions.poller"]))
    from tenure.wiring.container import end_process
    from tenure.wiring.poller import run_child

    end_process(run_child(worker_config(), int(sys.argv[1])))
