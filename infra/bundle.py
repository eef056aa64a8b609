"""One asset for every function and container, made from wheels: no docker, no compiler, no running of foreign code.

`uv` resolves nothing here (every version is pinned) and builds nothing (`--only-binary`): it unpacks wheels for the
target's platform, whatever this machine is. tenure, the App's package and `functions` are copied as they stand. What
of boto3 goes in, and why, is docs/adr/0030-the-bundle.md.

A bundle is kept under a name made of everything that it was made from, so a synth that changes nothing builds nothing,
reads no wheel and asks no package index; and the name is the asset's hash, so nothing is uploaded twice.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tenure.core.errors import InvalidTopology

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".work" / "bundles"
WORKER_REQUIREMENTS = ROOT / "requirements" / "worker.txt"
NOT_CODE = shutil.ignore_patterns("__pycache__", "*.pyc", ".*", "tests")
OWN_SERVICES = ("dynamodb", "s3", "sqs", "ssm")
"""What tenure's workers call: their botocore models are always in the bundle."""
KEPT = 6
"""Bundles that are left in the cache when another is made: each is some 40 MB, and only the latest are of use."""
_LAYOUT = "3"
"""Raised when a bundle made from the same things would come out otherwise."""


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What a bundle is made from.

    app_module:   the module of the App; its whole top-level package goes in, as it may import any of it.
    requirements: what the handlers import beside tenure, pinned; relative to the project's root, empty for none.
    services:     AWS services whose botocore models are kept besides tenure's own; empty keeps all.
    """

    app_module: str
    requirements: str
    python_version: str
    architecture: str
    services: tuple[str, ...] = ()

    @property
    def platform(self) -> str:
        """uv's name for the target: Lambda's Python 3.11 stands on glibc 2.26, later ones on Amazon Linux 2023."""
        machine = "aarch64" if self.architecture == "arm64" else "x86_64"
        new = tuple(int(part) for part in self.python_version.split(".")) >= (3, 12)
        return f"{machine}-manylinux_2_34" if new else f"{machine}-manylinux2014"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A finished bundle: a directory, and the hash of what it was made from."""

    path: Path
    digest: str


def bundle(made_of: Ingredients, cache: Path = CACHE) -> Bundle:
    """The bundle made of these, built unless it is there already.

    Raises InvalidTopology if the App's module or the requirements are not found, or a wheel for the platform is not.
    """
    sources = [_package("tenure"), _package("functions"), _package(made_of.app_module.partition(".")[0])]
    requirements = [WORKER_REQUIREMENTS, *([_requirements(made_of.requirements)] if made_of.requirements else [])]
    digest = _digest(made_of, sources, requirements)
    place = cache / digest
    if not place.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = cache / f"{digest}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        _install(made_of, requirements, unfinished)
        _prune(unfinished, made_of.services)
        for source in sources:
            _copy(source, unfinished)
        unfinished.rename(place)
        _forget_old(cache)
    return Bundle(place, digest)


def _forget_old(cache: Path) -> None:
    made = sorted((each for each in cache.iterdir() if each.is_dir()), key=lambda each: each.stat().st_mtime)
    for old in made[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def _package(name: str) -> Path:
    """The directory of a package, or the file of a module, as Python itself would find it."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise InvalidTopology(
            f"there is no package {name!r} to bundle. Run the command from the project's root, or correct `app` in the "
            "environment file."
        )
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).resolve()
    return Path(str(spec.origin)).resolve()


def _requirements(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        raise InvalidTopology(f"requirements: there is no file {name!r} below the project's root. Correct the path.")
    return path


def _install(made_of: Ingredients, requirements: Iterable[Path], target: Path) -> None:
    files = [part for path in requirements for part in ("--requirements", str(path))]
    command = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--no-deps"]
    command += ["--python-platform", made_of.platform, "--python-version", made_of.python_version]
    command += ["--only-binary", ":all:", "--target", str(target), *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(target, ignore_errors=True)
        raise InvalidTopology(
            f"no bundle for Python {made_of.python_version} on {made_of.platform}:\n{done.stderr.strip()}\n"
            "Pin a version that has a wheel for it, or change deploy.python_version or deploy.architecture."
        )
    shutil.rmtree(target / "bin", ignore_errors=True)
    (target / ".lock").unlink(missing_ok=True)


def _prune(target: Path, services: tuple[str, ...]) -> None:
    """Keep the models of `services` and of tenure's own; all if none are named."""
    data = target / "botocore" / "data"
    if not services or not data.is_dir():
        return
    wanted = {*services, *OWN_SERVICES, "sts"}
    missing = sorted(name for name in wanted if not (data / name).is_dir())
    if missing:
        raise InvalidTopology(f"deploy.services: botocore knows no service {missing[0]!r}. Correct its name.")
    for each in data.iterdir():
        if each.is_dir() and each.name not in wanted:
            shutil.rmtree(each)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target / source.name, ignore=NOT_CODE, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target / source.name)


def _digest(made_of: Ingredients, sources: Iterable[Path], requirements: Iterable[Path]) -> str:
    """SHA-256 over the ingredients: names and contents, no dates, no places."""
    whole = hashlib.sha256(repr((_LAYOUT, made_of)).encode())
    for path in requirements:
        whole.update(path.read_bytes())
    for source in sources:
        for file in _files(source):
            whole.update(f"\0{file.relative_to(source.parent).as_posix()}\0".encode())
            whole.update(file.read_bytes())
    return whole.hexdigest()


def _files(source: Path) -> Iterator[Path]:
    if source.is_file():
        yield source
        return
    skipped = NOT_CODE(str(source), [each.name for each in source.iterdir()])
    for each in sorted(source.iterdir()):
        if each.name not in skipped:
            yield from _files(each)
