"""Runs pytest over and over, each time in a fork of a process that has the libraries loaded: to load them takes longer
than most tests do. Nothing of tenure is loaded before the fork, so that each run has the code of its own tree.

Reads orders from standard input, a JSON object a line: {"tree": folder, "output": file, "arguments": [...]}, and
answers each with pytest's exit code, a line. See tools/sabotage.py.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, NoReturn

LIBRARIES = ("pytest", "hypothesis.stateful", "pydantic", "boto3", "botocore.stub", "click.testing", "rich.console")


def main() -> int:
    """Until standard input ends."""
    for name in LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _run(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    return 0


def _run(order: dict[str, Any]) -> NoReturn:
    import pytest

    output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    tree = order["tree"]
    os.chdir(tree)
    ours = [os.path.join(tree, "shared"), tree]
    sys.path[:0] = ours
    os.environ["PYTHONPATH"] = os.pathsep.join(ours)  # for the processes that tests start
    code = int(pytest.main(order["arguments"]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # nothing of the parent's is to be tidied up here


if __name__ == "__main__":
    raise SystemExit(main())
