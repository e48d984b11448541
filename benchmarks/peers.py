"""One pass over MNIST: kernelstream beside what people use today, in one run.

    python -m benchmarks.peers [--data FOLDER] [--repeats 3]

Every system sees the same rows in the same order and is asked for the same number of components
with the same RBF kernel; "captured" is the variance of its scores relative to exact centred kernel
PCA, on 6,000 of the rows. Runs are interleaved and the best of several is kept. Without ``--data``
rows of the same shape are made up, and the figures mean little.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse.linalg
import sklearn
from rich.console import Console
from rich.table import Table
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.kernel_approximation import Nystroem, RBFSampler

import kernelstream
from kernelstream import StreamingKernelPCA

GAMMA = 1 / (2 * 8.5**2)
COMPONENTS = 50
BLOCK = 1000

Scores = Callable[[np.ndarray], np.ndarray]


def mnist(folder: Path | None) -> np.ndarray:
    """Shuffled digits in [0, 1], float32, or rows of the same shape and rank."""
    rng = np.random.default_rng(0)
    if folder is None:
        centres = rng.random((300, 784)).astype(np.float32)
        rows = centres[rng.integers(300, size=60000)]
        return rows + rng.normal(scale=0.1, size=(60000, 784)).astype(np.float32)
    path = folder / "mnist.npz"
    if not path.exists():
        raise SystemExit(f"{path} is missing: an archive with x_train of shape (60000, 28, 28).")
    images = np.load(path)["x_train"].reshape(60000, 784)
    return (images[rng.permutation(60000)] / np.float32(255)).astype(np.float32)


def ours(n_points: int) -> Callable[[np.ndarray], Scores]:
    def run(X: np.ndarray) -> Scores:
        model = StreamingKernelPCA(COMPONENTS, gamma=GAMMA, basis=n_points, random_state=0)
        for start in range(0, len(X), BLOCK):
            model.partial_fit(X[start : start + BLOCK])
        return model.transform

    return run


def streamed(features: Callable[[], object]) -> Callable[[np.ndarray], Scores]:
    """A feature map fitted on the first rows, then IncrementalPCA: the streaming route."""

    def run(X: np.ndarray) -> Scores:
        mapping, pca = features(), IncrementalPCA(COMPONENTS)
        mapping.fit(X[:10000])  # type: ignore[attr-defined]
        for start in range(0, len(X), BLOCK):
            pca.partial_fit(mapping.transform(X[start : start + BLOCK]))  # type: ignore[attr-defined]
        return lambda rows: pca.transform(mapping.transform(rows))  # type: ignore[attr-defined]

    return run


def in_memory(n_points: int) -> Callable[[np.ndarray], Scores]:
    def run(X: np.ndarray) -> Scores:
        mapping = Nystroem(gamma=GAMMA, n_components=n_points, random_state=0)
        pca = PCA(COMPONENTS, svd_solver="covariance_eigh").fit(mapping.fit_transform(X))
        return lambda rows: pca.transform(mapping.transform(rows))

    return run


def systems() -> dict[str, Callable[[np.ndarray], Scores]]:
    nystroem = lambda m: lambda: Nystroem(gamma=GAMMA, n_components=m, random_state=0)  # noqa: E731
    fourier = lambda m: lambda: RBFSampler(gamma=GAMMA, n_components=m, random_state=0)  # noqa: E731
    return {
        "kernelstream, 100 points": ours(100),
        "kernelstream, 220 points": ours(220),
        "kernelstream, 400 points": ours(400),
        "Nystroem(800) + IncrementalPCA": streamed(nystroem(800)),
        "Nystroem(1600) + IncrementalPCA": streamed(nystroem(1600)),
        "Nystroem(800) + PCA, in memory": in_memory(800),
        "Nystroem(1600) + PCA, in memory": in_memory(1600),
        "RBFSampler(1600) + IncrementalPCA": streamed(fourier(1600)),
    }


def exact_variance(X: np.ndarray) -> float:
    """Sum of the leading eigenvalues of exact centred kernel PCA of the rows."""
    rows = X.astype(float)
    norms = (rows**2).sum(axis=1)
    K = np.exp(-GAMMA * np.maximum(norms[:, None] + norms - 2 * rows @ rows.T, 0))
    K -= K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]
    start = np.random.default_rng(0).normal(size=len(K))
    return scipy.sparse.linalg.eigsh(K, k=COMPONENTS, v0=start)[0].sum() / len(K)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    X = mnist(options.data)
    judged = X[np.random.default_rng(1).choice(len(X), 6000, replace=False)]
    exact = exact_variance(judged)
    seconds: dict[str, float] = {}
    captured: dict[str, float] = {}
    for _ in range(options.repeats):
        for name, run in systems().items():
            start = time.perf_counter()
            scores = run(X)
            seconds[name] = min(seconds.get(name, np.inf), time.perf_counter() - start)
            captured[name] = float(scores(judged).astype(float).var(axis=0).sum() / exact)
    reference = seconds["kernelstream, 220 points"]
    table = Table(title=f"{len(X):,} × {X.shape[1]} float32, {COMPONENTS} components")
    for column in ("system", "captured", "seconds", "time relative to 220 points"):
        table.add_column(column, justify="left" if column == "system" else "right")
    for name in seconds:
        ratio = seconds[name] / reference
        table.add_row(name, f"{captured[name]:.3f}", f"{seconds[name]:.2f}", f"{ratio:.1f}")
    Console().print(table)
    if options.json is not None:
        facts = {
            "captured": captured,
            "seconds": seconds,
            "cores": os.cpu_count(),
            "machine": platform.processor() or platform.machine(),
            "versions": {m.__name__: m.__version__ for m in (kernelstream, np, sklearn)},
        }
        options.json.write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
