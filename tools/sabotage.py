"""Break the rules on purpose, one line at a time, and see that a named test turns red each time.

    python -m tools.sabotage                    every sabotage
    python -m tools.sabotage --sample 12        a seeded sample, each rule in its turn over the days
    python -m tools.sabotage --only "adopt*"    those whose name matches; or section/name: --only "adapters/*"
    python -m tools.sabotage --list             what there is

A sabotage is a row of a file in tests/sabotage, which is its section: a text that stands exactly once in a file, what
takes its place, the rules it breaks, and the tests that must fail. Those of the section "transitions" are made here:
every row of the table in core/machine.py is taken out, and pointed to a wrong state.

The tree is copied, broken in the copy, tested there, and mended for the next one. A test that stays green, a text that
is not found, or a run that fails for another reason than a red test is an error.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tenure.core.machine import TRANSITIONS, Event
from tenure.core.task import State

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "tests" / "sabotage"
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
TABLE = "shared/tenure/core/machine.py"
TABLE_TESTS = ("tests/core/test_transitions.py",)
"""What must miss a row of the table. It tells of the same steps in words of its own."""
TESTS_FAILED = 1
"""pytest's exit code for "some tests failed"; 2 and above mean that it could not test at all."""


@dataclass(frozen=True)
class Sabotage:
    """One breakage."""

    section: str
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


def read_list(folder: Path = LISTS) -> list[Sabotage]:
    """All there are, by section; names are unique."""
    found = [made for path in sorted(folder.glob("*.toml")) for made in _read_section(path)]
    found += transitions()
    names = [s.name for s in found]
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        raise SystemExit(f"sabotages: twice: {', '.join(sorted(twice))}")
    return found


def _read_section(path: Path) -> Iterator[Sabotage]:
    for row in tomllib.loads(path.read_text("utf-8"))["sabotage"]:
        texts = (row["why"], row["file"], row["find"], row["replace"])
        yield Sabotage(path.stem, row["name"], tuple(row["rules"]), *texts, tuple(row["tests"]))


def transitions() -> Iterator[Sabotage]:
    """For each row of the table of transitions: without it, and with a wrong state at its end."""
    for (state, event), target in TRANSITIONS.items():
        wrong = State.CANCELLED if target is State.COMPLETED else State.COMPLETED
        yield _of_table(state, event, target, None)
        yield _of_table(state, event, target, wrong)


def _of_table(state: State | None, event: Event, target: State, wrong: State | None) -> Sabotage:
    source = f"S.{state.name}" if state else "None"
    find = f"({source}, E.{event.name}): S.{target.name},"
    pair = f"{event.value}-from-{state.value if state else 'nothing'}".replace("_", "-")
    if wrong is None:
        name, why, put = f"refuse-{pair}", "A life that tasks must be able to lead is refused.", ""
    else:
        name, why = f"mislead-{pair}", f"The task ends up {wrong.value} instead of {target.value}."
        put = find.replace(f": S.{target.name},", f": S.{wrong.name},")
    return Sabotage("transitions", name, ("R2",), why, TABLE, find, put, TABLE_TESTS)


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


class Copy:
    """A copy of the tree, and a process that runs its tests. Hypothesis draws the same examples each time, so that a
    test which is red once is red always, and shrinks none."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._output = folder / "output"
        self.tree = folder / "tree"
        self.tree.mkdir()
        copy_tree(self.tree)
        runner = [sys.executable, str(ROOT / "tools" / "warm_tests.py")]
        self._process = subprocess.Popen(runner, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def test(self, tests: tuple[str, ...]) -> tuple[int, str]:
        """pytest's exit code and output, up to the first red test."""
        options = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=line", "--hypothesis-profile=sabotage"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is loaded beforehand
        order = {"tree": str(self.tree), "output": str(self._output), "arguments": [*options, *tests]}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        code = int(self._process.stdout.readline())
        return code, self._output.read_text("utf-8", "replace")

    def close(self) -> None:
        """End its process."""
        self._process.communicate()


