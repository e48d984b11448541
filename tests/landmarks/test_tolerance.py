"""Centroids with a tolerance: the basis grows until the estimated missed share is below it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_swiss_roll

from kernelstream import StreamingKernelPCA, landmarks, load, serialization, trackers
from kernelstream.kernels import RBF
from kernelstream.landmarks.optimized.tolerance import Growth, missed_most


def walk(n: int = 6000, seed: int = 0) -> np.ndarray:
    """A price-like stream: it wanders slowly, with a daily rhythm."""
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    level = np.cumsum(rng.normal(size=(n, 2)), axis=0) / np.sqrt(n)
    day = np.stack([np.sin(t / 48 * 2 * np.pi), np.cos(t / 48 * 2 * np.pi)], axis=1)
    return np.concatenate([2 * level, day + 0.2 * rng.normal(size=(n, 2))], axis=1)


def grown(X: np.ndarray, tolerance: float | None = 0.05, **options: Any) -> StreamingKernelPCA:
    n_points = options.pop("n_points", 400)
    weights = options.pop("weights", None)
    chosen: dict[str, Any] = dict(gamma=0.5, random_state=0, batch_size=256)
    model = StreamingKernelPCA(
        3, basis=landmarks.Centroids(n_points, tolerance=tolerance), **{**chosen, **options}
    )
    return model.partial_fit(X, sample_weight=weights)


def missed_share(model: StreamingKernelPCA, X: np.ndarray) -> float:
    """The true share, in the basis that the stream ends with."""
    state = model.stream_.caught_up.state
    assert state is not None
    Z = state.basis.span.coordinates(model.kernel_, X)
    return float((1 - np.sum(Z**2, axis=1)).mean() / (1 - np.sum(Z.mean(axis=0) ** 2)))


def n_points(model: StreamingKernelPCA) -> int:
    return len(model.basis_points_)


def to_bytes(model: StreamingKernelPCA) -> bytes:
    return serialization.to_bytes({"model": model.stream_.for_file()})


def test_the_tolerance_is_reached_and_not_by_far_exceeded():
    X = walk()
    sizes = []
    for tolerance in (0.2, 0.1, 0.05):
        model = grown(X, tolerance)
        assert missed_share(model, X) < 1.1 * tolerance
        assert missed_share(model, X) > 0.15 * tolerance or n_points(model) == 32
        sizes.append(n_points(model))
    assert sizes == sorted(sizes)
    assert 32 <= sizes[0] < sizes[-1] < 300


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize("n", [40, 100, 300, 499, 700, 1500])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_tolerance_is_reached_on_short_data_too(learn: str, n: int, weighted: bool):
    """A stream waits for 500 rows before it grows; here there may be no more rows."""
    X = np.random.default_rng(0).normal(size=(n, 3))
    w = np.random.default_rng(1).gamma(1.0, size=n) + 0.01 if weighted else None
    model = StreamingKernelPCA(
        3, gamma=0.3, basis=landmarks.Centroids(400, tolerance=0.01), random_state=0
    )
    getattr(model, learn)(X, sample_weight=w)
    span = model.stream_.components.span
    assert span is not None
    Z = span.coordinates(model.kernel_, X)
    share = np.full(n, 1 / n) if w is None else w / w.sum()
    missed = share @ (1 - np.sum(Z**2, axis=1))
    assert missed / (1 - np.sum((share @ Z) ** 2)) < 0.01
    assert n_points(model) < min(n, 200)
    before = to_bytes(model)
    model.transform(X)
    assert to_bytes(model) == before  # a query changes nothing: the stream grows at its own pace


def test_the_estimate_is_near_the_truth():
    X = walk()
    model = grown(X)
    state = model.stream_.caught_up.state
    assert state is not None
    assert state.basis.growth.missed_share == pytest.approx(missed_share(model, X), rel=0.3)


def test_there_are_never_more_than_n_points():
    assert n_points(grown(walk(), 0.001, n_points=50)) == 50
    assert n_points(grown(walk(), 0.001, n_points=20)) == 20


def test_few_different_rows_need_no_growth():
    X = walk(20)[np.random.default_rng(0).integers(0, 20, size=3000)]
    model = grown(X, 0.01)
    assert n_points(model) <= 20
    assert model.certificate_.reconstruction_error_lower_bound >= 0


@pytest.mark.parametrize("options", [{}, dict(tracker=trackers.Covariance(0.999))], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_cutting_does_not_matter(options: Any, weighted: bool, tmp_path):
    X = walk(3000)
    w = np.random.default_rng(1).gamma(2.0, size=3000) if weighted else None
    whole = grown(X, weights=w, **options)
    assert n_points(whole) > 32
    pieces = grown(X[:7], weights=None if w is None else w[:7], **options)
    for start, stop in ((7, 600), (600, 601), (601, 1900), (1900, 3000)):
        pieces.partial_fit(X[start:stop], sample_weight=None if w is None else w[start:stop])
        pieces.transform(X[:2])
        pieces.save(tmp_path / "model")
        pieces = load(tmp_path / "model")
    assert to_bytes(whole) == to_bytes(pieces)


def test_fit_and_float32():
    X = walk(4000)
    tight = StreamingKernelPCA(
        3, gamma=0.5, basis=landmarks.Centroids(tolerance=0.05), certify="tight", random_state=0
    ).fit(X)
    assert n_points(tight) > 32
    low, high = tight.certificate_.eigenvalue_intervals[0]
    assert high - low < 0.2 * low
    assert n_points(grown(X.astype(np.float32))) == pytest.approx(n_points(grown(X)), rel=0.3)


def test_merged_models_go_on_growing():
    X = walk()
    merged = grown(X[:3000]).merge(grown(X[3000:], random_state=1))
    state = merged.stream_.caught_up.state
    assert state is not None
    assert state.basis.growth.weight == 6000
    merged.partial_fit(walk(3000, seed=5))
    assert missed_share(merged, X) < 0.15


def test_without_a_tolerance_there_is_no_growth():
    model = grown(walk(2000), None, n_points=40)
    assert n_points(model) == 40
    state = model.stream_.state
    assert state is not None
    assert state.basis.growth is None


@pytest.mark.parametrize("tolerance", [0, 1, -0.1, "5%", True])
def test_a_tolerance_that_makes_no_sense(tolerance: Any):
    with pytest.raises(ValueError, match="tolerance must be a number between 0 and 1"):
        grown(walk(600), tolerance)


# -- the parts


def test_pivots_lower_the_residual_as_cholesky_does():
    X = walk(300)
    kernel = RBF(gamma=0.5)
    span = landmarks.base.factorise(kernel, X[:10])
    chosen = missed_most(kernel, span, X, 15, np.random.default_rng(0))
    assert len(set(chosen)) == 15
    before = 1 - np.sum(span.coordinates(kernel, X) ** 2, axis=1)
    more = landmarks.base.factorise(kernel, np.concatenate([X[:10], X[chosen]]))
    after = 1 - np.sum(more.coordinates(kernel, X) ** 2, axis=1)
    assert np.all(after <= before + 1e-9)
    assert after.sum() < 0.5 * before.sum()


def test_rows_that_are_held_are_never_chosen():
    X = walk(12)
    kernel = RBF(gamma=0.5)
    span = landmarks.base.factorise(kernel, X[:8])
    chosen = missed_most(kernel, span, X, 12, np.random.default_rng(0))
    assert set(chosen) == {8, 9, 10, 11}


def test_how_many_points_are_wanted():
    account = Growth(missed=20.0, energy=110.0, weight=100.0, total=np.array([30.0, 10.0]))
    assert account.missed_share == pytest.approx(0.2)  # of 110 − 1000/100
    assert account.wanted(0.25, 100, 1000) == 0
    assert account.wanted(0.2, 100, 1000) == 10
    assert account.wanted(0.2, 32, 1000) == 8
    assert account.wanted(0.05, 100, 1000) == 100
    assert account.wanted(0.05, 100, 499) == 0
    assert account.lacking(0.05, 100) == 100
    assert Growth.of(np.zeros(2)).lacking(0.05, 100) == 0  # nothing was seen yet


def test_shares_of_the_variance_never_exceed_one():
    """The sample's correction is an estimate: on rows in order it said 1.001."""
    X, place = make_swiss_roll(3000, noise=0.3, random_state=0)
    X = X[np.argsort(place)] / 10
    model = StreamingKernelPCA(
        None, gamma=1.0, basis=landmarks.Centroids(500, tolerance=0.005), random_state=0
    )
    for block in np.array_split(X, 30):
        model.partial_fit(block)
    assert model.explained_variance_ratio_.sum() <= 1 + 1e-12
