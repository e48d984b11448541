"""Kernels: against scikit-learn, against double loops, and at the edges of the number range."""

from __future__ import annotations

import math
import pickle
import re
import tracemalloc
from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.sparse
import sklearn.gaussian_process.kernels as gp
import sklearn.metrics.pairwise as pairwise
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.svm import SVC

from kernelstream import StreamingKernelPCA
from kernelstream.kernels import (
    NAMES,
    RBF,
    Categorical,
    Constant,
    Cosine,
    Exponential,
    FromCallable,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Normalised,
    Polynomial,
    Product,
    Sigmoid,
    Sum,
    resolve,
    squared_distances,
)
from kernelstream.metrics import captured_variance
from tests import samples


def squared(X: Any, Y: Any) -> Any:
    """A kernel function in words of the array API."""
    return (X @ Y.T) ** 2


def name(kernel: Kernel) -> str:
    """The repr on one line without addresses: the same in every process of pytest-xdist."""
    return re.sub(r"<function (\w+) at \w+>|\s+", r"\1", repr(kernel))


# Every kernel, with the same thing from scikit-learn.
REFERENCES: list[tuple[Kernel, Any]] = [
    (RBF(0.3), lambda X, Y: pairwise.rbf_kernel(X, Y, gamma=0.3)),
    (Exponential(0.4), lambda X, Y: np.exp(-0.4 * pairwise.euclidean_distances(X, Y))),
    (Laplacian(0.2), lambda X, Y: pairwise.laplacian_kernel(X, Y, gamma=0.2)),
    (Matern(0.5, 1.3), gp.Matern(1.3, nu=0.5)),
    (Matern(1.5, 1.3), gp.Matern(1.3, nu=1.5)),
    (Matern(2.5, 1.3), gp.Matern(1.3, nu=2.5)),
    (Polynomial(1, 0.5, 0.0), lambda X, Y: pairwise.polynomial_kernel(X, Y, 1, 0.5, 0.0)),
    (Polynomial(2, 0.5), lambda X, Y: pairwise.polynomial_kernel(X, Y, 2, 0.5)),
    (Polynomial(), lambda X, Y: pairwise.polynomial_kernel(X, Y)),
    (Polynomial(4, 0.1, 2.0), lambda X, Y: pairwise.polynomial_kernel(X, Y, 4, 0.1, 2.0)),
    (Polynomial(11, 0.1, -0.5), lambda X, Y: pairwise.polynomial_kernel(X, Y, 11, 0.1, -0.5)),
    (Sigmoid(), lambda X, Y: pairwise.sigmoid_kernel(X, Y)),
    (Sigmoid(0.1, -0.3), lambda X, Y: pairwise.sigmoid_kernel(X, Y, 0.1, -0.3)),
    (Linear(), lambda X, Y: pairwise.linear_kernel(X, Y)),
    (Cosine(), lambda X, Y: pairwise.cosine_similarity(X, Y)),
    (Normalised(Linear()), lambda X, Y: pairwise.cosine_similarity(X, Y)),
    (
        Normalised(Polynomial(degree=2, gamma=0.3, coef0=1.0)),
        lambda X, Y: (
            pairwise.polynomial_kernel(X, Y, 2, 0.3, 1.0)
            / np.sqrt(np.outer((0.3 * (X**2).sum(1) + 1) ** 2, (0.3 * (Y**2).sum(1) + 1) ** 2))
        ),
    ),
    (Constant(2.5), lambda X, Y: np.full((len(X), len(Y)), 2.5)),
    (
        RBF(0.3) + 2.0 * Linear(),
        lambda X, Y: pairwise.rbf_kernel(X, Y, gamma=0.3) + 2.0 * X @ Y.T,
    ),
    (
        RBF(0.3) * Polynomial(2, 0.5),
        lambda X, Y: (
            pairwise.rbf_kernel(X, Y, gamma=0.3) * pairwise.polynomial_kernel(X, Y, 2, 0.5)
        ),
    ),
    (FromCallable(squared), lambda X, Y: (X @ Y.T) ** 2),
    (Categorical(0.3), lambda X, Y: np.exp(-0.3 * np.sum(X[:, None] != Y[None], axis=2))),
]


KERNELS = [kernel for kernel, _ in REFERENCES]


