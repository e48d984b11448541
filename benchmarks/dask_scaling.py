"""``python -m benchmarks.dask_scaling``: a cluster on this machine, a prediction for a large one.

1. *Measured*: ``kernelstream.distributed.dask.fit`` on clusters of 1, 2 and 4 local processes,
   one thread each. Chunks are made on the workers, so every byte that moves between workers is
   a byte of the method.
2. *Measured*: the constants of the cost model, task by task, in this process: seconds a row,
   seconds a join, bytes of each kind of result, and the scheduler's time for a task.
3. *Predicted*: the same runs (to see what the model is worth), and 10¹⁰ rows on 1,000 workers.

The cost model, for n rows in C chunks on P workers, b the bytes of a result, one thread a worker:

- a stage over all rows takes  max(n τ / P, tasks · σ)  and a tail of one tree path,
  levels · (FAN_IN − 1) · (τ_join + b / bandwidth): the scheduler works while the workers do;
- bytes moved: of the C (1 + 1/7) results of a tree, 1 − 1/P are made elsewhere than where they are
  combined; the landmarks go to every worker once; the finished model goes to the client;
- memory of a worker: the process, a chunk with a draw and an index for each row, FAN_IN results.

What it leaves out: reading the rows from storage (add n · d · 8 bytes a pass), stragglers, and
contention of the network beyond the given bandwidth.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np

import kernelstream.distributed.dask as kd
from kernelstream import StreamingKernelPCA
from kernelstream.distributed.dask import worker

NETWORK = 1.25e9  # bytes a second: 10 Gbit/s, an assumption
LOOPBACK = 1.0e9  # bytes a second between processes of one machine, an assumption


@dataclass(frozen=True)
class Problem:
    """Sizes of the data and of the model."""

    chunk_rows: int
    n_chunks: int
    d: int
    m: int

    @property
    def n(self) -> int:
        return self.chunk_rows * self.n_chunks


@dataclass(frozen=True)
class Constants:
    """What the machine and the method cost: seconds and bytes."""

    sample_row: float
    sums_row: float
    make_row: float
    join: float
    add: float
    task: float
    sample_bytes: int
    landmark_bytes: int
    sums_bytes: int
    process_bytes: int


@dataclass(frozen=True)
class Cost:
    """Of one fit."""

    seconds: float
    moved_bytes: float
    worker_bytes: float
    scheduler_seconds: float = 0.0


def chunk(number: int, n: int, d: int) -> np.ndarray:
    """Rows around a few hundred centres, the same for all chunks."""
    centres = np.random.default_rng(0).normal(size=(300, d))
    rng = np.random.default_rng([1, number])
    return centres[rng.integers(300, size=n)] + 0.3 * rng.normal(size=(n, d))


def data(problem: Problem) -> da.Array:
    return da.arange(problem.n_chunks, chunks=1)[:, None].map_blocks(
        lambda block: chunk(int(block[0, 0]), problem.chunk_rows, problem.d),
        chunks=((problem.chunk_rows,) * problem.n_chunks, (problem.d,)),
        meta=np.empty((0, 0)),
    )


def estimator(problem: Problem) -> StreamingKernelPCA:
    return StreamingKernelPCA(10, basis=problem.m, random_state=0)  # width: the median


def peak_memory() -> int:
    import resource  # which Windows has not

    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def cluster_of(workers: int) -> Any:
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0"
    )


def measured(problem: Problem, workers: int, repeats: int) -> tuple[Cost, StreamingKernelPCA]:
    """Wall time, bytes that workers sent (to each other and to the client), largest process."""

    def sent(dask_worker: Any) -> int:
        return dask_worker.transfer_outgoing_bytes_total

    small = Problem(2 * 10 * problem.m, workers, problem.d, problem.m)
    with cluster_of(workers) as cluster, distributed.Client(cluster) as client:
        kd.fit(estimator(small), data(small))  # imports, first calls
        best = math.inf
        for _ in range(repeats):
            before = sum(client.run(sent).values())
            start = perf_counter()
            model = kd.fit(estimator(problem), data(problem))
            best = min(best, perf_counter() - start)
            moved = sum(client.run(sent).values()) - before
        return Cost(best, moved, max(client.run(peak_memory).values())), model


def constants(problem: Problem, repeats: int) -> Constants:
    """Every kind of task by itself, here."""
    n, d = problem.chunk_rows, problem.d
    begun = estimator(problem).new_stream(np.empty((0, d)))
    X, Y = chunk(0, n, d), chunk(1, n, d)

    def timed(function: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
        best = math.inf
        for _ in range(repeats):
            start = perf_counter()
            result = function(*arguments)
            best = min(best, perf_counter() - start)
        return best, result

    make, _ = timed(chunk, 0, n, d)
    draw, sample = timed(worker.sample, begun, 0, X, None, None, 0)
    other = worker.sample(begun, 1, Y, None, None, 0)
    join, both = timed(worker.join_samples, [sample, other])
    reader = worker.without_sums(worker.choose_landmarks(begun, both))
    sums, state = timed(worker.sum_chunk, reader, 0, X, None)
    add, _ = timed(worker.add_sums, reader, [state, state])
    task, process = scheduler()
    return Constants(
        sample_row=draw / n,
        sums_row=sums / n,
        make_row=make / n,
        join=join,
        add=add,
        task=task,
        sample_bytes=len(pickle.dumps(sample)),
        landmark_bytes=len(pickle.dumps(reader)),
        sums_bytes=len(pickle.dumps(state)),
        process_bytes=process,
    )


def scheduler(n_tasks: int = 2000) -> tuple[float, int]:
    """Seconds of the scheduler for a task that does nothing, and the memory of an idle worker."""

    def imported() -> int:
        import kernelstream.distributed.dask  # noqa: F401

        return peak_memory()

    with cluster_of(2) as cluster, distributed.Client(cluster) as client:
        process = max(client.run(imported).values())
        nothing = dask.delayed(lambda i: i)
        best = math.inf
        for _ in range(3):
            total = dask.delayed(len)([nothing(i) for i in range(n_tasks)])
            start = perf_counter()
            total.compute()
            best = min(best, perf_counter() - start)
        return best / n_tasks, process


def predicted(problem: Problem, c: Constants, workers: int, cores: int, bandwidth: float) -> Cost:
    """The cost model of the module's docstring, for a fit with a median width."""
    levels = max(1, math.ceil(math.log(problem.n_chunks, kd.FAN_IN)))
    inner = sum(math.ceil(problem.n_chunks / kd.FAN_IN**k) for k in range(1, levels + 1))
    seconds = moved = scheduling = 0.0
    for row, combine, weight, sent in (
        (c.sample_row, c.join, c.sample_bytes, 0),
        (c.sums_row, c.add, c.sums_bytes, c.landmark_bytes),
    ):
        work = problem.n * (row + c.make_row) + combine * problem.n_chunks
        tasks = problem.n_chunks + inner
        path = levels * (kd.FAN_IN - 1) * (combine + weight / bandwidth)
        seconds += max(work / min(workers, cores), tasks * c.task) + path
        scheduling += tasks * c.task
        moved += (problem.n_chunks + inner - 1) * weight * (1 - 1 / workers) + sent * (workers - 1)
    held = problem.chunk_rows * (problem.d * 8 + 16) + kd.FAN_IN * c.sample_bytes
    return Cost(seconds, moved + c.sample_bytes, c.process_bytes + held, scheduling)


