"""``python -m benchmarks.certificate --data FOLDER``: the certificate beside the truth.

Three figures for the documentation, written to ``--out``:

1. MNIST rows arrive; batch kernel PCA of all rows so far is computed beside the stream, and its
   eigenvalues are drawn with the intervals that the model states without knowing them.
2. The same for ``fit``, whose second pass leaves nothing stale, at several sizes of the basis.
3. A longer stream, whose points are looked for once: the width of the first interval.

Every interval is checked against the truth where the truth can be computed (1 and 2); the script
fails if one does not hold.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
import scipy.sparse.linalg
from matplotlib import pyplot as plt

from benchmarks.data import GAMMA
from kernelstream import StreamingKernelPCA, kernels, landmarks

SHOWN = 3  # eigenvalues that are drawn
R = 10  # components of the models
WIDTH = "width of the first interval / eigenvalue"


def batch_eigenvalues(X: np.ndarray) -> np.ndarray:
    """Eigenvalues of the centred kernel matrix of all rows."""
    K = kernels.RBF(GAMMA).gram(X)
    K -= K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]
    values = scipy.sparse.linalg.eigsh(K, k=R, return_eigenvectors=False, tol=1e-10)
    return np.sort(values)[::-1]


def require_inside(name: str, intervals: np.ndarray, exact: np.ndarray) -> None:
    """Fail when a stated interval does not hold the eigenvalue."""
    allowed = 1e-8 * exact[0]  # of the reference
    if not np.all((intervals[:, 0] <= exact + allowed) & (exact - allowed <= intervals[:, 1])):
        raise SystemExit(f"{name}: an interval does not hold its eigenvalue")


def growing_stream(X: np.ndarray, sizes: list[int], out: Path) -> None:
    """Figure 1: intervals and true eigenvalues as the stream grows."""
    makers: dict[str, dict[str, Any]] = {
        "1,000 given points": dict(basis=landmarks.Landmarks(X[-1000:]), certify="tight"),
        "400 centroids": dict(basis=400, certify="tight"),
    }
    truth = {n: batch_eigenvalues(X[:n]) / n for n in sizes}
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for axis, (name, settings) in zip(axes, makers.items(), strict=True):
        model = StreamingKernelPCA(R, gamma=GAMMA, random_state=0, **settings)
        found, start = [], 0
        for n in sizes:
            model.partial_fit(X[start:n])
            start = n
            intervals = model.certificate_.details.eigenvalue_intervals / n
            require_inside(f"{name}, {n} rows", intervals, truth[n])
            found.append(intervals)
            width = (intervals[0, 1] - intervals[0, 0]) / truth[n][0]
            excess = model.certificate_.details.excess_bound
            best = model.certificate_.details.reconstruction_error_lower_bound
            print(
                f"{name:24s} n={n:6d} width of the first {width:8.2%}  excess {excess / best:.2%}"
            )
        stack = np.array(found)
        for i in range(SHOWN):
            colour = f"C{i}"
            axis.fill_between(sizes, stack[:, i, 0], stack[:, i, 1], color=colour, alpha=0.25, lw=0)
            values = [truth[n][i] for n in sizes]
            axis.plot(sizes, values, "o-", color=colour, ms=4, label=f"eigenvalue {i + 1}")
        axis.set(title=name, xlabel="rows seen", ylim=(0, 0.058))
    axes[0].set_ylabel("eigenvalue / rows")
    axes[0].legend(title="batch kernel PCA (points),\nstated interval (band)", fontsize=8)
    figure.savefig(out / "certificate-stream.png", dpi=110)


def fitted(X: np.ndarray, sizes: list[int], out: Path) -> None:
    """Figure 2: the first interval of ``fit`` against the size of the basis."""
    exact = batch_eigenvalues(X)
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for certify in ("auto", "tight"):
        widths = []
        for m in sizes:
            model = StreamingKernelPCA(R, gamma=GAMMA, basis=m, certify=certify, random_state=0)
            intervals = model.fit(X).certificate_.details.eigenvalue_intervals
            require_inside(f"fit, {m} centroids, {certify}", intervals, exact)
            widths.append((intervals[0, 1] - intervals[0, 0]) / exact[0])
            print(f"fit, {m:4d} centroids, {certify:5s}: width of the first {widths[-1]:.2%}")
        axis.plot(sizes, widths, "o-", ms=4, label=f'certify="{certify}"')
    axis.set(title=f"fit, MNIST, {len(X):,} rows", xlabel="centroids", ylabel=WIDTH)
    axis.set(xscale="log", yscale="log", xticks=sizes, xticklabels=[str(m) for m in sizes])
    axis.minorticks_off()
    in_percent(axis)
    axis.legend()
    figure.savefig(out / "certificate-fit.png", dpi=110)


def in_percent(axis: Any) -> None:
    """Label a logarithmic axis of widths."""
    ticks = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0]
    low, high = axis.get_ylim()
    shown = [t for t in ticks if low <= t <= high]
    axis.set_yticks(shown, [f"{t:.0%}" for t in shown])
    axis.minorticks_off()
    axis.grid(alpha=0.3)


def after_a_look(X: np.ndarray, out: Path) -> None:
    """Figure 3: width of the first interval along a long stream."""
    marks = [2_000, 5_000, 10_000, 15_000, 18_000, 20_000, 25_000, 30_000, 40_000, 50_000, 60_000]
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    model = StreamingKernelPCA(R, gamma=GAMMA, basis=100, certify="tight", random_state=0)
    widths, start = [], 0
    for n in marks:
        model.partial_fit(X[start:n])
        start = n
        low, high = model.certificate_.details.eigenvalue_intervals[0]
        widths.append((high - low) / model.eigenvalues_[0])
        print(f"100 centroids, tight: n={n:7d} width {widths[-1]:.2%}")
    axis.plot(marks, widths, "o-", ms=4)
    axis.set(title="MNIST, 100 centroids, one pass", xlabel="rows seen", ylabel=WIDTH)
    axis.set(yscale="log", ylim=(0.09, 2.2))
    in_percent(axis)
    figure.savefig(out / "certificate-settling.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with mnist.npz")
    parser.add_argument("--out", type=Path, default=Path("."), help="where the pictures go")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    data = np.load(options.data / "mnist.npz")["x_train"].reshape(60000, 784) / 255.0
    X = data[np.random.default_rng(0).permutation(60000)]
    after_a_look(X, options.out)
    X = X[:9000]
    growing_stream(X, [1000, 2000, 4000, 6000, 8000], options.out)
    fitted(X[:6000], [50, 100, 200, 400, 800], options.out)


if __name__ == "__main__":
    main()
