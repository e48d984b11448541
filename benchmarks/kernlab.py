"""R's kernlab, whose ``kha`` is the kernel Hebbian algorithm row by row."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

ETA = 1e-4  # kernlab starts with long components: a larger step would diverge

_SCRIPT = """
suppressPackageStartupMessages(library(kernlab))
given <- commandArgs(trailingOnly = TRUE)
size <- as.integer(given[2:3])
x <- matrix(readBin(given[1], "double", prod(size)), size[1], size[2])
set.seed(0)
spent <- system.time(
  model <- kha(x, kernel = "rbfdot", kpar = list(sigma = as.numeric(given[4])),
               features = as.integer(given[5]), eta = as.numeric(given[6]), th = -1,
               maxiter = as.integer(given[7])))
stopifnot(all(is.finite(pcv(model))))
cat(spent[["elapsed"]])
"""


@functools.cache
def version() -> str | None:
    """The version of kernlab, where R and kernlab are installed."""
    if shutil.which("Rscript") is None:
        return None
    question = "cat(as.character(packageVersion('kernlab')))"
    found = subprocess.run(
        ["Rscript", "--vanilla", "-e", question], capture_output=True, check=False, text=True
    )
    return found.stdout if found.returncode == 0 else None


def missing() -> str:
    """Why kernlab cannot be measured, in words; empty when it can."""
    if version() is None:
        return "skipped: no Rscript with kernlab (Debian: r-base-core r-cran-kernlab)"
    return ""


def seconds_of_kha(X: np.ndarray, gamma: float, components: int, epochs: int) -> float:
    """Elapsed time of the call, as R measures it; ``th = -1`` lets every epoch run."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows"
        np.asfortranarray(X, dtype=np.float64).ravel(order="F").tofile(rows)
        script = Path(folder) / "kha.R"
        script.write_text(_SCRIPT)
        numbers = (*X.shape, gamma, components, ETA, epochs)
        command = ["Rscript", "--vanilla", str(script), str(rows), *map(str, numbers)]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
    return float(done.stdout)
