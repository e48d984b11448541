"""``python examples/cluster.py``: kernel PCA on a cluster, told as it happens.

Three processes on this machine play the cluster. Each chunk of rows is made where it is needed and
never moves; one worker is killed half-way; and the result is the model that one machine would have
found, with a certificate of its distance to the exact one.
"""

from __future__ import annotations

import logging
import os
import signal
import tempfile
from pathlib import Path
from time import perf_counter

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import kernelstream.distributed.dask
from kernelstream import StreamingKernelPCA, metrics

N_CHUNKS, ROWS, D = 12, 20_000, 20
MODEL = dict(n_components=5, basis=100, random_state=0)
FATAL = 7  # the chunk whose worker dies, once


def chunk(number: int) -> np.ndarray:
    """Rows near a ring in twenty dimensions, a different part of it in every chunk."""
    rng = np.random.default_rng(number)
    angle = 2 * np.pi * (number + rng.random(ROWS)) / N_CHUNKS
    ring = np.stack([np.cos(angle), np.sin(angle), np.cos(3 * angle), np.sin(3 * angle)], axis=1)
    return 3 * ring @ np.eye(4, D) + 0.3 * rng.normal(size=(ROWS, D))


def data(grave: Path | None = None) -> da.Array:
    """All chunks, lazily; with a ``grave`` the first reader of the fatal chunk dies."""

    def load(block: np.ndarray) -> np.ndarray:
        number = int(block[0, 0])
        if number == FATAL and grave is not None and not grave.exists():
            grave.write_text(f"{os.getpid()}")
            os.kill(os.getpid(), signal.SIGKILL)
        return chunk(number)

    numbers = da.arange(N_CHUNKS, chunks=1)[:, None]
    sizes = ((ROWS,) * N_CHUNKS, (D,))
    return numbers.map_blocks(load, chunks=sizes, meta=np.empty((0, 0)))


def sent(dask_worker) -> int:
    return dask_worker.transfer_outgoing_bytes_total


def main() -> None:
    # The death of a worker makes Dask talk; here it is part of the plan.
    for part in ("nanny", "scheduler"):
        logging.getLogger(f"distributed.{part}").setLevel(logging.CRITICAL)

    size = N_CHUNKS * ROWS * D * 8 / 1e6
    print(f"{N_CHUNKS * ROWS:,} rows × {D} in {N_CHUNKS} chunks, {size:.0f} MB.")
    print("Each chunk holds another part of a ring: no worker sees what the whole looks like.\n")

    with (
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        tempfile.TemporaryDirectory() as folder,
    ):
        print("A cluster of three processes. Fitting: width, basis, statistics …")
        start = perf_counter()
        model = kernelstream.distributed.dask.fit(StreamingKernelPCA(**MODEL), data())
        moved = sum(client.run(sent).values()) / 1e6
        print(
            f"  done in {perf_counter() - start:.1f} s; {moved:.0f} MB moved: models, never chunks."
        )
        print("  Chunks of a hundred times the rows would move the same.\n")

        grave = Path(folder) / "grave"
        print(f"Again, and this time whoever reads chunk {FATAL} first is killed …")
        start = perf_counter()
        again = kernelstream.distributed.dask.fit(StreamingKernelPCA(**MODEL), data(grave))
        print(f"  process {grave.read_text()} died, its work was done again by the others:")
        same = np.array_equal(model.dual_coef_, again.dual_coef_)
        print(f"  {perf_counter() - start:.1f} s, and the model is ", end="")
        print("the same, bit for bit.\n" if same else "ANOTHER ONE.\n")

        scores = kernelstream.distributed.dask.transform(model, data())
        print(f"transform is lazy: {scores.shape[0]:,} × {scores.shape[1]} scores in")
        print(f"{scores.numblocks[0]} chunks, nothing computed yet.")
        spread = scores.var(axis=0).compute()
        print("  variance of the scores, computed on the cluster:", np.round(spread, 4))
        print("  explained variance that the model claims:       ", end=" ")
        print(np.round(model.explained_variance_, 4), "\n")

    X = np.concatenate([chunk(number) for number in range(N_CHUNKS)])
    single = StreamingKernelPCA(**MODEL, gamma=model.kernel_.gamma).fit(X)
    some = X[:: len(X) // 2000]
    print("Share of the variance that exact kernel PCA captures on 2,000 rows:")
    print(f"  three machines {metrics.captured_variance(model, some):.4f}")
    print(f"  one machine    {metrics.captured_variance(single, some):.4f}\n")
    print("And what is certain, without ever computing the exact solution:")
    print(model.certificate_)


if __name__ == "__main__":
    main()
