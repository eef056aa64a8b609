"""python -m functions.poller: a container's first process, which keeps the pool's number of pollers running.

`python -m functions.poller INDEX` is one of those.
"""

from __future__ import annotations

import sys

from tenure.config import worker_config
from tenure.wiring.container import end_process, run_container

if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(run_container(worker_config(), [sys.executable, "-m", "functions.poller"]))
    from tenure.wiring.poller import run_child

    end_process(run_child(worker_config(), int(sys.argv[1])))
