"""The kernel Hebbian algorithm over a finite set: the naive loop, its products, kernlab."""

from __future__ import annotations

import numpy as np

from benchmarks import kernlab, naive
from benchmarks.measuring import Outcome, Side, faster, interleaved, within
from benchmarks.run import Run
from kernelstream import kernels
from kernelstream.papers import KernelHebbianPCA, schedules
from kernelstream.papers.kim_2003 import epochs as hebbian
from kernelstream.papers.kim_2003.gram import KernelMatrix

ETA = 0.05


def epochs(run: Run) -> list[Outcome]:
    """One epoch, with the kernel matrix kept (the default) and computed anew."""
    sizes = run.sizes
    X = run.images.small.astype(np.float64)
    gamma, r, l = run.images.small_gamma, sizes.hebbian_components, len(X)
    kernel, schedule = kernels.RBF(gamma), schedules.ConstantRate(ETA)
    kept = KernelMatrix(kernel, X, n_components=r)
    anew = KernelMatrix(kernel, X, n_components=r, cache_bytes=0)
    start, means = hebbian.begin(kept, r, seed=0)
    order = np.random.default_rng(0).permutation(l)
    few = order[: sizes.hebbian_naive_rows]
    hebbian.sample_epoch(anew, means, start, schedule, few)  # compiles, if nothing did before
    B = kept.batch_size
    matrix = kept.block(order)

    def loop() -> np.ndarray:
        return naive.kernel_hebbian_rows(start.A, X, gamma, ETA, few, means.column)

    def products(with_kernel: bool) -> float:
        """A K_b and T A for every block, after x Xᵀ where the kernel is computed anew."""
        A, T, checksum = start.A, np.tril(np.full((r, r), 1.0 / r)), 0.0
        for begin in range(0, l, B):
            J = order[begin : begin + B]
            K = X[J] @ X.T if with_kernel else matrix[begin : begin + B]
            checksum += (A @ K.T)[0, 0]
            A = T @ A
        return checksum

    seconds, _ = interleaved(
        {
            "kept": lambda: hebbian.sample_epoch(kept, means, start, schedule, order),
            "anew": lambda: hebbian.sample_epoch(anew, means, start, schedule, order),
            "loop": loop,
            "products kept": lambda: products(False),
            "products anew": lambda: products(True),
        },
        run.repeats,
    )
    whole = [s * l / len(few) for s in seconds["loop"]]
    title = f"KHA epoch, l = {l:,}, N = {X.shape[1]}, r = {r}"
    slow = Side("naive NumPy loop", whole)
    outcomes = []
    for name, words in (("anew", "kernel computed"), ("kept", "kernel matrix kept")):
        ours = Side("kernelstream", seconds[name])
        floor = Side("its own matrix products", seconds[f"products {name}"])
        note = f"loop: {len(few)} rows of the epoch, scaled"
        outcomes.append(faster("hebbian", f"{title}, {words}", ours, slow, 40.0, note))
        outcomes.append(within("hebbian", f"{title}, {words}", ours, floor, 1.3))
    return outcomes


def beside_kernlab(run: Run) -> list[Outcome]:
    """R's implementation of the same algorithm, with the same step and as many epochs."""
    sizes = run.sizes
    X = run.images.small[: sizes.kernlab_rows].astype(np.float64)
    gamma, r, n_epochs = run.images.small_gamma, sizes.kernlab_components, sizes.kernlab_epochs
    title = f"KHA, n = {len(X):,}, r = {r}, {n_epochs} epochs"
    ours, theirs = Side("kernelstream"), Side("kernlab kha")
    missing = kernlab.missing()
    if missing:
        return [Outcome("kernlab", title, ours, theirs, None, 100.0, note=missing)]

    def fit() -> KernelHebbianPCA:
        model = KernelHebbianPCA(
            r, gamma=gamma, schedule=schedules.ConstantRate(kernlab.ETA), n_epochs=n_epochs,
            tol=0.0, random_state=0,
        )  # fmt: skip
        return model.fit(X)

    fit()  # compiles, if nothing did before
    for _ in range(run.repeats):
        theirs.seconds.append(kernlab.kha(X, gamma, r, n_epochs).seconds)
        seconds, _ = interleaved({"ours": fit}, 1)
        ours.seconds += seconds["ours"]
    note = "measured inside R, without its start and reading the rows"
    return [faster("kernlab", title, ours, theirs, 100.0, note)]
