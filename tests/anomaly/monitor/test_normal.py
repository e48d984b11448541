"""Normal operation against its definitions: products, whitening, index, learning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from kernelstream import landmarks
from kernelstream.anomaly.monitor.normal import (
    Normal,
    RowMoments,
    Whitening,
    lag_rows,
    learn_normal,
    row_dots,
    rows_times,
)
from tests.anomaly.monitor.processes import SETTING, correlated


@pytest.mark.parametrize("n", [1, 7, 8, 9, 40])
def test_products_do_not_know_of_other_rows(n: int) -> None:
    rng = np.random.default_rng(0)
    X, A, Y = rng.normal(size=(40, 13)), rng.normal(size=(13, 6)), rng.normal(size=(40, 13))
    np.testing.assert_allclose(rows_times(X, A), X @ A, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(row_dots(X, Y), (X * Y).sum(axis=1), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(rows_times(X[-n:], A), rows_times(X, A)[-n:])
    np.testing.assert_array_equal(row_dots(X[-n:], Y[-n:]), row_dots(X, Y)[-n:])
    np.testing.assert_array_equal(rows_times(X, A.T.copy().T), rows_times(X, A))  # memory order


def test_index_is_its_definition(normal: Normal) -> None:
    """Σ y²/(λ+ε) + (k(x,x) − |z|²)/ε, from an eigenproblem and a least-squares projection."""
    R, X = correlated(200), correlated(40, seed=1) * 1.5
    C = np.cov(R.T, ddof=0)
    sd = np.sqrt(np.diag(C))
    values, vectors = np.linalg.eigh(C / np.outer(sd, sd))
    W = np.diag(1 / sd) @ vectors @ np.diag(np.maximum(values, 1e-3) ** -0.5) @ vectors.T
    U, V = (R - R.mean(axis=0)) @ W, (X - R.mean(axis=0)) @ W
    D = normal.index.span.points
    kernel = RBF(np.sqrt(20.0 * 5 / 2))  # exp(−|u − v|²/2l²)
    F = np.linalg.inv(np.linalg.cholesky(kernel(D))).T
    Z, z = kernel(U, D) @ F, kernel(V, D) @ F
    lam, axes = np.linalg.eigh(np.cov(Z.T, ddof=0))
    epsilon = 0.05 * lam.sum() / 5
    y = (z - Z.mean(axis=0)) @ axes
    t2, spe = (y**2 / (lam + epsilon)).sum(axis=1), 1 - (z**2).sum(axis=1)
    for product in (rows_times, np.matmul):
        found = normal.score(X, product)
        np.testing.assert_allclose(found.t2, t2, rtol=1e-7)
        np.testing.assert_allclose(found.spe, spe, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(found.index, t2 + spe / epsilon, rtol=1e-7)


def test_far_away_t2_is_blind_and_the_index_is_not() -> None:
    normal = learn_normal(
        correlated(400), replace(SETTING, width=1.0, basis=landmarks.Centroids(150))
    )
    inside = normal.score(correlated(500, seed=1))
    far = normal.score(np.full((1, 5), 1e6))
    assert far.t2[0] < np.quantile(inside.t2, 0.95)
    assert far.index[0] > np.quantile(inside.index, 0.99)
    assert far.index[0] == pytest.approx(normal.index.far_away, rel=1e-12)


def test_gradient_and_curvature_by_differences(normal: Normal) -> None:
    U = normal.whitening.apply(correlated(10, seed=1))
    G, stretch = normal.index.gradient(U)
    assert np.all(stretch[row_dots(U, U) < 10.0] == 1.0)
    U = U / stretch[:, None]
    h = 1e-4
    for j in range(5):
        step = h * np.eye(5)[j]
        up, down = (normal.index.score(U + s).index for s in (step, -step))
        np.testing.assert_allclose(G[:, j], (up - down) / (2 * h), rtol=1e-4, atol=1e-4)
    small = 0.5 * U
    H = np.array(
        [
            np.mean(
                normal.index.gradient(small + h * e)[0] - normal.index.gradient(small - h * e)[0],
                axis=0,
            )
            / (2 * h)
            for e in np.eye(5)
        ]
    )
    np.testing.assert_allclose(normal.index.curvature(small), H, rtol=1e-3, atol=1e-3)


def test_whitened_rows_are_white_and_axes_stay() -> None:
    R = correlated(500)
    scaling = Whitening.of(RowMoments.of(R), True)
    U = scaling.apply(R)
    np.testing.assert_allclose(np.cov(U.T, ddof=0), np.eye(5), atol=1e-8)
    # ZCA: each whitened variable is most like its own variable, and a small change of the data
    # is a small change of the rows
    nearly = Whitening.of(RowMoments.of(R + 1e-6 * correlated(500, seed=3)), True)
    np.testing.assert_allclose(nearly.apply(R), U, atol=1e-3)


def test_a_change_of_units_changes_nothing() -> None:
    R, units = correlated(300), np.array([1.0, 10.0, 0.1, 3.0, 1e4])
    one, two = (Whitening.of(RowMoments.of(rows), True) for rows in (R, R * units + 5.0))
    np.testing.assert_allclose(one.apply(R), two.apply(R * units + 5.0), atol=1e-8)


def test_moments_with_forgetting() -> None:
    R = correlated(60)
    gathered = RowMoments.of(R[:20]).learn(R[20:35], 0.95).learn(R[35:], 0.95)
    w = 0.95 ** np.r_[np.full(20, 40), np.arange(39, -1, -1)]
    mean = np.average(R, axis=0, weights=w)
    np.testing.assert_allclose(gathered.mean, mean)
    np.testing.assert_allclose(gathered.covariance, np.cov(R.T, ddof=0, aweights=w), atol=1e-12)
    assert gathered.n_effective == pytest.approx(w.sum() ** 2 / (w**2).sum())


def test_lags() -> None:
    Z = np.arange(8.0).reshape(4, 2)
    R = lag_rows(Z[:0], Z, 2)
    np.testing.assert_array_equal(R[0], [0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(R[3], [6, 7, 4, 5, 2, 3])
    for cut in range(1, 4):
        np.testing.assert_array_equal(lag_rows(Z[:cut], Z[cut:], 2), R[cut:])


def test_adaptation_learns_rows_as_they_were_scored(normal: Normal) -> None:
    R = correlated(40, seed=5) + 0.5
    Z = normal.index.coordinates(normal.whitening.apply(R))
    adapted = normal.adapt(R, 0.99)
    w = 0.99 ** np.r_[np.full(200, 40), np.arange(39, -1, -1)]
    for gathered, old, new in (
        (adapted.rows, correlated(200), R),
        (adapted.coordinates, normal.index.coordinates(normal.whitening.apply(correlated(200))), Z),
    ):
        mean = np.average(np.vstack([old, new]), axis=0, weights=w)
        np.testing.assert_allclose(gathered.mean, mean, atol=1e-9)
    np.testing.assert_array_equal(adapted.whitening.mean, adapted.rows.mean)
    np.testing.assert_array_equal(adapted.index.mean, adapted.coordinates.mean)
