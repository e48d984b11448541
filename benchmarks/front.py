"""Time at equal captured variance on three data sets, beside pipelines and beside scripts.

    python -m benchmarks.front --data FOLDER [docs/benchmarks.md]

Every system has the smallest size of one grid at which it captures the target on rows that were not
learned, in the mean over three seeds. Then all of them take turns, and the shortest time of the
processor counts, on one thread. Given a page, the table is put between its marks.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.data import GAMMA, PIXELS, made_up
from benchmarks.measuring import Judge, interleaved
from benchmarks.parts import Row, markdown, put
from benchmarks.scripts import KMEANS, SAMPLED, UNIFORM
from benchmarks.systems import (
    NYSTROEM_IN_MEMORY,
    NYSTROEM_INCREMENTAL,
    OURS,
    OURS_FITTED,
    Problem,
    System,
)
from kernelstream import kernels

TABLE = "front"
COMPONENTS, TARGET, SEEDS = 50, 0.975, 3
MOST_ROWS, JUDGED = 60_000, 5_000
GRID = (
    *range(20, 100, 5), *range(100, 300, 10), *range(300, 600, 25), *range(600, 1200, 50),
    *range(1200, 2401, 100),
)  # fmt: skip
STRIDE = 8  # entries of the grid from one trial to the next, until one reaches the target
SYSTEMS = (OURS_FITTED, OURS, KMEANS, SAMPLED, UNIFORM, NYSTROEM_IN_MEMORY)
# as accurate as its brother in memory, which is asked for the size: a trial takes ten times as long
SLOW = {NYSTROEM_INCREMENTAL: NYSTROEM_IN_MEMORY}


@dataclass(frozen=True)
class Set:
    """Shuffled rows to learn and others to judge by."""

    name: str
    rows: np.ndarray
    judged: np.ndarray
    gamma: float

    @classmethod
    def of(cls, name: str, X: np.ndarray, gamma: float | None, judged: int = JUDGED) -> Set:
        X = X[np.random.default_rng(0).permutation(len(X))].astype(np.float32)
        gamma = kernels.RBF().fix(X[judged : judged + 2_000]).gamma if gamma is None else gamma
        return cls(name, X[judged:][:MOST_ROWS], X[:judged], gamma)


def sets(folder: Path | None, say: Callable[[str], None], few: bool = False) -> list[Set]:
    """Those of the folder that are there; made-up rows without one."""
    if folder is None:
        n, judged = (3_000, 400) if few else (65_000, JUDGED)
        return [Set.of("made up", made_up(n, 36), None, judged)]
    readers: dict[str, Callable[[Any], Set]] = {"mnist": mnist, "adult_a9a": a9a, "elec2": elec2}
    found = []
    for name, read in readers.items():
        path = folder / f"{name}.npz"
        if path.exists():
            found.append(read(np.load(path)))
        else:
            say(f"{path} is missing: left out")
    return found


def mnist(archive: Any) -> Set:
    images = np.concatenate([archive["x_train"], archive["x_test"]]).reshape(-1, PIXELS)
    return Set.of("MNIST", images / np.float32(255), GAMMA)


def a9a(archive: Any) -> Set:
    return Set.of("a9a", np.concatenate([archive["x_train"], archive["x_test"]]), None)


def elec2(archive: Any) -> Set:
    X = archive["X"]
    return Set.of("Elec2, standardised", (X - X.mean(axis=0)) / X.std(axis=0), None)


def captured(system: System, given: Set, problem: Problem, judge: Judge, size: int) -> float:
    """The mean over some seeds."""
    seeds = [replace(problem, seed=seed) for seed in range(SEEDS)]
    return float(
        np.mean([judge.captured_soundly(system.learn(given.rows, size, p)) for p in seeds])
    )


def smallest(reached: Callable[[int], float], target: float) -> tuple[int, float]:
    """The first size of the grid at which the target is reached, or the last; and what it reaches.

    In strides, then halving what is left.
    """
    shares: dict[int, float] = {}

    def reaches(place: int) -> bool:
        if place not in shares:
            shares[place] = reached(GRID[place])
        return shares[place] >= target

    low, high = -1, STRIDE - 1
    while high < len(GRID) - 1 and not reaches(high):
        low, high = high, min(high + STRIDE, len(GRID) - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    reaches(high)
    return GRID[high], shares[high]


def compared(
    given: list[Set],
    repeats: int = 3,
    components: int = COMPONENTS,
    target: float = TARGET,
    say: Callable[[str], None] = print,
) -> list[Row]:
    """The table: a line for each system on each set."""
    lines: list[Row] = []
    with threadpool_limits(1):
        for one in given:
            problem = Problem(one.gamma, components)
            judge = Judge(one.judged, one.gamma, components)
            found: dict[System, tuple[int, float]] = {}
            for system in SYSTEMS:
                found[system] = smallest(partial(captured, system, one, problem, judge), target)
                say(f"{one.name}, {system.name}: {found[system]}")
            for system, brother in SLOW.items():
                size = found[brother][0]
                share = captured(system, one, problem, judge, size)
                found[system] = size, share
            works = {s.name: partial(s.learn, one.rows, m, problem) for s, (m, _) in found.items()}
            seconds, _ = interleaved(works, repeats, time.process_time)
            ours = min(seconds[OURS_FITTED.name])
            of_set: list[Row] = [
                {
                    "system": system.name,
                    "rows": f"{one.name} {len(one.rows):,} × {one.rows.shape[1]}",
                    "size": size,
                    "captured": f"{share:.4f}",
                    "CPU seconds": f"{min(seconds[system.name]):.3f}",
                    "fit is faster by": f"{min(seconds[system.name]) / ours:.2f} ×",
                }
                for system, (size, share) in found.items()
            ]
            say(markdown(of_set))
            lines += of_set
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.front", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--data", type=Path, help="folder with mnist, adult_a9a and elec2 (.npz)")
    parser.add_argument("page", type=Path, nargs="?", help="where the table goes")
    options = parser.parse_args(arguments)
    say = partial(Console(stderr=True).print, highlight=False)
    table = markdown(compared(sets(options.data, say), say=say))
    print(table)
    if options.page is not None:
        options.page.write_text(put(options.page.read_text(), TABLE, table, "benchmarks.front"))


if __name__ == "__main__":
    main()
