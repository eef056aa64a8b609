"""A world in memory, for tests and for the simulator: see world.World."""

from tenure.adapters.memory.faults import Faults
from tenure.adapters.memory.world import World

__all__ = ["Faults", "World"]
