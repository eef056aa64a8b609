"""Break the rules on purpose, one line at a time, and see that a named test turns red each time.

    python -m tools.sabotage                    every sabotage
    python -m tools.sabotage --sample 12        a seeded sample, each rule in its turn over the days
    python -m tools.sabotage --only "adopt*"    those whose name matches
    python -m tools.sabotage --list             what there is

A sabotage is a row of tests/sabotage/sabotages.toml: a text that stands exactly once in a file, what takes its place,
the rules it breaks, and the tests that must fail. The tree is copied, broken in the copy, and tested there. A test that
stays green, a text that is not found, or a run that fails for another reason than a red test is an error.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "sabotage" / "sabotages.toml"
COPIED = (
    "shared",
    "functions",
    "infra",
    "examples",
    "tests",
    "tools",
    "pyproject.toml",
    "app.py",
    "cdk.json",
    "docs",
    "README.md",
    "Makefile",
)
TESTS_FAILED = 1
"""pytest's exit code for "some tests failed"; 2 and above mean that it could not test at all."""


@dataclass(frozen=True)
class Sabotage:
    """One breakage."""

    name: str
    rules: tuple[str, ...]
    why: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """How it went: `red` is what should be; `what` tells which test caught it, or what was wrong."""

    sabotage: Sabotage
    red: bool
    what: str


def read_list(path: Path = LIST) -> list[Sabotage]:
    """The list, checked: names are unique, texts stand exactly once."""
    rows = tomllib.loads(path.read_text("utf-8"))["sabotage"]
    found = [
        Sabotage(r["name"], tuple(r["rules"]), r["why"], r["file"], r["find"], r["replace"], tuple(r["tests"]))
        for r in rows
    ]
    names = [s.name for s in found]
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        raise SystemExit(f"sabotages.toml: twice: {', '.join(sorted(twice))}")
    return found


def stands_once(sabotage: Sabotage, root: Path = ROOT) -> bool:
    """Whether its text stands exactly once in its file, so that the breakage is what the row says."""
    path = root / sabotage.file
    return path.is_file() and path.read_text("utf-8").count(sabotage.find) == 1


def copy_tree(to: Path) -> None:
    """The part of the tree that tests need."""
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc", "cdk.out", ".work")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=ignore)
        elif source.is_file():
            shutil.copy2(source, to / name)
    for name in (".venv", ".venv-ministack", "node_modules"):
        if (ROOT / name).exists():
            (to / name).symlink_to(ROOT / name)


def run_tests(tree: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    """pytest's exit code and output, with the copied tree before the installed one."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'shared'}{os.pathsep}{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=line", *tests],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    return done.returncode, done.stdout + done.stderr


def try_one(sabotage: Sabotage) -> Verdict:
    """Break, test, judge."""
    if not stands_once(sabotage):
        return Verdict(sabotage, False, f"its text does not stand exactly once in {sabotage.file}")
    with tempfile.TemporaryDirectory(prefix="sabotage-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        path = tree / sabotage.file
        path.write_text(path.read_text("utf-8").replace(sabotage.find, sabotage.replace), "utf-8")
        code, output = run_tests(tree, sabotage.tests)
    caught = [
        line.split(" - ")[0].removeprefix("FAILED ") for line in output.splitlines() if line.startswith("FAILED ")
    ]
    if code == TESTS_FAILED and caught:
        return Verdict(sabotage, True, caught[0])
    if code == 0:
        return Verdict(sabotage, False, "all its tests stayed green")
    return Verdict(sabotage, False, f"pytest exited {code}: " + (output.strip().splitlines() or ["no output"])[-1])


def sample(sabotages: list[Sabotage], count: int, seed: int) -> list[Sabotage]:
    """`count` of them, drawn from the seed."""
    return random.Random(seed).sample(sabotages, min(count, len(sabotages)))


def main(argv: list[str] | None = None) -> int:
    """Run; 0 only if every sabotage turned a test red."""
    parser = argparse.ArgumentParser(prog="python -m tools.sabotage", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, metavar="N", help="only N of them, drawn from the seed")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default 1)")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="names that match, as in a shell")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once (default 2)")
    parser.add_argument("--list", action="store_true", help="tell what there is, run nothing")
    options = parser.parse_args(argv)
    chosen = [s for s in read_list() if fnmatch.fnmatch(s.name, options.only)]
    if options.sample:
        chosen = sample(chosen, options.sample, options.seed)
    if options.list:
        for s in chosen:
            print(f"{','.join(s.rules):12} {s.name:44} {s.file}")
        return 0
    if not chosen:
        print("no sabotage matches", file=sys.stderr)
        return 3
    green = tuple(dict.fromkeys(test for s in chosen for test in s.tests))
    code, output = run_tests(ROOT, green)
    if code:
        print(output[-3000:], file=sys.stderr)
        print("The tests are not green before anything is broken; nothing was tried.", file=sys.stderr)
        return 1
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        running = [pool.submit(try_one, s) for s in chosen]
        for number, done in enumerate(as_completed(running), 1):
            verdict = done.result()
            failed += not verdict.red
            mark = "red  " if verdict.red else "GREEN"
            rules, name = ",".join(verdict.sabotage.rules), verdict.sabotage.name
            print(f"{number:3}/{len(chosen)} {mark} {rules:10} {name:44} {verdict.what}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} sabotages turned a test red")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
