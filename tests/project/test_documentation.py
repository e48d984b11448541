"""The pages of the documentation: their code runs as printed, and the site holds together."""

from __future__ import annotations

import pkgutil
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib.pyplot as plt
import pytest

import kernelstream

DOCS = Path(__file__).parents[2] / "docs"
GENERATED = {DOCS / "gallery", DOCS / "api" / "generated"}
PAGES = sorted(p for p in DOCS.glob("**/*.md") if not GENERATED & set(p.parents))
EACH_BLOCK = re.DOTALL | re.MULTILINE
NAMES = [page.relative_to(DOCS).with_suffix("").as_posix() for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are there, code runs from top to bottom, ``print(…)  # so`` prints what it says."""
    text = page.read_text()
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
        assert (page.parent / picture).exists()
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        if "from river import" in code and find_spec("river") is None:
            pytest.skip("needs river")
        names["print"] = Checked(code)
        exec(compile(code, str(page), "exec"), names)
    plt.close("all")


def test_what_is_included_is_there() -> None:
    """Also the words between which it is taken."""
    for page in PAGES:
        for name, rest in re.findall(
            r"^```\{include\} (\S+)\n(.*?)^```", page.read_text(), EACH_BLOCK
        ):
            text = (page.parent / name).read_text()
            for words in re.findall(r"^:(?:start-after|end-before): (.*)$", rest, re.MULTILINE):
                assert words.strip('"') in text, f"{page.name} includes {name}: no {words} there"


class Checked:
    """``print`` that compares what is printed with the comment on its line, as far as it goes."""

    def __init__(self, code: str):
        self.lines = code.splitlines()

    def __call__(self, *values: Any) -> None:
        line = self.lines[sys._getframe(1).f_lineno - 1]
        said = line.partition("  # ")[2]
        printed = " ".join(map(str, values))
        assert not said or said.startswith(printed), f"{line!r} printed {printed!r}"


# -- the site


def entries(page: str, directive: str) -> list[str]:
    """What the directives of a page list, one a line."""
    found = []
    for block in re.findall(rf"^```\{{{directive}\}}\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        found += [line for line in block.splitlines() if line and not line.startswith(":")]
    return found


def test_every_page_can_be_reached_from_the_first() -> None:
    reached, waiting = set(), ["index"]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        page = DOCS / f"{name}.md"
        if not page.exists():
            assert name == "gallery/index", f"{name} is in a toctree, and there is no such page"
            continue
        for entry in entries(page.read_text(), "toctree"):
            target = (page.parent / entry).resolve().relative_to(DOCS).as_posix()
            if target not in reached:
                waiting.append(target)
    # the index for those who read the folder on a forge is no page of the site
    assert reached - {"gallery/index"} == set(NAMES) - {"README"}


def public_modules() -> list[ModuleType]:
    names = {module.name for module in pkgutil.iter_modules(kernelstream.__path__)}
    names -= {
        "__main__",
        "cli",
        "files",
    }  # the command line and model files have pages of their own
    modules = [import_module(f"kernelstream.{name}") for name in sorted(names)]
    modules += [import_module(name) for name in ("kernelstream_plant", "kernelstream_plant.page")]
    return [module for module in (kernelstream, *modules) if hasattr(module, "__all__")]


def described() -> list[Any]:
    """The objects that the pages of the API list."""
    found = []
    for page in sorted((DOCS / "api").glob("*.md")):
        module: Any = None
        for line in entries(page.read_text(), "eval-rst"):
            if line.startswith(".. currentmodule:: "):
                module = import_module(line.split()[-1])
            elif line.startswith("   ") and not line.startswith("   :"):
                found.append(getattr(module, line.strip()))
    return found


@pytest.mark.parametrize("module", public_modules(), ids=lambda module: module.__name__)
def test_every_public_name_is_described(module: ModuleType) -> None:
    listed = {id(thing) for thing in described()}
    public = {name: getattr(module, name) for name in vars(module)["__all__"]}
    missing = [
        name
        for name, thing in public.items()
        if not isinstance(thing, ModuleType) and id(thing) not in listed
    ]
    assert not missing, f"{missing} of {module.__name__} are on no page of docs/api"


def test_the_page_on_extending_lists_the_public_names_of_the_core() -> None:
    packages = ("arrays", "serialization", "stream", "certificates", "estimators")
    public = {
        f"{package}.{name}"
        for package in packages
        for name in import_module(f"kernelstream.{package}").__all__
    }
    items = re.findall(r"^- (`[^:]+`):", (DOCS / "extending.md").read_text(), re.MULTILINE)
    listed = [name for item in items for name in re.findall(r"`([^`]+)`", item)]
    assert len(listed) == len(set(listed))
    assert set(listed) == public


def test_nothing_is_described_twice() -> None:
    listed = described()
    assert len(listed) == len({id(thing) for thing in listed}) > 100
