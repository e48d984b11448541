"""The plan of the house: rooms, their doors and their tests. CONTRIBUTING.md has the map."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOUSE, TESTS = ROOT / "src" / "kernelstream", ROOT / "tests"
NO_ROOMS = {"__init__.py", "__main__.py", "py.typed", "__pycache__"}
ROOMS = sorted(path for path in HOUSE.iterdir() if path.name not in NO_ROOMS)
MOST_ROOMS = 24

# Beside the rooms: slow twins, laws over all parts, contracts with others, accuracy and cost, the
# project itself, and files of earlier releases.
OTHER_TESTS = {"naive", "invariants", "contracts", "numerics", "project", "golden"}
NAMELESS = {"utils", "helpers", "common", "misc"}
# Private names of other libraries that have no public way.
FOREIGN = {
    *("_meta", "_centerer"),  # Dask's dataframes, scikit-learn's KernelPCA
    *("_PARTITION_EOF", "_AUTO_OFFSET_RESET"),  # codes of librdkafka's errors
}


def sources(room: Path) -> list[Path]:
    return [room] if room.suffix == ".py" else sorted(room.rglob("*.py"))


def test_the_number_of_doors() -> None:
    assert len(ROOMS) <= MOST_ROOMS, [room.name for room in ROOMS]


def test_every_room_has_its_tests() -> None:
    folders = {path.name for path in TESTS.iterdir() if any(path.glob("*.py"))}
    assert folders == {room.stem for room in ROOMS} | OTHER_TESTS
    assert [path.name for path in TESTS.glob("*.py")] == ["conftest.py"]


def test_every_room_is_on_the_map() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert [room.name for room in ROOMS if room.name not in text] == []


def test_no_name_says_nothing() -> None:
    assert not NAMELESS & {path.stem for path in HOUSE.rglob("*")}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def own_names(trees: list[ast.Module]) -> set[str]:
    """Private names that a room defines: functions, classes, attributes, variables."""
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


def used_from_outside(trees: list[ast.Module], own: set[str]) -> Iterator[str]:
    """``x._y`` and ``from x import _y`` where the room defines no ``_y``."""
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and not is_own_object(node.value):
                if is_private(node.attr) and node.attr not in own | FOREIGN:
                    yield ast.unparse(node)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernel"):
                yield from (a.name for a in node.names if is_private(a.name) and a.name not in own)


def is_own_object(value: ast.expr) -> bool:
    """``self``, ``cls`` and ``super()``: a class knows what it inherits."""
    name = value.func if isinstance(value, ast.Call) else value
    return isinstance(name, ast.Name) and name.id in ("self", "cls", "super")


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.stem)
def test_nobody_climbs_through_windows(room: Path) -> None:
    trees = [ast.parse(path.read_text()) for path in sources(room)]
    assert list(used_from_outside(trees, own_names(trees))) == []


def test_a_window_would_be_seen() -> None:
    tree = ast.parse("from kernelstream.x import _a\ndef f(m):\n    return m._b, m._c, self._d")
    own = own_names([ast.parse("_c = 1")])
    assert sorted(used_from_outside([tree], own)) == ["_a", "m._b"]


def test_imports_by_name_stand_in_one_place() -> None:
    """The linter cannot see them: public names that are imported when they are used.

    And the commands, of which only the one that is called is imported: all in a room of their own.
    """
    importers = [p for p in HOUSE.rglob("*.py") if "import_module(" in p.read_text()]
    assert sorted(importers) == [HOUSE / "__init__.py", HOUSE / "cli" / "app.py"]
    by_name = re.findall(r'import_module\(f?"(.*?)\.?[{"]', (HOUSE / "cli" / "app.py").read_text())
    assert by_name and all(name.startswith("kernelstream.cli") for name in by_name)


def test_caches_are_no_strings_in_a_dictionary() -> None:
    assert [p.name for p in HOUSE.rglob("*.py") if "__dict__[" in p.read_text()] == []
