"""``python -m benchmarks.cores [--data FOLDER]``: the same work on 1, 2, 4 … cores, seconds.

    python -m benchmarks.cores --data FOLDER --long 2000000     # also a stream that is long
    python -m benchmarks.cores --data FOLDER --file 2000000     # also a file, beside its rows

A table with a line for each number of cores: ours beside the bare products that it cannot avoid,
with as many threads of BLAS, and beside Nystroem + PCA; the model of every line is the same, which
is looked at. The works take turns, and the shortest of the repeats counts. Without ``--data`` rows
of the same shape are made up.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import images
from benchmarks.measuring import interleaved
from benchmarks.parts import Row, markdown
from benchmarks.rows.products import bare_products, learned
from benchmarks.run import Run
from benchmarks.sizes import FULL
from benchmarks.systems import NYSTROEM_IN_MEMORY, OURS, OURS_FITTED, Problem
from kernelstream import StreamingKernelPCA, landmarks

TABLE = "cores"
FEW, MANY = 240, 1024  # points
ENOUGH, PEER = 170, 1000  # points, and landmarks of Nystroem, that capture .975 of MNIST
QUERIES = 100_000  # rows of a query
LONG_COLUMNS, LONG_POINTS = 100, 256
FILE_POINTS = 256


def available() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def numbers(most: int) -> list[int]:
    """1, 2, 4 … and all."""
    powers = [2**k for k in range(most.bit_length()) if 2**k < most]
    return [*powers, most]


def works(
    X: np.ndarray, problem: Problem, few: int, many: int, enough: int, peer: int, queries: int
) -> dict[str, Callable[[], Any]]:
    """What is done on each number of cores, by the heading of its column."""
    points = X[np.random.default_rng(2).choice(len(X), many, replace=False)]
    asked = np.resize(X, (queries, X.shape[1]))
    model = OURS_FITTED.learn(X, few, problem)
    found: dict[str, Callable[[], Any]] = {
        f"stream, {few:,} centroids": partial(OURS.learn, X, few, problem),
        f"fit, {few:,} centroids": partial(OURS_FITTED.learn, X, few, problem),
        f"fit, {many:,} centroids": partial(OURS_FITTED.learn, X, many, problem),
        f"fit, {enough:,} centroids": partial(OURS_FITTED.learn, X, enough, problem),
    }
    for m in (few, many):
        given = partial(landmarks.Landmarks, points[:m])
        found[f"{m:,} given points"] = partial(learned, X, problem, given)
        found[f"bare products, {m:,}"] = partial(bare_products, X, points[:m], 2048, m)
    found[f"Nystroem({peer:,}) + PCA"] = partial(NYSTROEM_IN_MEMORY.learn, X, peer, problem)
    found[f"transform, {queries:,} rows"] = partial(model, asked)
    return found


def compared(
    X: np.ndarray,
    problem: Problem,
    cores: Sequence[int],
    repeats: int,
    say: Callable[[str], None],
    sizes: tuple[int, int, int, int, int] = (FEW, MANY, ENOUGH, PEER, QUERIES),
) -> list[Row]:
    """A line for each number of cores."""
    rows: list[Row] = []
    same: bytes | None = None
    for n in cores:
        say(f"{n} cores")
        with threadpool_limits(n):
            seconds, results = interleaved(works(X, problem, *sizes), repeats)
        scores = results[f"fit, {sizes[0]:,} centroids"](X[:100]).tobytes()
        if same not in (None, scores):
            raise SystemExit(f"With {n} cores another model was learned than with {cores[0]}.")
        same = scores
        rows.append({"cores": n, **{name: f"{min(s):.3g}" for name, s in seconds.items()}})
    return rows


def long_stream(n: int, cores: Sequence[int], repeats: int) -> list[Row]:
    """Rows a second of a long stream, over those of its bare products."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(50, LONG_COLUMNS)).astype(np.float32)
    X = centres[rng.integers(50, size=n)]
    for start in range(0, n, 2**16):
        X[start : start + 2**16] += 0.5 * rng.standard_normal(
            (len(X[start : start + 2**16]), LONG_COLUMNS), np.float32
        )
    problem = Problem(1 / (2 * LONG_COLUMNS), 20)
    points, rows = X[:LONG_POINTS].copy(), []
    for k in cores:
        work: dict[str, Callable[[], Any]] = {
            "ours": partial(OURS.learn, X, LONG_POINTS, problem),
            "products": partial(bare_products, X, points, 2048, LONG_POINTS),
        }
        with threadpool_limits(k):
            seconds, _ = interleaved(work, repeats)
        ours, bare = min(seconds["ours"]), min(seconds["products"])
        rows.append(
            {
                "cores": k,
                f"{n:,} × {LONG_COLUMNS}, {LONG_POINTS} centroids": f"{ours:.3g}",
                "bare products": f"{bare:.3g}",
                "rows a second": f"{n / ours:,.0f}",
                "share of the products": f"{bare / ours:.2f}",
            }
        )
    return rows


