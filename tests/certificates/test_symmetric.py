"""Symmetric matrices in half of their memory, and their largest eigenvalues."""

from __future__ import annotations

import numpy as np
import pytest

from kernelstream.certificates import symmetric
from kernelstream.certificates.symmetric import FEW, MANY, STRIP, Symmetric, leading_values

N = FEW + 100  # so many rows that their eigenvalues are iterated for
WIDE = {"float32": 1e-5, "float64": 1e-11}


def of(A: np.ndarray, dtype: type = np.float64) -> Symmetric:
    return Symmetric.of(lambda rows, columns: A[rows, columns], np.diag(A), dtype)


def spread(n: int = N, rank: int = 200) -> np.ndarray:
    A = np.random.default_rng(0).normal(size=(n, rank)) * np.geomspace(1, 0.01, rank)
    return A @ A.T


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, STRIP, 2 * STRIP + 3])
def test_it_is_the_matrix(n: int, dtype: type) -> None:
    A, v = spread(n, 5), np.random.default_rng(1).normal(size=n)
    G, off = of(A, dtype), WIDE[np.dtype(dtype).name] * max(1.0, np.abs(A).max())
    assert len(G) == n and G.dtype == dtype
    np.testing.assert_allclose(G.diagonal(), np.diag(A), atol=off)
    np.testing.assert_allclose(G @ v, A @ v, atol=50 * off)
    np.testing.assert_allclose(G.dense(v), A * v[:, None] * v[None, :], atol=20 * off)
    v[::3] = 0.0
    kept = np.flatnonzero(v)
    np.testing.assert_allclose(
        G.dense(v), (A * v[:, None] * v[None, :])[np.ix_(kept, kept)], atol=20 * off
    )
    G.shift(v)
    shifted = A + v[:, None] + v[None, :]
    np.testing.assert_allclose(G.dense(np.ones(n)), shifted, atol=10 * off)


def test_it_takes_half_of_the_memory() -> None:
    G = of(np.eye(N), np.float32)
    assert sum(strip.nbytes for strip in G.strips) < 0.56 * 4 * N**2


def test_the_diagonal_is_what_is_said_of_it() -> None:
    G = Symmetric.of(lambda rows, columns: np.zeros((N, N))[rows, columns], np.arange(N))
    assert G.diagonal().tolist() == list(range(N))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("r", [1, 5, MANY])
def test_leading_values_are_never_too_small(r: int, dtype: type) -> None:
    G, root = spread(), np.sqrt(np.random.default_rng(2).integers(0, 3, size=N).astype(float))
    exact = np.linalg.eigvalsh(G * root[:, None] * root[None, :])[::-1][:r]
    found = leading_values(of(G, dtype), root, r)
    assert np.all(found >= exact * (1 - 1e-7)) and np.all(found <= exact * 1.001)


def test_all_values_of_few_rows() -> None:
    A = spread(40)
    assert leading_values(of(A), np.ones(40), 60).sum() == pytest.approx(np.trace(A))
    many = leading_values(of(spread()), np.ones(N), MANY + 1)
    np.testing.assert_allclose(many, np.linalg.eigvalsh(spread())[::-1][: MANY + 1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_iteration_that_has_nowhere_to_go(dtype: type) -> None:
    """No image, an image that is not seen from the start, one direction, or all alike."""
    ones, apart = np.ones(N), np.zeros(N)
    apart[:2] = 1.0, -1.0  # at right angles to where the iteration begins
    assert leading_values(of(np.zeros((N, N)), dtype), ones, 3).tolist() == [0.0, 0.0, 0.0]
    assert leading_values(of(np.ones((N, N)), dtype), 0.0 * ones, 2).tolist() == [0.0, 0.0]
    for A, expected in (
        (np.outer(apart, apart), [2.0, 0.0, 0.0]),
        (np.outer(ones, ones) + np.outer(apart, apart), [N, 2.0, 0.0]),
        (np.eye(N), [1.0, 1.0, 1.0]),
    ):
        found = leading_values(of(A, dtype), ones, 3)
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-6 * np.trace(A))


def test_what_is_left_of_the_trace_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few directions hold all but a little: the others are not looked for, and not forgotten."""
    A = np.diag(np.r_[1.0, np.full(N - 1, 1e-10)])
    asked: list[int] = []
    product = Symmetric.__matmul__

    def counted(G: Symmetric, v: np.ndarray) -> np.ndarray:
        asked.append(1)
        return product(G, v)

    monkeypatch.setattr(Symmetric, "__matmul__", counted)
    found = leading_values(of(A), np.ones(N), 30)
    assert len(asked) == symmetric.TOGETHER
    assert found[0] >= np.trace(A) - found[1:].sum()
