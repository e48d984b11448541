"""Models of parts of a stream become the model of the whole."""

from __future__ import annotations

import functools
import itertools
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import KernelPCA

from kernelstream import (
    StreamingKernelPCA,
    kernels,
    landmarks,
    load,
    papers,
    serialization,
    trackers,
)
from kernelstream.landmarks.nystroem import Span, from_eigenvectors
from kernelstream.stream import Rows, Stream
from kernelstream.stream.merge import merge, of_both, same
from kernelstream.stream.scaling import Standardisation
from kernelstream.trackers.moments import CrossMoments
from tests.certificates.reference import Batch, Case, kernel_object, wrong
from tests.conftest import ledger_of

POINTS = np.random.default_rng(5).normal(size=(12, 3))


def stream(seed: int, n: int = 90) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) + 0.3 * rng.normal(size=3)


def fitted(X: np.ndarray, weights: np.ndarray | None = None, **options: Any) -> StreamingKernelPCA:
    chosen: dict[str, Any] = dict(
        kernel=kernels.RBF(gamma=0.2),
        basis=landmarks.Landmarks(POINTS),
        batch_size=32,
        random_state=0,
        certify="tight",
    )
    model = StreamingKernelPCA(3, **{**chosen, **options})
    return model.partial_fit(X, sample_weight=weights)


def to_bytes(model: StreamingKernelPCA) -> bytes:
    return serialization.to_bytes({"model": model.stream_.for_file()})


def assert_same(a: StreamingKernelPCA, b: StreamingKernelPCA) -> None:
    probe = stream(99, 20)
    np.testing.assert_allclose(a.eigenvalues_, b.eigenvalues_, rtol=1e-11)
    np.testing.assert_allclose(np.abs(a.transform(probe)), np.abs(b.transform(probe)), atol=1e-9)
    one, two = a.certificate_.details, b.certificate_.details
    np.testing.assert_allclose(one.eigenvalue_intervals, two.eigenvalue_intervals, rtol=1e-9)
    np.testing.assert_allclose(one.excess_bound, two.excess_bound, rtol=1e-7)
    assert a.n_samples_seen_ == b.n_samples_seen_


def test_a_shared_basis_is_associative_and_commutative():
    a, b, c = (fitted(stream(seed)) for seed in range(3))
    whole = a.merge(b).merge(c)
    assert_same(whole, a.merge(b.merge(c)))
    for x, y, z in itertools.permutations([a, b, c]):
        assert_same(whole, x.merge(y).merge(z))


def test_a_shared_basis_is_as_one_stream():
    X = np.concatenate([stream(0), stream(1)])
    whole = fitted(X)
    merged = fitted(X[:64]).merge(fitted(X[64:]))
    np.testing.assert_allclose(merged.eigenvalues_, whole.eigenvalues_, rtol=1e-11)
    np.testing.assert_allclose(merged.mean_coef_, whole.mean_coef_, atol=1e-9)
    assert merged.certificate_.details.reconstruction_error == pytest.approx(
        whole.certificate_.details.reconstruction_error, rel=1e-9
    )


@pytest.mark.parametrize(
    "basis",
    [
        landmarks.Centroids(8),
        landmarks.Distance(nu=0.1),
        landmarks.Coherence(delta=0.6),
        landmarks.Everything(),
    ],
    ids=lambda basis: type(basis).__name__,
)
def test_different_bases_agree_within_the_certificate(basis: landmarks.LandmarkStrategy):
    X = [stream(seed, 40) for seed in range(3)]
    case = Case(0, d=3, kernel="wide", r=3)
    kernel = kernel_object(case)
    a, b, c = (fitted(rows, basis=basis, random_state=i, kernel=kernel) for i, rows in enumerate(X))
    batch = Batch(case, np.concatenate(X), np.ones(120))
    for model in (a.merge(b).merge(c), a.merge(b.merge(c)), c.merge(a).merge(b)):
        assert wrong(case, model, model.certificate_.details, batch) == []
        assert model.n_samples_seen_ == 120


def test_counts_weights_means_and_energies_add_up():
    rng = np.random.default_rng(0)
    X, Y = stream(0, 70), stream(1, 45)
    v, w = rng.gamma(2.0, size=70), rng.gamma(2.0, size=45)
    a, b = fitted(X, v), fitted(Y, w)
    merged = a.merge(b)
    states = [model.stream_.caught_up.state for model in (a, b, merged)]
    one, two, both = states
    assert one is not None and two is not None and both is not None
    assert merged.n_samples_seen_ == 115
    assert both.moments.weight == pytest.approx(v.sum() + w.sum())
    np.testing.assert_allclose(both.moments.total, one.moments.total + two.moments.total)
    for what in ("energy", "fresh", "stale", "stale_weight"):
        total = getattr(ledger_of(one), what) + getattr(ledger_of(two), what)
        assert getattr(ledger_of(both), what) == pytest.approx(total)
    np.testing.assert_allclose(
        ledger_of(both).fresh_orders,
        ledger_of(one).fresh_orders + ledger_of(two).fresh_orders,
    )


