"""What each part is good for, measured on scikit-learn's digits: the tables of docs/choosing.md.

    python -m benchmarks.parts                    # print them
    python -m benchmarks.parts docs/choosing.md   # put them in the place of those that are there

One pass over 1,797 rows of 64 pixels, ten components, one thread. Times are the best of five,
interleaved, and given as ratios to the default part, so that the load of the machine matters less.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from kernelstream import (
    StreamingKernelClassifier,
    StreamingKernelPCA,
    kernels,
    landmarks,
    metrics,
    papers,
    preimages,
    trackers,
)

COMPONENTS, GAMMA, NOISE = 10, 0.053, 0.2  # gamma: about the median width
HELD_OUT = 300
Row = dict[str, Any]


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Rows in [0, 1] and their digits, shuffled."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.data))
    return data.data[order] / 16.0, data.target[order]


def ratios(work: Callable[[Any], Any], given: dict[str, Any], repeats: int) -> dict[str, float]:
    """Times of the same work with each part, over that with the first: best of several."""
    best = dict.fromkeys(given, np.inf)
    for _ in range(repeats):
        for name, part in given.items():
            begin = time.perf_counter()
            work(part)
            best[name] = min(best[name], time.perf_counter() - begin)
    first = next(iter(best.values()))
    return {name: seconds / first for name, seconds in best.items()}


def model(**parts: Any) -> StreamingKernelPCA:
    same = {"n_components": COMPONENTS, "gamma": GAMMA, "random_state": 0}
    return StreamingKernelPCA(**(same | parts))


def of_bases(X: np.ndarray, y: np.ndarray, repeats: int) -> list[Row]:
    """Captured variance of rows in random order and sorted by digit, certainty, size and time."""
    ordered = X[np.argsort(y, kind="stable")]
    given: dict[str, Any] = {
        "Centroids(100)": landmarks.Centroids(100),
        "Landmarks(100)": landmarks.Landmarks(100),
        "PivotedCholesky(100)": landmarks.PivotedCholesky(100),
        "Distance(nu=0.12)": landmarks.Distance(nu=0.12),
        "Coherence(delta=0.8)": landmarks.Coherence(delta=0.8),
        "ReducedSet(100)": landmarks.ReducedSet(100),
        "Everything()": landmarks.Everything(),
    }
    found = []
    for name, basis in given.items():
        learned = model(basis=basis).partial_fit(X)
        in_order = model(basis=basis).partial_fit(ordered)
        certificate = model(basis=basis, certify="tight").fit(X).certificate_.details
        found.append(
            {
                "basis": f"`bases.{name}`",
                "points": len(learned.basis_points_),
                "captured": captured(learned, X),
                "sorted rows": captured(in_order, X),
                "λ₁ certain to": worded(certificate),
            }
        )
    times = ratios(lambda basis: model(basis=basis).partial_fit(X), given, repeats)
    return [row | {"time": f"{t:.1f}"} for row, t in zip(found, times.values(), strict=True)]


def of_trackers(X: np.ndarray, y: np.ndarray, repeats: int) -> list[Row]:
    """The same over 100 centroids, and what follows a change of the stream."""
    early, late = X[y < 5], X[y >= 5]
    change = np.vstack([early, early, early, late])
    given = {
        "Covariance()": trackers.Covariance(),
        "Covariance(forgetting=0.998)": trackers.Covariance(forgetting=0.998),
        "IncrementalSVD()": trackers.IncrementalSVD(),
        "Hebbian()": papers.Hebbian(),
        "RLS(forgetting=0.998)": papers.RLS(forgetting=0.998),
        "SubsetHebbian()": papers.SubsetHebbian(),
        "LMS()": papers.LMS(),
    }
    found = []
    for name, tracker in given.items():
        learned = model(basis=100, tracker=tracker).partial_fit(X)
        found.append(
            {
                "tracker": f"`trackers.{name}`",
                "captured": captured(learned, X),
                "after a change": captured(
                    model(basis=100, tracker=tracker).partial_fit(change), late
                ),
            }
        )
    times = ratios(lambda part: model(basis=100, tracker=part).partial_fit(X), given, repeats)
    return [row | {"time": f"{t:.1f}"} for row, t in zip(found, times.values(), strict=True)]


def of_preimages(X: np.ndarray, y: np.ndarray, repeats: int) -> list[Row]:
    """Squared error of 300 digits that were not learned, as a share of their variance."""
    learned_from, unseen = X[:-HELD_OUT], X[-HELD_OUT:]
    noisy = unseen + NOISE * np.random.default_rng(1).normal(size=unseen.shape)
    given = {
        "FixedPoint()": preimages.FixedPoint(),
        "Gradient()": preimages.Gradient(),
        "Neighbours()": preimages.Neighbours(),
        'Ridge(source="points")': preimages.Ridge(source="points"),
        "Ridge()": preimages.Ridge(),
    }
    fitted = {
        name: model(n_components=30, basis=100, preimage=method).fit(learned_from)
        for name, method in given.items()
    }
    variance = np.mean((unseen - learned_from.mean(axis=0)) ** 2)

    def error(found: StreamingKernelPCA, rows: np.ndarray) -> str:
        back = found.inverse_transform(found.transform(rows))
        return f"{np.mean((back - unseen) ** 2) / variance:.3f}"

    times = ratios(lambda it: it.inverse_transform(it.transform(unseen)), fitted, repeats)
    return [
        {
            "pre-image": f"`preimages.{name}`",
            "clean rows": error(found, unseen),
            "noisy rows": error(found, noisy),
            "time": f"{times[name]:.1f}",
        }
        for name, found in fitted.items()
    ]


def of_kernels(X: np.ndarray, y: np.ndarray, repeats: int) -> list[Row]:
    """Errors of a classifier over 200 centroids, and the time of a kernel block."""
    learned_from, unseen = slice(0, -HELD_OUT), slice(-HELD_OUT, None)
    given = {
        "RBF()": kernels.RBF(),
        "Matern(nu=2.5)": kernels.Matern(nu=2.5),
        "Exponential()": kernels.Exponential(),
        "Laplacian()": kernels.Laplacian(),
        "Polynomial(degree=3)": kernels.Polynomial(degree=3),
        "Cosine()": kernels.Cosine(),
        "Linear()": kernels.Linear(),
    }
    fixed = {name: kernel.fix(X) for name, kernel in given.items()}
    rows = np.random.default_rng(0).normal(size=(1024, 64))
    times = ratios(lambda kernel: kernel.block(rows, X[:256]), fixed, repeats)
    found = []
    for name, kernel in given.items():
        classifier = StreamingKernelClassifier(kernel=kernel, basis=200, random_state=0)
        classifier.partial_fit(X[learned_from], y[learned_from], classes=np.arange(10))
        wrong = 1 - classifier.score(X[unseen], y[unseen])
        found.append(
            {
                "kernel": f"`kernels.{name}`",
                "wrong": f"{wrong:.1%}",
                "time of a block": f"{times[name]:.1f}",
            }
        )
    return found


def captured(learned: StreamingKernelPCA, X: np.ndarray) -> str:
    return f"{metrics.captured_variance(learned, X):.3f}"


def worded(certificate: Any) -> str:
    low, high = certificate.eigenvalue_intervals[0]
    return f"{(high - low) / high:.1%}" if certificate.useful else "not useful"


def markdown(rows: list[Row]) -> str:
    """A table; numbers to the right."""
    names = list(rows[0])
    marks = ["---"] + ["--:"] * (len(names) - 1)
    lines = [names, marks, *([str(row[name]) for name in names] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


TABLES = {
    "Kernels": of_kernels,
    "Bases": of_bases,
    "Trackers": of_trackers,
    "Pre-images": of_preimages,
}


def tables(few: bool = False) -> dict[str, list[Row]]:
    """All tables; with ``few``, of 450 rows and timed once."""
    X, y = digits()
    X, y = (X[:450], y[:450]) if few else (X, y)
    with threadpool_limits(1):
        return {name: table(X, y, 1 if few else 5) for name, table in TABLES.items()}


def put(page: str, name: str, table: str, script: str = "benchmarks.parts") -> str:
    """The page with another table between its marks."""
    begin, end = f"<!-- {name}: python -m {script} -->", "<!-- end -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    new, n = pattern.subn(lambda _: f"{begin}\n\n{table}\n\n{end}", page)
    if n != 1:
        raise ValueError(f"The page has {n} places for the table {name!r}; expected one: {begin}")
    return new


def main(path: Path | None) -> None:
    page = None if path is None else path.read_text()
    for name, rows in tables().items():
        table = markdown(rows)
        print(f"{name}\n\n{table}\n")
        page = None if page is None else put(page, name, table)
    if path is not None and page is not None:
        path.write_text(page)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
