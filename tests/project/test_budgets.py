"""The sizes of the project stay within their budgets."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.project import measures

TABLE = tomllib.loads((Path(__file__).parent / "budgets.toml").read_text())


@pytest.mark.parametrize("name", measures.MEASURES)
def test_measure_stays_within_its_budget(name: str) -> None:
    measured, budget = measures.MEASURES[name](), TABLE[name]["budget"]
    assert measured <= budget, (
        f"{name} is {measured:,}, and its budget is {budget:,}. Make the change smaller; if it is "
        "worth more than that, raise the number in tests/project/budgets.toml and say why there."
    )


def test_every_budget_has_a_measure_and_a_goal_below_it() -> None:
    assert set(TABLE) == set(measures.MEASURES)
    assert [name for name, row in TABLE.items() if row["goal"] > row["budget"]] == []


def test_code_lines_leave_out_blanks_comments_and_docstrings(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""Title.\n\nMore.\n"""\n\n# A comment.\nx = (\n    1\n)\n\n\ndef f():\n    """One."""\n'
    )
    assert measures.code_lines(path) == {7, 8, 9, 12}


def test_names_of_the_core_are_found_in_every_form_of_import(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "from kernelstream import kernels, metrics, serialization\n"
        "from kernelstream.stream.state import Rows\n"
        "from kernelstream.stream import Stream\n"
        "from kernelstream.images import Denoiser\n"
        "import kernelstream.arrays.draws\n"
        "print(kernels.RBF, metrics.captured_variance, serialization.read)\n"
    )
    assert set(measures.core_names(path)) == {
        ("", "kernels"),
        ("stream.state", "Rows"),
        ("stream", "Stream"),
        ("arrays", "*"),
        ("serialization", "read"),
    }
