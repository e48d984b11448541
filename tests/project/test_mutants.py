"""The changes of ``make mutants`` are single, of code only, and noticed where a test fails."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from mutants.__main__ import Unchanged, Worker, nearest
from mutants.changes import PACKAGE, ROOT, UNSEEN, Mutant, all_mutants, chosen
from mutants.named import named

MUTANTS = all_mutants()
KINDS = {
    "argument left out",
    "arithmetic",
    "comparison",
    "condition",
    "constant",
    "extreme",
    "field not replaced",
    "literal",
    "not removed",
}


def _words(source: str) -> Iterator[str]:
    """What no change may touch: docstrings, annotations, messages and ``__repr__``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise | ast.JoinedStr) or (
            isinstance(node, ast.FunctionDef) and node.name == "__repr__"
        ):
            yield ast.unparse(node)
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            yield ast.get_docstring(node) or ""
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield ast.unparse(node.annotation)


def test_there_are_changes_of_every_kind():
    assert {mutant.kind for mutant in MUTANTS} == KINDS
    assert {mutant.kind for mutant in chosen(MUTANTS, 20, 0)} == KINDS


def test_a_choice_is_that_of_its_seed_and_takes_a_line_once():
    taken = chosen(MUTANTS, 200, 3)
    assert taken == chosen(MUTANTS, 200, 3) != chosen(MUTANTS, 200, 4)
    assert len({(mutant.path, mutant.line) for mutant in taken}) == 200


@pytest.mark.parametrize("mutant", chosen(MUTANTS, 60, 5), ids=lambda mutant: mutant.name)
def test_a_change_is_one_of_code(mutant: Mutant):
    before, after = mutant.source(), mutant.changed()
    assert ast.dump(ast.parse(before)) != ast.dump(ast.parse(after))
    assert list(_words(before)) == list(_words(after))
    assert len([line for line in mutant.diff().splitlines() if line.startswith("+")]) <= 1


def test_those_that_once_survived_are_still_there():
    assert all(mutant.source() != mutant.changed() for mutant in named())


def test_what_is_left_out_is_there_and_has_its_reason():
    code = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    assert all(key.split(": ", 1)[-1] in code and reason for key, reason in UNSEEN.items())


def test_an_argument_that_says_what_is_so_anyway_is_no_change():
    """``above`` is 0 unless it is said."""
    source = (PACKAGE / "trackers/base.py").read_text(encoding="utf-8")
    assert "above=0, below=1)" in source
    of_file = [m for m in MUTANTS if m.path == "trackers/base.py" and m.kind == "argument left out"]
    assert [source[m.start : m.end] for m in of_file] == [", below=1"]


def test_the_nearest_tests_come_first():
    own, folder, users, others = nearest("trackers/incremental_svd.py")
    examples = "src/kernelstream/trackers/incremental_svd.py"
    assert own == ["tests/trackers/test_incremental_svd.py", examples]
    assert "tests/trackers/test_window.py" in folder and "tests/golden/test_golden.py" in others
    assert "tests/stream/test_components.py" in users  # it names the class
    tests = [*own, *folder, *users, *others]
    assert all((ROOT / test).exists() for test in tests) and len(tests) == len(set(tests))


def test_test_files_are_taken_while_they_fit():
    unchanged = Unchanged({"a": 3.0, "b": 9.0, "c": 1.0, "d": 2.0}, failing=["a::wrong"])
    taken, left_out = unchanged.fitting([["a"], ["missing", "b", "d", "c"]], 10.0)
    assert taken == ["a", "c", "d"] and left_out == ["a::wrong"]
    # of a file that is too long the quickest tests, in half of the time that is left
    unchanged.tests["b"] = {"b::long": 7.5, "b::short": 0.5, "b::middle": 0.9}
    taken, left_out = unchanged.fitting([["a"], ["b", "d", "c"]], 10.0)
    assert taken == ["a", "c", "d", "b"] and left_out == ["a::wrong", "b::long"]
    taken, left_out = unchanged.fitting([["b"]], 2.0)
    assert taken == ["b"] and left_out == ["a::wrong", "b::long", "b::middle"]
    assert unchanged.fitting([["b"]], 1.0)[0] == []


@pytest.mark.slow
def test_a_change_is_noticed_by_a_test_that_fails_and_by_no_other(tmp_path: Path):
    """In a copy: the package itself is never touched."""
    path = "papers/schedules.py"
    source = (PACKAGE / path).read_text(encoding="utf-8")
    at = len(source)
    changed = Mutant("literal", path, at, at, "\nCHANGED = 1\n")
    test = tmp_path / "test_it.py"
    test.write_text(
        "from kernelstream.papers import schedules\n"
        "def test_always_wrong(): assert False\n"
        "def test_it(): assert not hasattr(schedules, 'CHANGED')\n"
    )
    worker = Worker(tmp_path / "worker")
    outcome = worker.unchanged(str(test), 60.0)
    assert outcome is not None and len(outcome["failed"]) == 1 and not outcome["broken"]
    assert len(outcome["tests"]) == 2 and all(took > 0 for took in outcome["tests"].values())
    noticed = worker.tried(0, changed, [str(test)], outcome["failed"], 60.0, 1e9)
    assert noticed is not None and noticed.endswith("::test_it")
    nothing = Mutant("literal", path, at, at, "\n")
    assert worker.tried(1, nothing, [str(test)], outcome["failed"], 60.0, 1e9) is None
    assert (PACKAGE / path).read_text(encoding="utf-8") == source
    examples = worker.unchanged("src/kernelstream/papers/kim_2003/hebbian.py", 60.0)
    assert examples is not None and not examples["failed"] + examples["broken"]
