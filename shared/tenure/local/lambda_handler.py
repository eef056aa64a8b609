"""The handler that the stand-in for Lambda loads: the real one, configured by its environment as on AWS.

`functions/worker` is the same for a deployed bundle; this one is inside the library, where every project has it.
"""

from __future__ import annotations

from tenure.config import worker_config
from tenure.wiring.worker import lambda_handler

handler = lambda_handler(worker_config())
