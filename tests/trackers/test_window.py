"""The last n rows, against a model of these rows alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, landmarks, load, trackers

RNG = np.random.default_rng(5)
X = RNG.normal(size=(2000, 3)) * [1.0, 2.0, 0.5] + np.linspace(0.0, 3.0, 2000)[:, None]
POINTS = landmarks.Landmarks(X[::80])


def model(n: int, **options: Any) -> StreamingKernelPCA:
    chosen: dict[str, Any] = dict(gamma=0.2, basis=POINTS, batch_size=64, random_state=0)
    return StreamingKernelPCA(3, tracker=trackers.Window(n), **chosen | options)


def fresh(rows: np.ndarray, weights: Any = None, **options: Any) -> StreamingKernelPCA:
    chosen: dict[str, Any] = dict(gamma=0.2, basis=POINTS, random_state=0)
    plain = StreamingKernelPCA(3, **chosen | options)
    return plain.partial_fit(rows, sample_weight=weights)


def assert_same(one: StreamingKernelPCA, two: StreamingKernelPCA, atol: float = 1e-10) -> None:
    np.testing.assert_allclose(one.explained_variance_, two.explained_variance_, atol=atol)
    ratios = one.explained_variance_ratio_, two.explained_variance_ratio_
    np.testing.assert_allclose(*ratios, atol=atol)
    np.testing.assert_allclose(
        np.abs(one.transform(X[:50])), np.abs(two.transform(X[:50])), atol=100 * atol
    )
    np.testing.assert_allclose(one.intercept_**2, two.intercept_**2, atol=100 * atol)


@pytest.mark.parametrize("n", [1, 50, 64, 300, 1999, 5000])
@pytest.mark.parametrize("seen", [40, 700, 2000])
def test_the_window_is_the_model_of_its_rows(n: int, seen: int) -> None:
    if n == 1:
        assert model(1).partial_fit(X[:seen]).explained_variance_[0] < 1e-12
        return
    assert_same(model(n).partial_fit(X[:seen]), fresh(X[:seen][-n:]))


def test_weights_and_kernels() -> None:
    w = RNG.uniform(0.5, 2.0, size=len(X))
    learned = model(300).partial_fit(X, sample_weight=w)
    assert_same(learned, fresh(X[-300:], w[-300:]))
    for options in (
        dict(kernel="linear", gamma=None),
        dict(center=False),
    ):
        assert_same(model(300, **options).partial_fit(X), fresh(X[-300:], **options), atol=1e-8)


def test_points_that_the_first_rows_give() -> None:
    stays = landmarks.Centroids(20, follows=False)
    learned = model(300, basis=stays).partial_fit(X)
    assert_same(
        learned, fresh(X[-300:], basis=landmarks.Landmarks(learned.basis_points_)), atol=1e-8
    )


def test_the_certificate_is_that_of_the_window() -> None:
    learned, plain = model(300).partial_fit(X), fresh(X[-300:])
    ours, theirs = learned.certificate_.details, plain.certificate_.details
    np.testing.assert_allclose(ours.eigenvalue_intervals, theirs.eigenvalue_intervals, rtol=1e-6)
    assert ours.reconstruction_error == pytest.approx(theirs.reconstruction_error)
    exact = StreamingKernelPCA(3, gamma=0.2, basis="everything").fit(X[-300:])
    low, high = ours.eigenvalue_intervals.T
    assert np.all(low <= exact.eigenvalues_) and np.all(exact.eigenvalues_ <= high)


def test_files_and_cuts(tmp_path: Path) -> None:
    whole = model(300).partial_fit(X)
    cut = model(300)
    for piece in np.split(X, [1, 63, 700, 1500]):
        cut.partial_fit(piece).save(tmp_path / "model")
        cut = load(tmp_path / "model")
    np.testing.assert_array_equal(cut.transform(X), whole.transform(X))
    state = whole.stream_.caught_up.begun
    assert state.tracker.Z.shape[0] == 300 and whole.n_samples_seen_ == 2000


def test_no_rounding_gathers() -> None:
    """Rows of another magnitude that have left leave nothing behind."""
    huge = X * 1e6
    learned = model(300, kernel="linear", gamma=None, basis=landmarks.Landmarks(np.eye(3)))
    learned.partial_fit(np.vstack([huge, X]))
    plain = fresh(X[-300:], kernel="linear", gamma=None, basis=landmarks.Landmarks(np.eye(3)))
    np.testing.assert_allclose(learned.explained_variance_, plain.explained_variance_, rtol=1e-10)


def test_what_does_not_fit_is_said() -> None:
    for basis in ("centroids", "everything", "distance"):
        with pytest.raises(ValueError, match="points that stay"):
            model(10, basis=basis).fit(X)
    for wrong in (0, 2.5, None):
        with pytest.raises(ValueError, match="Window: n must be"):
            StreamingKernelPCA(2, basis=POINTS, tracker=trackers.Window(wrong)).fit(X)  # type: ignore[arg-type]
    learned = model(100).partial_fit(X)
    with pytest.raises(ValueError, match="cannot be given other points"):
        learned.compress(10)
    with pytest.raises(ValueError, match="cannot be merged"):
        learned.merge(learned)