@pytest.mark.parametrize("basis", [landmarks.Centroids(8), landmarks.Distance(nu=0.2)], ids=str)
def test_neither_model_is_changed(basis: landmarks.LandmarkStrategy):
    a, b = (fitted(stream(seed, 77), basis=basis) for seed in range(2))
    before = to_bytes(a), to_bytes(b)
    merged = a.merge(b)
    merged.partial_fit(stream(2))
    assert merged.certificate_.details.eigenvalue_intervals.shape == (3, 2)
    assert (to_bytes(a), to_bytes(b)) == before


@pytest.mark.parametrize("basis", [landmarks.Centroids(8), landmarks.Landmarks(POINTS)], ids=type)
def test_models_from_files(tmp_path, basis: landmarks.LandmarkStrategy):
    models = [fitted(stream(seed), basis=basis, random_state=seed) for seed in range(4)]
    for i, model in enumerate(models):
        model.save(tmp_path / f"{i}.safetensors")
    loaded = [load(tmp_path / f"{i}.safetensors") for i in range(4)]
    merged, from_files = models[0], loaded[0]
    for model, other in zip(models[1:], loaded[1:], strict=True):
        merged, from_files = merged.merge(model), from_files.merge(other)
    assert to_bytes(merged) == to_bytes(from_files)
    from_files.save(tmp_path / "all.safetensors")
    again = load(tmp_path / "all.safetensors")
    assert to_bytes(again.partial_fit(stream(9))) == to_bytes(merged.partial_fit(stream(9)))


def test_a_merged_model_goes_on():
    a, b = fitted(stream(0)), fitted(stream(1))
    merged = a.merge(b).partial_fit(stream(2))
    assert merged.n_samples_seen_ == 270
    whole = fitted(np.concatenate([stream(seed) for seed in range(3)]))
    np.testing.assert_allclose(merged.eigenvalues_, whole.eigenvalues_, rtol=1e-11)


def test_a_basis_that_gains_nothing_makes_nothing_stale():
    """The points of the other model lie in the span of ours: no row is expressed anew."""
    X = stream(0)
    basis = landmarks.Distance(nu=0.05, max_points=30)
    fixed = fitted(X, basis=basis).fit(X)  # second pass: nothing stale
    b = fitted(np.asarray(fixed.basis_points_)[:5], basis=basis)
    before = fixed.stream_.caught_up.state
    after = fixed.merge(b).stream_.caught_up.state
    assert before is not None and after is not None
    assert ledger_of(before).stale == 0.0
    assert ledger_of(after).stale_weight <= 5.0
    assert after.n_rows == 95


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        ({}, dict(kernel=kernels.RBF(gamma=0.3)), "different kernels"),
        ({}, dict(kernel=kernels.Linear()), "different kernels"),
        (dict(kernel="rbf"), dict(kernel="rbf"), "give the same number to both"),
        ({}, dict(tracker=trackers.Covariance(0.9)), "different tracker"),
        ({}, dict(center=False), "different center"),
        ({}, dict(certify="auto"), "different certify"),
        ({}, dict(preimage="ridge"), "different regress_inputs"),
        ({}, dict(basis=landmarks.Centroids(12)), "different bases"),
        ({}, dict(basis=landmarks.Landmarks(POINTS + 1.0)), "different landmarks"),
        (dict(scale="standard"), {}, "prepare rows with different numbers"),
        (dict(scale="standard"), dict(scale="standard"), "prepare rows with different numbers"),
        (dict(tracker=papers.Hebbian()), dict(tracker=papers.Hebbian()), "keeps no moments"),
        (dict(tracker=papers.Hebbian()), {}, "keeps no moments"),
    ],
)
def test_models_that_do_not_fit_together(ours: Any, theirs: Any, message: str):
    a, b = fitted(stream(0), **ours), fitted(2.0 * stream(1), **theirs)
    for one, two in ((a, b), (b, a)):
        with pytest.raises(ValueError, match=message):
            one.merge(two)


def test_what_is_no_model_of_ours():
    with pytest.raises(TypeError, match="Only models of this library merge; got KernelPCA"):
        fitted(stream(0)).merge(KernelPCA(2))


def test_other_features():
    with pytest.raises(ValueError, match="3 and 2 features"):
        fitted(stream(0)).merge(fitted(stream(1)[:, :2], basis=landmarks.Landmarks(POINTS[:, :2])))


def by_eigenvectors(kernel: kernels.Kernel, points: Any) -> Span:
    gram = kernel.gram(points)
    return Span.of(kernel, points, from_eigenvectors(kernel, points, gram), gram)


