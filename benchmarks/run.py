"""What one run of the benchmark shares between its rows: data, sizes, searches, raw figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import Images, images
from benchmarks.measuring import Judge
from benchmarks.search import Search
from benchmarks.sizes import Sizes
from benchmarks.systems import (
    FOURIER_INCREMENTAL,
    LINEAR_INCREMENTAL,
    NYSTROEM_IN_MEMORY,
    NYSTROEM_INCREMENTAL,
    OURS,
    Problem,
    System,
)


@dataclass
class Run:
    """Settings of a run, and what its rows have found so far."""

    sizes: Sizes
    repeats: int
    folder: Path | None
    say: Callable[[str], None]
    raw: dict[str, Any] = field(default_factory=dict)  # goes into the JSON as it is
    searches: dict[str, Search] = field(default_factory=dict)

    @cached_property
    def images(self) -> Images:
        """The rows, read when the first row of the table needs them."""
        return images(self.folder, self.sizes)

    @cached_property
    def problem(self) -> Problem:
        """The long stream."""
        return Problem(self.images.gamma, self.sizes.components)

    @cached_property
    def judge(self) -> Judge:
        """Exact kernel PCA of some rows of the stream, the same for all systems."""
        X = self.images.stream
        chosen = np.random.default_rng(1).choice(len(X), self.sizes.judged_rows, replace=False)
        self.say(f"exact kernel PCA of {len(chosen):,} rows, to judge by")
        return Judge(X[chosen], self.problem.gamma, self.problem.components)

    def search(self, system: System) -> Search:
        """The trials of a system on the long stream."""
        if system.name not in self.searches:
            self.searches[system.name] = Search(
                system, self.images.stream, self.problem, self.judge, self.sizes.target, self.say
            )
        return self.searches[system.name]

    @cached_property
    def centroids(self) -> int:
        """Our smallest size for the long stream."""
        return self.search(OURS).smallest(self.sizes.centroids, self.sizes.centroids_step)

    @cached_property
    def landmarks(self) -> int:
        """That of Nystroem in memory."""
        search = self.search(NYSTROEM_IN_MEMORY)
        return search.smallest(self.sizes.landmarks, self.sizes.landmarks_step)

    @cached_property
    def landmarks_streamed(self) -> int:
        """That of Nystroem with IncrementalPCA: searched near the one in memory."""
        search, sizes = self.search(NYSTROEM_INCREMENTAL), self.sizes
        for size in sizes.landmarks[:2]:  # for the curve; both are far too small
            search.reaches(size)
        return search.smallest_near(self.landmarks, sizes.landmarks_step, sizes.landmarks[-1])

    def orientation(self) -> None:
        """Trials of systems that are in the picture only."""
        self.search(FOURIER_INCREMENTAL).smallest(self.sizes.frequencies)
        self.search(LINEAR_INCREMENTAL).reaches(self.sizes.features)

    def curves(self) -> dict[str, dict[str, Any]]:
        """Time against captured variance of every system that was searched."""
        return {
            name: {
                "in_feature_space": search.system.in_feature_space,
                "trials": [asdict(t) for t in search.curve],
            }
            for name, search in self.searches.items()
        }
