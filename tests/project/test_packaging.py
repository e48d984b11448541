"""One version, bounds that are tested, archives that are complete."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import kernelstream

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
GROUPS = SETTINGS["dependency-groups"]


def test_one_version() -> None:
    assert kernelstream.__version__ == PROJECT["version"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, flags=re.MULTILINE) == [PROJECT["version"]]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(.+?)\]", changes, flags=re.MULTILINE)[0] == PROJECT["version"]
    found = subprocess.run(
        [sys.executable, "-m", "kernelstream", "--version"], capture_output=True, text=True
    )
    assert found.stdout == f"kernelstream {PROJECT['version']}\n", found.stderr


def requirements(names: list[str]) -> dict[str, Requirement]:
    """Requirements by name; those of our own extras are followed."""
    found: dict[str, Requirement] = {}
    for text in names:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            for extra in sorted(requirement.extras):
                found |= requirements(PROJECT["optional-dependencies"][extra])
        else:
            found[requirement.name] = requirement
    return found


def test_every_lower_bound_is_tested() -> None:
    wanted = requirements([*PROJECT["dependencies"], "kernelstream[all]", *GROUPS["test"]])
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
    lists = [
        PROJECT["dependencies"], *PROJECT["optional-dependencies"].values(), *GROUPS.values()
    ]  # fmt: skip
    for text in (entry for entries in lists for entry in entries if isinstance(entry, str)):
        requirement = Requirement(text)
        if requirement.name != PROJECT["name"] and requirement.specifier:
            bound = str(requirement.specifier)
            assert seen.setdefault(requirement.name, bound) == bound, requirement.name


def test_all_is_every_extra_but_pytorch() -> None:
    (everything,) = map(Requirement, PROJECT["optional-dependencies"]["all"])
    assert everything.extras | {"torch", "all"} == set(PROJECT["optional-dependencies"])


def test_types_are_marked() -> None:
    assert (files("kernelstream") / "py.typed").is_file()


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