@pytest.mark.parametrize("basis", ["landmarks", "centroids"])
def test_the_same_points_with_another_factor(basis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model learned elsewhere may have another factor of the same K(D,D)."""
    X = np.random.default_rng(0).normal(size=(600, 3))
    chosen = {
        "landmarks": landmarks.Landmarks(X[:12]),
        "centroids": landmarks.Centroids(12, follows=False),
    }
    settings: dict[str, Any] = dict(gamma=0.3, basis=chosen[basis], random_state=0)
    ours = StreamingKernelPCA(4, **settings).partial_fit(X)
    module = {"landmarks": "fixed", "centroids": "optimized.strategy"}[basis]
    monkeypatch.setattr(f"kernelstream.landmarks.{module}.factorise", by_eigenvectors)
    theirs = StreamingKernelPCA(4, **settings).partial_fit(X)
    states = [model.stream_.caught_up.state for model in (ours, theirs)]
    factors = [state.basis.span.factor for state in states if state is not None]
    assert not np.allclose(*factors)
    both = ours.merge(theirs)
    np.testing.assert_array_equal(both.basis_points_, ours.basis_points_)
    np.testing.assert_allclose(both.explained_variance_, ours.explained_variance_, rtol=1e-10)
    np.testing.assert_allclose(both.transform(X), ours.transform(X), atol=1e-10)


def test_what_is_the_same() -> None:
    points = np.ones((2, 2))
    assert same(landmarks.Landmarks(points), landmarks.Landmarks(points.copy()))
    assert not same(landmarks.Landmarks(points), landmarks.Landmarks(2 * points))
    assert same(kernels.RBF(1.0), kernels.RBF(1.0)) and not same(kernels.RBF(1.0), kernels.RBF(2.0))
    assert not same(kernels.RBF(1.0), kernels.Exponential(1.0))
    assert same(kernels.RBF(1.0) + 2.0, kernels.RBF(1.0) + 2.0)
    assert not same(1, 1.0) and not same(True, 1) and same("a", "a") and same(None, None)
    one = Standardisation(np.zeros(2), np.ones(2))
    assert same(None, None) and not same(None, one)
    assert same(one, Standardisation(np.zeros(2), np.ones(2)))
    assert not same(one, Standardisation(np.ones(2), np.ones(2)))
    assert not same(one, Standardisation(np.zeros(2), 2 * np.ones(2)))


def test_every_number_of_two_streams_adds() -> None:
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(90, 2)), rng.uniform(0.5, 2.0, size=90)
    parts = [
        StreamingKernelPCA(
            2, gamma=0.4, basis=landmarks.Landmarks(X[:5]), preimage="ridge", batch_size=10
        )
        .partial_fit(X[rows], sample_weight=w[rows])
        .stream_
        for rows in (slice(0, 30), slice(30, 90))
    ]
    both, (one, two) = merge(*parts).begun, (part.begun for part in parts)
    assert both.n_rows == both.next_signs == 90
    assert both.moments.weight == pytest.approx(w.sum())
    np.testing.assert_allclose(both.moments.total, one.moments.total + two.moments.total)
    np.testing.assert_allclose(both.tracker.scatter, one.tracker.scatter + two.tracker.scatter)
    np.testing.assert_array_equal(both.signs, one.signs)
    assert both.targets is not None and one.targets is not None
    np.testing.assert_array_equal(both.targets.origin, one.targets.origin)
    Z = parts[0].chain.basis.coordinates(parts[0].chain.kernel, one.basis, X)
    expected = (Z * w[:, None]).T @ (X - one.targets.origin)
    np.testing.assert_allclose(both.targets.cross, expected, atol=1e-10)
    lonely = replace(two, targets=None)
    assert of_both(one, lonely) is one.targets and of_both(lonely, one) is one.targets
    assert of_both(lonely, lonely) is None
    wide = replace(two, targets=CrossMoments.begin(5, np.ones((1, 3))))
    with pytest.raises(ValueError, match="Cannot merge regressions on 2 and 3 target columns"):
        of_both(one, wide)


def test_sums_of_parts_are_added_to_a_stream() -> None:
    X, weights = stream(0, 300), np.random.default_rng(1).uniform(0.5, 2.0, size=300)
    begun = fitted(X[:100], weights[:100]).stream_.caught_up
    empty = begun.for_sums()
    assert empty.n_rows == 0 and empty.begun.next_signs == sys.maxsize
    cuts = [slice(100, 130), slice(130, 290), slice(290, 300)]
    sums = [empty.fold(Rows(X[at], weights[at]), frozen=True).begun for at in cuts]
    whole = functools.reduce(Stream.add, sums, begun).finish()
    due = fitted(X, weights).stream_
    assert whole.n_rows == due.n_rows == 300
    np.testing.assert_allclose(whole.components.variances, due.components.variances, rtol=1e-11)
    np.testing.assert_allclose(whole.components.mean, due.components.mean, atol=1e-12)


def test_a_part_may_be_summed_without_the_basis_that_all_have() -> None:
    begun = fitted(stream(0)).stream_.caught_up
    part = begun.for_sums().fold(Rows(stream(1)), frozen=True).begun
    with_basis, without = begun.add(part), begun.add(replace(part, basis=None))
    assert serialization.to_bytes({"model": with_basis.for_file()}) == serialization.to_bytes(
        {"model": without.for_file()}
    )
    assert with_basis.begun.basis is begun.begun.basis
