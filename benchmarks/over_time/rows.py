"""Each class is a row of ``benchmarks.rows`` on scikit-learn's digits, without its peers.

Peers are for a comparison in one run (``make bench``); over time we are compared with ourselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import methods
from benchmarks.data import Images, digits
from benchmarks.measuring import Judge, Scores
from benchmarks.processes import fresh_python
from benchmarks.rows import endless, startup
from benchmarks.rows.products import learned
from benchmarks.systems import OURS, Problem
from kernelstream import StreamingKernelPCA, kernels, landmarks, papers
from kernelstream.papers import schedules
from kernelstream.papers.kim_2003 import epochs as hebbian
from kernelstream.papers.kim_2003.gram import KernelMatrix

REPEATS = 10  # of the 1,797 digits
POINTS, COMPONENTS = 100, 20
TRACKERS: dict[str, Any] = {
    "covariance": "covariance",
    "hebbian": papers.Hebbian(),
    "rls": papers.RLS(),
}


class OneThread:
    """Rows and the problem; one BLAS thread, so that other work on the machine disturbs less."""

    def setup(self, *parameters: Any) -> None:
        self.limits = threadpool_limits(1)
        self.images: Images = digits(REPEATS)
        self.problem = Problem(self.images.gamma, COMPONENTS)

    def teardown(self, *parameters: Any) -> None:
        self.limits.restore_original_limits()


class Stream(OneThread):
    """One pass over 17,970 rows, and what it captures."""

    def learn(self) -> Scores:
        return OURS.learn(self.images.stream, POINTS, self.problem)

    def time_one_pass(self) -> None:
        self.learn()

    def peakmem_one_pass(self) -> None:
        self.learn()

    def track_captured(self) -> float:
        return Judge(self.images.queries, self.problem.gamma, COMPONENTS).captured(self.learn())

    track_captured.unit = "share of the exact variance"  # type: ignore[attr-defined]


class Queries(OneThread):
    """Scores of 1,797 rows."""

    def setup(self, *parameters: Any) -> None:
        super().setup()
        self.scores = OURS.learn(self.images.stream, POINTS, self.problem)
        self.scores(self.images.queries[:100])  # whatever is made ready at the first query

    def time_transform(self) -> None:
        self.scores(self.images.queries)


class Products(OneThread):
    """``partial_fit`` alone, with points that are given and with those of the default basis."""

    params = ["landmarks", "centroids"]
    param_names = ["basis"]

    def setup(self, *parameters: Any) -> None:
        super().setup()
        X = self.images.stream
        points = X[np.random.default_rng(2).choice(len(X), POINTS, replace=False)]
        self.makers: dict[str, Callable[[], Any]] = {
            "landmarks": partial(landmarks.Landmarks, points),
            "centroids": partial(landmarks.Centroids, POINTS),
        }

    def time_partial_fit(self, basis: str) -> None:
        learned(self.images.stream, self.problem, self.makers[basis])


class Hebbian(OneThread):
    """An epoch of the kernel Hebbian algorithm."""

    params = ["kept", "anew"]
    param_names = ["kernel matrix"]

    def setup(self, *parameters: Any) -> None:
        super().setup()
        X = self.images.small.astype(np.float64)
        kernel = kernels.RBF(self.images.small_gamma)
        (matrix,) = parameters
        limit: dict[str, Any] = {} if matrix == "kept" else {"cache_bytes": 0}
        self.rows = KernelMatrix(kernel, X, n_components=COMPONENTS, **limit)
        self.start, self.means = hebbian.begin(self.rows, COMPONENTS, seed=0)
        self.order = np.random.default_rng(0).permutation(len(X))
        self.time_epoch(matrix)  # compiles

    def time_epoch(self, matrix: str) -> None:
        hebbian.sample_epoch(
            self.rows, self.means, self.start, schedules.ConstantRate(0.05), self.order
        )


class Single(OneThread):
    """1,797 calls of ``learn_one``."""

    params = list(TRACKERS)
    param_names = ["tracker"]

    def setup(self, *parameters: Any) -> None:
        super().setup()
        (tracker,) = parameters
        X = self.images.queries
        self.model = StreamingKernelPCA(
            COMPONENTS, gamma=self.problem.gamma, basis=landmarks.Landmarks(X[:POINTS]),
            tracker=TRACKERS[tracker], random_state=0,
        )  # fmt: skip
        self.model.partial_fit(X)  # compiled, and past the first rows
        self.rows = list(X)

    def time_learn_one(self, tracker: str) -> None:
        for row in self.rows:
            self.model.learn_one(row)


class Endless:
    """A million rows: whether the last ones are as fast as the first, and memory as it was."""

    timeout = 600
    sizes = (100_000, 1_000_000, 50_000, 8, 32)

    def setup_cache(self) -> dict[str, Any]:
        return endless.measure(*self.sizes)

    def track_seconds_late_over_early(self, found: dict[str, Any]) -> float:
        return found["late"]["seconds_per_row"] / found["early"]["seconds_per_row"]

    def track_memory_late_over_early(self, found: dict[str, Any]) -> float:
        return found["late"]["resident"] / found["early"]["resident"]


class Startup:
    """What a new process pays."""

    params = [startup.IMPORT, startup.FIRST]
    param_names = ["code"]

    def time_new_process(self, code: str) -> None:
        fresh_python(code)


class Methods(OneThread):
    """Every method once over the digits, in time and in what it captures."""

    params = list(methods.methods())
    param_names = ["method"]

    def learn(self, method: str) -> Any:
        return methods.methods()[method].partial_fit(self.images.queries)

    def time_one_pass(self, method: str) -> None:
        self.learn(method).transform(self.images.queries[:1])

    def track_captured(self, method: str) -> float:
        return methods.metrics.captured_variance(self.learn(method), self.images.queries)
