"""One version, bounds that are tested, archives that are complete."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import kernelstream

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
PLANT = tomllib.loads((ROOT / "plant" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {project["name"]: project["optional-dependencies"] for project in (PROJECT, PLANT)}
GROUPS = SETTINGS["dependency-groups"]


def test_one_version() -> None:
    assert kernelstream.__version__ == PROJECT["version"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, flags=re.MULTILINE) == [PROJECT["version"]]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(.+?)\]", changes, flags=re.MULTILINE)[0] == PROJECT["version"]
    assert PLANT["version"] == version("kernelstream-plant") == PROJECT["version"]
    assert f"kernelstream~={PROJECT['version']}" in PLANT["dependencies"]
    found = subprocess.run(
        [sys.executable, "-m", "kernelstream", "--version"], capture_output=True, text=True
    )
    assert found.stdout == f"kernelstream {PROJECT['version']}\n", found.stderr


def requirements(names: list[str]) -> dict[str, Requirement]:
    """Requirements by name; those of our own extras are followed."""
    found: dict[str, Requirement] = {}
    for text in names:
        requirement = Requirement(text)
        if requirement.name in EXTRAS:
            for extra in sorted(requirement.extras):
                found |= requirements(EXTRAS[requirement.name][extra])
        else:
            found[requirement.name] = requirement
    return found


def test_every_lower_bound_is_tested() -> None:
    own = [*PROJECT["dependencies"], *PLANT["dependencies"]]
    both = ["kernelstream[all]", "kernelstream-plant[all]"]
    wanted = requirements([*own, *both, *GROUPS["test"]])
    lines = (ROOT / "oldest.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    oldest = {pin.name: next(iter(pin.specifier)) for pin in pins}
    assert set(oldest) == set(wanted)
    for name, requirement in wanted.items():
        (bound,) = requirement.specifier
        assert bound.operator == ">=", name
        assert oldest[name].operator == "==", name
        assert Version(oldest[name].version) == Version(bound.version), name


def test_the_same_package_has_the_same_bound_in_every_extra_and_group() -> None:
    seen: dict[str, str] = {}
    extras = [entries for project in EXTRAS.values() for entries in project.values()]
    lists = [PROJECT["dependencies"], PLANT["dependencies"], *extras, *GROUPS.values()]
    for text in (entry for entries in lists for entry in entries if isinstance(entry, str)):
        requirement = Requirement(text)
        if requirement.name not in EXTRAS and requirement.specifier:
            bound = str(requirement.specifier)
            assert seen.setdefault(requirement.name, bound) == bound, requirement.name


def test_all_is_every_extra_but_pytorch() -> None:
    (everything,) = map(Requirement, PROJECT["optional-dependencies"]["all"])
    assert everything.extras | {"torch", "all"} == set(PROJECT["optional-dependencies"])
    (everything,) = map(Requirement, PLANT["optional-dependencies"]["all"])
    assert everything.extras | {"all"} == set(PLANT["optional-dependencies"])


def test_the_library_needs_no_package_of_the_plant() -> None:
    """``pip install kernelstream`` brings no Bokeh and no client of a broker."""
    brought = set(requirements(PROJECT["dependencies"]))
    brokers = set(requirements(["kernelstream-plant[all]"]))
    assert not brought & (brokers | {"bokeh"})
    extras = {name for name in EXTRAS["kernelstream"] if name != "report"}
    assert not brokers & set(requirements([f"kernelstream[{','.join(extras)}]"]))


def test_types_are_marked() -> None:
    assert all(
        (files(name) / "py.typed").is_file() for name in ("kernelstream", "kernelstream_plant")
    )


def test_the_source_archive_is_complete() -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no repository to compare with")
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tops = {line.split("/")[0].strip('"') for line in tracked.stdout.splitlines()}
    included = {
        path.removeprefix("/")
        for path in SETTINGS["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    }
    # hatchling adds these two by itself
    assert tops == included | {"pyproject.toml", ".gitignore"}
