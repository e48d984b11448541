"""Extras are imported when they are used, and a missing one is named."""

from __future__ import annotations

import subprocess
import sys


def test_the_core_and_its_plot_import_without_extras() -> None:
    """No extra is imported before it is used; without matplotlib the message says what to do."""
    code = """
import sys
for name in ("matplotlib", "bokeh", "typer", "rich", "pyarrow.parquet"):
    sys.modules[name] = None
import numpy as np
from kernelstream import plot
from kernelstream.anomaly import Contributions
try:
    plot.contribution_bars(Contributions(("feed",), np.ones(1), np.ones(1)))
except ModuleNotFoundError as problem:
    sys.exit(0 if "kernelstream[plot]" in str(problem) else 2)
sys.exit(3)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
