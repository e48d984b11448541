"""Help, version and completion import no package of numbers, and are quick."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from kernelstream.cli.app import app

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
    done = started(*words)
    assert done.returncode == 0 and done.stderr.endswith("heavy: []"), done.stderr


def test_completion_imports_nothing_heavy() -> None:
    words = {"_KERNELSTREAM_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    found = started(COMP_WORDS="kernelstream fit --check", **words)
    assert found.stdout.split() == ["--checkpoint-every"] and found.stderr.endswith("heavy: []")


IMPORTS = [sys.executable, "-c", "import typer, rich.console, rich.table"]
IDLE = 0.078  # seconds of CPU that these imports take where nothing else runs


def cpu_seconds(command: list[str]) -> float:
    resource = pytest.importorskip("resource", reason="needs POSIX")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return float(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


@pytest.mark.slow  # it measures time; `test_help_imports_nothing_heavy` sees the cause
@pytest.mark.parametrize(
    "words", [["--help"], ["fit", "--help"], ["fit", "-h"], ["paper", "--help"], ["plant", "-h"]]
)
def test_help_takes_at_most_0_3_s_of_cpu(words: list[str]) -> None:
    """On a machine that is busy or slow, as much more as the imports of typer and rich take."""
    command = [sys.executable, "-m", "kernelstream", *words]
    pairs = [(cpu_seconds(command), cpu_seconds(IMPORTS)) for _ in range(5)]
    taken, imports = map(min, zip(*pairs, strict=True))
    assert taken < 0.3 * max(1.0, imports / IDLE)


def test_short_help_shows_at_most_20_options_and_help_shows_all() -> None:
    short, full = (
        CliRunner().invoke(app, ["fit", word], env={"COLUMNS": "100"}).stdout
        for word in ("-h", "--help")
    )
    options = [set(re.findall(r"^│ (--[a-z-]+)", text, flags=re.M)) for text in (short, full)]
    assert len(options[0] - {"--help"}) <= 20 < len(options[1])
    assert options[0] < options[1] and "--checkpoint-every" in options[1] - options[0]
