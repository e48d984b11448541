"""What people use for kernel PCA of many rows, and ours: each as one function of rows and size.

Every system gets the same float32 rows in the same order, the same kernel, the same number of
components, all threads, and settings that are good for it:

- *IncrementalPCA* is fed 10,000 rows at a time: faster than the usual 1,000, the slowest of all
  numbers we tried from 50 to 20,000, as accurate as any, and good for threads. Its feature map sees
  the first 10,000 rows, so that it is a streaming method: one pass, bounded memory.
- *PCA* in memory has the solver ``covariance_eigh``, the fastest of its solvers on many more rows
  than features; the landmarks come from all rows.
- *KernelPCA* is asked for as many components as the others, not for all.
- *kernelstream* is given 32,768 rows at a time, and is done when the components are known: they are
  computed when asked for, so a row is transformed inside the measured time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, IncrementalPCA, KernelPCA
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.utils import gen_batches

from benchmarks.measuring import Scores
from kernelstream import StreamingKernelPCA

PEER_ROWS = 10_000
OUR_ROWS = 32_768


@dataclass(frozen=True)
class Problem:
    """What is asked of every system."""

    gamma: float
    components: int
    seed: int = 0


Learn = Callable[[np.ndarray, int, Problem], Scores]


@dataclass(frozen=True)
class System:
    """A way to kernel PCA: rows and a size in, a function that gives scores out."""

    name: str
    learn: Learn
    in_feature_space: bool = True  # whether components are unit vectors of the kernel's space;
    # if not, the variance of the scores says nothing, and what they explain is taken instead


def kernelstream_model(X: np.ndarray, size: int, problem: Problem) -> StreamingKernelPCA:
    """One pass, default basis, components known at the end."""
    model = _blank(size, problem)
    for start in range(0, len(X), OUR_ROWS):
        model.partial_fit(X[start : start + OUR_ROWS])
    model.transform(X[:1])
    return model


def _blank(size: int, problem: Problem) -> StreamingKernelPCA:
    return StreamingKernelPCA(
        problem.components, gamma=problem.gamma, basis=size, random_state=problem.seed
    )


def _ours(X: np.ndarray, size: int, problem: Problem) -> Scores:
    return kernelstream_model(X, size, problem).transform


def _fitted(X: np.ndarray, size: int, problem: Problem) -> Scores:
    model = _blank(size, problem).fit(X)
    model.transform(X[:1])
    return model.transform


def _streamed(features: Any, X: np.ndarray, components: int) -> Scores:
    """A feature map that has seen the first rows, then IncrementalPCA block by block."""
    pca = IncrementalPCA(components)
    for rows in gen_batches(len(X), PEER_ROWS, min_batch_size=components):
        pca.partial_fit(features.transform(X[rows]))
    return lambda rows: pca.transform(features.transform(rows))


def _nystroem(X: np.ndarray, size: int, problem: Problem) -> Nystroem:
    """Landmarks drawn as ``Nystroem`` draws them, each once.

    Of a row that is drawn twice it would make a feature of rounding alone, 5·10⁵ times enlarged.
    """
    drawn = X[np.random.RandomState(problem.seed).permutation(len(X))[:size]]
    distinct = np.unique(drawn, axis=0)
    return Nystroem(gamma=problem.gamma, n_components=len(distinct)).fit(distinct)


def _nystroem_incremental(X: np.ndarray, size: int, problem: Problem) -> Scores:
    features = _nystroem(X[:PEER_ROWS], size, problem)
    return _streamed(features, X, min(problem.components, features.n_components))


def _fourier_incremental(X: np.ndarray, size: int, problem: Problem) -> Scores:
    features = RBFSampler(gamma=problem.gamma, n_components=size, random_state=problem.seed)
    return _streamed(features.fit(X[:PEER_ROWS]), X, min(problem.components, features.n_components))


def _nystroem_in_memory(X: np.ndarray, size: int, problem: Problem) -> Scores:
    features = _nystroem(X, size, problem)
    pca = PCA(min(problem.components, features.n_components), svd_solver="covariance_eigh")
    pca.fit(features.transform(X))
    return lambda rows: pca.transform(features.transform(rows))


def _linear_incremental(X: np.ndarray, size: int, problem: Problem) -> Scores:
    pca = IncrementalPCA(problem.components)
    for rows in gen_batches(len(X), PEER_ROWS, min_batch_size=problem.components):
        pca.partial_fit(X[rows])
    return pca.transform


def kernel_pca(solver: str) -> System:
    """scikit-learn's KernelPCA, which needs the whole kernel matrix; its size is ignored."""

    def learn(X: np.ndarray, size: int, problem: Problem) -> Scores:
        model = KernelPCA(
            problem.components,
            kernel="rbf",
            gamma=problem.gamma,
            eigen_solver=solver,
            random_state=problem.seed,
            copy_X=False,
        )
        return model.fit(X).transform

    return System(f"KernelPCA, {solver}", learn)


OURS = System("kernelstream", _ours)
OURS_FITTED = System("kernelstream, fit", _fitted)
NYSTROEM_INCREMENTAL = System("Nystroem + IncrementalPCA", _nystroem_incremental)
NYSTROEM_IN_MEMORY = System("Nystroem + PCA", _nystroem_in_memory)
FOURIER_INCREMENTAL = System(
    "RBFSampler + IncrementalPCA", _fourier_incremental, in_feature_space=False
)
LINEAR_INCREMENTAL = System("IncrementalPCA, linear", _linear_incremental, in_feature_space=False)
