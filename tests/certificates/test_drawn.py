"""The two halves of the feature space in which draws are judged."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, kernels, landmarks
from kernelstream.certificates import drawn
from kernelstream.certificates.betting import PILOT, least_ratio
from kernelstream.certificates.confidence import EvaluatedModel
from kernelstream.certificates.drawn import Outside, Wider, measured


def model(basis: object) -> StreamingKernelPCA:
    X = np.random.default_rng(0).normal(size=(600, 3))
    return StreamingKernelPCA(3, kernel=kernels.RBF(gamma=0.3), basis=basis, random_state=0).fit(X)


def judged_in(learned: StreamingKernelPCA) -> EvaluatedModel:
    found = learned.certificate_.judged
    assert found is not None
    return found


def top(matrix: np.ndarray, r: int) -> float:
    return float(np.linalg.eigvalsh(matrix)[-r:].sum())


def test_coordinates_beside_the_span_are_orthonormal_to_it() -> None:
    rng = np.random.default_rng(1)
    learned = model(landmarks.Centroids(10))
    judged, kernel = judged_in(learned), learned.kernel_
    wider = Wider.of(judged, rng.normal(size=(40, 3)))
    X = rng.normal(size=(200, 3))
    Z, beside = wider.coordinates(X)
    whole = np.concatenate([Z + judged.mean, beside], axis=1)
    # inner products of projections: never more than the kernel, and exact for rows in the span
    assert np.all((whole**2).sum(axis=1) <= np.asarray(kernel.diag(X)) + 1e-9)
    points = np.asarray(learned.basis_points_)
    both = np.concatenate([points, wider.rows])
    Z, beside = wider.coordinates(both)
    whole = np.concatenate([Z + judged.mean, beside], axis=1)
    assert whole @ whole.T == pytest.approx(np.asarray(kernel(both)), abs=1e-4)


def test_two_halves_hold_no_less_than_any_subspace() -> None:
    """Σ λ(C) ≤ Σ λ(C inside) + Σ λ(C outside): of the draws themselves."""
    rng = np.random.default_rng(2)
    learned = model(landmarks.Centroids(10))
    judged = judged_in(learned)
    X, r = rng.normal(size=(320, 3)), 4
    wider = Wider.of(judged, rng.normal(size=(20, 3)))
    V = np.asarray(judged.vectors)
    strip = measured(wider, V, partial(lambda rows, at: rows[at], X), slice(0, 320))
    few = Outside.of(wider, r, X, strip.rest, 1.0, 8.0)
    Z = np.asarray(judged.coordinates(X)) + judged.mean
    towards = Z @ judged.mean - 0.5 * judged.mean @ judged.mean
    K = np.asarray(learned.kernel_(X)) - towards[:, None] - towards[None, :]
    error = np.asarray(learned.reconstruction_error(X))
    assert strip.distance == pytest.approx(np.diag(K), abs=1e-9)
    assert strip.error == pytest.approx(error, abs=1e-9)
    outside = few.leading[0][-1] + few.leading[1][-1]
    assert top(K, r) <= top(strip.scatter, r) + outside + 1e-6
    assert top(strip.scatter, r) <= top(K, r) + 1e-6


def test_most_of_the_feature_space_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many draws only a few are compared with each other."""
    monkeypatch.setattr(drawn, "STRIP", 64)
    monkeypatch.setattr(drawn, "REST", 100)
    learned = model(landmarks.Centroids(10))
    judged, X = judged_in(learned), np.random.default_rng(3).normal(size=(2000, 3))
    wider = Wider.of(judged, X[:20])
    evaluated: list[int] = []
    block = type(judged.kernel).block

    def counted(self: kernels.Kernel, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        evaluated.append(X.shape[0] * Y.shape[0])
        return block(self, X, Y)

    monkeypatch.setattr(type(judged.kernel), "block", counted)
    said = drawn.statement_of_draws(judged, wider, lambda at: X[at], 2000, 10**9, 0.01, 0.99)
    assert sum(evaluated) < 2000 * (10 + 20) + 100 * (10 + 20 + 100) + 1000
    assert said.n_rows == 10**9 and said.n_sampled == 2000
    own = said.own_ratio_interval
    assert 0.0 < own[0] < own[1] < 1.0


def test_draws_that_choose_the_stake_are_not_among_those_that_are_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Moments of the wider span are those of the draws after the first strips, and of no other."""
    monkeypatch.setattr(drawn, "STRIP", 16)
    rng = np.random.default_rng(4)
    learned = model(landmarks.Centroids(10))
    judged, r = judged_in(learned), 3
    X = rng.normal(size=(320, 3))
    X[: 320 // PILOT] *= 0.1  # in front they are unlike the others
    wider = Wider.of(judged, X[:20])
    lefts: list[float] = []

    def recorded(left: float, *rest: Any) -> float:
        lefts.append(left)
        return least_ratio(left, *rest)

    monkeypatch.setattr(drawn, "least_ratio", recorded)
    drawn.statement_of_draws(judged, wider, lambda at: X[at], 320, 10**9, 0.01, 0.99)
    first = 16 * -(-320 // (PILOT * 16))
    assert 0 < first < 320
    whole = np.concatenate(wider.coordinates(X[first:]), axis=1)
    inside = float((whole**2).sum())
    expected = [inside - top(whole.T @ whole, k) for k in (1, r)]
    # of the wider span and of what is outside, with one direction for the mean and with all
    assert lefts[0::2] == pytest.approx(expected, rel=1e-6)
