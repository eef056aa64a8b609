"""The bundle: built once for what it is made of, named by it, and refused where a part is missing.

That it runs is seen by `make try-bundle`; here `uv` is not called.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import infra.bundle
from infra.bundle import KEPT, Ingredients, bundle
from tenure.core.errors import InvalidTopology

SERVICES = ("dynamodb", "s3", "sqs", "ssm", "sts", "ses", "ec2")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A user's project with a package `shop`, on the path; wheels are made up."""
    (tmp_path / "shop" / "deep").mkdir(parents=True)
    for name in ("__init__.py", "tasks.py", "deep/__init__.py"):
        (tmp_path / "shop" / name).write_text("# shop\n", encoding="utf-8")
    (tmp_path / "shop" / "tests").mkdir()
    (tmp_path / "shop" / "tests" / "test_tasks.py").write_text("", encoding="utf-8")
    (tmp_path / "requirements.txt").write_text("pillow==13.0.0\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    installed = []

    def install(made_of, requirements, target):
        installed.append([path.name for path in requirements])
        for service in SERVICES:
            (target / "botocore" / "data" / service).mkdir(parents=True)
        (target / "botocore" / "data" / "endpoints.json").write_text("{}", encoding="utf-8")

    monkeypatch.setattr(infra.bundle, "_install", install)
    yield tmp_path, installed
    sys.modules.pop("shop", None)


def made(**changes):
    given = {
        "app_module": "shop.tasks",
        "requirements": "requirements.txt",
        "python_version": "3.14",
        "architecture": "arm64",
        **changes,
    }
    return Ingredients(**given)


def files(path: Path) -> set[str]:
    return {each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file()}


def test_it_holds_tenure_the_functions_and_the_apps_whole_package(project):
    place, installed = project
    found = files(bundle(made(), place / "cache").path)
    assert {"shop/tasks.py", "shop/deep/__init__.py", "tenure/worker/engine.py"} <= found
    assert {"functions/worker/handler.py", "functions/poller/Dockerfile"} <= found
    assert not [each for each in found if "__pycache__" in each or each.startswith("shop/tests")]
    assert installed == [["worker.txt", "requirements.txt"]]


def test_what_has_not_changed_is_not_built_again(project):
    place, installed = project
    first, again = bundle(made(), place / "cache"), bundle(made(), place / "cache")
    assert first == again
    assert len(installed) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda place: (place / "shop" / "deep" / "__init__.py").write_text("# more\n"),
        lambda place: (place / "shop" / "more.py").write_text(""),
        lambda place: (place / "requirements.txt").write_text("pillow==13.0.1\n"),
    ],
    ids=["a module's text", "a module more", "a requirement"],
)
def test_a_change_of_any_part_makes_another(project, change):
    place, _ = project
    before = bundle(made(), place / "cache").digest
    change(place)
    assert bundle(made(), place / "cache").digest != before


def test_another_machine_or_python_makes_another(project):
    place, _ = project
    variants = [made(), made(architecture="x86_64"), made(python_version="3.13"), made(services=("ses",))]
    assert len({bundle(each, place / "cache").digest for each in variants}) == 4


def test_its_name_does_not_tell_where_it_was_made(project, tmp_path_factory, monkeypatch):
    """Two checkouts make the same asset, so that neither uploads what the other has."""
    place, _ = project
    here = bundle(made(), place / "cache").digest
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (place / "shop").rename(elsewhere / "shop")
    monkeypatch.setattr(sys, "path", [str(elsewhere), *[each for each in sys.path if each != str(place)]])
    sys.path_importer_cache.clear()
    assert bundle(made(), place / "cache").digest == here


def test_models_of_services_that_nobody_calls_are_left_out_on_demand_only(project):
    place, _ = project
    data = "botocore/data"
    whole = bundle(made(), place / "cache").path
    assert {each.name for each in (whole / data).iterdir()} == {*SERVICES, "endpoints.json"}
    pruned = bundle(made(services=("ses",)), place / "cache").path
    kept = {"dynamodb", "s3", "sqs", "ssm", "sts", "ses", "endpoints.json"}
    assert {each.name for each in (pruned / data).iterdir()} == kept


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"app_module": "shopp.tasks"}, "there is no package 'shopp' to bundle"),
        ({"requirements": "other.txt"}, "there is no file 'other.txt'"),
        ({"services": ("sess",)}, "botocore knows no service 'sess'"),
    ],
)
def test_what_is_missing_is_told_by_name(project, changes, told):
    place, _ = project
    with pytest.raises(InvalidTopology, match=told):
        bundle(made(**changes), place / "cache")


def test_old_ones_are_forgotten(project):
    place, _ = project
    for number in range(KEPT + 3):
        (place / "shop" / "tasks.py").write_text(f"# {number}\n", encoding="utf-8")
        latest = bundle(made(), place / "cache")
    assert len(list((place / "cache").iterdir())) == KEPT
    assert latest.path.is_dir()


@pytest.mark.parametrize(
    ("python_version", "architecture", "platform"),
    [
        ("3.11", "arm64", "aarch64-manylinux2014"),
        ("3.12", "x86_64", "x86_64-manylinux_2_34"),
        ("3.14", "arm64", "aarch64-manylinux_2_34"),
    ],
)
def test_the_platform_is_what_lambda_runs_on(python_version, architecture, platform):
    """Lambda's Python 3.11 stands on Amazon Linux 2 (glibc 2.26), later ones on Amazon Linux 2023 (glibc 2.34)."""
    assert made(python_version=python_version, architecture=architecture).platform == platform
