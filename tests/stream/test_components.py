"""How many components, and how much of the variance they have."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, kernels, landmarks, papers, trackers
from kernelstream.kernels.rounding import moved_in_float32
from kernelstream.landmarks.base import Correction
from kernelstream.landmarks.fixed import FixedState
from kernelstream.landmarks.nystroem import factorise
from kernelstream.stream import signs
from kernelstream.stream.components import Components, chosen, lift, n_shown
from tests import samples
from tests.conftest import settled_state

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
TRACKERS = [
    *(trackers.Covariance(), trackers.IncrementalSVD()),
    *(papers.Hebbian(), papers.RLS(), papers.LMS(), papers.SubsetHebbian()),
]


@samples.grid("tracker, stream, center", TRACKERS, STREAMS, [True, False])
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


def test_how_many_are_shown() -> None:
    values = np.array([4.0, 3.0, 2.0, 1.0, 1.1e-12, 0.9e-12])
    values[4:] *= 4.0
    for asked, total, expected in (
        (7, 10.0, 7),
        (None, 10.0, 5),
        (0.4, 10.0, 1),
        (0.41, 10.0, 2),
        (0.7, 10.0, 2),
        (0.99, 10.0, 4),
        (0.99, 20.0, 5),  # never reached: all that have variance
        (1e-9, 10.0, 1),
    ):
        assert n_shown(asked, values, total) == expected
    assert n_shown(None, np.zeros(2), 0.0) == 1 and n_shown(0.5, np.zeros(0), 0.0) == 1
    shown, directions = chosen(values, np.eye(6), 6)
    np.testing.assert_array_equal(shown > 0, [True] * 5 + [False])
    np.testing.assert_array_equal(directions, np.diag([1.0] * 5 + [0.0]))
    few, wide = chosen(values[:2], np.eye(3)[:, :2], 4)
    np.testing.assert_array_equal(few, [4.0, 3.0, 0.0, 0.0])
    np.testing.assert_array_equal(wide, np.eye(3, 4) * [1.0, 1.0, 0.0, 0.0])
    none, empty = chosen(np.zeros(0), np.zeros((3, 0)), 2)
    assert not none.any() and not empty.any() and empty.shape == (3, 2)


def test_the_way_from_scores_to_a_point_that_has_them() -> None:
    V = np.random.default_rng(1).normal(size=(4, 2))
    V /= np.linalg.norm(V, axis=0)
    np.testing.assert_allclose(V.T @ lift(V), np.eye(2), atol=1e-12)
    assert lift(np.zeros((0, 2))).shape == (0, 2)


KERNEL = kernels.Polynomial(2, 0.5, 1.0)


def shown_components(orthonormal: bool = True) -> Components:
    rng = np.random.default_rng(2)
    span = factorise(KERNEL, rng.normal(size=(5, 3)))
    V = np.linalg.qr(rng.normal(size=(5, 2)))[0]
    if not orthonormal:
        V = V @ np.array([[1.0, 0.6], [0.0, 0.8]])
    basis = landmarks.Landmarks(5)
    state = FixedState(span)
    mean = rng.normal(size=5)
    return Components(KERNEL, basis, state, V, np.ones(2), mean, 3.0, 1.0, orthonormal)


@pytest.mark.parametrize("orthonormal", [True, False])
def test_what_a_query_sees(orthonormal: bool) -> None:
    """Scores, coefficients and errors, from features that are written down."""
    shown = shown_components(orthonormal)
    span, V = shown.span, shown.vectors
    X = np.random.default_rng(3).normal(size=(20, 3))
    Z = KERNEL(X, span.points) @ span.factor
    np.testing.assert_allclose(shown.coordinates(X), Z - shown.mean, atol=1e-12)
    np.testing.assert_allclose(shown.scores(X), (Z - shown.mean) @ V, atol=1e-10)
    np.testing.assert_allclose(shown.dual_coef, span.factor @ V)
    np.testing.assert_allclose(shown.mean_coef, span.factor @ shown.mean)
    np.testing.assert_allclose(shown.intercept, V.T @ shown.mean)
    np.testing.assert_array_equal(shown.points, span.points)
    P = V @ np.linalg.pinv(V)
    outside = (Z - shown.mean) @ (np.eye(5) - P)
    missed = KERNEL.diag(X) - np.sum(Z**2, axis=1)
    assert missed.min() > 0.0
    np.testing.assert_allclose(
        shown.reconstruction_error(X), missed + np.sum(outside**2, axis=1), rtol=1e-9
    )


def test_scores_of_components_without_variance_take_float64() -> None:
    """Where rounding in float32 would move a score by a thousandth of its deviation."""
    shown = shown_components()
    moved = moved_in_float32(KERNEL, shown.points, shown.dual_coef)
    for factor, rough in ((1.01, False), (0.99, True)):
        other = replace(shown, variances=(factor * 1e3 * moved) ** 2)
        assert other._rough is rough
    assert not replace(shown, variances=np.zeros(2))._rough


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_variances_and_the_way_back_are_those_of_the_rows(center: bool, weighted: bool) -> None:
    rng = np.random.default_rng(4)
    X, w = rng.normal(size=(80, 3)) + 2.0, rng.uniform(0.5, 2.0, size=80)
    w = w if weighted else np.ones(80)
    model = StreamingKernelPCA(
        2, kernel=KERNEL, basis=landmarks.Landmarks(X[:6]), center=center, preimage="ridge"
    ).partial_fit(X, sample_weight=w if weighted else None)
    shown = model.stream_.components
    W = w.sum()
    scores = model.transform(X)
    Z = KERNEL(X, shown.points) @ shown.span.factor
    mean = w @ Z / W if center else np.zeros(shown.vectors.shape[0])
    np.testing.assert_allclose(shown.mean, mean, atol=1e-10)
    assert shown.total_variance == pytest.approx(w @ KERNEL.diag(X) / W - mean @ mean)
    assert shown.weight == pytest.approx(W) and shown.orthonormal
    np.testing.assert_allclose(shown.variances, w @ scores**2 / W, rtol=1e-8)
    assert shown.inputs is not None
    origin = w @ X / W if center else np.zeros(3)
    np.testing.assert_allclose(shown.inputs.mean, origin, atol=1e-10)
    expected = (scores * w[:, None]).T @ (X - origin) / W
    np.testing.assert_allclose(shown.inputs.covariance, expected, atol=1e-8)
    without = StreamingKernelPCA(2, kernel=KERNEL, basis=landmarks.Landmarks(X[:6])).partial_fit(X)
    assert without.stream_.components.inputs is None


def test_a_reference_for_signs_has_a_few_more_columns_than_are_shown() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 4))
    for r, columns in ((2, 10), (None, 40)):
        model = StreamingKernelPCA(r, gamma=0.3, basis=landmarks.Landmarks(X[:40]), batch_size=100)
        signs = settled_state(model.partial_fit(X)).signs
        assert signs is not None and signs.shape == (40, columns)
    for rank, columns in ((7, 7), (15, 10)):  # solved anew, for the basis is not much larger
        small = StreamingKernelPCA(
            2, gamma=0.3, basis=landmarks.Landmarks(X[:rank]), batch_size=100
        )
        assert settled_state(small.partial_fit(X)).signs.shape == (rank, columns)


@pytest.mark.parametrize(("rank", "followed"), [(19, False), (20, True), (40, True)])
def test_a_reference_is_turned_along_in_a_basis_twice_as_large(
    rank: int, followed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two components, ten whose signs are kept."""
    asked: list[int] = []
    plain = signs.iterated

    def noted(C: Any, start: Any) -> Any:
        asked.append(start.shape[1])
        return plain(C, start)

    monkeypatch.setattr(signs, "iterated", noted)
    X = np.random.default_rng(6).normal(size=(400, 4))
    model = StreamingKernelPCA(2, gamma=0.3, basis=landmarks.Landmarks(X[:rank]), batch_size=100)
    model.partial_fit(X)
    assert bool(asked) == followed and set(asked) <= {10}


