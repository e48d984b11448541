"""Help, version and completion import no package of numbers, and say the same as with them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from kernelstream.cli.app import app
from kernelstream.cli.light import is_enough

START = """
import sys
sys.argv = ["kernelstream", *sys.argv[1:]]
heavy = set()
class Spy:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "numba"}:
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


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["--version"], ["check", "-h"]])
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
