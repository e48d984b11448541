"""How many components, and how much of the variance they have."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, trackers
from kernelstream.stream.components import chosen, n_shown

RNG = np.random.default_rng(0)
STREAMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "two different rows": (
        np.repeat(RNG.normal(size=(2, 3)), 15, axis=0),
        dict(kernel="rbf", basis="everything"),
    ),
    "an outlier at the end": (
        np.concatenate([RNG.normal(size=(29, 2)), [[1e3, 1e3]]]),
        dict(kernel="poly", basis="everything"),
    ),
    "a stream that moved": (
        np.concatenate([RNG.normal(size=(500, 2)), RNG.normal(size=(30, 2)) + 3]),
        dict(kernel="rbf", basis=20),
    ),
}
TRACKERS = ["covariance", "hebbian", "rls", "lms", "subset_hebbian", trackers.IncrementalSVD()]


@pytest.mark.parametrize("tracker", TRACKERS, ids=str)
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("center", [True, False])
def test_components_have_no_more_than_all_the_variance(stream: str, tracker: Any, center: bool):
    X, options = STREAMS[stream]
    for n in (2, 3, len(X) // 2, len(X)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = StreamingKernelPCA(3, tracker=tracker, center=center, **options)
            ratios = model.partial_fit(X[:n]).explained_variance_ratio_
        assert np.all(ratios >= 0.0)
        assert ratios.sum() <= 1.0 + 1e-12
    # which of them has how much is as the variances say
    variances = model.explained_variance_
    np.testing.assert_allclose(ratios * variances.sum(), variances * ratios.sum(), rtol=1e-12)


def test_a_component_of_a_billionth_of_the_variance_is_one():
    """NO_VARIANCE is what rounding makes, not what is small: 1e-9 is shown, 1e-13 is not."""
    values, vectors = np.array([1.0, 1e-9, 1e-13]), np.eye(3)
    assert n_shown(None, values, 1.0) == 2
    shown, directions = chosen(values, vectors, 3)
    np.testing.assert_array_equal(shown, [1.0, 1e-9, 0.0])
    np.testing.assert_array_equal(directions, np.diag([1.0, 1.0, 0.0]))
    # and through a whole model: deviations of 1 and 3e-5
    X = np.random.default_rng(0).normal(size=(400, 2)) * [1.0, 3e-5]
    model = StreamingKernelPCA(2, kernel="linear", basis="everything").partial_fit(X)
    np.testing.assert_allclose(model.explained_variance_[1], 9e-10, rtol=0.2)
