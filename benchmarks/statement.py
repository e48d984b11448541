"""The statistical statement, checked as a statement: random streams against what is true of them.

    python -m benchmarks.statement --streams 2000

draws streams (sizes, kernels, drift, order, weights, forgetting, merges, bases, trackers), learns
each, and compares every interval with the number itself, computed from all rows in float64. At the
stated confidence of 99 % no more than one stream in a hundred may be told something wrong.

    python -m benchmarks.statement --data FOLDER docs/certificate.md

writes the table of widths on twelve data sets into a page.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse.linalg
from sklearn import datasets

from kernelstream import StreamingKernelPCA, kernels, landmarks, trackers
from kernelstream.certificates import ConfidenceBounds
from kernelstream.certificates import sample as audit

SLACK = 1e-6  # of the largest energy: rounding of the truth itself


# -- random streams


@dataclass(frozen=True)
class Case:
    """A stream and the model that learns it."""

    X: np.ndarray
    weights: np.ndarray | None
    models: tuple[StreamingKernelPCA, ...]  # more than one: each learns a part, then they merge
    size: int  # of the sample
    beta: float
    words: str


def drawn(seed: int) -> Case:
    """The case that belongs to a number."""
    rng = np.random.default_rng([21, seed])

    def pick(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    n, d, size = int(rng.integers(300, 1300)), int(pick(1, 2, 3, 5, 10)), int(pick(200, 400, 800))
    shape, X = rows(rng, n, d)
    order = pick("as drawn", "sorted", "shuffled")
    if order == "sorted":
        X = X[np.argsort(X[:, 0])]
    elif order == "shuffled":
        X = rng.permutation(X)
    X = X.astype(pick("f8", "f8", "f4"))
    kind = pick("none", "none", "uniform", "heavy", "few")
    weights = {
        "none": None,
        "uniform": rng.uniform(0.1, 2.0, n),
        "heavy": rng.pareto(1.5, n) + 0.01,
        "few": np.where(rng.random(n) < 0.02, 200.0, 1.0),
    }[kind]
    width = float(np.median(np.std(X, axis=0))) or 1.0
    kernel = pick(
        kernels.RBF(gamma=pick(0.1, 1.0) / (d * width**2)),
        kernels.RBF(gamma=pick(0.1, 1.0) / (d * width**2)),
        kernels.Laplacian(gamma=0.5 / (d * width)),
        kernels.Linear(),
        kernels.Polynomial(degree=2, gamma=1.0 / (d * width**2)),
        0.5 * kernels.RBF(gamma=0.5 / (d * width**2)) + 0.2,
    )
    beta = pick(1.0, 1.0, 0.995, 0.95)
    tracker = trackers.Covariance(beta)
    basis = pick(
        landmarks.Centroids(20),
        landmarks.Centroids(20),
        landmarks.Distance(nu=0.3 * float(np.median(kernel.diag(X.astype(float)))), max_points=40),
        landmarks.Landmarks(X[rng.permutation(n)[:15]].astype(float)),
    )
    parts = pick(1, 1, 1, 2, 3) if beta == 1.0 or pick(True, False) else 1
    model = dict(
        n_components=int(pick(1, 2, 5, 10)), kernel=kernel, basis=basis, tracker=tracker,
        center=bool(pick(True, True, False)), batch_size=int(pick(16, 64, 128)),
    )  # fmt: skip
    seeds = rng.integers(2**31, size=parts) if pick(True, False) else np.zeros(parts, int)
    models = tuple(StreamingKernelPCA(**model, random_state=int(s)) for s in seeds)
    words = f"{shape}, {order}, {kernel}, {basis}, weights {kind}, {beta}, {parts} parts"
    return Case(X, weights, models, size, beta, words)


def rows(rng: np.random.Generator, n: int, d: int) -> tuple[str, np.ndarray]:
    """Rows of some kind."""
    kind = ["normal", "clusters", "drift", "jump", "outliers", "heavy", "curve", "copies"]
    shape = kind[int(rng.integers(len(kind)))]
    X = rng.normal(size=(n, d))
    if shape == "clusters":
        X = 0.2 * X + rng.normal(size=(4, d))[rng.integers(4, size=n)]
    elif shape == "drift":
        X += np.linspace(0, 4, n)[:, None]
    elif shape == "jump":
        X[int(0.6 * n) :] += 3.0
    elif shape == "outliers":
        X[rng.random(n) < 0.02] *= 8.0
    elif shape == "heavy":
        X = np.clip(rng.standard_t(2.5, size=(n, d)), -30, 30)
    elif shape == "curve":
        t = rng.uniform(0, 6, n)
        X = np.column_stack([np.cos(t + i) for i in range(d)]) + 0.1 * X
    elif shape == "copies":
        X = X[rng.integers(max(2, n // 10), size=n)]
    return shape, X


@contextmanager
def sampling(size: int) -> Iterator[None]:
    """Streams that are short enough to be computed exactly, and longer than their samples."""
    before, audit.ROWS = audit.ROWS, size
    try:
        yield
    finally:
        audit.ROWS = before


def learned(case: Case) -> tuple[StreamingKernelPCA, np.ndarray, np.ndarray]:
    """The model, the rows in the order in which they count, and what is left of their weights."""
    parts = np.array_split(np.arange(len(case.X)), len(case.models))
    left = np.ones(len(case.X)) if case.weights is None else case.weights.copy()
    with warnings.catch_warnings(), sampling(case.size):
        warnings.simplefilter("ignore")
        for model, part in zip(case.models, parts, strict=True):
            w = None if case.weights is None else case.weights[part]
            for chunk in np.array_split(np.arange(len(part)), 3):
                model.partial_fit(
                    case.X[part][chunk], sample_weight=None if w is None else w[chunk]
                )
            left[part] *= case.beta ** np.arange(len(part) - 1.0, -1.0, -1.0)
        model = case.models[0]
        for other in case.models[1:]:
            model = model.merge(other)
        _ = model.certificate_.statistical
    return model, case.X, left


@dataclass(frozen=True)
class Truth:
    """The numbers that a statement speaks of."""

    error: float
    own: float
    best: float
    total: float
    scale: float  # the largest energy


def truth(model: StreamingKernelPCA, X: np.ndarray, weights: np.ndarray) -> Truth:
    """Computed from all rows, in float64."""
    p, X = weights / weights.sum(), X.astype(float)
    kernel, points = model.kernel_, np.asarray(model.basis_points_, dtype=float)
    error = float(p @ np.asarray(model.reconstruction_error(X)))
    K = kernel(X)
    energy = np.diagonal(K).copy()
    A = np.asarray(model.dual_coef_, dtype=float)
    if model.center:
        towards = K @ p
        K = K - towards[:, None] - towards[None, :] + float(p @ towards)
    total = float(p @ np.diagonal(K))
    root = np.sqrt(p)
    values = scipy.sparse.linalg.eigsh(
        K * root[:, None] * root[None, :], k=A.shape[1], return_eigenvectors=False, v0=root
    )
    best = float(np.maximum(values, 0.0).sum())
    scores = kernel(X, points) @ A
    if model.center:
        scores = scores - p @ scores
    own = float(p @ (scores**2).sum(axis=1))
    floor = max(total, 1e-300)
    return Truth(error, own / floor, best / floor, total, float(energy.max()))


def wrong(said: ConfidenceBounds, true: Truth) -> list[str]:
    """What a statement says that is not so."""
    off = SLACK * true.scale
    share = off / max(true.total, 1e-300)

    def outside(x: float, interval: tuple[float, float], slack: float) -> bool:
        return not interval[0] - slack <= x <= interval[1] + slack

    found = {
        "error": outside(true.error, said.reconstruction_error_interval, off),
        "own share": outside(true.own, said.explained_variance_ratio_interval, share),
        "best share": outside(true.best, said.best_explained_variance_ratio_interval, share),
        "shortfall": true.best - true.own > said.shortfall_bound + share,
        "excess": true.error - (1 - true.best) * true.total > said.excess_bound + off,
    }
    return [name for name, is_wrong in found.items() if is_wrong]


@dataclass(frozen=True)
class Outcome:
    """A stream, what was said of it and what of that is wrong."""

    words: str
    size: int
    said: ConfidenceBounds
    true: Truth
    wrong: list[str]
    proof_wrong: bool


def outcome(seed: int) -> Outcome:
    """Learn the stream of a number, and compare."""
    case = drawn(seed)
    model, X, weights = learned(case)
    said, true = model.certificate_.statistical, truth(model, X, weights)
    proof = model.certificate_
    low, high = proof.details.best_explained_variance_ratio_interval
    share = SLACK * true.scale / max(true.total, 1e-300)
    proof_wrong = not low - share <= true.best <= high + share
    return Outcome(case.words, case.size, said, true, wrong(said, true), proof_wrong)


def check(streams: int, first: int = 0) -> None:
    """Print how often something wrong was said, and how wide the intervals are."""
    began, false, proofs, silent = time.perf_counter(), 0, 0, 0
    widths: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(first, first + streams):
        found = outcome(seed)
        proofs += found.proof_wrong
        if found.said.reason is not None:
            silent += 1
            continue
        if found.wrong:
            false += 1
            print(
                f"seed {seed}: {', '.join(found.wrong)}: {found.words}\n{found.said}\n{found.true}"
            )
        kind = "all rows" if found.said.complete else f"{found.size} rows"
        own, best = (
            found.said.explained_variance_ratio_interval,
            found.said.best_explained_variance_ratio_interval,
        )
        widths.setdefault(kind, []).append(
            (own[1] - own[0], best[1] - best[0], found.said.shortfall_bound)
        )
    took = time.perf_counter() - began
    print(
        f"{streams} streams in {took:.0f} s: something wrong said of {false} "
        f"({false / streams:.2%}), nothing said of {silent}, proofs wrong: {proofs}"
    )
    print("| sample | streams | share of the model, width | of the best, width | vacuous |")
    print("|---|---|---|---|---|")
    for kind in sorted(widths):
        table = np.array(widths[kind])
        median, upper = np.median(table, axis=0), np.quantile(table, 0.9, axis=0)
        empty = int(np.sum(table[:, 1] > 0.9))
        print(
            f"| {kind} | {len(table)} | {median[0]:.3f} (90 %: {upper[0]:.3f}) "
            f"| {median[1]:.3f} ({upper[1]:.3f}) | {empty} |"
        )


# -- twelve data sets


def patches(images: np.ndarray, n: int, size: int = 8) -> np.ndarray:
    """Random square patches, without their mean."""
    rng = np.random.default_rng(0)
    k, i, j = (rng.integers(m, size=n) for m in np.array(images.shape) - [0, size, size])
    found = np.stack(
        [images[a, b : b + size, c : c + size].ravel() for a, b, c in zip(k, i, j, strict=True)]
    )
    found = found / 255.0
    return found - found.mean(axis=1, keepdims=True)


def windows(archive: Any, length: int = 16) -> np.ndarray:
    """Windows of all series, each series in units of its own deviation."""
    found = []
    for name in archive.files:
        if name.endswith("__value"):
            x = archive[name]
            x = (x - x.mean()) / (x.std() or 1.0)
            found.append(np.lib.stride_tricks.sliding_window_view(x, length)[::4])
    return np.concatenate(found)


def standard(X: np.ndarray) -> np.ndarray:
    """Columns in units of their deviation."""
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def twelve(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """The data sets by name, in the order in which their rows come."""

    def stored(name: str) -> Any:
        return np.load(folder / f"{name}.npz")

    def pictures(X: np.ndarray) -> np.ndarray:
        return (X.reshape(len(X), -1) / 255.0).astype(np.float32)

    yield "MNIST", pictures(stored("mnist")["x_train"])
    yield "adult", stored("adult_a9a")["x_train"].astype(np.float32)
    yield "electricity", stored("elec2")["X"]
    process = stored("tennessee_eastman")
    yield "Tennessee Eastman", standard(np.concatenate([process[f"d{i:02}_te"] for i in range(22)]))
    yield "NAB, windows", windows(stored("nab_real"))
    yield "natural images, patches", patches(stored("natural_images")["bsds_train"], 50_000)
    rng = np.random.default_rng(0)
    yield "Yale B", pictures(rng.permutation(stored("yale_b")["images"]))
    yield "Olivetti", pictures(rng.permutation(stored("olivetti")["images"]))
    yield "Frey", pictures(stored("frey")["images"])
    yield "digits", datasets.load_digits().data / 16.0
    yield "wine", standard(datasets.load_wine().data)
    yield "breast cancer", standard(datasets.load_breast_cancer().data)


def table(folder: Path, n_components: int = 10) -> str:
    """The widths on twelve sets, with ``partial_fit`` and all defaults but n_components."""
    lines = [
        "| set | rows × columns | share of this model | width | of the best | width | by proof "
        "| width | useful |",
        "|---|---|---|---|---|---|---|---|---|",
    ]

    def interval(ends: tuple[float, float]) -> str:
        return f"{ends[0]:.3f} – {ends[1]:.3f} | {ends[1] - ends[0]:.3f}"

    for name, X in twelve(folder):
        model = StreamingKernelPCA(n_components, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for start in range(0, len(X), 1000):
                model.partial_fit(X[start : start + 1000])
        proof = model.certificate_
        said = proof.statistical
        lines.append(
            f"| {name} | {len(X):,} × {X.shape[1]} "
            f"| {interval(said.explained_variance_ratio_interval)} "
            f"| {interval(said.best_explained_variance_ratio_interval)} "
            f"| {interval(proof.details.best_explained_variance_ratio_interval)} "
            f"| {'yes' if proof.details.useful else 'no'} |"
        )
        print(lines[-1], flush=True)
    return "\n".join(lines)


def write(page: Path, text: str) -> None:
    """Put a table between its marks on a page."""
    marks = "<!-- widths -->", "<!-- end of widths -->"
    pattern = re.compile(f"{marks[0]}.*?{marks[1]}", re.DOTALL)
    whole = page.read_text(encoding="utf-8")
    if not pattern.search(whole):
        raise SystemExit(f"{page} has no place for the table: {marks[0]} … {marks[1]}")
    page.write_text(
        pattern.sub(lambda _: f"{marks[0]}\n\n{text}\n\n{marks[1]}", whole), encoding="utf-8"
    )


def main() -> None:
    """Check streams, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", nargs="?", type=Path, help="page with a place for the table")
    parser.add_argument("--streams", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="seed of the first stream")
    parser.add_argument("--data", type=Path, help="folder with the data sets")
    given = parser.parse_args()
    if given.streams:
        check(given.streams, given.first)
    if given.data is not None:
        text = table(given.data)
        if given.page is not None:
            write(given.page, text)


if __name__ == "__main__":
    main()
