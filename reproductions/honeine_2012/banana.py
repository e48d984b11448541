"""The banana: figures 1 to 3, the theorems, and a stream that changes."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning

from kernelstream import StreamingKernelPCA, landmarks, metrics
from kernelstream.papers import KernelHebbianPCA, OnlineKernelPCA, schedules
from reproductions.honeine_2012 import pictures
from reproductions.honeine_2012.evolution import follow, gamma

SIGMA = NU = ETA = 0.5
TAU = 1e5
R = 5
SHORT, LONG = 500, 3000
TAUS = (10.0, 100.0, 1000.0, TAU)


def sample(seed: int, n: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x, noise = rng.uniform(-1, 1, LONG), rng.normal(0, 0.2, LONG)
    return np.column_stack([x, noise - x**2])[:n]


# --- the algorithms ----------------------------------------------------------------------------


def batch(X: np.ndarray, r: int = R) -> KernelPCA:
    solver = "arpack" if 10 * r < len(X) else "dense"
    return KernelPCA(r, kernel="rbf", gamma=gamma(SIGMA), eigen_solver=solver, random_state=0).fit(
        X
    )


def iterative(X: np.ndarray) -> KernelHebbianPCA:
    """The kernel Hebbian algorithm in a single pass, with the steps of the online rule.

    The bare rule: a Rayleigh–Ritz step at its end would make it batch kernel PCA. One pass does not
    converge, and need not.
    """
    model = KernelHebbianPCA(
        R,
        kernel="rbf",
        gamma=gamma(SIGMA),
        schedule=schedules.SearchThenConverge(ETA, TAU),
        n_epochs=1,
        ritz=False,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X)


def online(r: int = R, center: bool = True, tau: float = TAU) -> OnlineKernelPCA:
    return OnlineKernelPCA(
        r, kernel="rbf", gamma=gamma(SIGMA), nu=NU, eta0=ETA, tau=tau, center=center
    )


def in_dictionary(X: np.ndarray, r: int = R, center: bool = True) -> StreamingKernelPCA:
    """Exact PCA in the span of the online rule's dictionary: the best that it could learn."""
    model = StreamingKernelPCA(
        r, kernel="rbf", gamma=gamma(SIGMA), basis=landmarks.Distance(NU), center=center
    )
    return model.fit(X)


# --- figure 1: the functions after 500 rows ----------------------------------------------------


def orders(seeds: range, n: int) -> list[int]:
    return [len(online().partial_fit(sample(seed, n)).basis_points_) for seed in seeds]


def like_the_paper(short: list[int], long: list[int]) -> int:
    """The first seed whose dictionaries have the paper's sizes: the one that the pictures show."""
    sizes = list(zip(short, long, strict=True))
    return sizes.index((8, 10)) if (8, 10) in sizes else 0


def similarity(seeds: range, short: int, long: int) -> dict[str, np.ndarray]:
    """Cosines and captured variance of the algorithms, for each seed."""
    rows: dict[str, list[Any]] = defaultdict(list)
    for seed in seeds:
        X = sample(seed, short)
        exact = batch(X)
        ours = online().partial_fit(X)
        for name, model in (
            ("kha", iterative(X)),
            ("online", ours),
            ("dictionary", in_dictionary(X)),
        ):
            rows[f"{name}_cosines"].append(metrics.direction_cosines(model, exact))
            rows[f"{name}_captured"].append(metrics.captured_variance(model, X))
        # Same rows, same criterion: both versions have the same dictionary.
        uncentred = online(R + 1, center=False).partial_fit(X)
        M = ours.kernel_(ours.basis_points_, ours.basis_points_)
        mu, U, A = ours.mean_coef_, uncentred.dual_coef_, ours.dual_coef_
        rows["mean_cosine"].append(abs(mu @ M @ U[:, 0]) / np.sqrt(mu @ M @ mu))
        rows["uncentred_cosines"].append(np.abs(np.diag(A.T @ M @ U[:, 1:])))
        for name, n in (("sixth_short", short), ("sixth_long", long)):
            X = sample(seed, n)
            learned = online(R + 1, center=False).partial_fit(X)
            best = in_dictionary(X, R + 1, center=False)
            rows[name].append(metrics.direction_cosines(learned, best)[R])
    return {name: np.array(values) for name, values in rows.items()}


