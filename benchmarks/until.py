"""``fit(until=…)``: rows that are read, time, and whether what is said is true.

    python -m benchmarks.until --populations 1000

draws small populations of rows (kernels, weights, shapes, bases), lets a model read some of each,
and compares what is said with what is true of all rows, computed in float64.

    python -m benchmarks.until --rows 1000000 10000000 100000000 --data FOLDER

times it on generated rows, which lie on the disk, and on data sets.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.statement import rows as rows_of_some_kind
from benchmarks.statement import truth, twelve, wrong
from kernelstream import StreamingKernelPCA, kernels, landmarks
from kernelstream.certificates import ConfidenceBounds, confidence, evaluation
from kernelstream.estimators import until as drawing

COLUMNS = 10


@contextmanager
def small() -> Iterator[None]:
    """Looks that are short enough for populations of which everything can be computed."""
    with (
        mock.patch.object(drawing, "FIRST", 256),
        mock.patch.object(evaluation, "STRIP", 16),
        mock.patch.object(confidence, "ROWS", 128),
    ):
        yield


def outcome(seed: int) -> tuple[ConfidenceBounds, list[str]] | None:
    """What is said of the population of a number, and what of it is wrong; None: all was read."""
    rng = np.random.default_rng([22, seed])
    n, d = int(rng.integers(1500, 2500)), int(rng.choice([1, 2, 3, 5]))
    _, X = rows_of_some_kind(rng, n, d)
    weights = rng.pareto(2.0, n) + 0.05 if rng.random() < 0.3 else None
    width = float(np.median(np.std(X, axis=0))) or 1.0
    gamma = float(rng.choice([0.1, 1.0])) / (d * width**2)
    chosen = int(rng.integers(4))
    kernel = [
        kernels.RBF(gamma=gamma),
        kernels.RBF(gamma=gamma),
        kernels.Laplacian(gamma=0.5 / (d * width)),
        0.5 * kernels.RBF(gamma=gamma) + 0.2,
    ][chosen]
    basis = landmarks.Centroids(10) if rng.random() < 0.5 else landmarks.Landmarks(X[:8])
    r = int(rng.choice([1, 2, 5]))
    model = StreamingKernelPCA(
        r, kernel=kernel, basis=basis, center=bool(rng.random() < 0.7), random_state=seed
    )
    with small(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, sample_weight=weights, until=float(rng.choice([0.3, 0.6, 0.9])))
    said = model.certificate_.statistical
    if not said.n_rows:
        return None
    return said, wrong(said, truth(model, X, np.ones(n) if weights is None else weights))


def check(populations: int, first: int) -> None:
    """Print how often something wrong was said."""
    false, widths = 0, []
    for seed in range(first, first + populations):
        found = outcome(seed)
        if found is not None:
            said, problems = found
            widths.append(said.shortfall_bound)
            if problems:
                false += 1
                print(f"population {seed}: {', '.join(problems)}\n{said}")
    print(
        f"{populations} populations, a statement about {len(widths)}: something wrong said of "
        f"{false}; below the best by at most {np.median(widths):.3f} (median of the bounds)"
    )


def generated(path: Path, n: int) -> np.ndarray:
    """Rows on the disk: a curved sheet with some noise in ten columns."""
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, COLUMNS))
    mixing = np.random.default_rng(0).normal(size=(3, COLUMNS))
    for start in range(0, n, 10**6):
        rng = np.random.default_rng([1, start])
        stop = min(n, start + 10**6)
        t = rng.uniform(-2, 2, size=(stop - start, 3)).astype(np.float32)
        noise = rng.normal(size=(stop - start, COLUMNS)).astype(np.float32)
        X[start:stop] = np.sin(t @ mixing.astype(np.float32)) + 0.2 * noise
    X.flush()
    return np.load(path, mmap_mode="r")


def line(name: str, X: np.ndarray, until: float) -> str:
    """A row of the table."""
    model = StreamingKernelPCA(10, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began, cpu = time.perf_counter(), time.process_time()
        model.fit(X, until=until)
        took, used = time.perf_counter() - began, time.process_time() - cpu
    said = model.certificate_.statistical
    read = model.n_samples_seen_ + said.n_sampled if said.n_rows else len(X)
    low, high = said.best_explained_variance_ratio_interval
    return (
        f"| {name} | {len(X):,} × {X.shape[1]} | {until} | {read:,} | {took:.1f} | {used:.1f} "
        f"| {low:.3f} – {high:.3f} | {said.shortfall_bound:.4f} | {held_back(model, X):.4f} |"
    )


def held_back(model: StreamingKernelPCA, X: np.ndarray) -> float:
    """The share that the model explains of other rows: it belongs into the interval."""
    rng = np.random.default_rng(99)
    rows = np.asarray(X[np.sort(rng.integers(len(X), size=min(len(X), 100_000)))])
    shown = model.stream_.components
    error = np.asarray(model.reconstruction_error(rows), dtype=float).mean()
    Z = np.concatenate(
        [
            np.asarray(shown.coordinates(model.stream_.prepared(rows[i : i + 4096])), dtype=float)
            for i in range(0, len(rows), 4096)
        ]
    )
    mean = np.asarray(shown.mean)
    around = 1.0 - float((((Z + mean) ** 2).sum(axis=1)).mean()) + float((Z**2).sum(axis=1).mean())
    return 1.0 - error / around


def main() -> None:
    """Check populations, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--populations", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first population")
    parser.add_argument("--rows", type=int, nargs="*", default=[])
    parser.add_argument("--data", type=Path, help="folder with the data sets")
    parser.add_argument("--until", type=float, nargs="*", default=[0.05, 0.02, 0.01])
    given = parser.parse_args()
    if given.populations:
        check(given.populations, given.first)
    print("| rows | size | until | read | seconds | CPU | best share | below it | own share |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for n in given.rows:
            X = generated(Path(folder) / f"{n}.npy", n)
            for until in given.until:
                print(line("generated", X, until), flush=True)
            Path(folder, f"{n}.npy").unlink()
    if given.data is not None:
        for name, X in twelve(given.data):
            if len(X) > 9000:
                for until in given.until:
                    print(line(name, X, until), flush=True)


if __name__ == "__main__":
    main()