def from_file(n: int, repeats: int) -> list[Row]:
    """``kernelstream fit`` on files of n rows, beside the same rows in memory and the reader."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    from kernelstream.tables import Source

    d, rng, rows = 20, np.random.default_rng(0), []
    X = rng.standard_normal((n, d), np.float32)
    table = pa.table({f"x{j}": X[:, j] for j in range(d)})

    def in_memory() -> None:
        model = StreamingKernelPCA(10, gamma=0.02, basis=FILE_POINTS, random_state=0)
        for start in range(0, n, 65536):
            model.partial_fit(X[start : start + 65536])
        model.explained_variance_  # noqa: B018 the components are part of the job

    with tempfile.TemporaryDirectory() as folder:
        for ending, write in {
            "parquet": lambda path: pa.parquet.write_table(table, path, row_group_size=65536),
            "csv": lambda path: pa.csv.write_csv(table, path),
        }.items():
            path = Path(folder) / f"rows.{ending}"
            write(path)
            command = [sys.executable, "-m", "kernelstream", "fit", str(path), "--passes", "1"]
            command += ["--components", "10", "--gamma", "0.02", "--basis", str(FILE_POINTS)]
            command += ["--read", "dtype=float32", "--seed", "0", "--json", "--force"]
            command += ["-o", str(Path(folder) / "model.safetensors")]

            def by_command(command: list[str] = command) -> float:
                done = subprocess.run(command, capture_output=True, check=True, text=True)
                return float(json.loads(done.stdout)["seconds"])

            def by_reader(path: Path = path) -> float:
                start = time.perf_counter()
                for _ in Source(path, dtype="float32"):
                    pass
                return time.perf_counter() - start

            best = [np.inf] * 3
            for _ in range(repeats):
                start = time.perf_counter()
                in_memory()
                memory = time.perf_counter() - start
                now = (by_command(), memory, by_reader())
                best = [min(pair) for pair in zip(best, now, strict=True)]
            slower = max(best[1:])
            rows.append(
                {
                    "file": f"{ending}, {n:,} × {d}",
                    "kernelstream fit": f"{best[0]:.3g}",
                    "in memory": f"{best[1]:.3g}",
                    "the reader alone": f"{best[2]:.3g}",
                    "share of the slower": f"{slower / best[0]:.2f}",
                }
            )
    return rows


def of_run(run: Run, few: bool) -> list[Row]:
    """The table as a row of ``make bench``."""
    sizes = (16, 32, 8, 32, 3000) if few else (FEW, MANY, ENOUGH, PEER, QUERIES)
    cores = numbers(2 if few else available())
    return compared(run.images.stream, run.problem, cores, run.repeats, run.say, sizes)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cores", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--data", type=Path, help="folder with mnist.npz")
    parser.add_argument("--repeats", type=int, default=3, help="turns of every work")
    parser.add_argument("--cores", type=int, nargs="+", help="numbers of cores to try")
    parser.add_argument("--long", type=int, default=0, help="rows of a long stream, 100 columns")
    parser.add_argument("--file", type=int, default=0, help="rows of files that are read")
    parser.add_argument("--skip-table", action="store_true", help="only what --long, --file ask")
    options = parser.parse_args(arguments)
    cores = options.cores or numbers(available())

    def say(words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    if not options.skip_table:
        given = images(options.data, FULL)
        problem = Problem(given.gamma, FULL.components)
        rows = compared(given.stream, problem, cores, options.repeats, say)
        print(f"{given.source} {given.stream.shape}, r = {problem.components}, seconds\n")
        print(markdown(rows), flush=True)
    if options.long:
        print("\n" + markdown(long_stream(options.long, cores, options.repeats)), flush=True)
    if options.file:
        print("\n" + markdown(from_file(options.file, options.repeats)), flush=True)


if __name__ == "__main__":
    main()
