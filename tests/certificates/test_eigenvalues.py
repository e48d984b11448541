"""Sums of leading eigenvalues of Gram matrices, and their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from kernelstream.arrays.threads import cores
from kernelstream.certificates import eigenvalues
from kernelstream.certificates.eigenvalues import FEW, gram_matrix, leading_sums, unit_of

N = FEW + 100  # so many rows that their eigenvalues are iterated for
ROUNDING: dict[type, float] = {np.float32: 3e-6, np.float64: 1e-12}


def gram_of(A: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    return gram_matrix(lambda rows, columns: A[rows, columns], np.diag(A), dtype)


def low_rank(n: int = N, rank: int = 200) -> np.ndarray:
    A = np.random.default_rng(0).normal(size=(n, rank)) * np.geomspace(1, 0.01, rank)
    return A @ A.T


def exact_sums(A: np.ndarray, k: int) -> np.ndarray:
    return np.cumsum(np.linalg.eigvalsh(A)[::-1][:k])


def odd_matrices() -> dict[str, np.ndarray]:
    """Spectra at which an iteration may stop too early, or may have nowhere to go."""
    ones, apart = np.ones(N), np.zeros(N)
    apart[:2] = 1.0, -1.0
    kinds = np.random.default_rng(0).integers(0, 3, N)
    return {
        "zero": np.zeros((N, N)),
        "identity": np.eye(N),
        "rows that are the same": np.ones((N, N)),
        "three different rows": (kinds[:, None] == kinds[None, :]).astype(float),
        "two directions": np.outer(ones, ones) + np.outer(apart, apart),
        "one row": np.diag(np.r_[1.0, np.full(N - 1, 1e-10)]),
        "cluster": np.diag(np.r_[1.0, np.full(30, 0.5), np.full(N - 31, 0.1)]),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 5, 64])
def test_leading_sums_many_rows_hold_the_exact_sums(k: int, dtype: type) -> None:
    A = low_rank()
    unit, exact = unit_of(np.diag(A)), exact_sums(A, k)
    lower, upper = leading_sums(gram_of(A, dtype), k)
    assert np.all(unit * lower <= exact * (1 + ROUNDING[dtype]))
    assert np.all(unit * upper >= exact * (1 - ROUNDING[dtype]))
    assert np.all(upper - lower <= (1e-3 if dtype == np.float32 else 1e-7) * upper)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", odd_matrices())
def test_leading_sums_odd_spectrum_hold_and_repeat(name: str, dtype: type) -> None:
    A = odd_matrices()[name]
    unit, exact = unit_of(np.diag(A)), exact_sums(A, 5)
    lower, upper = leading_sums(gram_of(A, dtype), 5)
    off = ROUNDING[dtype] * float(np.trace(A))
    assert np.all(unit * lower <= exact + off) and np.all(unit * upper >= exact - off)
    assert np.all(unit * (upper - lower) <= 2e-3 * exact + off)
    again = leading_sums(gram_of(A, dtype), 5)
    assert np.array_equal(lower, again[0]) and np.array_equal(upper, again[1])


@given(exponent=st.integers(-450, 450))
def test_leading_sums_scaled_matrix_has_scaled_sums(exponent: int) -> None:
    """Of a matrix in other units the bounds are the same numbers, bit for bit."""
    A = low_rank(rank=6)
    lower, upper = leading_sums(gram_of(A, np.float32), 3)
    scaled = gram_of(A * 2.0**exponent, np.float32)
    assert unit_of(np.diag(A) * 2.0**exponent) == 2.0**exponent * unit_of(np.diag(A))
    for one, other in zip((lower, upper), leading_sums(scaled, 3), strict=True):
        np.testing.assert_array_equal(one, other)


def test_leading_sums_any_number_of_threads_are_the_same() -> None:
    A, found = low_rank(), []
    for threads in (1, 2, 3):
        with threadpool_limits(threads), cores():
            found.append(leading_sums(gram_of(A), 4))
    for lower, upper in found[1:]:
        assert np.array_equal(lower, found[0][0]) and np.array_equal(upper, found[0][1])


def test_leading_sums_missed_eigenvalue_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """An iteration that overlooks a direction: the trace is true, and nothing below it is said."""
    A = np.diag(np.r_[1.0, np.full(N - 1, 1e-4)])

    def overlooking(G: np.ndarray, k: int, **options: object) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(G)
        return values[-k - 1 : -1], vectors[:, -k - 1 : -1]

    monkeypatch.setattr(eigenvalues, "eigsh", overlooking)
    upper = leading_sums(gram_of(A), 2)[1] * unit_of(np.diag(A))
    assert upper == pytest.approx(np.trace(A), rel=1e-12)


def test_leading_sums_no_convergence_is_bounded_by_the_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*given: object, **options: object) -> None:
        raise eigenvalues.ArpackError(-1)

    monkeypatch.setattr(eigenvalues, "eigsh", failing)
    lower, upper = leading_sums(gram_of(low_rank()), 2)
    assert not lower.any() and upper == pytest.approx(np.trace(gram_of(low_rank())))


def test_leading_sums_more_than_there_are_repeat_the_last() -> None:
    lower, upper = leading_sums(gram_of(low_rank(40)), 60)
    assert len(upper) == 60 and upper[-1] == upper[39] == lower[-1]


@pytest.mark.parametrize("n", [1, 256, 600])
def test_gram_matrix_asks_for_one_half_and_knows_the_diagonal(n: int) -> None:
    A = low_rank(n, 5)
    asked = np.zeros((n, n), int)

    def block(rows: slice, columns: slice) -> np.ndarray:
        asked[rows, columns] += 1
        return A[rows, columns] + 9.0 * (np.arange(n)[rows, None] == np.arange(n)[None, columns])

    G = gram_matrix(block, np.diag(A), np.float64)
    np.testing.assert_allclose(G * unit_of(np.diag(A)), A, rtol=1e-14)
    assert asked.max() == 1 and asked.sum() <= n * (n + 256) / 2