def try_one(sabotage: Sabotage, copies: SimpleQueue[Copy]) -> Verdict:
    """Break a copy, test it, judge, and mend it."""
    if not stands_once(sabotage):
        return Verdict(sabotage, False, f"its text does not stand exactly once in {sabotage.file}")
    copy = copies.get()
    path = copy.tree / sabotage.file
    whole = path.read_text("utf-8")
    try:
        _write(path, whole.replace(sabotage.find, sabotage.replace))
        code, output = copy.test(sabotage.tests)
    finally:
        _write(path, whole)
        copies.put(copy)
    return judge(sabotage, code, output)


def judge(sabotage: Sabotage, code: int, output: str) -> Verdict:
    """What pytest's exit code and output say of a sabotage."""
    caught = [
        line.split(" - ")[0].removeprefix("FAILED ") for line in output.splitlines() if line.startswith("FAILED ")
    ]
    if code == TESTS_FAILED and caught:
        return Verdict(sabotage, True, caught[0])
    if code == 0:
        return Verdict(sabotage, False, "all its tests stayed green")
    return Verdict(sabotage, False, f"pytest exited {code}: " + (output.strip().splitlines() or ["no output"])[-1])


def _write(path: Path, text: str) -> None:
    """Write a module, and forget what was compiled of it: that is told apart by second and size only."""
    path.write_text(text, "utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


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
    parser.add_argument("--trust", action="store_true", help="skip the run that sees the tests green beforehand")
    parser.add_argument("--list", action="store_true", help="tell what there is, run nothing")
    options = parser.parse_args(argv)
    chosen = [s for s in read_list() if _matches(s, options.only)]
    if options.sample:
        chosen = sample(chosen, options.sample, options.seed)
    if options.list:
        for s in chosen:
            print(f"{s.section:12} {','.join(s.rules):10} {s.name:44} {s.file}")
        return 0
    if not chosen:
        print("no sabotage matches", file=sys.stderr)
        return 3
    # Else a test that is red anyway would count as one that noticed.
    red = "" if options.trust else whole_is_red(chosen, options.jobs)
    if red:
        print(red, file=sys.stderr)
        print("The tests are not green before anything is broken; nothing was tried.", file=sys.stderr)
        return 1
    failed = 0
    for number, verdict in enumerate(try_all(chosen, options.jobs), 1):
        failed += not verdict.red
        mark = "red  " if verdict.red else "GREEN"
        rules, name = ",".join(verdict.sabotage.rules), verdict.sabotage.name
        print(f"{number:3}/{len(chosen)} {mark} {rules:10} {name:44} {verdict.what}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} sabotages turned a test red")
    return 1 if failed else 0


def whole_is_red(chosen: list[Sabotage], jobs: int) -> str:
    """What pytest says if the tests of all these are not green while nothing is broken; else nothing."""
    tests = list(dict.fromkeys(test for s in chosen for test in s.tests))
    options = ["-q", "-p", "no:cacheprovider", "--no-header", "--tb=short", "-n", str(jobs), "--dist", "loadscope"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=3600)
    return (done.stdout + done.stderr)[-3000:] if done.returncode else ""


def try_all(chosen: list[Sabotage], jobs: int) -> Iterator[Verdict]:
    """Each one's verdict as it comes, from as many copies of the tree as there are jobs."""
    copies: SimpleQueue[Copy] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="sabotage-") as folder, ThreadPoolExecutor(jobs) as pool:
        for number in range(jobs):
            copies.put(Copy(Path(folder) / str(number)))
        for done in as_completed([pool.submit(try_one, sabotage, copies) for sabotage in chosen]):
            yield done.result()
        while not copies.empty():
            copies.get().close()


def _matches(sabotage: Sabotage, pattern: str) -> bool:
    return fnmatch.fnmatch(sabotage.name, pattern) or fnmatch.fnmatch(f"{sabotage.section}/{sabotage.name}", pattern)


if __name__ == "__main__":
    raise SystemExit(main())
