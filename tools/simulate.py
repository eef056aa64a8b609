"""Run the simulation over many seeds: real workers, producers and reconcile in a world that kills, stalls and lies.

    python -m tools.simulate --seeds 10000 --jobs 2   the long run, on two cores
    python -m tools.simulate --seed 4711              one seed again, with its story if a rule broke
    python -m tools.simulate --seed 4711 --shrink     what little of it still breaks that rule
    python -m tools.simulate --setting keys --seeds 500 --first 20000

Every seed is the same run again, step by step. Exit code 1 if any rule was broken.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from tests.simulation.settings import SETTINGS
from tests.simulation.shrink import shrink_seed
from tests.simulation.verdict import Verdict, judge

EVERY_SECONDS = 2.0


def main() -> int:
    options = _options()
    if options.seed is not None and options.shrink:
        shrunk = shrink_seed(options.seed, options.setting)
        print(shrunk.text if shrunk else f"seed {options.seed}: no rule broken, so there is nothing to shrink")
        return bool(shrunk)
    if options.seed is not None:
        verdict = judge(options.seed, options.setting)
        print(verdict.text or f"seed {verdict.seed} ({verdict.setting}): no rule broken in {verdict.steps} steps")
        return bool(verdict.faults)
    seeds = range(options.first, options.first + options.seeds)
    return _report(_verdicts(seeds, options.setting, options.jobs), len(seeds))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--shrink", action="store_true", help="with --seed: make its failure small")
    parser.add_argument("--setting", choices=sorted(SETTINGS), default="", help="all in turn, unless one is named")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    return parser.parse_args()


def _verdicts(seeds: Iterable[int], setting: str, jobs: int) -> Iterator[Verdict]:
    if jobs == 1:
        yield from (judge(seed, setting) for seed in seeds)
        return
    places = multiprocessing.Value("i", 0)
    with ProcessPoolExecutor(jobs, initializer=_stay_on_one_core, initargs=(places,)) as pool:
        yield from pool.map(judge, seeds, [setting] * len(list(seeds)), chunksize=10)


def _stay_on_one_core(places: Any) -> None:
    """Each process on a core of its own, where the system lets one choose. Of a simulation's threads one runs at a
    time, and to wake another on the same core takes a third of the time off a seed."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        with places.get_lock():
            place, places.value = places.value, places.value + 1
        os.sched_setaffinity(0, {cores[place % len(cores)]})


def _report(verdicts: Iterable[Verdict], total: int) -> int:
    begun = told = time.monotonic()
    broken: dict[str, list[int]] = {}
    done: Counter[str] = Counter()
    for count, verdict in enumerate(verdicts, start=1):
        done["steps"] += verdict.steps
        done["virtual hours"] += round(verdict.virtual_seconds)
        if verdict.faults:
            print(f"\r{verdict.text}\n", flush=True)
            for rule in sorted({fault.rule for fault in verdict.faults}):
                broken.setdefault(f"{rule} ({verdict.setting})", []).append(verdict.seed)
        now = time.monotonic()
        if now - told > EVERY_SECONDS or count == total:
            told, spent = now, max(0.001, now - begun)
            bad = len({seed for seeds in broken.values() for seed in seeds})
            print(
                f"\r{count}/{total} seeds, {bad} broken, {count / spent:.1f} seeds/s, {done['steps'] / spent:,.0f} "
                f"steps/s, {done['virtual hours'] / 3600:,.0f} virtual hours in {spent:,.0f} s ",
                end="",
                flush=True,
            )
    print()
    for rule, seeds in sorted(broken.items()):
        print(f"  {rule}: {len(seeds)} seeds, first {seeds[:5]}")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