STATIONARY = [k for k in KERNELS if isinstance(k, RBF | Laplacian | Exponential | Matern)]


every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=name)


every_reference = pytest.mark.parametrize(
    ("kernel", "reference"), REFERENCES, ids=[name(k) for k in KERNELS]
)


# Kernels and parameters whose numbers come from the rows.
OPEN: list[Any] = [RBF(), RBF("scale"), Exponential(), Laplacian(), Matern(), Polynomial()]


OPEN += [Polynomial(gamma="scale"), Sigmoid(gamma="scale"), RBF() + 2.0 * Matern(2.5)]


def sparse_rows(n: int, d: int = 7, seed: int = 0) -> np.ndarray:
    """Dense rows with about two thirds zeros, and one row of zeros only."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.35)
    X[n // 2] = 0.0
    return X


def numbers(kernel: Kernel) -> list[float]:
    return [v for v in kernel.get_params().values() if isinstance(v, int | float)]


# --- the values ------------------------------------------------------------------------------


@every_reference
def test_block_is_scikit_learns(kernel: Kernel, reference: Any) -> None:
    X, Y = samples.rows(40, 7), samples.rows(13, 7, 1)
    K = kernel.fix(X).block(X, Y)
    assert isinstance(K, np.ndarray)
    assert K.dtype == np.float64
    expected = reference(X, Y)
    np.testing.assert_allclose(K, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


@every_reference
def test_csr_rows(kernel: Kernel, reference: Any) -> None:
    X, Y = sparse_rows(40), samples.rows(13, 7, 1)
    expected = reference(X, Y)
    for kind in (scipy.sparse.csr_array, scipy.sparse.csr_matrix):
        rows_csr = kind(X)
        fixed = kernel.fix(rows_csr)
        K = fixed.block(rows_csr, Y)
        assert isinstance(K, np.ndarray)
        np.testing.assert_allclose(K, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
        np.testing.assert_allclose(fixed.diag(rows_csr), fixed.diag(X), rtol=1e-12)


@every_reference
@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_array])
def test_float32_rows_give_float32(kernel: Kernel, reference: Any, container: Any) -> None:
    # NumPy scalars are what grid search hands over; multiplied, they would give float64.
    plain = kernel.get_params()
    kernel = clone(kernel).set_params(
        **{k: np.float64(v) for k, v in plain.items() if isinstance(v, float)}
    )
    X, Y = sparse_rows(40).astype(np.float32), samples.rows(13, 7, 1)
    fixed = kernel.fix(container(X))
    assert all(type(v) in (int, float) for v in numbers(fixed))
    K = fixed.block(container(X), Y)
    assert K.dtype == np.float32
    assert fixed.diag(container(X)).dtype == np.float32
    assert fixed.gram(Y.astype(np.float32)).dtype == np.float64
    # The rounding of X and Y, 6e-8, times the sensitivity of the kernel: at most its degree, 11.
    expected = reference(X.astype(np.float64), Y)
    np.testing.assert_allclose(K, expected, rtol=0, atol=3e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", [Exponential(1.0), Matern(0.5, 1.0)], ids=name)
def test_kernels_with_a_kink_are_accurate_in_float32(kernel: Kernel) -> None:
    """With distances in float32, a row against itself would have k = 1 − 1e-3."""
    for dtype in (np.float32, np.float64):
        X = samples.rows(200, 50).astype(dtype)
        K = kernel.block(X, X)
        # √ of the rounding of |x|²: that much is lost in float64, too.
        np.testing.assert_allclose(np.diagonal(K), 1.0, rtol=0, atol=1e-6)


def naive(kernel: Kernel, x: np.ndarray, y: np.ndarray) -> float:
    """k(x, y) for two rows, straight from the definition."""
    p: dict[str, Any] = kernel.get_params(deep=False)
    distance = math.sqrt(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)))
    dot = sum(a * b for a, b in zip(x, y, strict=True))
    match kernel:
        case RBF():
            return math.exp(-p["gamma"] * distance**2)
        case Exponential():
            return math.exp(-p["gamma"] * distance)
        case Laplacian():
            return math.exp(-p["gamma"] * sum(abs(a - b) for a, b in zip(x, y, strict=True)))
        case Matern(nu=1.5):
            t = math.sqrt(3) * distance / p["length_scale"]
            return (1 + t) * math.exp(-t)
        case Polynomial():
            return (p["gamma"] * dot + p["coef0"]) ** p["degree"]
        case Sigmoid():
            return math.tanh(p["gamma"] * dot + p["coef0"])
        case Linear():
            return dot
        case Cosine():
            lengths = math.sqrt(sum(a * a for a in x)) * math.sqrt(sum(b * b for b in y))
            return dot / lengths if lengths > 0 else 0.0
        case Constant():
            return p["value"]
        case Sum():
            return naive(p["left"], x, y) + naive(p["right"], x, y)
        case Product():
            return naive(p["left"], x, y) * naive(p["right"], x, y)
    raise NotImplementedError


# Any, because to mypy 2.0 * kernel is a number: scikit-learn, and so our base class, is untyped.
SIMPLE: list[Any] = [RBF(0.5), Exponential(0.5), Laplacian(0.5), Matern(1.5, 2.0), Linear()]


SIMPLE += [Polynomial(3, 0.5), Sigmoid(0.5), Cosine(), 2.0 * RBF(0.5) * Linear() + 1.0]


# Halves: many exact repetitions, zeros and orthogonal rows, no underflow.
halves = st.integers(-6, 6).map(lambda i: i / 2)


small_matrices = st.integers(1, 4).flatmap(
    lambda d: st.tuples(
        *(arrays(np.float64, st.tuples(st.integers(1, 6), st.just(d)), elements=halves),) * 2
    )
)


@given(kernel=st.sampled_from(SIMPLE), matrices=small_matrices)
def test_block_is_the_double_loop(kernel: Kernel, matrices: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = matrices
    expected = [[naive(kernel, x, y) for y in Y] for x in X]
    # √ of a squared distance that is rounding instead of 0: up to 1e-8 · |x|.
    atol = 1e-7 if isinstance(kernel, Exponential) else 1e-12 * (1 + np.abs(expected).max())
    np.testing.assert_allclose(kernel.block(X, Y), expected, rtol=1e-12, atol=atol)
    np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-12, atol=atol)


@given(kernel=st.sampled_from(KERNELS), matrices=small_matrices)
def test_gram_is_symmetric_and_has_the_diagonal(
    kernel: Kernel, matrices: tuple[np.ndarray, np.ndarray]
) -> None:
    Y = matrices[0]
    kernel = kernel.fix(Y)
    G = kernel.gram(Y)
    assert np.array_equal(G, G.T)
    assert np.array_equal(np.diagonal(G), kernel.diag(Y))
    # Kernels with a kink: see above. Relative to the largest: Polynomial(11) spans many orders.
    atol = 1e-7 * max(1.0, np.abs(G).max())
    np.testing.assert_allclose(kernel.block(Y, Y), G, rtol=0, atol=atol)
    if kernel.psd:
        assert np.linalg.eigvalsh(G).min() >= -1e-12 * (1 + np.trace(G))
    if kernel.unit_norm:
        assert np.array_equal(kernel.diag(Y), np.ones(len(Y)))


def test_which_kernels_are_positive_semidefinite() -> None:
    psd: list[Any] = [*STATIONARY, Linear(), Cosine(), Constant(), Polynomial(coef0=0), RBF() + 1.0]
    for kernel in psd:
        assert kernel.psd, kernel
    not_psd: list[Any] = [Sigmoid(), Polynomial(coef0=-1), FromCallable(squared)]
    not_psd += [RBF() + Sigmoid(), Sigmoid() * RBF(), 2.0 * Polynomial(coef0=-1)]
    for kernel in not_psd:
        assert not kernel.psd, kernel
    # The flag is needed: this one has a clearly negative eigenvalue.
    assert np.linalg.eigvalsh(Polynomial(1, coef0=-1.0)(samples.rows(5, 2))).min() < -0.1


def test_which_kernels_have_unit_norm() -> None:
    unit: list[Any] = [*STATIONARY, RBF() * Laplacian()]
    for kernel in unit:
        assert kernel.unit_norm, kernel
    other: list[Any] = [Linear(), Polynomial(), Sigmoid(), Cosine(), RBF() + RBF(), 2.0 * RBF()]
    for kernel in other:
        assert not kernel.unit_norm, kernel


@every_kernel
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_a_kernel_is_what_it_says_of_itself(kernel: Kernel, scale: float) -> None:
    X, Y = scale * samples.rows(50, 7), scale * samples.rows(6, 7, 1)
    kernel = kernel.fix(X)
    K = kernel.block(X, Y)
    assert np.abs(kernel.diag(X)).max() <= kernel.max_squared_norm * (1 + 1e-12)
    if kernel.stationary:
        away = scale * np.arange(7.0)
        np.testing.assert_allclose(kernel.block(X + away, Y + away), K, rtol=1e-9, atol=1e-12)
    if kernel.isotropic:
        turn = np.linalg.qr(samples.rows(7, 7, 2))[0]
        turned = kernel.block(X @ turn, Y @ turn)
        np.testing.assert_allclose(turned, K, rtol=1e-8, atol=1e-12 * np.abs(K).max())
    if kernel.invertible:
        squares = squared_distances(X, Y)
        seen = kernel.block(X, Y) > 1e-6 if kernel.unit_norm else np.ones(K.shape, bool)
        found = kernel.inverse(K, kernel.diag(X), Y)
        np.testing.assert_allclose(found[seen], squares[seen], rtol=1e-4, atol=1e-6 * scale**2)


def test_every_named_kernel_is_in_the_table() -> None:
    listed = {type(kernel) for kernel in KERNELS}
    assert not [name for name, kind in NAMES.items() if kind not in listed]


def test_cosine_of_a_row_of_zeros_is_zero() -> None:
    X = np.array([[0.0, 0.0], [3.0, 4.0]])
    assert np.array_equal(Cosine()(X), [[0.0, 0.0], [0.0, 1.0]])
    assert np.array_equal(Cosine().diag(X), [0.0, 1.0])


@every_kernel
def test_arguments_are_not_changed(kernel: Kernel) -> None:
    X, Y = samples.rows(5, 7), samples.rows(4, 7, 1)
    X_before, Y_before = X.copy(), Y.copy()
    fixed = kernel.fix(X)
    fixed.block(X, Y)
    fixed.diag(X)
    fixed.gram(Y)
    assert np.array_equal(X, X_before)
    assert np.array_equal(Y, Y_before)


@pytest.mark.parametrize("kernel", [k for k in OPEN if name(k) != "Polynomial()"], ids=name)
@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_extreme_scales(kernel: Kernel, scale: float) -> None:
    X = samples.rows(60, 7)
    K = kernel(X)
    np.testing.assert_allclose(kernel(X * scale), K, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(kernel(X * scale, X * scale), K, rtol=1e-9, atol=2e-7)


@pytest.mark.parametrize("kernel", [RBF(), RBF("scale"), Exponential(), Matern()], ids=name)
def test_numbers_that_do_not_exist_are_refused(kernel: Kernel) -> None:
    for scale in (1e-170, 1e170):
        with pytest.raises(ValueError, match=r"float64 cannot represent: rescale the data"):
            kernel.fix(samples.rows(9, 7) * scale)
    with pytest.raises(ValueError, match=r"float32 cannot represent: rescale the data"):
        kernel.fix((samples.rows(9, 7) * 1e-25).astype(np.float32))


def test_matern_far_away_and_near_by() -> None:
    for nu in (0.5, 1.5, 2.5):
        for dtype in (np.float32, np.float64):
            X = np.array([[0.0], [1e-30], [1e-9], [1e9], [1e18]], dtype=dtype)
            K = Matern(nu, 1e-2).block(X, X[:1])
            assert K.dtype == dtype
            assert np.all(np.isfinite(K))
            assert K[0, 0] == 1.0
            assert K[3, 0] == K[4, 0] == 0.0


def test_overflow_is_reported_by_the_call() -> None:
    with pytest.raises(ValueError, match=r"overflows float64 on these rows: rescale the data"):
        Polynomial(degree=20, gamma=1.0)(samples.rows(4, 7) * 1e20)
    with pytest.raises(ValueError, match="overflows float32"):
        Polynomial(degree=3, gamma=1.0)((samples.rows(4, 7) * 1e10).astype(np.float32))


def peak_bytes(function: Any, *arguments: Any) -> int:
    function(*arguments)
    tracemalloc.start()
    try:
        function(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kernel", [RBF(0.1), Sigmoid(0.1), Cosine(), Polynomial(2, 0.1)], ids=name)
def test_memory_of_a_block_is_the_block(kernel: Kernel) -> None:
    many, few = samples.rows(2000, 300), samples.rows(10, 300, 1)
    assert peak_bytes(kernel.block, many, few) < 0.2 * many.nbytes  # no copy of the rows
    X, Y = samples.rows(1000), samples.rows(1000, seed=1)
    assert peak_bytes(kernel.block, X, Y) < 1.1 * 8 * 1000 * 1000  # in place


def test_scale_is_that_of_scikit_learn() -> None:
    X = samples.rows(30, 7) * 3 + 1
    svc = SVC(gamma="scale").fit(X, np.arange(30) % 2)
    assert numbers(RBF("scale").fix(X)) == pytest.approx([svc._gamma], rel=1e-12)
    assert Polynomial(gamma="scale").fix(X).get_params()["gamma"] == pytest.approx(svc._gamma)
    offset = numbers(RBF("scale").fix(X + 1e8))
    assert offset == pytest.approx([svc._gamma], rel=1e-7)  # X + 1e8 itself is rounded to 1e-8


def test_none_is_one_over_the_number_of_features() -> None:
    assert Polynomial().fix(samples.rows(3, 5)).get_params()["gamma"] == 0.2
    assert Sigmoid().fix(samples.rows(3, 5)).get_params()["gamma"] == 0.2


@pytest.mark.parametrize("kernel", OPEN, ids=name)
@given(data=st.data())
@settings(max_examples=30)
def test_a_weight_is_a_repetition(kernel: Kernel, data: st.DataObject) -> None:
    X = data.draw(small_matrices)[0]
    weights = data.draw(arrays(np.int64, len(X), elements=st.integers(1, 4)))
    weighted = numbers(kernel.fix(X, weights))
    repeated = numbers(kernel.fix(np.repeat(X, weights, axis=0)))
    assert weighted == pytest.approx(repeated, rel=1e-12)
    sparse = numbers(kernel.fix(scipy.sparse.csr_array(X), weights))
    assert sparse == pytest.approx(weighted, rel=1e-12)
    strict = array_api_strict.asarray
    assert numbers(kernel.fix(strict(X), strict(weights))) == weighted


@pytest.mark.parametrize("kernel", OPEN, ids=name)
@pytest.mark.parametrize("size", [1e-300, 1e-200, 3.0, 1e200, 1e305])
def test_only_ratios_of_weights_matter(kernel: Kernel, size: float) -> None:
    """Products of two weights once left the range of float64: IndexError, or another median."""
    X, weights = samples.rows(30, 7), np.linspace(0.5, 2.0, 30)
    plain = numbers(kernel.fix(X, weights))
    assert numbers(kernel.fix(X, size * weights)) == pytest.approx(plain, rel=1e-12)


@pytest.mark.parametrize("X", [np.full((9, 3), 0.1), np.zeros((9, 3)), np.array([[3.0, 3.0]])])
@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_array])
def test_equal_rows_give_one(X: np.ndarray, container: Any) -> None:
    for kernel in (RBF(), RBF("scale"), Exponential(), Laplacian(), Matern(1.5)):
        assert numbers(kernel.fix(container(X)))[0] == 1.0


@pytest.mark.parametrize("kernel", OPEN, ids=name)
def test_fixing(kernel: Kernel) -> None:
    X = samples.rows(20, 7)
    before = repr(kernel)
    assert not kernel.fixed
    fixed = kernel.fix(X)
    assert repr(kernel) == before
    assert fixed.fixed
    assert type(fixed) is type(kernel)
    assert fixed.fix(samples.rows(5, 7, 3)) is fixed
    np.testing.assert_array_equal(kernel(X), fixed(X))


def test_gamma_of_the_call_comes_from_its_first_argument() -> None:
    X, Y = samples.rows(20, 7), 100 * samples.rows(5, 7, 1)
    assert np.array_equal(RBF()(X, Y), RBF().fix(X).block(X, Y))


@every_kernel
def test_kernels_are_scikit_learn_objects(kernel: Kernel) -> None:
    X = samples.rows(6, 7)
    for copy in (clone(kernel), pickle.loads(pickle.dumps(kernel))):
        assert repr(copy) == repr(kernel)
        assert np.array_equal(copy(X), kernel(X))


# --- other array namespaces ------------------------------------------------------------------


@every_kernel
def test_array_api_strict_is_numpy(kernel: Kernel) -> None:
    X, Y = sparse_rows(40), samples.rows(13, 7, 1)
    X_strict, Y_strict = array_api_strict.asarray(X), array_api_strict.asarray(Y)
    fixed = kernel.fix(X_strict)
    assert numbers(fixed) == numbers(kernel.fix(X))
    for strict, numpy in (
        (fixed.block(X_strict, Y_strict), fixed.block(X, Y)),
        (fixed.diag(X_strict), fixed.diag(X)),
        (fixed.gram(Y_strict), fixed.gram(Y)),
        (kernel(X_strict, Y_strict), kernel(X, Y)),
        (kernel(X_strict), kernel(X)),
    ):
        assert type(strict) is type(X_strict)
        np.testing.assert_allclose(np.asarray(strict), numpy, rtol=1e-13, atol=1e-14)
    single = array_api_strict.astype(X_strict, array_api_strict.float32)
    assert fixed.block(single, Y_strict).dtype == array_api_strict.float32
    assert fixed.diag(single).dtype == array_api_strict.float32
    assert fixed.gram(single).dtype == array_api_strict.float64


# --- wrong arguments -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (RBF("abc"), r"RBF\(gamma='abc'\): gamma must be a positive number such as 0.1, 'median'"),
        (RBF(-1), r"RBF\(gamma=-1\): gamma must be"),
        (RBF(0), "gamma must be"),
        (RBF(True), "gamma must be"),
        (RBF(math.nan), "gamma must be"),
        (RBF(math.inf), "gamma must be"),
        (RBF([0.1, 0.2]), "gamma must be"),  # type: ignore[arg-type]
        (RBF(np.array([0.1, 0.2])), "gamma must be"),  # type: ignore[arg-type]
        (Exponential(-1.0), "gamma must be"),
        (Exponential("scale"), "gamma must be a positive number such as 0.1, or 'median'"),
        (Laplacian("scale"), "gamma must be a positive number such as 0.1, or 'median'"),
        (Laplacian(-1.0), "gamma must be"),
        (Matern(0.0, 1.0), r"Matern\(nu=0.0\): nu must be 0.5, 1.5 or 2.5"),
        (Matern(math.inf, 1.0), "nu must be"),
        (Matern("1.5", 1.0), "nu must be"),  # type: ignore[arg-type]
        (Matern(1.5, -1.0), "length_scale must be"),
        (Matern(1.5, "scale"), "length_scale must be"),
        (Polynomial(0), r"Polynomial\(degree=0\): degree must be a whole number, 1 or larger"),
        (Polynomial(2.5), "degree must be"),  # type: ignore[arg-type]
        (Polynomial(True), "degree must be"),
        (Polynomial(gamma="median"), "gamma must be .* 'scale', or None for 1/n_features"),
        (Polynomial(gamma=-0.1), "gamma must be"),
        (Polynomial(coef0=math.nan), "coef0 must be a finite number"),
        (Sigmoid(coef0="1"), "coef0 must be a finite number"),  # type: ignore[arg-type]
        (Sigmoid(gamma=0.0), "gamma must be"),
        (-1.0 * RBF(), r"Constant\(value=-1.0\): value must be a positive number"),
        (RBF() + RBF(-2.0), r"RBF\(gamma=-2.0\)"),
        (Sum(RBF(), "rbf"), r"Sum\(right='rbf'\): right must be a kernel"),  # type: ignore[arg-type]
        (FromCallable("rbf"), "function must be"),  # type: ignore[arg-type]
    ],
)
def test_wrong_parameters_are_refused_in_words(kernel: Kernel, message: str) -> None:
    for use in (
        kernel.check,
        lambda: kernel.fix(samples.rows(3, 7)),
        lambda: kernel(samples.rows(3, 7)),
    ):
        with pytest.raises(ValueError, match=message):
            use()


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(3), r"X has shape \(3,\): expected \(rows, features\)"),
        (np.ones((0, 3)), "at least one of each"),
        (np.ones((3, 0)), "at least one of each"),
        (np.ones((2, 2)) * 1j, "X is complex"),
        (np.array([[1.0, np.nan]]), "X contains NaN or infinity"),
        (scipy.sparse.csr_array([[1.0, np.inf]]), "X contains NaN or infinity"),
    ],
)
def test_wrong_rows_are_refused_in_words(X: Any, message: str) -> None:
    for use in (RBF(), RBF().fix):
        with pytest.raises(ValueError, match=message):
            use(X)


def test_wrong_columns_and_weights_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="X has 3 columns and Y has 4"):
        RBF()(samples.rows(2, 3), samples.rows(2))
    with pytest.raises(ValueError, match=r"weights have shape \(2,\): expected \(3,\)"):
        RBF().fix(samples.rows(3, 7), np.ones(2))
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="weights must be positive and finite"):
            RBF().fix(samples.rows(3, 7), np.array([1.0, 1.0, bad]))


def test_the_call_takes_lists_integers_and_mixed_types() -> None:
    X = [[0, 1], [2, 3]]
    assert np.array_equal(Linear()(X), [[1.0, 3.0], [3.0, 13.0]])
    assert Linear()(np.array(X, dtype=object)).dtype == np.float64
    single, double = np.array(X, dtype=np.float32), np.array(X, dtype=np.float64)
    assert Linear()(single).dtype == np.float32
    assert Linear()(single, single).dtype == np.float32
    assert Linear()(single, double).dtype == np.float64
    assert Linear()(scipy.sparse.coo_array(double), scipy.sparse.csr_array(single)).shape == (2, 2)


# --- resolve ---------------------------------------------------------------------------------


def test_resolve() -> None:
    assert repr(resolve("rbf")) == "RBF()"
    assert repr(resolve("rbf", gamma="scale")) == "RBF(gamma='scale')"
    for name in ("laplacian", "exponential", "poly", "polynomial", "sigmoid"):
        kernel = resolve(name, gamma=0.25)
        assert kernel.get_params()["gamma"] == 0.25
        assert resolve(kernel) is kernel
    for name, kind in (("linear", Linear), ("cosine", Cosine), ("matern", Matern)):
        assert isinstance(resolve(name), kind)
    wrapped = resolve(squared)
    assert isinstance(wrapped, FromCallable)
    assert wrapped.function is squared


@pytest.mark.parametrize(
    ("spec", "gamma", "message"),
    [
        ("gauss", None, "Unknown kernel 'gauss': give one of 'rbf', 'laplacian', .*'cosine'"),
        (3, None, "Unknown kernel 3"),
        (["rbf"], None, "Unknown kernel"),
        (RBF, None, r"RBF is a class: write RBF\(\)"),
        (RBF(), 0.1, "kernel__gamma"),
        (squared, 0.1, "gamma=0.1 was given beside the kernel .*kernel__gamma"),
        ("linear", 0.1, "the kernel 'linear' has none: leave it out.*kernel__length_scale"),
        ("cosine", 0.1, "has none"),
        ("matern", 0.1, "length_scale"),
    ],
)
def test_resolve_refuses_in_words(spec: Any, gamma: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve(spec, gamma)


class Cauchy(Kernel):
    """No more than the module's list asks for: 1/(1 + |x − y|²)."""

    def block(self, X: Any, Y: Any) -> Any:
        return 1.0 / (1.0 + squared_distances(X, Y))

    def diag(self, X: Any) -> Any:
        return np.ones(len(X))


@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_a_kernel_of_ones_own_needs_no_bound_on_its_rounding(verb: str) -> None:
    """It learns, also where points move; only the certificate is missing, and says why."""
    X = np.random.default_rng(0).normal(size=(3000, 3)) * [1.0, 0.5, 0.2]
    model = StreamingKernelPCA(2, kernel=Cauchy(), basis=40, random_state=0)
    getattr(model, verb)(X)
    assert captured_variance(model, X[:500]) > 0.9
    assert (
        model.certificate_.details.reason
        == "the rounding errors of the kernel Cauchy() are not known"
    )
