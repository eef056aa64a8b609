"""A Fargate pool's worker process: `python -m tenure.local.poller_process INDEX`, configured by its environment.

`functions/poller` is the same in a container, under a supervisor; here the embedded stack is the supervisor.
"""

from __future__ import annotations

import sys

from tenure.config import worker_config
from tenure.wiring.container import end_process
from tenure.wiring.poller import run_child

if __name__ == "__main__":
    end_process(run_child(worker_config(), int(sys.argv[1])))