def table(rows: list[dict[str, str]]) -> str:
    names = list(rows[0])
    width = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    lines = ["  ".join(name.rjust(width[name]) for name in names)]
    lines += ["  ".join(row[name].rjust(width[name]) for name in names) for row in rows]
    return "\n".join(lines)


def amount(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 1000 or unit == "TB":
            return f"{number:.3g} {unit}"
        number /= 1000
    raise AssertionError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunk-rows", type=int, default=10_000)
    parser.add_argument("--chunks", type=int, default=16)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    problem = Problem(options.chunk_rows, options.chunks, options.features, options.points)
    cores = len(os.sched_getaffinity(0))

    c = constants(problem, max(options.repeats, 2))
    runs, rows, models = [], [], []
    for workers in options.workers:
        cost, model = measured(problem, workers, options.repeats)
        expected = predicted(problem, c, workers, cores, LOOPBACK)
        runs.append(dict(workers=workers, measured=asdict(cost), predicted=asdict(expected)))
        models.append(model.explained_variance_)
        rows.append(
            {
                "workers": str(workers),
                "seconds": f"{cost.seconds:.2f}",
                "predicted": f"{expected.seconds:.2f}",
                "rows/s": f"{problem.n / cost.seconds:,.0f}",
                "moved": amount(cost.moved_bytes),
                "predicted moved": amount(expected.moved_bytes),
                "share of the data": f"{cost.moved_bytes / (8 * problem.n * problem.d):.1%}",
                "largest process": amount(cost.worker_bytes),
            }
        )
    same = all(np.array_equal(model, models[0]) for model in models)

    print(
        f"Measured: {problem.n:,} rows × {problem.d} in {problem.n_chunks} chunks, "
        f"{problem.m} points, {cores} cores, load {os.getloadavg()[0]:.1f}"
    )
    print(table(rows))
    print(f"The models are {'identical, bit for bit' if same else 'NOT identical'}.\n")

    print("Constants of the cost model (this machine)")
    print(
        f"  per row: sample {1e6 * c.sample_row:.2f} µs, sums {1e6 * c.sums_row:.2f} µs; join "
        f"{1e3 * c.join:.1f} ms, add {1e3 * c.add:.2f} ms; scheduler {1e6 * c.task:.0f} µs a task"
    )
    print(
        f"  bytes: sample {amount(c.sample_bytes)}, landmarks {amount(c.landmark_bytes)}, sums "
        f"{amount(c.sums_bytes)}\n"
    )

    print("PREDICTED, not measured: 10¹⁰ rows on 1,000 workers, 10 Gbit/s, rows already in reach")
    predictions, rows = [], []
    for chunk_rows in (100_000, 1_000_000):
        large = Problem(chunk_rows, 10**10 // chunk_rows, problem.d, problem.m)
        ready = Constants(**{**asdict(c), "make_row": 0.0})
        cost = predicted(large, ready, 1000, 1000, NETWORK)
        predictions.append(dict(chunk_rows=chunk_rows, **asdict(cost)))
        rows.append(
            {
                "rows a chunk": f"{chunk_rows:,}",
                "chunks": f"{large.n_chunks:,}",
                "seconds": f"{cost.seconds:.0f}",
                "scheduler alone": f"{cost.scheduler_seconds:.0f}",
                "over the wire": amount(cost.moved_bytes),
                "share of the data": f"{cost.moved_bytes / (8 * large.n * large.d):.2%}",
                "memory a worker": amount(cost.worker_bytes),
                "data": amount(8 * large.n * large.d),
            }
        )
    print(table(rows))

    figures = dict(
        problem=asdict(problem),
        machine=dict(cores=cores, processor=platform.processor(), load=os.getloadavg()),
        constants=asdict(c),
        runs=runs,
        identical=same,
        prediction=predictions,
    )
    text = json.dumps(figures, indent=1)
    print("\n" + text)
    if options.json:
        with open(options.json, "w") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
