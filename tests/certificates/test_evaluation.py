"""Draws in two orthogonal subspaces: an augmented span, and the rest."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, kernels, landmarks
from kernelstream.certificates import confidence, evaluation
from kernelstream.certificates.betting import PILOT
from kernelstream.certificates.confidence import Strip, evaluated_in, part_outside
from kernelstream.certificates.evaluation import AugmentedSpan, EvaluatedModel


def model(basis: object) -> StreamingKernelPCA:
    X = np.random.default_rng(0).normal(size=(600, 3))
    return StreamingKernelPCA(3, kernel=kernels.RBF(gamma=0.3), basis=basis, random_state=0).fit(X)


def evaluated(learned: StreamingKernelPCA) -> EvaluatedModel:
    stream = learned.stream_.caught_up
    return stream.evaluated(stream.components)


def top(matrix: np.ndarray, r: int) -> float:
    return float(np.linalg.eigvalsh(matrix)[-r:].sum())


def whole_coordinates(span: AugmentedSpan, X: np.ndarray) -> np.ndarray:
    Z = span.model.centered(X)
    return np.concatenate([Z + span.model.origin, span.directions(X, Z)], axis=1)


def test_directions_rows_added_to_a_span_are_orthonormal() -> None:
    rng = np.random.default_rng(1)
    learned = model(landmarks.Centroids(10))
    span, kernel = AugmentedSpan.of(evaluated(learned), rng.normal(size=(40, 3))), learned.kernel_
    X = rng.normal(size=(200, 3))
    whole = whole_coordinates(span, X)
    # inner products of projections: never more than the kernel, and exact for rows in the span
    assert np.all((whole**2).sum(axis=1) <= np.asarray(kernel.diag(X)) + 1e-9)
    both = np.concatenate([np.asarray(learned.basis_points_), span.rows])
    whole = whole_coordinates(span, both)
    assert whole @ whole.T == pytest.approx(np.asarray(kernel(both)), abs=1e-4)


def test_errors_of_rows_are_those_of_the_model() -> None:
    learned, X = model(landmarks.Centroids(10)), np.random.default_rng(2).normal(size=(150, 3))
    scores = evaluated(learned).evaluate(X)
    assert scores.error == pytest.approx(np.asarray(learned.reconstruction_error(X)), abs=1e-9)


def test_two_parts_hold_no_less_than_any_subspace() -> None:
    """Σ λ(C) ≤ Σ λ(C inside) + Σ λ(C outside): of the draws themselves."""
    rng = np.random.default_rng(2)
    learned = model(landmarks.Centroids(10))
    seen, X, r = evaluated(learned), rng.normal(size=(320, 3)), 3
    span = AugmentedSpan.of(seen, rng.normal(size=(20, 3)))
    strip = Strip.of(span, lambda at: X[at], slice(0, 320))
    towards = (seen.centered(X) + seen.origin) @ seen.origin - 0.5 * seen.origin @ seen.origin
    K = np.asarray(learned.kernel_(X)) - towards[:, None] - towards[None, :]
    assert strip.distance == pytest.approx(np.diag(K), abs=1e-9)
    first = len(X) // PILOT
    outside = part_outside(span, X, strip.rest)
    later = K[first:, first:]
    inside = Strip.of(span, lambda at: X[at], slice(first, 320)).scatter
    assert outside.first == first
    assert top(later, r) <= top(inside, r) + outside.leading[r - 1] + 1e-5
    assert top(inside, r) <= top(later, r) + 1e-6


def test_most_draws_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "STRIP", 64)
    monkeypatch.setattr(confidence, "ROWS", 100)
    learned, X = model(landmarks.Centroids(10)), np.random.default_rng(3).normal(size=(2000, 3))
    span = AugmentedSpan.of(evaluated(learned), X[:20])
    values: list[int] = []
    block = type(span.model.kernel).block

    def counted(self: kernels.Kernel, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        values.append(X.shape[0] * Y.shape[0])
        return block(self, X, Y)

    monkeypatch.setattr(type(span.model.kernel), "block", counted)
    bounds = confidence.bounds_of_draws(span, lambda at: X[at], 2000, 10**9, 0.99, 1)
    assert sum(values) < 2000 * (10 + 20) + 100 * (10 + 20 + 100) + 1000
    assert bounds.n_rows == 10**9 and bounds.n_sampled == 2000
    low, high = bounds.explained_variance_ratio_interval
    assert 0.0 < low < high < 1.0


def test_draws_that_choose_the_stake_are_not_bet_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments in the span are those of the draws after the first strips, and of no other."""
    monkeypatch.setattr(evaluation, "STRIP", 16)
    rng = np.random.default_rng(4)
    X = rng.normal(size=(320, 3))
    X[: 320 // PILOT] *= 0.1  # the first ones are unlike the others
    span = AugmentedSpan.of(evaluated(model(landmarks.Centroids(10))), X[:20])
    part = evaluated_in(span, partial(lambda rows, at: rows[at], X), 320)[0]
    first = 16 * -(-320 // (PILOT * 16))
    assert part.first == first < 320
    whole = whole_coordinates(span, X) - np.r_[span.model.origin, np.zeros(span.factor.shape[1])]
    scatter = whole[first:].T @ whole[first:]
    assert part.leading[2] == pytest.approx(top(scatter, 3), rel=1e-9)
    assert part.squared_norm.sum() == pytest.approx((whole**2).sum(), rel=1e-9)
    assert part.mean == pytest.approx(math.dist(whole.mean(axis=0), 0.0 * whole[0]), rel=1e-9)
