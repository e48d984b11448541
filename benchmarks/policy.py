"""How much the constants of ``landmarks.Centroids`` matter: the tables of docs/centroids.md.

    python -m benchmarks.policy --data FOLDER [docs/centroids.md]

100 centroids, one thread: ``fit`` with MNIST, and one pass over five streams: MNIST shuffled,
sorted by digit, and digits 0 to 4 before the others (judged by those); Elec2 and Frey faces in time
order. One constant at a time is set to a smaller and to a larger value, everything else being as it
is. A model is judged by the share of the variance that its first 10 and 50 components capture on
rows that it did not see, relative to exact kernel PCA of those rows. The seed draws the order of
shuffled rows and all that is random in the model. Given a page, the tables are put between its
marks, else they are printed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import GAMMA, PIXELS
from benchmarks.measuring import Judge
from benchmarks.parts import Row, markdown
from kernelstream import StreamingKernelPCA, kernels
from kernelstream.landmarks import Centroids
from kernelstream.landmarks.optimized import polish, state
from kernelstream.landmarks.optimized import strategy as centroids

POINTS, MNIST_ROWS, HELD_OUT, SEEDS = 100, 20_000, 2_000, 8
COMPONENTS = (10, 50)
OPTIMIZED = Centroids._optimized
UNCHANGED = "0 / 0"  # values that change nothing on any stream are left out of the table
MODULES = (centroids, state, polish)  # with constants of the policy


@dataclass(frozen=True)
class Stream:
    """Rows in their order for a seed, and those that judge."""

    name: str
    rows: np.ndarray
    judged: np.ndarray
    gamma: float
    sort_by: np.ndarray | None = None  # of shuffled rows; None where `timed`
    timed: bool = False
    fitted: bool = False  # by ``fit``, not as a stream

    def in_order(self, seed: int) -> np.ndarray:
        if self.timed:
            return self.rows
        order = np.random.default_rng(seed).permutation(len(self.rows))
        if self.sort_by is not None:
            order = order[np.argsort(self.sort_by[order], kind="stable")]
        return self.rows[order]


def streams(folder: Path, few: bool = False) -> list[Stream]:
    """Those of the page; with ``few``, shortened."""
    digits = np.load(folder / "mnist.npz")
    n, held_out = (1_500, 200) if few else (MNIST_ROWS, HELD_OUT)
    chosen = np.random.default_rng(123).permutation(len(digits["x_train"]))[: n + held_out]
    X = (digits["x_train"][chosen].reshape(-1, PIXELS) / np.float32(255)).astype(np.float32)
    labels = digits["y_train"][chosen]
    late = labels >= 5
    market = np.load(folder / "elec2.npz")["X"][: 2_000 if few else None].astype(np.float32)
    faces = np.load(folder / "frey.npz")["images"]
    faces = faces.reshape(len(faces), -1) / np.float32(255)
    return [
        Stream("fit", X[:n], X[n:], GAMMA, fitted=True),
        Stream("MNIST", X[:n], X[n:], GAMMA),
        Stream("sorted", X[:n], X[n:], GAMMA, sort_by=labels[:n]),
        Stream("sudden", X[:n], X[n:][late[n:]], GAMMA, sort_by=late[:n]),
        in_time("Elec2", market, every=20),
        in_time("Frey", faces, every=5),
    ]


def in_time(name: str, X: np.ndarray, every: int) -> Stream:
    """A stream as it was recorded; each so many-th row is kept back to judge."""
    back = np.arange(len(X)) % every == every - 1
    spread = X[:: max(1, len(X) // 500)]  # gamma is no part of the question: that of all times
    return Stream(name, X[~back], X[back], kernels.RBF().fix(spread).gamma, timed=True)


@dataclass(frozen=True)
class Constant:
    """A number of the policy by its name in the modules, and values on both sides of it.

    A size that follows from the number of points is a method or a property of the basis; its values
    are then factors.
    """

    attribute: str
    values: tuple[float, float] = (0.5, 2.0)
    title: str = ""

    @property
    def name(self) -> str:
        """As the table has it."""
        return self.title or f"`{self.attribute}`"

    @property
    def is_size(self) -> bool:
        return hasattr(Centroids, self.attribute)

    @property
    def owners(self) -> list[Any]:
        """Whatever has the name: modules import constants of each other."""
        return [Centroids] if self.is_size else [m for m in MODULES if hasattr(m, self.attribute)]

    @property
    def present(self) -> float:
        if self.is_size:
            found = getattr(Centroids(POINTS), self.attribute)
            return found() if callable(found) else found
        (value,) = {getattr(owner, self.attribute) for owner in self.owners}
        return value

    def becomes(self, value: float) -> float:
        return value * self.present if self.is_size else value

    @contextmanager
    def at(self, value: float) -> Iterator[None]:
        """While it lasts, the constant has this value (or a size is multiplied by it)."""
        new: Any = value
        if self.is_size:
            original: Any = vars(Centroids)[self.attribute]
            is_property = isinstance(original, property)
            size = original.fget if is_property else original

            def multiplied(basis: Centroids, of_all: bool = False) -> int:
                if of_all:  # the sample of all rows: a size of its own
                    return size(basis, of_all=True)
                return round(value * size(basis))

            new = property(multiplied) if is_property else multiplied
        with ExitStack() as changed:
            for owner in self.owners:
                changed.enter_context(mock.patch.object(owner, self.attribute, new))
            yield


CONSTANTS = (
    Constant("start_rows", title="start rows"),
    Constant("_sample_rows", title="sampled rows"),
    Constant("HELD_BACK", (2, 8)),
    Constant("GAIN", (0.0, 1e-2)),
    Constant("UPDATE_FACTOR", (2, 6)),
    Constant("RISE", (0.0, 0.25)),
    Constant("EVALUATIONS", (4, 16)),
    Constant("STEPS", (1, 6)),
    Constant("MOST_DIRECTIONS", (64, 200)),
    Constant("OVERSAMPLED", (0, 20)),
    Constant("LEAST_GAIN", (0.0, 5e-3)),
)


@dataclass(frozen=True)
class Found:
    """What came of one stream: shares for each seed, looks for points, seconds of the processor."""

    shares: np.ndarray  # (seeds, components)
    looks: float
    seconds: float


def first(scores: np.ndarray, r: int, _rows: np.ndarray) -> np.ndarray:
    """Scores of the first components of rows that were transformed already."""
    return scores[:, :r]


def measured(stream: Stream, judges: dict[int, Judge], seeds: int) -> Found:
    """One pass for each seed; of the times the shortest counts."""
    shares, looks, seconds = [], [], []
    for seed in range(seeds):
        rows, basis = stream.in_order(seed), Centroids(POINTS)
        model = StreamingKernelPCA(
            max(COMPONENTS), gamma=stream.gamma, basis=basis, random_state=seed
        )
        with mock.patch.object(
            Centroids, "_optimized", autospec=True, side_effect=OPTIMIZED
        ) as optimized:
            begin = time.process_time()
            (model.fit if stream.fitted else model.partial_fit)(rows)
            scores = model.transform(stream.judged)
            seconds.append(time.process_time() - begin)
        looks.append(optimized.call_count)
        shares.append([judge.captured(partial(first, scores, r)) for r, judge in judges.items()])
    return Found(np.array(shares), float(np.mean(looks)), min(seconds))


def compared(folder: Path, seeds: int = SEEDS, few: bool = False) -> dict[str, list[Row]]:
    """The two tables: what the policy reaches as it is, and what each constant changes."""
    given = streams(folder, few)
    judges = [{r: Judge(s.judged, s.gamma, r) for r in COMPONENTS} for s in given]

    def all_streams() -> list[Found]:
        return [measured(s, j, seeds) for s, j in zip(given, judges, strict=True)]

    with threadpool_limits(1):
        all_streams()  # the first run is slower: what is loaded late, and the caches
        present = all_streams()
        reached = [
            {
                "stream": stream.name,
                "rows": f"{len(stream.rows):,}",
                **{
                    f"first {r}": f"{share:.4f} ± {spread:.4f}"
                    for r, share, spread in zip(
                        COMPONENTS, now.shares.mean(axis=0), now.shares.std(axis=0), strict=True
                    )
                },
                "looks": f"{now.looks:.1f}",
            }
            for stream, now in zip(given, present, strict=True)
        ]
        differences = []
        for constant in CONSTANTS:
            for value in constant.values:
                with constant.at(value):
                    found = all_streams()
                row = difference(constant, value, given, present, found)
                if any(row[stream.name] != UNCHANGED for stream in given):
                    differences.append(row)
    return {"Reached": reached, "Constants": differences}


def difference(
    constant: Constant,
    value: float,
    given: list[Stream],
    present: list[Found],
    found: list[Found],
) -> Row:
    """A line of the second table: captured variance in thousandths, less that of the present.

    Bold: at least 1, and more than twice its standard error over the seeds.
    """
    row = {
        "constant": constant.name,
        "is": f"{constant.present:g}",
        "instead": f"{constant.becomes(value):g}",
    }
    for stream, now, then in zip(given, present, found, strict=True):
        # the same seeds, so the same rows in the same order: differences in pairs
        shifts = 1e3 * (then.shares - now.shares)
        row[stream.name] = " / ".join(worded(column) for column in shifts.T)
    looks = sum(f.looks for f in found)
    seconds = sum(f.seconds for f in found) / sum(f.seconds for f in present)
    return row | {"looks": f"{looks:.1f}", "time": f"× {seconds:.2f}"}


def worded(shifts: np.ndarray) -> str:
    """The mean over the seeds, with a proper minus."""
    mean, error = float(shifts.mean()), float(shifts.std()) / max(len(shifts) - 1, 1) ** 0.5
    text = f"{mean + 0.0:+.1f}".replace("+0.0", "0").replace("-0.0", "0").replace("-", "−")
    return f"**{text}**" if abs(mean) >= 1.0 and abs(mean) > 2 * error else text


def put(page: str, name: str, table: str) -> str:
    """The page with another table between its marks."""
    begin, end = f"<!-- {name}: python -m benchmarks.policy -->", "<!-- end -->"
    before, found, rest = page.partition(begin)
    if not found or end not in rest:
        raise ValueError(f"The page has no place for the table {name!r}: {begin} … {end}")
    return f"{before}{begin}\n\n{table}\n\n{end}{rest.partition(end)[2]}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policy", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with mnist.npz, elec2.npz, frey.npz"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="passes of every setting")
    parser.add_argument("--quick", action="store_true", help="few rows, to test the script")
    parser.add_argument("page", type=Path, nargs="?", help="where the tables go")
    options = parser.parse_args(arguments)
    page = None if options.page is None else options.page.read_text()
    for name, rows in compared(options.data, options.seeds, options.quick).items():
        table = markdown(rows)
        print(f"{name}\n\n{table}\n")
        page = None if page is None else put(page, name, table)
    if page is not None:
        options.page.write_text(page)


if __name__ == "__main__":
    main()
