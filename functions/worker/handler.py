"""Runs a queue's tasks on Lambda: a batch of messages in, the ids of those that are not done out."""

from __future__ import annotations

from tenure.config import worker_config
from tenure.wiring.worker import lambda_handler

# At import, so that Lambda counts it as the environment's start, which has a full core and is not billed by memory.
handler = lambda_handler(worker_config())
