"""What each method is good for, measured: one pass over scikit-learn's digits.

    python -m benchmarks.methods

For every method: the variance it captures after one pass, relative to exact kernel PCA; the time a
row takes; the size of the saved model; and how well it follows a change: the digits 0–4 come first,
three times over, then the digits 5–9 once, and the variance of the latter that the final model
captures is compared with exact kernel PCA of the latter alone.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from kernelstream import StreamingKernelPCA, metrics, trackers
from kernelstream.papers import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    KernelHebbianPCA,
    OnlineKernelPCA,
)

COMPONENTS = 10
GAMMA = 0.08  # about the median width


def methods() -> dict[str, Any]:
    same: dict[str, Any] = {"gamma": GAMMA, "random_state": 0}
    forgetful = trackers.Covariance(forgetting=0.998)
    return {
        "StreamingKernelPCA": StreamingKernelPCA(COMPONENTS, basis=100, **same),
        "StreamingKernelPCA, forgetting": StreamingKernelPCA(
            COMPONENTS, basis=100, tracker=forgetful, **same
        ),
        "KernelHebbianPCA, stream": KernelHebbianPCA(COMPONENTS, **same),
        "OnlineKernelPCA": OnlineKernelPCA(COMPONENTS, nu=0.3, **same),
        "AdaptiveKernelPCA, rls": AdaptiveKernelPCA(
            COMPONENTS, delta=0.6, method="rls", center=True, **same
        ),
        "AdaptiveKernelPCA, lms": AdaptiveKernelPCA(
            COMPONENTS, delta=0.6, method="lms", center=True, **same
        ),
        "AdaptiveKernelPCA, subkha": AdaptiveKernelPCA(
            COMPONENTS, delta=0.6, method="subkha", center=True, **same
        ),
        "IncrementalKernelPCA": IncrementalKernelPCA(COMPONENTS, n_points=100, **same),
    }


def size(model: Any) -> int:
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.safetensors")
        return (Path(folder) / "model.safetensors").stat().st_size


def compared(few: bool = False) -> tuple[Table, list[dict[str, Any]]]:
    """The table and its figures; one thread, for the blocks are small."""
    data = load_digits()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(data.data))[: 300 if few else None]
    X, y = data.data[order] / 16.0, data.target[order]
    table = Table(title=f"{len(X):,} digits, {COMPONENTS} components, one pass")
    for column in ("method", "points", "captured", "µs a row", "model kB", "after a change"):
        table.add_column(column, justify="left" if column == "method" else "right")
    figures = []
    for name, model in methods().items():
        with threadpool_limits(1):
            start = time.perf_counter()
            model.partial_fit(X)
            model.transform(X[:1])
            seconds = time.perf_counter() - start
            figures.append({"method": name, **judged(name, model, X, y), "seconds": seconds})
        found = figures[-1]
        table.add_row(
            name,
            str(found["points"]),
            f"{found['captured']:.3f}",
            f"{1e6 * seconds / len(X):.0f}",
            f"{found['bytes'] / 1000:.0f}",
            f"{found['after_change']:.3f}",
        )
    return table, figures


def judged(name: str, model: Any, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Accuracy and size of a model, and how well another one follows a change."""
    early, late = X[y < 5], X[y >= 5]
    changed = methods()[name].partial_fit(np.vstack([early, early, early, late]))
    return {
        "points": len(model.basis_points_),
        "captured": metrics.captured_variance(model, X),
        "bytes": size(model),
        "after_change": metrics.captured_variance(changed, late),
    }


def main() -> None:
    Console(width=110).print(compared()[0])


if __name__ == "__main__":
    main()
