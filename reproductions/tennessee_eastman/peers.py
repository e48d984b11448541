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
from kernelstream.anomaly.monitor.normal import lag_rows
from kernelstream.kernels import RBF
from reproductions.tennessee_eastman.protocol import Rows, Runs, over_limit, rates

Score = Callable[[Rows], np.ndarray]
WIDTHS, COMPONENTS = (1.0, 5.0, 20.0, 100.0), (10, 30, 100, 200)
LAGS, SMOOTHING = 2, 0.1  # what every method gets, as our monitor has them
WAYS = {"no lag": (0, 1.0), "2 lags": (LAGS, 1.0), "2 lags, EWMA 0.1": (LAGS, SMOOTHING)}


def compared(runs: Runs, tiny: bool = False) -> dict[str, Any]:
    """Detection and false alarms of every peer: on plain rows, on lagged ones, and smoothed."""
    found: dict[str, Any] = {}
    for way, (lags, smoothing) in WAYS.items():
        scaler = StandardScaler().fit(runs["d00"])

        def lagged(X: Rows, scaler: StandardScaler = scaler, lags: int = lags) -> Rows:
            Z = scaler.transform(X)
            return lag_rows(Z[:0], Z, lags)

        def judged(score: Score, rows: Any = lagged, by: float = smoothing) -> dict[str, Any]:
            return rates(over_limit(lambda X: score(rows(X)), runs, by), runs)

        Z = lagged(runs["d00"])[lags:]
        for name, score in scores_of(Z, tiny).items():
            found.setdefault(name, {})[way] = judged(score)
        name = "scikit-learn KernelPCA, SPE, best setting"
        step = 3 if tiny else 1
        grid = [(c, r) for c in WIDTHS[::step] for r in COMPONENTS[::step]]
        tried = [{**judged(kernel_pca(Z, c, r)), "width": c, "components": r} for c, r in grid]
        found.setdefault(name, {})[way] = max(tried, key=lambda result: result["fdr"])
        score = mahalanobis(runs["d00"], lags)
        name = "linear Mahalanobis, our whitened rows"
        found.setdefault(name, {})[way] = rates(over_limit(score, runs, smoothing), runs)
    return found


def scores_of(Z: Rows, tiny: bool) -> dict[str, Score]:
    """What is learned of standardised rows; large is abnormal. Of squares, the logarithms."""
    t2, spe = linear_pca(Z, 11)
    forest = IsolationForest(n_estimators=50 if tiny else 300, random_state=0).fit(Z)
    svm = OneClassSVM(nu=0.05).fit(Z)
    found: dict[str, Score] = {
        "linear PCA, T²": lambda X: np.log(t2(X)),
        "linear PCA, SPE": lambda X: np.log(spe(X)),
        "one-class SVM": lambda X: -svm.score_samples(X),
        "isolation forest": lambda X: -forest.score_samples(X),
    }
    if find_spec("pyod") is not None:
        detector = import_module("pyod.models.kpca").KPCA(random_state=0).fit(Z)
        found["PyOD KPCA"] = detector.decision_function
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
    """Log SPE in feature space: what r components miss of the centred image of a row."""
    kernel = RBF(gamma=1.0 / (width * Z.shape[1]))
    model = KernelPCA(r, kernel="rbf", gamma=kernel.gamma).fit(Z)
    overall = kernel(Z).mean()

    def spe(X: Rows) -> np.ndarray:
        energy = 1.0 - 2.0 * kernel(X, Z).mean(axis=1) + overall
        left = energy - np.sum(model.transform(X) ** 2, axis=1)
        return np.log(np.maximum(left, 1e-12))

    return spe


def mahalanobis(X: Rows, lags: int) -> Score:
    """Log squared length of the rows that our kernel sees: what is left without the kernel."""
    monitor = KernelMonitor(lags=lags, width=50.0, ridge=0.1, whiten=True, random_state=0).fit(X)
    state = monitor._state

    def score(rows: Rows) -> np.ndarray:
        Z = state.models.standard.apply(rows)
        U = state.models.present.whitening.apply(lag_rows(Z[:0], Z, lags), np.matmul)
        return np.log(np.sum(U**2, axis=1))

    return score