def test_total_variance_of_small_rows() -> None:
    X = 0.01 * np.random.default_rng(7).normal(size=(200, 3))
    model = StreamingKernelPCA(2, kernel="linear", basis="everything").partial_fit(X)
    assert model.stream_.components.total_variance == pytest.approx(X.var(axis=0).sum())


def test_components_are_corrected_by_a_sample_where_the_basis_moved() -> None:
    """S + (W/R) Σ (zzᵀ − ccᵀ), and the sums alike."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(3000, 2))
    X[1500:] += 4.0
    model = StreamingKernelPCA(
        3, gamma=0.4, basis=8, batch_size=64, random_state=0, preimage="ridge"
    )
    learned = model.partial_fit(X).stream_.settled.learned
    chain, state = learned.chain, learned.state
    assert state is not None
    sample = state.basis.correction(chain.kernel)
    assert isinstance(sample, Correction)
    W, Z, folded = state.moments.weight, sample.present, sample.folded
    share = W / len(Z)
    mean = (state.moments.total + (Z - folded).sum(axis=0) * share) / W
    scatter = Z.T @ Z - folded.T @ folded
    C = (state.tracker.scatter + scatter * share) / W - np.outer(mean, mean)
    shown = model.stream_.components
    np.testing.assert_allclose(shown.mean, mean, atol=1e-10)
    np.testing.assert_allclose(shown.variances, np.linalg.eigvalsh(C)[::-1][:3], rtol=1e-8)
    assert learned.correction(None) is None
    # and so is the way back to the rows
    targets = state.targets
    assert targets is not None and shown.inputs is not None
    cross = targets.cross / W + sample.cross(targets.origin, W) - np.outer(mean, targets.total / W)
    np.testing.assert_allclose(shown.inputs.covariance, shown.vectors.T @ cross, atol=1e-10)
    assert np.abs(shown.vectors.T @ sample.cross(targets.origin, W)).max() > 1e-4


def test_a_state_is_one_of_its_chain() -> None:
    X = np.random.default_rng(9).normal(size=(60, 2))
    learned = (
        StreamingKernelPCA(2, gamma=0.3, basis=landmarks.Landmarks(X[:5]), batch_size=20)
        .partial_fit(X)
        .stream_.learned
    )
    state = learned.state
    assert state is not None
    learned.check({"rank": 5})
    with pytest.raises(ValueError, match="4 coordinates in a basis of 5"):
        learned.check({"rank": 4})
    for changed, words in (
        (replace(state, basis=state.tracker), r"a CovarianceState for Landmarks"),
        (replace(state, tracker=state.basis), r"a FixedState for Covariance\(\)"),
    ):
        with pytest.raises(ValueError, match=words):
            replace(learned, state=changed).check({"rank": 5})
    open_kernel = replace(learned.chain, kernel=kernels.RBF())
    with pytest.raises(ValueError, match="a stream that has begun with the kernel RBF"):
        replace(learned, chain=open_kernel).check({"rank": 5})
    replace(learned, chain=open_kernel, state=None).check({})


def test_float32_scores_of_a_rough_model_are_computed_in_float64() -> None:
    shown = shown_components()
    X = np.random.default_rng(3).normal(size=(20, 3)).astype(np.float32)
    exact = shown.scores(X.astype(float))
    errors = {}
    for rough in (True, False):
        variances = np.full(2, 1e-30 if rough else 1e30)
        scores = replace(shown, variances=variances).scores(X)
        assert scores.dtype == np.float32
        errors[rough] = np.abs(scores - exact).max()
    assert errors[True] <= 1e-6 * np.abs(exact).max()
    assert errors[False] > errors[True]


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-10), ("float32", 2e-5)])
def test_what_is_not_explained_is_its_definition(dtype: str, tolerance: float):
    X = np.random.default_rng(1).normal(size=(400, 3)).astype(dtype)
    model = StreamingKernelPCA(None, gamma=0.3, basis=20, random_state=0).fit(X)
    shown = model.stream_.components
    far = np.concatenate([X[:50], 3.0 * X[:50]])
    Z = np.asarray(shown.coordinates(far), dtype=float)
    missed = np.maximum(1.0 - np.sum((Z + shown.mean) ** 2, axis=1), 0.0)
    share = shown.variances / (shown.variances + 1.0 / shown.weight)
    expected = missed + np.sum(Z**2, axis=1) - (Z @ shown.vectors) ** 2 @ share
    np.testing.assert_allclose(shown.unexplained(far), expected, atol=tolerance)
