"""What people use today, on the same runs, with limits from the same rows."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, KernelPCA
from sklearn.ensemble import IsolationForest
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from kernelstream import KernelMonitor
from kernelstream.kernels import RBF
from kernelstream.monitor.normal import lag_rows
from reproductions.tennessee_eastman.protocol import Rows, Runs, over_limit, rates

Score = Callable[[Rows], np.ndarray]
WIDTHS, COMPONENTS = (1.0, 5.0, 20.0, 100.0), (10, 30, 100, 200)


def compared(runs: Runs, tiny: bool = False) -> dict[str, Any]:
    """Detection and false alarms of every peer."""
    scaler = StandardScaler().fit(runs["d00"])
    Z = scaler.transform(runs["d00"])

    def judged(score: Score) -> dict[str, Any]:
        return rates(over_limit(lambda X: score(scaler.transform(X)), runs), runs)

    t2, spe = linear_pca(Z, 11)
    forest = IsolationForest(n_estimators=50 if tiny else 300, random_state=0).fit(Z)
    svm = OneClassSVM(nu=0.05).fit(Z)
    found = {
        "linear PCA, T²": judged(t2),
        "linear PCA, SPE": judged(spe),
        "one-class SVM": judged(lambda X: -svm.score_samples(X)),
        "isolation forest": judged(lambda X: -forest.score_samples(X)),
    }
    grid = [(c, r) for c in WIDTHS[:: 3 if tiny else 1] for r in COMPONENTS[:: 3 if tiny else 1]]
    tried = [{**judged(kernel_pca(Z, c, r)), "width": c, "components": r} for c, r in grid]
    found["scikit-learn KernelPCA, SPE, best setting"] = max(
        tried, key=lambda result: result["fdr"]
    )
    for lags in (0, 2):
        name = f"linear Mahalanobis, our whitened rows, {lags} lags"
        found[name] = rates(over_limit(mahalanobis(runs["d00"], lags), runs), runs)
    if find_spec("pyod") is not None:
        detector = import_module("pyod.models.kpca").KPCA(random_state=0).fit(Z)
        found["PyOD KPCA"] = judged(detector.decision_function)
    return found


def linear_pca(Z: Rows, r: int) -> tuple[Score, Score]:
    """T² and SPE of r principal components."""
    pca = PCA(r).fit(Z)

    def t2(X: Rows) -> np.ndarray:
        return np.sum(pca.transform(X) ** 2 / pca.explained_variance_, axis=1)

    def spe(X: Rows) -> np.ndarray:
        return np.sum((X - pca.inverse_transform(pca.transform(X))) ** 2, axis=1)

    return t2, spe


def kernel_pca(Z: Rows, width: float, r: int) -> Score:
    """SPE in feature space: what r components miss of the centred image of a row."""
    kernel = RBF(gamma=1.0 / (width * Z.shape[1]))
    model = KernelPCA(r, kernel="rbf", gamma=kernel.gamma).fit(Z)
    overall = kernel(Z).mean()

    def spe(X: Rows) -> np.ndarray:
        energy = 1.0 - 2.0 * kernel(X, Z).mean(axis=1) + overall
        return energy - np.sum(model.transform(X) ** 2, axis=1)

    return spe


def mahalanobis(X: Rows, lags: int) -> Score:
    """Squared length of the rows that our kernel sees: what is left without the kernel."""
    monitor = KernelMonitor(lags=lags, width=50.0, ridge=0.1, whiten=True, random_state=0).fit(X)
    state = monitor._state

    def score(rows: Rows) -> np.ndarray:
        Z = state.standard.apply(rows)
        U = state.normal.scaling.apply(lag_rows(Z[:0], Z, lags), np.matmul)
        return np.sum(U**2, axis=1)

    return score