def theory(X: np.ndarray) -> dict[str, Any]:
    """The numbers that Lemma 3, Theorems 4 and 5 and the interlacing of section 5.2 bound."""
    model = online(center=False).partial_fit(X)
    n, points = len(X), model.basis_points_
    K, M, H = model.kernel_(X), model.kernel_(points), model.kernel_(X, points)
    lam, U = np.linalg.eigh(K / n)
    lam, U = lam[::-1], U[:, ::-1]
    bounds = model.bounds(lam[:R])
    alpha = U[:, :R] / np.sqrt(n * lam[:R])  # Σα² = 1/(nλ): unit norm
    held = np.sum((H.T @ alpha) * np.linalg.solve(M, H.T @ alpha), axis=0)
    J = np.eye(n) - 1.0 / n
    centred = np.linalg.eigvalsh(J @ K @ J / n)[::-1]
    return {
        "coherence": bounds.coherence,
        "coherence_bound": bounds.coherence_bound,
        "coherence_bound_sharp": bounds.coherence_bound_sharp,
        "eigenvalues": bounds.eigenvalues,
        "eigenvalue_bounds": bounds.eigenvalue_bounds,
        "errors": 1.0 - held,
        "error_bounds": bounds.approximation_error,
        "error_bounds_sharp": bounds.approximation_error_sharp,
        "interlaced": bool(
            np.all(lam[:10] >= centred[:10] - 1e-12) and np.all(centred[:10] >= lam[1:11] - 1e-12)
        ),
    }


def figure_1(X: np.ndarray, out: Path) -> None:
    exact, kha, centred = batch(X), iterative(X), online().partial_fit(X)
    uncentred = online(R + 1, center=False).partial_fit(X)
    functions: list[tuple[str, Callable[[np.ndarray], np.ndarray], np.ndarray]] = [
        (f"batch kernel PCA\norder {len(X)}", exact.transform, X),
        (f"iterative (KHA), one pass\norder {len(X)}", kha.transform, X),
        *(
            (
                f"online, {name}\norder {len(model.basis_points_)}",
                model.transform,
                np.asarray(model.basis_points_),
            )
            for name, model in (("centred", centred), ("uncentred", uncentred))
        ),
    ]
    pictures.functions(X, functions, out / "figure_1.png")


# --- figures 2 and 3: the variance along the stream --------------------------------------------


def convergence(seeds: list[int], n: int, out: Path) -> dict[str, Any]:
    """The share of batch kernel PCA's variance along the stream, for every τ and seed.

    The pictures show the first of the seeds.
    """
    times = np.unique(np.append(np.arange(1, 40), np.arange(40, n + 1, 20)))
    late, early = times > 2 * n // 3, int(np.searchsorted(times, n // 10))
    shares: dict[float, list[np.ndarray]] = defaultdict(list)
    sums: dict[float, list[np.ndarray]] = defaultdict(list)
    ratios = []
    for seed in seeds:
        X = sample(seed, n)
        lam = batch(X).eigenvalues_ / n
        evolutions = {tau: follow(online(tau=tau), X, times) for tau in TAUS}
        for tau, evolution in evolutions.items():
            shares[tau].append(evolution.span / lam.sum())
            sums[tau].append(evolution.variances.sum(axis=1) / lam.sum())
        ratios.append(evolutions[TAU].variances[late].mean(axis=0) / lam)
        if seed == seeds[0]:
            pictures.evolution(evolutions[TAU], lam, out / "figure_2.png")
            pictures.several_taus(evolutions, lam, out / "figure_3.png")
            variances = evolutions[TAU].variances[late].mean(axis=0)
    return {
        "late_variances": variances,
        "late_over_batch": np.median(ratios, axis=0),
        "early_row": times[early],
        "taus": {
            f"{tau:g}": {
                "early": np.median(np.array(shares[tau])[:, early]),
                "late": np.median(np.array(shares[tau])[:, late].mean(axis=1)),
                # how much the paper's sum of variances moves about in the last third
                "unrest": np.median(np.array(sums[tau])[:, late].std(axis=1)),
            }
            for tau in TAUS
        },
    }


def tracking(seeds: range, n: int) -> dict[str, float]:
    """Half-way the banana is turned upside down: the share of its variance that each τ then has."""
    shares: dict[float, list[float]] = defaultdict(list)
    for seed in seeds:
        first, second = sample(seed, n)[: n // 2], sample(seed, n)[n // 2 :] * [1, -1] - [0, 1]
        for tau in TAUS:
            model = online(tau=tau).partial_fit(first).partial_fit(second)
            shares[tau].append(metrics.captured_variance(model, second))
    return {f"{tau:g}": float(np.median(shares[tau])) for tau in TAUS}
