"""For tests of code that uses tenure: a world in memory behind the same ports as AWS's, under virtual time.

Nothing here waits for real time or reaches the network.
"""

from tenure.adapters.memory import Faults, World

__all__ = ["Faults", "World"]
