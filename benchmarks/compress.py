"""What half of the points cost: the table of docs/compress.md.

    python -m benchmarks.compress --data FOLDER [docs/compress.md]

``fit`` on shuffled rows, then ``compress`` to half and to a quarter of the points. Each model is
judged on rows that it did not see, by the variance that its components capture of them as a share
of what exact kernel PCA of those rows would. Times are those of ``transform``, one thread, as a
ratio: the best of several, taken in turns. Given a page, the table is put between its marks, else
it is printed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.parts import Row, markdown, put
from kernelstream import StreamingKernelPCA, metrics

COMPONENTS = (10, 20)
HELD_OUT, ROUNDS = 2_000, 7


def sets(folder: Path) -> dict[str, tuple[np.ndarray, int]]:
    """Rows by name, with a number of points; the folder's README says what they are."""

    def images(file: str, name: str) -> np.ndarray:
        found = np.load(folder / file)[name]
        return (found.reshape(len(found), -1) / np.float32(255)).astype(np.float32)

    return {
        "MNIST": (images("mnist.npz", "x_train")[:20_000], 256),
        "adult (a9a)": (np.load(folder / "adult_a9a.npz")["x_train"].astype(np.float32), 256),
        "Elec2": (np.load(folder / "elec2.npz")["X"], 128),
        "Frey faces": (images("frey.npz", "images"), 256),
    }


def quickest(models: list[StreamingKernelPCA], X: np.ndarray) -> list[float]:
    """Seconds that ``transform`` takes, the best of several rounds in which all take turns."""
    taken = np.full((ROUNDS, len(models)), np.inf)
    for i in range(ROUNDS):
        for j, model in enumerate(models):
            began = time.process_time()
            model.transform(X)
            taken[i, j] = time.process_time() - began
    return list(taken.min(axis=0))


def size_of(model: StreamingKernelPCA) -> int:
    """Bytes of its file."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(os.path.join(folder, "model"))
        return os.path.getsize(os.path.join(folder, "model"))


def table(given: dict[str, tuple[np.ndarray, int]]) -> list[Row]:
    rows: list[Row] = []
    for name, (X, m) in given.items():
        order = np.random.default_rng(0).permutation(len(X))
        held_out = min(HELD_OUT, len(X) // 4)
        unseen, seen = X[order[:held_out]], X[order[held_out:]]
        for r in COMPONENTS:
            model = StreamingKernelPCA(r, basis=m, random_state=0).fit(seen)
            models = [model, model.compress(m // 2), model.compress(m // 4)]
            shares = [metrics.captured_variance(each, unseen) for each in models]
            seconds, sizes = quickest(models, unseen), [size_of(each) for each in models]
            row: dict[str, Any] = {
                "rows": name,
                "r": r,
                "points": m,
                "captured": f"{shares[0]:.4f}",
            }
            for part, share, taken, size in zip(
                ("half", "a quarter"), shares[1:], seconds[1:], sizes[1:], strict=True
            ):
                row[f"{part} loses"] = f"{shares[0] - share:.4f}"
                row[f"time of {part}"] = f"× {taken / seconds[0]:.2f}"
                row[f"file of {part}"] = f"× {size / sizes[0]:.3f}"
            rows.append(row)
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compress", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        help="folder with mnist.npz, adult_a9a.npz, elec2.npz, frey.npz",
    )
    parser.add_argument("page", type=Path, nargs="?", help="where the table goes")
    options = parser.parse_args(arguments)
    with threadpool_limits(1):
        text = markdown(table(sets(options.data)))
    print(text)
    if options.page is not None:
        page = put(options.page.read_text(), "Half", text, "benchmarks.compress")
        options.page.write_text(page)


if __name__ == "__main__":
    main()
