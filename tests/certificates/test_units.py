"""Bounds against exact kernel PCA: kernels, units of the data, weights, order of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelstream import StreamingKernelPCA, kernels, landmarks

KERNELS: dict[str, tuple[Any, int]] = {  # and the largest exponent of two of its unit
    "linear": (lambda unit: kernels.Linear(), 400),
    "poly": (lambda unit: kernels.Polynomial(degree=2, gamma=0.5 / unit**2, coef0=1.0), 400),
    "homogeneous": (lambda unit: kernels.Polynomial(degree=2, gamma=1.0, coef0=0.0), 120),
    "rbf": (lambda unit: kernels.RBF(gamma=0.3 / unit**2), 400),
    "cosine": (lambda unit: kernels.Cosine(), 400),
}


def rows(seed: int, n: int, order: str) -> np.ndarray:
    X = np.random.default_rng(seed).normal(size=(n, 3)) * [1.0, 0.7, 0.3] + 0.2
    return X[np.argsort(X[:, 0])] if order == "sorted" else X


def exact_ratio(kernel: Any, X: np.ndarray, w: np.ndarray, r: int) -> float:
    """The explained variance ratio of exact kernel PCA of weighted rows."""
    K, p = kernel(X), w / w.sum()
    H = np.sqrt(p)[:, None] * (np.eye(len(p)) - p[None, :])
    values = np.linalg.eigvalsh(H @ (K / K.max()) @ H.T)[::-1]
    return float(values[:r].sum() / values.sum())


@given(
    name=st.sampled_from(sorted(KERNELS)),
    exponent=st.floats(-1.0, 1.0),
    weighted=st.booleans(),
    order=st.sampled_from(["random", "sorted"]),
    certify=st.sampled_from(["auto", "tight"]),
    seed=st.integers(0, 10_000),
)
def test_certificate_any_kernel_and_unit_holds_the_exact_ratio(
    name: str, exponent: float, weighted: bool, order: str, certify: str, seed: int
) -> None:
    make, largest = KERNELS[name]
    unit = 2.0 ** round(largest * exponent)
    X = unit * rows(seed, 90, order)
    w = np.random.default_rng(seed).gamma(1.0, size=90) + 1e-3 if weighted else np.ones(90)
    model = StreamingKernelPCA(
        2,
        kernel=make(unit),
        basis=landmarks.Landmarks(X[::12]),
        certify=certify,
        batch_size=20,
        random_state=0,
    ).partial_fit(X, sample_weight=w if weighted else None)
    exact, certificate = exact_ratio(make(unit), X, w, 2), model.certificate_
    for bounds in (certificate, certificate.details, certificate.statistical):
        low, high = bounds.best_explained_variance_ratio_interval
        assert low - 1e-9 <= exact <= high + 1e-9
    # two kinds of bounds about the same number intersect
    sampled = certificate.statistical.best_explained_variance_ratio_interval
    least, most = certificate.details.best_explained_variance_ratio_interval
    assert sampled[0] <= most + 1e-9 and least <= sampled[1] + 1e-9


@pytest.mark.parametrize("exponent", [-400, -30, 30, 400])
@pytest.mark.parametrize("n", [300, 1200])
def test_statistical_bounds_rows_in_another_unit_are_the_same(exponent: int, n: int) -> None:
    """The bounds of 2ᵏ X with the matching gamma are those of X, up to rounding of the kernel."""
    X, unit = rows(0, n, "random"), 2.0**exponent
    found = [
        StreamingKernelPCA(
            2,
            kernel=kernels.RBF(gamma=0.25 / scale**2),
            basis=landmarks.Landmarks(scale * X[:9]),
            random_state=0,
        )
        .partial_fit(scale * X)
        .certificate_.statistical
        for scale in (1.0, unit)
    ]
    one, two = found
    assert one.reason is None and one.n_sampled == two.n_sampled == n
    for name in ("explained_variance_ratio_interval", "best_explained_variance_ratio_interval"):
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-12)
