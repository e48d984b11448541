"""R's kernlab, whose ``kha`` is the kernel Hebbian algorithm row by row."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ETA = 1e-4  # kernlab starts with long components: a larger step would diverge

_SCRIPT = """
suppressPackageStartupMessages(library(kernlab))
given <- commandArgs(trailingOnly = TRUE)
setwd(given[1])
size <- as.integer(given[2:3])
features <- as.integer(given[5])
x <- matrix(readBin("rows", "double", prod(size)), size[1], size[2])
set.seed(0)
writeBin(runif(features * size[1]) * 2 - 1, "start")  # as kha draws it, after the same seed
set.seed(0)
spent <- system.time(
  model <- kha(x, kernel = "rbfdot", kpar = list(sigma = as.numeric(given[4])),
               features = features, eta = as.numeric(given[6]), th = -1,
               maxiter = as.integer(given[7])))
stopifnot(all(is.finite(pcv(model))))
writeBin(as.vector(pcv(model)), "found")
cat(spent[["elapsed"]])
"""


@dataclass(frozen=True)
class Found:
    """What ``kha`` answers; coefficients are over the centred rows, a row for each component."""

    seconds: float  # elapsed time of the call, as R measures it
    start: np.ndarray  # A(0), uniform in [−1, 1]
    coefficients: np.ndarray  # directions only: kernlab's lengths are not those of unit functions


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


def kha(X: np.ndarray, gamma: float, components: int, epochs: int, eta: float = ETA) -> Found:
    """Rows in their order, epoch after epoch; ``th = -1`` lets every epoch run."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        np.asfortranarray(X, dtype=np.float64).ravel(order="F").tofile(here / "rows")
        script = here / "kha.R"
        script.write_text(_SCRIPT)
        numbers = (*X.shape, gamma, components, eta, epochs)
        command = ["Rscript", "--vanilla", str(script), folder, *map(str, numbers)]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        start, found = (
            np.fromfile(here / name).reshape(components, len(X)) for name in ("start", "found")
        )
    return Found(float(done.stdout), start, found)
