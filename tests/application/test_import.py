"""What `import tenure` costs, and what a producer's installation brings along."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys

WORKERS_OWN = ("tenure.worker", "tenure.maintenance", "tenure.cli", "tenure.console", "tenure.local", "tenure.testing")


def workers_own(names: list[str]) -> list[str]:
    """Those that only a worker, an operator or a developer needs."""
    return [name for name in names if any(f"{name}.".startswith(f"{each}.") for each in WORKERS_OWN)]


def loaded(program: str) -> list[str]:
    """The modules that a fresh interpreter holds after `program`."""
    code = f"import sys\n{program}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_tenure_loads_neither_sdk_nor_worker() -> None:
    """A module that declares tasks pays for pydantic and for the small part of tenure that declaring needs."""
    names = loaded("import tenure")
    ours = [name for name in names if name.split(".")[0] == "tenure"]
    assert not [name for name in names if name.split(".")[0] in ("boto3", "botocore", "s3transfer", "moto", "click")]
    assert workers_own(ours) == []
    assert not [name for name in ours if name.startswith(("tenure.adapters", "tenure.wiring", "tenure.client"))]
    assert len(ours) <= 30


def test_declaring_and_calling_a_task_loads_no_more() -> None:
    """Nothing is put off until the first declaration, and a task that is called as a function connects to nothing."""
    program = (
        "import tenure\napp = tenure.App('a')\ntask = app.task(queue='q', name='t')(lambda: 1)\nassert task() == 1"
    )
    assert set(loaded(program)) == set(loaded("import tenure"))


def test_a_connected_producer_loads_no_worker() -> None:
    """Whatever it submits, a web server carries boto3 and pydantic only."""
    names = loaded("import tenure.wiring.producer")
    assert "boto3" in names
    assert workers_own(names) == []


def test_the_context_outside_a_worker_is_inert() -> None:
    """A handler that asks for its context stays a plain function."""
    program = "import tenure\nctx = tenure.context()\nassert (ctx.attempt, ctx.fence, ctx.cancelled) == (1, 0, False)"
    assert "boto3" not in loaded(program)


def test_a_producers_installation_is_boto3_and_pydantic() -> None:
    """Without extras the built package requires these two and nothing else."""
    required = importlib.metadata.requires("tenure") or []
    plain = {re.split(r"[^\w-]", each)[0] for each in required if "extra ==" not in each}
    assert plain == {"boto3", "pydantic"}
