"""The tree of the packages: their entries, their tests, and what may import what."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.project.measures import (
    CORE,
    LIBRARY,
    NO_ENTRIES,
    PARTS,
    PLANT,
    ROOT,
    application_files,
    core_names,
    files,
    tree_of,
)
from tests.project.tree import descriptions

TESTS = ROOT / "tests"
ENTRIES = sorted(path for path in LIBRARY.iterdir() if path.name not in NO_ENTRIES)
PLANT_ENTRIES = sorted(path for path in PLANT.iterdir() if path.name not in NO_ENTRIES)

# Besides one folder for each entry: slow twins, invariants over all parts, contracts with other
# libraries, accuracy and cost, the project itself, and model files that have to stay readable.
OTHER_TESTS = {"naive", "invariants", "contracts", "numerics", "project", "golden"}
LONGEST_DESCRIPTION = 98
NAMELESS = {"utils", "helpers", "common", "misc"}
# Private names of other libraries that have no public equivalent.
FOREIGN = {
    *("_meta", "_centerer"),  # Dask's dataframes, scikit-learn's KernelPCA
    *("_PARTITION_EOF", "_AUTO_OFFSET_RESET"),  # codes of librdkafka's errors
}


def sources(entry: Path) -> list[Path]:
    return [entry] if entry.suffix == ".py" else files(entry)


def test_every_entry_has_its_tests() -> None:
    folders = {path.name for path in TESTS.iterdir() if any(path.rglob("*.py"))}
    assert folders == {entry.stem for entry in ENTRIES} | OTHER_TESTS
    at_the_top = {path.name for path in TESTS.glob("*.py")}
    assert at_the_top <= {"conftest.py", "registry.py", "samples.py"}
    tests = ROOT / "plant" / "tests"
    folders = {path.name for path in tests.iterdir() if any(path.rglob("*.py"))}
    assert folders == {entry.stem for entry in PLANT_ENTRIES}
    assert [path.name for path in tests.glob("*.py")] == ["conftest.py"]


def test_every_entry_is_on_the_map_of_contributing() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    entries = (*ENTRIES, *PLANT_ENTRIES)
    assert [entry.name for entry in entries if f"{entry.stem}" not in text] == []


@pytest.mark.parametrize("package", [LIBRARY, PLANT], ids=lambda package: package.name)
def test_every_module_is_described_in_one_line(package: Path) -> None:
    """``python -m tests.project.tree`` prints these lines: newcomers find their way by them."""
    lines = dict(descriptions(package))
    assert lines
    too_long = {path for path, line in lines.items() if len(line) > LONGEST_DESCRIPTION}
    assert {path for path, line in lines.items() if not line.endswith(".")} | too_long == set()


def test_no_module_is_called_utils() -> None:
    assert not NAMELESS & {path.stem for root in (LIBRARY, PLANT) for path in root.rglob("*")}


# --- imports


@pytest.mark.parametrize("path", application_files(), ids=lambda path: path.as_posix())
def test_application_imports_only_public_names_of_the_core(path: Path) -> None:
    """``from kernelstream.stream import Stream`` is allowed if the package lists it."""
    assert [
        f"{where}.{name}" for where, name in core_names(path) if not is_public(where, name)
    ] == []


def is_public(where: str, name: str) -> bool:
    if not where:  # `from kernelstream import kernels`
        return name in PARTS
    return where in CORE and name in getattr(import_module(f"kernelstream.{where}"), "__all__", ())


def test_attributes_of_parts_are_public() -> None:
    """``kernels.RBF``: a namespace of parts that was imported whole gives its public names."""
    listed = {part: import_module(f"kernelstream.{part}").__all__ for part in PARTS}
    for path in application_files():
        imported = {
            alias.asname or alias.name: alias.name
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.ImportFrom) and node.module == "kernelstream"
            for alias in node.names
            if alias.name in PARTS
        }
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                part = imported.get(node.value.id)
                assert part is None or node.attr in listed[part], f"{path}: {ast.unparse(node)}"


def library_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What a file takes from the library: pairs of a package, or of one of its modules, and a name.

    Attributes of a package that was imported whole count as well.
    """
    packages: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            top, _, within = (node.module or "").partition(".")
            names = [alias.name for alias in node.names] if top == "kernelstream" else []
            yield from ((within, name) for name in names)
            if names and not within:
                packages |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            modules = [alias.name.partition(".") for alias in node.names]
            yield from ((within, "*") for top, _, within in modules if top == LIBRARY.name)
    whole = {name for name, package in packages.items() if (LIBRARY / package).is_dir()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield from ((packages[node.value.id], node.attr),) if node.value.id in whole else ()


@pytest.mark.parametrize("path", files(PLANT), ids=lambda path: path.as_posix())
def test_plant_imports_only_public_names(path: Path) -> None:
    """``from kernelstream.cli import Screen`` is allowed if the package lists it."""
    taken = set(library_names(tree_of(path)))
    assert [f"{where}.{name}" for where, name in taken if not is_listed(where, name)] == []


def is_listed(where: str, name: str) -> bool:
    package = import_module(f"kernelstream.{where}" if where else "kernelstream")
    is_package = "." not in where and hasattr(package, "__path__")
    return is_package and name in getattr(package, "__all__", ())


def test_names_that_are_not_public_are_found() -> None:
    tree = ast.parse(
        "import kernelstream.cli\n"
        "from kernelstream import load, stream\n"
        "from kernelstream.cli import Screen\n"
        "from kernelstream.cli.terminal import Watch\n"
        "from kernelstream_plant.page import serve\n"
        "print(stream.Stream)\n"
    )
    names = set(library_names(tree))
    listed = {("", "load"), ("cli", "Screen"), ("stream", "Stream")}
    assert names == listed | {("cli", "*"), ("", "stream"), ("cli.terminal", "Watch")}
    assert {pair for pair in names if is_listed(*pair)} == listed


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def defined_names(trees: list[ast.Module]) -> set[str]:
    """Private names that a package defines: functions, classes, attributes, variables."""
    names: set[str] = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
    return names


def private_uses(trees: list[ast.Module], own: set[str]) -> Iterator[str]:
    """``x._y`` and ``from x import _y`` where the package defines no ``_y``."""
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and not is_own_object(node.value):
                if is_private(node.attr) and node.attr not in own | FOREIGN:
                    yield ast.unparse(node)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernel"):
                yield from (a.name for a in node.names if is_private(a.name) and a.name not in own)


def is_own_object(value: ast.expr) -> bool:
    """``self``, a draft of it, ``cls`` and ``super()``: a class may use what it inherits."""
    name = value.func if isinstance(value, ast.Call) else value
    return isinstance(name, ast.Name) and name.id in ("self", "draft", "cls", "super")


@pytest.mark.parametrize("entry", [*ENTRIES, *PLANT_ENTRIES], ids=lambda entry: entry.stem)
def test_package_uses_no_private_name_of_another(entry: Path) -> None:
    trees = [tree_of(path) for path in sources(entry)]
    assert list(private_uses(trees, defined_names(trees))) == []


def test_private_uses_are_found() -> None:
    tree = ast.parse("from kernelstream.x import _a\ndef f(m):\n    return m._b, m._c, self._d")
    own = defined_names([ast.parse("_c = 1")])
    assert sorted(private_uses([tree], own)) == ["_a", "m._b"]


def test_imports_by_name_stand_in_few_files() -> None:
    """The linter cannot see them: public names that are imported on first use, and commands."""
    places = (LIBRARY, PLANT)
    importers = [
        p for root in places for p in root.rglob("*.py") if "import_module(" in p.read_text()
    ]
    packages = (LIBRARY, LIBRARY / "cli", PLANT)
    lazy = {package / "__init__.py" for package in packages}
    assert set(importers) == {*lazy, LIBRARY / "cli" / "commands.py"}
    for path in lazy:
        package = path.parent.relative_to(path.parents[path.parts[::-1].index("src") - 1])
        by_name = re.findall(r'import_module\(f?"(.*?)[{"]', path.read_text())
        assert by_name and all(name.startswith(".".join(package.parts)) for name in by_name)


def test_functions_of_commands_are_in_the_package_of_their_registry() -> None:
    """``cli/commands.py`` imports the function of a command by the name in its registry."""
    for registry in (LIBRARY / "cli" / "app.py", PLANT / "commands" / "__init__.py"):
        (name,) = re.findall(r'f"([\w.]+)\.{module}:{name}"', registry.read_text())
        assert name.endswith(".".join(registry.parent.parts[-2:]))


def test_caches_are_no_strings_in_a_dictionary() -> None:
    assert [p.name for p in LIBRARY.rglob("*.py") if "__dict__[" in p.read_text()] == []
