"""Time at equal captured variance on five data sets, beside pipelines and beside scripts.

    python -m benchmarks.front --data FOLDER [docs/benchmarks.md]

Every system has the smallest size of one grid at which it captures the target on rows that were not
learned, in the mean over three seeds. Then all of them take turns, and the shortest time of the
processor counts, on one thread. A second table has what was to be reached beside what is. Given a
page, both are put between their marks.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.data import GAMMA, PIXELS, made_up
from benchmarks.measuring import Judge, Scores, interleaved, seconds_of
from benchmarks.parts import Row, markdown, put
from benchmarks.scripts import KMEANS, SAMPLED, UNIFORM
from benchmarks.systems import (
    NYSTROEM_IN_MEMORY,
    NYSTROEM_INCREMENTAL,
    OUR_ROWS,
    OURS,
    OURS_FITTED,
    Problem,
    System,
)
from kernelstream import StreamingKernelPCA, kernels, trackers

TABLE, GOALS = "front", "front-goals"
COMPONENTS, TARGET, SEEDS = 50, 0.975, 3
MOST_ROWS, JUDGED = 60_000, 5_000
FEW_ROWS, LONG_ROWS, LONG_COLUMNS = 10_000, 500_000, 10
POINTS = 240  # of a stream whose order, memory and spread over seeds are looked at
GRID = (
    *range(20, 100, 5), *range(100, 300, 10), *range(300, 600, 25), *range(600, 1200, 50),
    *range(1200, 2401, 100),
)  # fmt: skip
# Script over ours, and points, that were to be reached, by set.
ASKED: dict[str, tuple[float, int | None]] = {
    "MNIST": (1.2, 170),
    "a9a": (0.9, 110),
    "few of MNIST": (0.75, None),
}
QUERIES, SPREAD_SEEDS = 10_000, 5
# Of a stream that drifts: rows that are learned anew, rows that come next, points and components.
FORGETTING, WINDOW, NEXT, FEW_POINTS, FEW_COMPONENTS = 0.998, 1_000, 500, 50, 10
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
    kinds: np.ndarray | None = None  # of the rows
    timed: np.ndarray | None = None  # all rows, in the order in which they were recorded

    @classmethod
    def of(
        cls,
        name: str,
        X: np.ndarray,
        gamma: float | None,
        judged: int = JUDGED,
        most: int = MOST_ROWS,
        kinds: np.ndarray | None = None,
    ) -> Set:
        order = np.random.default_rng(0).permutation(len(X))[: judged + most]
        X = X[order].astype(np.float32)
        gamma = kernels.RBF().fix(X[judged : judged + 2_000]).gamma if gamma is None else gamma
        kinds = None if kinds is None else kinds[order][judged:]
        return cls(name, X[judged:], X[:judged], gamma, kinds)


def sets(folder: Path | None, say: Callable[[str], None], few: bool = False) -> list[Set]:
    """Those of the folder that are there; made-up rows without one."""
    if folder is None:
        n, judged = (3_000, 400) if few else (65_000, JUDGED)
        return [Set.of("made up", made_up(n, 36), None, judged)]
    readers: dict[str, Callable[[Any], Set]] = {"mnist": mnist, "adult_a9a": a9a, "elec2": elec2}
    long = made_up(LONG_ROWS + JUDGED, LONG_COLUMNS)
    found = [Set.of("made up", long, None, most=LONG_ROWS)]
    for name, read in readers.items():
        path = folder / f"{name}.npz"
        if path.exists():
            found.append(read(np.load(path)))
        else:
            say(f"{path} is missing: left out")
    return found + [
        replace(one, name="few of MNIST", rows=one.rows[:FEW_ROWS], kinds=None)
        for one in found
        if one.kinds is not None
    ]


def mnist(archive: Any) -> Set:
    images = np.concatenate([archive["x_train"], archive["x_test"]]).reshape(-1, PIXELS)
    kinds = np.concatenate([archive["y_train"], archive["y_test"]])
    return Set.of("MNIST", images / np.float32(255), GAMMA, kinds=kinds)


def a9a(archive: Any) -> Set:
    return Set.of("a9a", np.concatenate([archive["x_train"], archive["x_test"]]), None)


def elec2(archive: Any) -> Set:
    X = archive["X"]
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    return replace(Set.of("Elec2, standardised", X, None), timed=X)


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


@dataclass(frozen=True)
class Found:
    """A system on a set: the size that it needs, what it captures then, and its times."""

    size: int
    captured: float
    seconds: float
    query: float  # seconds of 10,000 rows


def compared(
    given: list[Set],
    repeats: int = 3,
    components: int = COMPONENTS,
    target: float = TARGET,
    say: Callable[[str], None] = print,
) -> dict[str, dict[System, Found]]:
    """Every system on every set, by name."""
    found: dict[str, dict[System, Found]] = {}
    with threadpool_limits(1):
        for one in given:
            problem = Problem(one.gamma, components)
            judge = Judge(one.judged, one.gamma, components)
            sizes: dict[System, tuple[int, float]] = {}
            for system in SYSTEMS:
                sizes[system] = smallest(partial(captured, system, one, problem, judge), target)
                say(f"{one.name}, {system.name}: {sizes[system]}")
            for system, brother in SLOW.items():
                size = sizes[brother][0]
                sizes[system] = size, captured(system, one, problem, judge, size)
            works = {s.name: partial(s.learn, one.rows, m, problem) for s, (m, _) in sizes.items()}
            seconds, scores = interleaved(works, repeats, time.process_time)
            asked = np.resize(one.judged, (QUERIES, one.judged.shape[1]))
            queries = {name: partial(score, asked) for name, score in scores.items()}
            answered, _ = interleaved(queries, repeats, time.process_time)
            found[one.name] = {
                s: Found(m, share, min(seconds[s.name]), min(answered[s.name]))
                for s, (m, share) in sizes.items()
            }
            say(markdown(lines([one], found)))
    return found


def lines(given: list[Set], found: dict[str, dict[System, Found]]) -> list[Row]:
    """The table: a line for each system on each set."""
    return [
        {
            "system": system.name,
            "rows": f"{one.name} {len(one.rows):,} × {one.rows.shape[1]}",
            "size": here.size,
            "captured": f"{here.captured:.4f}",
            "CPU seconds": f"{here.seconds:.3f}",
            "fit is faster by": f"{here.seconds / found[one.name][OURS_FITTED].seconds:.2f} ×",
        }
        for one in given
        for system, here in found[one.name].items()
    ]


def goals(
    given: list[Set], found: dict[str, dict[System, Found]], components: int = COMPONENTS
) -> list[Row]:
    """What was to be reached, beside what is."""
    rows: list[Row] = []

    def row(work: str, goal: str, now: str, reached: bool) -> None:
        rows.append({"work": work, "goal": goal, "now": now, "reached": "yes" if reached else "no"})

    for one in given:
        ours, script = found[one.name][OURS_FITTED], found[one.name][KMEANS]
        ratio, (least, most) = script.seconds / ours.seconds, ASKED.get(one.name, (1.0, None))
        row(
            f"{one.name}, {len(one.rows):,} rows, captured {TARGET}, against k-means + covariance",
            f"≥ {least} ×" + ("" if most is None else f", ≤ {most} points"),
            f"{ratio:.2f} ×, {ours.size} points",
            ratio >= least and (most is None or ours.size <= most),
        )
    for one in given:
        if one.kinds is None:
            continue
        ours, peer = found[one.name][OURS_FITTED], found[one.name][NYSTROEM_IN_MEMORY]
        ratio = peer.query / ours.query
        work = f"transform of {QUERIES:,} rows at {TARGET}, against {NYSTROEM_IN_MEMORY.name}"
        row(work, "≥ 15 ×", f"{ratio:.1f} ×", ratio >= 15.0)
        with threadpool_limits(1):
            shuffled, in_order = shares_of_streams(one, components)
            memory = memory_of_stream(one, components)
        less = float(np.mean(shuffled) - np.mean(in_order))
        row(
            f"stream sorted by kind, {POINTS} points, captured less than shuffled",
            "≤ .003",
            f"{less:.4f} ({np.mean(shuffled):.4f} shuffled)",
            less <= 0.003,
        )
        row(
            f"spread of the captured variance, {len(shuffled)} seeds, {POINTS} points",
            "± .005",
            f"± {np.ptp(shuffled) / 2:.4f}",
            np.ptp(shuffled) / 2 <= 0.005,
        )
        row(
            f"peak memory beyond the rows, stream, {POINTS} points",
            "≤ 80 MB",
            f"{memory / 1e6:.0f} MB",
            memory <= 80e6,
        )
    for one in given:
        if one.timed is None:
            continue
        with threadpool_limits(1):
            (share, mine), (refitted, theirs) = drifting(one.timed, one.gamma)
        row(
            f"{one.name}, in time order, forgetting {FORGETTING}: the next {NEXT} rows, each time",
            f"≥ refit of {WINDOW:,} rows, ≤ its CPU",
            f"{share:.4f} in {mine:.2f} s (refit {refitted:.4f} in {theirs:.2f} s)",
            share >= refitted and mine <= theirs,
        )
    return rows


def drifting(X: np.ndarray, gamma: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """What a stream that forgets captures of the rows that come next, and its seconds.

    And the same of the script with k-means, which learns the last rows anew each time.
    """
    problem, starts = Problem(gamma, FEW_COMPONENTS), range(WINDOW, len(X) - NEXT + 1, NEXT)
    model = StreamingKernelPCA(
        FEW_COMPONENTS,
        gamma=gamma,
        basis=FEW_POINTS,
        tracker=trackers.Covariance(forgetting=FORGETTING),
        random_state=0,
    )
    shares: dict[str, list[float]] = {"ours": [], "script": []}
    seconds = dict.fromkeys(shares, 0.0)

    def learned(start: int) -> Scores:
        model.partial_fit(X[start - NEXT : start] if shares["ours"] else X[:start])
        model.transform(X[:1])
        return model.transform

    works = {
        "ours": learned,
        "script": lambda start: KMEANS.learn(X[start - WINDOW : start], FEW_POINTS, problem),
    }
    for start in starts:
        judge = Judge(X[start : start + NEXT], gamma, FEW_COMPONENTS)
        for name, work in works.items():
            took, scores = seconds_of(partial(work, start), time.process_time)
            seconds[name] += took
            shares[name].append(judge.captured(scores))
    ours, script = ((float(np.mean(shares[name])), seconds[name]) for name in works)
    return ours, script


def shares_of_streams(given: Set, components: int) -> tuple[list[float], list[float]]:
    """What streams capture, over seeds: of the rows shuffled, and sorted by their kinds."""
    judge = Judge(given.judged, given.gamma, components)
    assert given.kinds is not None
    found: tuple[list[float], list[float]] = ([], [])
    for seed in range(SPREAD_SEEDS):
        problem = Problem(given.gamma, components, seed)
        order = np.random.default_rng(seed).permutation(len(given.rows))
        for shares, rows in zip(
            found, (order, order[np.argsort(given.kinds[order], kind="stable")]), strict=True
        ):
            shares.append(judge.captured(OURS.learn(given.rows[rows], POINTS, problem)))
    return found


def memory_of_stream(given: Set, components: int) -> int:
    """Bytes that a stream allocates at most, beside the rows that are handed to it."""
    problem = Problem(given.gamma, components)
    OURS.learn(given.rows[: 2 * OUR_ROWS], POINTS, problem)  # modules and compiled passes
    tracemalloc.start()
    OURS.learn(given.rows, POINTS, problem)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.front", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--data", type=Path, help="folder with mnist, adult_a9a and elec2 (.npz)")
    parser.add_argument("page", type=Path, nargs="?", help="where the table goes")
    options = parser.parse_args(arguments)
    say = partial(Console(stderr=True).print, highlight=False)
    given = sets(options.data, say)
    found = compared(given, say=say)
    tables = {TABLE: markdown(lines(given, found)), GOALS: markdown(goals(given, found))}
    for name, table in tables.items():
        print(table, end="\n\n")
        if options.page is not None:
            page = put(options.page.read_text(), name, table, "benchmarks.front")
            options.page.write_text(page)


if __name__ == "__main__":
    main()
