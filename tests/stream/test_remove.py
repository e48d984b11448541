"""Rows taken back, against a model that never saw them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelstream import (
    StreamingKernelPCA,
    landmarks,
    metrics,
    papers,
    trackers,
)

RNG = np.random.default_rng(7)
X = RNG.normal(size=(1500, 3)) * [1.0, 2.0, 0.5]
POINTS = landmarks.Landmarks(X[::60])


def learned(rows: np.ndarray, weights: Any = None, **options: Any) -> StreamingKernelPCA:
    chosen: dict[str, Any] = dict(gamma=0.2, basis=POINTS, batch_size=100, random_state=0)
    return StreamingKernelPCA(3, **chosen | options).partial_fit(rows, sample_weight=weights)


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(center=False),
        dict(kernel="linear", gamma=None),
        dict(preimage="ridge"),
        dict(certify="tight"),
    ],
    ids=str,
)
def test_the_model_is_that_of_the_other_rows(options: dict[str, Any]) -> None:
    model = learned(X, **options).remove(X[400:900][::-1])
    rest = learned(np.vstack([X[:400], X[900:]]), **options)
    assert model.n_samples_seen_ == rest.n_samples_seen_ == 1000
    np.testing.assert_allclose(model.explained_variance_, rest.explained_variance_, rtol=1e-9)
    assert metrics_agree(model, rest)
    if options.get("preimage"):
        scores = rest.transform(X[:40])
        ours, theirs = (each.inverse_transform(scores) for each in (model, rest))
        np.testing.assert_allclose(ours, theirs, atol=1e-8)
    # and it goes on
    model.partial_fit(X[400:900])
    again = learned(X, **options).explained_variance_
    np.testing.assert_allclose(model.explained_variance_, again, rtol=1e-9)


def metrics_agree(one: StreamingKernelPCA, two: StreamingKernelPCA) -> bool:
    return bool(np.allclose(np.abs(one.transform(X)), np.abs(two.transform(X)), atol=1e-7))


def test_rows_that_wait_and_weights() -> None:
    w = RNG.uniform(0.5, 2.0, size=1500)
    model = learned(X[:1430], w[:1430]).remove(X[1400:1430], w[1400:1430])  # 30 of them wait
    rest = learned(X[:1400], w[:1400])
    np.testing.assert_allclose(model.explained_variance_, rest.explained_variance_, rtol=1e-10)


def test_the_certificate_stays_true_and_knows_the_rounding() -> None:
    model = learned(X)
    before = model.certificate_.details
    model.remove(X[:1400])
    after, rest = model.certificate_.details, learned(X[1400:]).certificate_.details
    exact = StreamingKernelPCA(3, gamma=0.2, basis="everything").fit(X[1400:])
    low, high = after.eigenvalue_intervals.T
    assert np.all(low <= exact.eigenvalues_) and np.all(exact.eigenvalues_ <= high)
    # 100 rows of 1,500 are left: rounding of the sums of all, and of what was taken away
    assert after.slack > 15.0 * before.slack and rest.slack < 2.0 * before.slack
    assert after.reconstruction_error == pytest.approx(rest.reconstruction_error, rel=1e-5)
    assert after.reconstruction_error > rest.reconstruction_error
    assert metrics.principal_angles(model, learned(X[1400:])).max() < 1e-6


def test_more_than_was_learned_is_refused_and_changes_nothing() -> None:
    model = learned(X[:300])
    before = model.transform(X)
    with pytest.raises(ValueError, match="never were"):
        model.remove(X[:301])
    with pytest.raises(ValueError, match="never were"):
        model.remove(X[:10], sample_weight=np.full(10, 100.0))
    with pytest.raises(ValueError, match="never were"):  # a linear kernel tells by the energy
        learned(X[:300], kernel="linear", gamma=None).remove(100.0 * X[:10])
    with pytest.raises(ValueError, match="No row would be left"):
        model.remove(X[:300])
    with pytest.raises(ValueError, match="2 features"):
        model.remove(X[:10, :2])
    np.testing.assert_array_equal(model.transform(X), before)
    assert model.remove(X[:1]).n_samples_seen_ == 299


@pytest.mark.parametrize(
    "options",
    [
        dict(basis=30),
        dict(basis="everything"),
        dict(tracker=trackers.Covariance(0.99)),
        dict(tracker=papers.Hebbian()),
        dict(tracker="incremental_svd"),
        dict(robust=True),
        dict(tracker=trackers.Window(50)),
    ],
    ids=str,
)
def test_where_rows_cannot_be_taken_back_it_is_said(options: dict[str, Any]) -> None:
    model = learned(X[:200] if isinstance(options.get("tracker"), papers.Hebbian) else X, **options)
    with pytest.raises(ValueError, match="Rows can be removed from"):
        model.remove(X[:10])


def test_remove_from_a_compressed_model_raises() -> None:
    small = learned(X).compress(10)
    with pytest.raises(ValueError, match="have moved"):
        small.remove(X[:10])
