"""The worker of a queue on Lambda."""
