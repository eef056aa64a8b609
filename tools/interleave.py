"""Play every order of calls of a few workers and who else is about, up to a bound; and beyond it, orders at random.

    python -m tools.interleave                              each scene to its own bound
    python -m tools.interleave --bound 3 --scene heartbeat  deeper, where the scene's name holds this word
    python -m tools.interleave --random 20000 --first 5000  schedules of up to twelve deviations, one for each seed

A schedule that breaks a rule is shrunk and told. Each is the same run again. Exit code 1 if a rule was broken.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.interleavings import Scene, Tally, explore, wander
from tests.simulation.scenes import SCENES
from tests.simulation.shrink import shrink_schedule, tell

EVERY_SECONDS = 2.0


def main() -> int:
    options = _options()
    scenes = [scene for scene in SCENES if options.scene in scene.name]
    begun, tallies = time.process_time(), []
    print(Tally.HEAD)
    for scene in scenes:
        tally = _played(scene, options)
        tallies.append(tally)
        print(f"\r{tally}", flush=True)
        for run in tally.broken:
            print(tell(shrink_schedule(run)), flush=True)
    spent, count = max(0.001, time.process_time() - begun), sum(tally.schedules for tally in tallies)
    broken = sum(bool(tally.broken) for tally in tallies)
    print(f"{count:,} schedules, {broken} scenes broken, {count / spent:,.0f} schedules/s, {spent:,.0f} s of CPU")
    return bool(broken)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", default="", help="only those whose name holds this; all unless given")
    parser.add_argument("--bound", type=int, help="deviations in a schedule; the scene's own unless given")
    parser.add_argument("--random", type=int, default=0, help="so many at random for each scene, and none in order")
    parser.add_argument("--first", type=int, default=0, help="the first seed of those")
    return parser.parse_args()


def _played(scene: Scene, options: argparse.Namespace) -> Tally:
    progress = _Progress(options.random)
    if options.random:
        return wander(scene, range(options.first, options.first + options.random), progress=progress)
    return explore(scene, scene.bound if options.bound is None else options.bound, progress=progress)


class _Progress:
    """Tells now and then how far a scene is."""

    def __init__(self, total: int) -> None:
        self._total = f"/{total:,}" if total else ""
        self._told = time.monotonic()

    def __call__(self, tally: Tally) -> None:
        now = time.monotonic()
        if now - self._told > EVERY_SECONDS:
            self._told = now
            rate = tally.schedules / max(0.001, tally.cpu_seconds)
            print(
                f"\r{tally.scene.name}: {tally.schedules:,}{self._total} schedules, {rate:,.0f}/s ", end="", flush=True
            )


if __name__ == "__main__":
    sys.exit(main())
