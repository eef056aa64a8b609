"""House rules: what a reviewer would else have to say again and again. Every failure tells how to mend it."""

import inspect
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import tenure
from tests.architecture import repository

API_NAMES = repository.ROOT / "docs" / "api-names.txt"
PROSE_AND_CODE = (
    ".py",
    ".md",
    ".toml",
    ".sh",
    ".yml",
    ".yaml",
    ".js",
    ".css",
    ".html",
    "Makefile",
    "Dockerfile",
    "run",
)

# Each pattern is written so that this file does not match itself.
MACHINE_PATH = re.compile(r"(?<![\w./])/(?:root|work)/\w|(?<![\w./])/(?:home|Users)/[a-z]|pyenv/versions/\d")
REGISTRY = re.compile(
    r"pypi[.]org|pythonhosted[.]org|npmjs[.](?:org|com)|yarnpkg[.]com|crates[.]io|proxy[.]golang[.]org", re.I
)
OPEN_END = re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X)\b(?!\([^)\s][^)]*\): \S)")
BARE_IGNORE = re.compile(
    r"#\s*(?:no[q]a(?::\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*)?|type:\s*ignor[e](?:\[[\w, -]+\])?|pragma: no cove[r])\s*$"
)


def offending(pattern: re.Pattern[str], *suffixes: str) -> list[str]:
    """`path:line: text` of every line that matches."""
    return [
        f"{path}:{number}: {line.strip()[:120]}"
        for path, text in repository.texts(*suffixes)
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def doors() -> list[str]:
    """The modules by which a producer, or code that only declares tasks, may come in."""
    shared = repository.ROOT / "shared"
    names = ["application", "client", "config", "errors", "ports", "telemetry", "wiring/producer"]
    found = [name for name in names if (shared / "tenure" / name).is_dir() or (shared / f"tenure/{name}.py").is_file()]
    return ["tenure", *("tenure." + name.replace("/", ".") for name in found)]


def test_layers_are_kept():
    """The contracts stand in pyproject.toml; import-linter holds them."""
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-logo"], cwd=repository.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("door", doors())
def test_a_producer_carries_no_worker(door):
    """What import-linter reads from the source, seen at run time: a web server pays for boto3 and pydantic only."""
    program = f"import sys, {door}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    foreign = {"tenure.worker", "tenure.maintenance", "tenure.cli", "tenure.console", "tenure.local", "tenure.testing"}
    foreign |= {"aws_lambda_powertools", "moto", "click", "rich", "aws_cdk"}
    assert not foreign.intersection(loaded)


def test_importing_tenure_reads_no_environment_and_opens_no_client():
    """`import tenure` is free of effects: boto3, which is slow to load, waits until something connects."""
    program = "import sys, tenure; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"boto3", "botocore"}.intersection(loaded)


def test_no_machine_path_is_committed():
    assert offending(MACHINE_PATH) == [], "say it relative to the repository, or ask the environment"


def test_no_registry_is_named():
    assert offending(REGISTRY) == [], "each machine asks the registry it is set up with; a file names none"


def test_no_open_end_without_a_reason():
    assert offending(OPEN_END, *PROSE_AND_CODE) == [], "write TO" + "DO(why it waits): what is to be done, or do it"


def test_every_ignore_gives_its_reason():
    message = "add the reason behind the ignore: `# no" + "qa: PLR0913 - one keyword per column`"
    assert offending(BARE_IGNORE, ".py") == [], message


def test_text_files_end_in_one_newline_and_hold_no_trailing_blanks():
    wrong = [path for path, text in repository.texts() if text and (not text.endswith("\n") or text.endswith("\n\n"))]
    assert wrong == [], "end the file in exactly one newline"
    assert offending(re.compile(r"[ \t]$|\r"), *PROSE_AND_CODE) == [], "strip the blanks at the line's end"


def test_the_public_names_are_the_documented_ones():
    """`tenure.__all__` and docs/api-names.txt change together, so that the surface never grows by accident."""
    listed = [line for line in API_NAMES.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    exported = list(getattr(tenure, "__all__", []))
    assert listed == sorted(listed), f"keep {API_NAMES.name} sorted"
    assert sorted(exported) == listed, (
        f"a name was added or dropped: do the same in docs/{API_NAMES.name}, and in CHANGELOG.md"
    )


def test_everything_public_is_exported():
    """A name bound in `tenure/__init__.py` is either in `__all__` or starts with an underscore."""
    bound = {
        name for name, value in vars(tenure).items() if not name.startswith("_") and not _is_submodule(name, value)
    }
    assert bound == {name for name in getattr(tenure, "__all__", []) if not name.startswith("_")}


def _is_submodule(name: str, value: object) -> bool:
    return isinstance(value, types.ModuleType) and value.__name__ == f"tenure.{name}"


def test_every_public_name_resolves_and_is_documented():
    mute = [name for name in getattr(tenure, "__all__", []) if not _is_documented(name)]
    assert mute == [], "write a docstring: one sentence that is the contract, then the why"


def _is_documented(name: str) -> bool:
    value = getattr(tenure, name)
    if isinstance(value, str):  # __version__: its name says all
        return name.startswith("__")
    docstring = value.__doc__ if inspect.isclass(value) or callable(value) else None
    # A dataclass without a docstring is given its signature for one, which documents nothing.
    return bool(docstring) and not str(docstring).startswith(f"{name}(")


def test_every_public_method_is_documented():
    classes = [
        getattr(tenure, name) for name in getattr(tenure, "__all__", []) if inspect.isclass(getattr(tenure, name))
    ]
    mute = [
        f"{each.__name__}.{name}"
        for each in classes
        for name, member in vars(each).items()
        if not name.startswith("_") and _is_mute(member)
    ]
    assert mute == [], "write a docstring for each"


def _is_mute(member: object) -> bool:
    if isinstance(member, classmethod | staticmethod):
        member = member.__func__
    return isinstance(member, types.FunctionType | property) and not member.__doc__


def test_every_package_of_the_library_is_typed():
    assert (repository.ROOT / "shared" / "tenure" / "py.typed").is_file()


def test_every_target_of_the_makefile_is_phony_and_explained():
    """A target that help does not show does not exist for the person who needs it; format-check is part of check."""
    text = (repository.ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))
    phony = set(" ".join(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)).split())
    explained = set(re.findall(r"^([a-z][a-z-]*):.*## ", text, re.MULTILINE))
    assert targets == phony
    assert targets - explained <= {"format-check"}
