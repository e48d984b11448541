"""How much variance the default basis captures on MNIST, shuffled and sorted by digit.

    python -m benchmarks.accuracy --data FOLDER

One pass over 60,000 rows, RBF with σ = 8.5, 50 components, three seeds; the share is taken on 6,000
of the rows, relative to exact centred kernel PCA of the same rows.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import scipy.linalg
from rich.console import Console
from rich.table import Table

from benchmarks.data import GAMMA
from kernelstream import StreamingKernelPCA, kernels

COMPONENTS = 50


def exact_eigenvalues(rows: np.ndarray) -> np.ndarray:
    K = kernels.RBF(GAMMA).gram(rows)
    K -= K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]
    n = len(K)
    values = scipy.linalg.eigh(K, eigvals_only=True, subset_by_index=[n - COMPONENTS, n - 1])
    return values[::-1] / n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with mnist.npz")
    data = np.load(parser.parse_args().data / "mnist.npz")
    X = (data["x_train"].reshape(60000, 784) / np.float32(255)).astype(np.float32)
    digit = data["y_train"]
    judged = X[np.random.default_rng(123).choice(60000, 6000, replace=False)]
    exact = exact_eigenvalues(judged)
    table = Table(title="share of the exact variance, mean of three seeds")
    for column in ("rows", "points", "10 components", "50 components"):
        table.add_column(column)
    for order, n_points in (("shuffled", 200), ("sorted by digit", 200), ("shuffled", 400)):
        shares = []
        for seed in range(3):
            rows = np.random.default_rng(seed).permutation(60000)
            if order != "shuffled":
                rows = rows[np.argsort(digit[rows], kind="stable")]
            model = StreamingKernelPCA(COMPONENTS, gamma=GAMMA, basis=n_points, random_state=seed)
            variance = model.partial_fit(X[rows]).transform(judged).astype(float).var(axis=0)
            shares.append([variance[:r].sum() / exact[:r].sum() for r in (10, COMPONENTS)])
        table.add_row(order, str(n_points), *(f"{share:.4f}" for share in np.mean(shares, axis=0)))
    Console().print(table)


if __name__ == "__main__":
    main()
