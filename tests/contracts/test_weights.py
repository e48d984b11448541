"""Only ratios of weights matter, however large or small all of them are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, landmarks, trackers
from kernelstream.trackers.moments import CrossMoments

UNITS = [1e-310, 1e-200, 1e-50, 1e-45, 1e-42, 1e37, 1e39, 1e200]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
WEIGHTS = RNG.gamma(1.0, size=200) + 1e-3


def model(**options: Any) -> StreamingKernelPCA:
    given = {"gamma": 0.1, "basis": landmarks.Landmarks(X[:10]), "random_state": 0, **options}
    return StreamingKernelPCA(2, **given)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    "basis", [landmarks.Landmarks(X[:10]), landmarks.Centroids(10)], ids=["fixed", ""]
)
def test_components_do_not_depend_on_the_unit(
    dtype: Any, unit: float, basis: landmarks.LandmarkStrategy
) -> None:
    rows = X.astype(dtype)
    usual = model(basis=basis).fit(rows, sample_weight=WEIGHTS)
    other = model(basis=basis).fit(rows, sample_weight=unit * WEIGHTS)
    tol = 1e-5 if dtype is np.float32 else 1e-9
    np.testing.assert_allclose(other.explained_variance_, usual.explained_variance_, rtol=tol)
    np.testing.assert_allclose(other.transform(rows), usual.transform(rows), atol=10 * tol)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("unit", [1e-200, 1e-50, 1e39, 1e200])
def test_the_certificate_scales_with_the_weights(dtype: Any, unit: float) -> None:
    rows = X.astype(dtype)
    usual = model().fit(rows, sample_weight=WEIGHTS).certificate_.details
    other = model().fit(rows, sample_weight=unit * WEIGHTS).certificate_.details
    np.testing.assert_allclose(
        other.eigenvalue_intervals / unit, usual.eigenvalue_intervals, rtol=1e-4
    )


def test_weights_whose_sums_underflow_are_not_certified() -> None:
    """Below 1e-300 rounding is not relative any more."""
    found = model().fit(X, sample_weight=1e-310 * WEIGHTS).certificate_.details
    assert "weights are so small" in str(found)


@pytest.mark.parametrize("unit", [1e-310, 1e-50, 1e39])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_other_moments_do_not_depend_on_the_unit(dtype: Any, unit: float) -> None:
    rows = X.astype(dtype)
    tracker = trackers.IncrementalSVD()
    usual = model(tracker=tracker).partial_fit(rows, sample_weight=WEIGHTS)
    other = model(tracker=tracker).partial_fit(rows, sample_weight=unit * WEIGHTS)
    np.testing.assert_allclose(other.explained_variance_, usual.explained_variance_, rtol=1e-5)
    targets = CrossMoments.begin(3, rows)
    cross = targets.update(rows, rows, WEIGHTS).cross
    of_other = targets.update(rows, rows, unit * WEIGHTS).cross
    np.testing.assert_allclose(of_other / unit, cross, rtol=1e-4, atol=1e-4)
