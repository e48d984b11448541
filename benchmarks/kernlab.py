"""R's kernlab, whose ``kha`` is the kernel Hebbian algorithm row by row."""

from __future__ import annotations

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


def missing() -> str:
    """Why kernlab cannot be measured, in words; empty when it can."""
    if shutil.which("Rscript") is None:
        return "skipped: no Rscript (Debian: r-base-core and r-cran-kernlab)"
    found = subprocess.run(
        ["Rscript", "-e", "quit(status = !requireNamespace('kernlab', quietly = TRUE))"],
        capture_output=True,
        check=False,
    )
    return "" if found.returncode == 0 else "skipped: R has no kernlab (Debian: r-cran-kernlab)"


def version() -> str | None:
    """The version of kernlab, where there is one."""
    if missing():
        return None
    question = "cat(as.character(packageVersion('kernlab')))"
    return subprocess.run(
        ["Rscript", "-e", question], capture_output=True, check=True, text=True
    ).stdout


def seconds_of_kha(X: np.ndarray, gamma: float, components: int, epochs: int) -> float:
    """Elapsed time of the call, as R measures it; ``th = -1`` lets every epoch run."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows"
        np.asfortranarray(X, dtype=np.float64).ravel(order="F").tofile(rows)
        script = Path(folder) / "kha.R"
        script.write_text(_SCRIPT)
        numbers = (*X.shape, gamma, components, ETA, epochs)
        command = ["Rscript", str(script), str(rows), *map(str, numbers)]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
    return float(done.stdout)
