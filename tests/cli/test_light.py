"""Help, version and completion import no package of numbers, and say the same as with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelstream.cli.app import app
from kernelstream.cli.light import is_enough

START = """
import sys
sys.argv = ["kernelstream", *sys.argv[1:]]
names = {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "numba", "bokeh"}
heavy = set()
class Spy:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in names:
            heavy.add(name)
sys.meta_path.insert(0, Spy())
from kernelstream.cli import main
try:
    main()
finally:
    sys.stderr.write(f"heavy: {sorted(heavy)}")
"""


def started(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "80", "TERM": "dumb", **environment},
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [["--help"], ["fit", "--help"], ["--version"], ["check", "-h"], ["plant", "serve", "-h"]],
)
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    light = started(*words)
    assert light.returncode == 0 and light.stderr.endswith("heavy: []"), light.stderr
    environment = {"COLUMNS": "80", "TERM": "dumb"}
    full = CliRunner().invoke(app, words, prog_name="kernelstream", env=environment)
    assert light.stdout.split() == full.stdout.split()


def test_completion_imports_nothing_heavy() -> None:
    words = {"_KERNELSTREAM_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    found = started(COMP_WORDS="kernelstream fit --sam", **words)
    assert found.stdout.split() == ["--same-points"] and found.stderr.endswith("heavy: []")


def test_a_command_that_is_run_all_the_same_has_all_it_needs() -> None:
    """The value of an option may look like a wish for help."""
    found = started("info", "no-such-model", "--components", "3", "--", "--help")
    assert found.returncode == 2  # one model, and not two
    found = started("check", "--columns", "--help", "no-such-file.csv")
    assert "There is no file or folder 'no-such-file.csv'" in found.stderr
    assert "numpy" in found.stderr


def test_what_is_enough() -> None:
    assert is_enough(["fit", "-h"]) and not is_enough(["fit", "x.csv", "-o", "m"])


def test_a_command_does_without_pandas(tmp_path: Path) -> None:
    """A seventh of its memory: scikit-learn and Arrow would import it, and nobody call it."""
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n3,5\n2,7\n" * 200)
    found = started("fit", str(tmp_path / "a.csv"), "-o", str(tmp_path / "m.safetensors"))
    assert found.returncode == 0
    assert "'sklearn'" in found.stderr and "pandas" not in found.stderr


def test_pandas_is_there_for_those_who_want_it() -> None:
    code = """
from kernelstream.cli.light import WithoutPandas
with WithoutPandas():
    import pyarrow, sklearn.base
    try:
        import pandas
    except ImportError:
        print("none")
import pandas
print(len(pandas.DataFrame({"a": [1, 2]})), pyarrow.array([1.5]).to_pylist())
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout.split("\n")[:2] == ["none", "2 [1.5]"], found.stderr
