"""Pre-images against their naive twins, and the laws they promise."""

from __future__ import annotations

import array_api_compat
import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.decomposition import KernelPCA

from kernelstream import kernels, preimages
from kernelstream.kernels import Smoothness
from kernelstream.serialization.part import Part
from tests.naive import preimages as naive_preimages

# What FixedPoint works with: the kernel, and its slope −κ' at a distance r up to a constant.
ELL = 1.3
SLOPES = [
    (kernels.RBF(gamma=0.4), lambda r: np.exp(-0.4 * r * r)),
    (kernels.Exponential(gamma=0.7), lambda r: np.exp(-0.7 * r) / r if r > 1e-6 else 0.0),
    (kernels.Matern(nu=0.5, length_scale=ELL), lambda r: np.exp(-r / ELL) / r if r > 1e-6 else 0.0),
    (kernels.Matern(nu=1.5, length_scale=ELL), lambda r: np.exp(-np.sqrt(3) * r / ELL)),
    (
        kernels.Matern(nu=2.5, length_scale=ELL),
        lambda r: (1 + np.sqrt(5) * r / ELL) * np.exp(-np.sqrt(5) * r / ELL),
    ),
]
OTHERS = [
    kernels.Linear(),
    kernels.Polynomial(degree=3, gamma=0.5, coef0=1.0),
    kernels.Laplacian(gamma=0.5),
    kernels.Cosine(),
    kernels.Sigmoid(gamma=0.2, coef0=0.5),
    kernels.RBF(gamma=0.3) + kernels.Linear(),
    kernels.FromCallable(lambda X, Y: (X @ Y.T) ** 2),
]
KERNELS = [kernel for kernel, _ in SLOPES] + OTHERS


def name(part):
    return type(part).__name__ if isinstance(part, Part) else ""


def pointwise(kernel):
    """The kernel as a function of two vectors."""
    return lambda x, y: float(kernel.block(x[None, :], y[None, :])[0, 0])


def distances(kernel, X, points, coefficients):
    return [
        naive_preimages.distance(pointwise(kernel), x, points, gamma)
        for x, gamma in zip(X, coefficients, strict=True)
    ]


def example(seed=0, n=7, m=6, d=3):
    """Points, and coefficients of both signs."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, d)), rng.normal(0.2, 0.5, size=(n, m))


# --- fixed point -----------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "slope"), SLOPES, ids=name)
@pytest.mark.parametrize("max_iter", [0, 1, 2, 5, 30])
def test_fixed_point_is_the_naive_iteration(kernel, slope, max_iter):
    points, coefficients = example()
    method = preimages.FixedPoint(max_iter=max_iter, n_starts=1)
    found = method.report(kernel, points, coefficients)
    compared = 0
    for x, gamma, came, steps in zip(
        found.X, coefficients, found.converged, found.n_iter, strict=True
    ):
        if came or steps == max_iter:  # the others were stuck and went on by steepest descent
            expected = naive_preimages.fixed_point(
                pointwise(kernel), slope, points, gamma, max_iter, tol=1e-6
            )
            np.testing.assert_allclose(x, expected, rtol=1e-6, atol=1e-7)
            compared += 1
    assert compared >= 4


@pytest.mark.parametrize(("kernel", "slope"), SLOPES, ids=name)
def test_slope_is_the_derivative_of_the_kernel(kernel, slope):
    # The tables of this file against finite differences of the kernel with respect to r².
    r, h = np.array([0.3, 0.8, 1.5, 2.5]), 1e-6
    origin = np.zeros((1, 1))
    up, down = (kernel.block(np.sqrt(r**2 + e)[:, None], origin)[:, 0] for e in (h, -h))
    ratio = (down - up) / (2 * h) / [slope(v) for v in r]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)


points_and_coefficients = st.integers(1, 6).flatmap(
    lambda m: st.tuples(
        arrays(np.float64, (m, 2), elements=st.floats(-3, 3, width=32)),
        arrays(np.float64, (3, m), elements=st.floats(-2, 2, width=32)),
    )
)


@pytest.mark.parametrize("kernel", [kernel for kernel, _ in SLOPES], ids=name)
@given(case=points_and_coefficients)
@settings(max_examples=60, deadline=None)
def test_fixed_point_is_never_worse_than_its_start(kernel, case):
    points, coefficients = case
    X, distance = preimages.FixedPoint().solve(kernel, points, coefficients)
    assert np.all(np.isfinite(X))
    assert np.all(np.isfinite(distance))
    k = pointwise(kernel)
    for x, gamma in zip(X, coefficients, strict=True):
        at_start = naive_preimages.distance(
            k, naive_preimages.start(k, points, gamma), points, gamma
        )
        assert naive_preimages.distance(k, x, points, gamma) <= at_start + 1e-7


@given(case=points_and_coefficients, max_iter=st.integers(0, 8))
@settings(max_examples=60, deadline=None)
def test_more_steps_are_never_worse(case, max_iter):
    points, coefficients = case
    kernel = kernels.RBF(gamma=0.5)
    _, fewer = preimages.FixedPoint(max_iter=max_iter).solve(kernel, points, coefficients)
    _, more = preimages.FixedPoint(max_iter=max_iter + 1).solve(kernel, points, coefficients)
    assert np.all(more <= fewer + 1e-12)


@pytest.mark.parametrize("kernel", [kernel for kernel, _ in SLOPES], ids=name)
def test_image_of_a_basis_point_is_found_exactly(kernel):
    points, _ = example()
    X, distance = preimages.FixedPoint().solve(kernel, points, np.eye(len(points)))
    np.testing.assert_allclose(X, points, atol=1e-12)
    np.testing.assert_allclose(distance, 0.0, atol=1e-12)


def test_image_of_any_input_is_found_when_the_span_nearly_contains_it():
    # A wide kernel and many points: φ(x) is all but a combination of the φ(d_k).
    rng = np.random.default_rng(3)
    points, inputs = rng.uniform(-1, 1, size=(60, 2)), rng.uniform(-0.7, 0.7, size=(20, 2))
    kernel = kernels.RBF(gamma=0.3)
    lam, U = np.linalg.eigh(kernel.gram(points))
    F = U[:, lam > 1e-10] / np.sqrt(lam[lam > 1e-10])
    coefficients = kernel.block(inputs, points) @ F @ F.T
    assert coefficients.min() < 0 < coefficients.max()
    X, distance = preimages.FixedPoint(max_iter=1000, tol=1e-9).solve(kernel, points, coefficients)
    np.testing.assert_allclose(X, inputs, atol=1e-3)
    assert distance.max() < 1e-6


def test_fixed_point_moves_with_the_points():
    points, coefficients = example(m=12)
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))
    solve = preimages.FixedPoint().solve
    X, distance = solve(kernels.RBF(gamma=0.4), points, coefficients)
    # turned, scaled with the kernel, and shifted far away
    moved, same = solve(kernels.RBF(gamma=0.1), 2 * points @ turn + 1e4, coefficients)
    np.testing.assert_allclose(moved, 2 * X @ turn + 1e4, atol=1e-4)
    np.testing.assert_allclose(same, distance, atol=1e-8)


def test_rows_do_not_influence_each_other():
    points, coefficients = example(n=9)
    method, kernel = preimages.FixedPoint(), kernels.RBF(gamma=0.4)
    together, distance = method.solve(kernel, points, coefficients)
    for i in range(9):
        alone, alone_distance = method.solve(kernel, points, coefficients[i : i + 1])
        np.testing.assert_allclose(alone[0], together[i], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(alone_distance[0], distance[i], rtol=1e-9, atol=1e-9)


def test_the_origin_keeps_a_basis_point():
    points, _ = example()
    coefficients = np.zeros((1, 6))
    X, distance = preimages.FixedPoint().solve(kernels.RBF(gamma=0.4), points, coefficients)
    assert np.all(np.isfinite(X))
    assert np.any(np.all(np.isclose(X[0], points), axis=1))
    assert distance[0] == 1.0  # |φ(x)|²: P is the origin


@pytest.mark.parametrize("kernel", OTHERS, ids=name)
def test_fixed_point_refuses_other_kernels_in_words(kernel):
    points, coefficients = example()
    with pytest.raises(ValueError, match=r"distance whose slope is known.*use preimages\.Ridge"):
        preimages.FixedPoint().solve(kernel, points, coefficients)


# --- ridge -----------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.01, 0.3, 5.0])
def test_ridge_is_the_primal_regression(alpha):
    points, coefficients = example(m=8, d=2)
    kernel = kernels.Polynomial(degree=2, gamma=1.0, coef0=1.0)

    def features(x):  # (x·y + 1)² written out
        a, b = x
        r = np.sqrt(2)
        return np.array([a * a, b * b, r * a * b, r * a, r * b, 1.0])

    X, _ = preimages.Ridge(alpha=alpha).solve(kernel, points, coefficients)
    for x, gamma in zip(X, coefficients, strict=True):
        expected = naive_preimages.ridge(features, points, gamma, alpha)
        np.testing.assert_allclose(x, expected, rtol=1e-8, atol=1e-10)


def test_ridge_without_ridge_is_the_regression_on_the_scores():
    # When the points are the training set, alpha = 0 regresses the inputs on the scores.
    points, _ = example(m=30)
    exact = KernelPCA(4, kernel="rbf", gamma=0.4).fit(points)
    scores = exact.transform(points)
    alpha = exact.eigenvectors_ / np.sqrt(exact.eigenvalues_)
    coefficients = 1 / 30 + scores @ alpha.T
    X, _ = preimages.Ridge(alpha=0).solve(kernels.RBF(gamma=0.4), points, coefficients)
    design = np.column_stack([np.ones(30), scores])
    expected = design @ np.linalg.lstsq(design, points, rcond=None)[0]
    np.testing.assert_allclose(X, expected, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_ridge_works_with_every_kernel(kernel):
    points, _ = example(m=12)
    X, distance = preimages.Ridge(alpha=1e-3).solve(kernel, points, np.eye(12))
    assert np.all(np.isfinite(X))
    assert np.all(np.isfinite(distance))
    # It was trained on these pairs: far better than the mean, which is the answer of alpha = ∞.
    error = np.mean((X - points) ** 2)
    assert error < 0.5 * np.mean((points - points.mean(axis=0)) ** 2)


def test_ridge_means_the_same_for_a_multiple_of_the_kernel():
    points, coefficients = example()
    kernel = kernels.RBF(gamma=0.4)
    X, distance = preimages.Ridge(alpha=0.1).solve(kernel, points, coefficients)
    same, larger = preimages.Ridge(alpha=0.1).solve(7 * kernel, points, coefficients)
    np.testing.assert_allclose(same, X, rtol=1e-10)
    np.testing.assert_allclose(larger, 7 * distance, rtol=1e-8)


def test_ridge_tends_to_the_mean_of_the_points():
    points, coefficients = example()
    X, _ = preimages.Ridge(alpha=1e9).solve(kernels.RBF(gamma=0.4), points, coefficients)
    np.testing.assert_allclose(X, np.tile(points.mean(axis=0), (7, 1)), atol=1e-6)


def test_repeated_points_do_no_harm():
    points, coefficients = example()
    X, distance = preimages.Ridge(alpha=0).solve(
        kernels.RBF(gamma=0.4), np.repeat(points, 2, axis=0), np.repeat(coefficients / 2, 2, axis=1)
    )
    expected, same = preimages.Ridge(alpha=0).solve(kernels.RBF(gamma=0.4), points, coefficients)
    np.testing.assert_allclose(X, expected, atol=1e-6)
    np.testing.assert_allclose(distance, same, atol=1e-6)


# --- linear ----------------------------------------------------------------------------------


@given(case=points_and_coefficients)
@settings(max_examples=50, deadline=None)
def test_linear_kernel_is_exact(case):
    points, coefficients = case
    kernel = kernels.Linear()
    X, distance = preimages.resolve("auto", kernel).solve(kernel, points, coefficients)
    np.testing.assert_allclose(X, np.einsum("nm,md->nd", coefficients, points), atol=1e-12)
    np.testing.assert_array_equal(distance, 0.0)
    np.testing.assert_allclose(distances(kernel, X, points, coefficients), 0.0, atol=1e-9)


def test_linear_refuses_other_kernels_in_words():
    points, coefficients = example()
    with pytest.raises(ValueError, match="works with the linear kernel only"):
        preimages.LinearMap().solve(kernels.RBF(gamma=1.0), points, coefficients)


# --- all of them -----------------------------------------------------------------------------

METHODS = [preimages.FixedPoint(), preimages.Ridge(), preimages.LinearMap()]
PAIRS = [
    (method, kernel)
    for method in METHODS
    for kernel in KERNELS
    if isinstance(method, preimages.Ridge)
    or (isinstance(method, preimages.LinearMap) and isinstance(kernel, kernels.Linear))
    or (isinstance(method, preimages.FixedPoint) and kernel not in OTHERS)
]


@pytest.mark.parametrize(("method", "kernel"), PAIRS, ids=name)
def test_reported_distance_is_the_distance(method, kernel):
    points, coefficients = example()
    X, distance = method.solve(kernel, points, coefficients)
    assert X.shape == (7, 3)
    assert distance.shape == (7,)
    expected = np.maximum(distances(kernel, X, points, coefficients), 0.0)
    np.testing.assert_allclose(distance, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_single_precision_in_single_precision_out(method):
    points, coefficients = example()
    kernel = kernels.Linear() if isinstance(method, preimages.LinearMap) else kernels.RBF(gamma=0.4)
    X, distance = method.solve(kernel, points.astype(np.float32), coefficients.astype(np.float32))
    assert X.dtype == distance.dtype == np.float32
    expected, _ = method.solve(kernel, points, coefficients)
    np.testing.assert_allclose(X, expected, atol=1e-3)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_whole_numbers_as_points(method):
    points = np.array([[0, 1], [2, 3], [5, 1]])
    kernel = kernels.Linear() if isinstance(method, preimages.LinearMap) else kernels.RBF(gamma=0.1)
    X, _ = method.solve(kernel, points, np.full((1, 3), 1 / 3))
    assert X.dtype == np.float64


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_no_rows_and_one_point(method):
    points, _ = example(m=1)
    kernel = kernels.Linear() if isinstance(method, preimages.LinearMap) else kernels.RBF(gamma=0.4)
    X, distance = method.solve(kernel, points, np.empty((0, 1)))
    assert X.shape == (0, 3)
    assert distance.shape == (0,)
    X, distance = method.solve(kernel, points, np.ones((2, 1)))
    np.testing.assert_allclose(X, np.repeat(points, 2, axis=0))
    np.testing.assert_allclose(distance, 0.0, atol=1e-12)


@pytest.mark.parametrize(("method", "kernel"), PAIRS, ids=name)
def test_array_namespace_makes_no_difference(method, kernel):
    points, coefficients = example()
    expected, expected_distance = method.solve(kernel, points, coefficients)
    X, distance = method.solve(
        kernel, array_api_strict.asarray(points), array_api_strict.asarray(coefficients)
    )
    assert array_api_compat.array_namespace(X, distance) is array_api_strict
    np.testing.assert_allclose(np.asarray(X), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.asarray(distance), expected_distance, rtol=1e-9, atol=1e-9)


def test_a_kernel_with_numbers_to_decide_takes_them_from_the_points():
    points, coefficients = example()
    X, _ = preimages.FixedPoint().solve(kernels.RBF(), points, coefficients)
    expected, _ = preimages.FixedPoint().solve(kernels.RBF().fix(points), points, coefficients)
    np.testing.assert_array_equal(X, expected)


def test_coefficients_of_the_wrong_shape_are_refused_in_words():
    points, coefficients = example()
    with pytest.raises(ValueError, match="one column for each of the 6 points"):
        preimages.Ridge().solve(kernels.RBF(gamma=1.0), points, coefficients[:, :4])


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (preimages.FixedPoint(max_iter=-1), "max_iter=-1"),
        (preimages.FixedPoint().set_params(max_iter=2.5), "max_iter=2.5"),
        (preimages.FixedPoint(tol=-1.0), "tol=-1.0"),
        (preimages.FixedPoint(tol=float("nan")), "tol=nan"),
        (preimages.Ridge(alpha=-0.1), "alpha=-0.1"),
    ],
    ids=repr,
)
def test_parameters_are_checked(part, words):
    with pytest.raises(ValueError, match=words):
        preimages.resolve(part, kernels.RBF(gamma=1.0))


def test_parts_have_parameters():
    part = clone(preimages.Ridge(alpha=0.1)).set_params(alpha=0.2)
    assert part.get_params() == {"alpha": 0.2, "source": "rows"}


# --- resolve ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_auto(kernel):
    method = preimages.resolve("auto", kernel)
    if isinstance(kernel, kernels.Linear):
        assert isinstance(method, preimages.LinearMap)
    elif kernel.unit_norm and kernel.isotropic and kernel.smoothness is Smoothness.SMOOTH:
        assert isinstance(method, preimages.FixedPoint)
    else:
        assert isinstance(method, preimages.Ridge)


def test_by_name_and_by_object():
    kernel = kernels.RBF(gamma=1.0)
    assert isinstance(preimages.resolve("fixed_point", kernel), preimages.FixedPoint)
    assert isinstance(preimages.resolve("ridge", kernel), preimages.Ridge)
    assert isinstance(preimages.resolve("linear", kernels.Linear()), preimages.LinearMap)
    part = preimages.Ridge(alpha=3.0)
    assert preimages.resolve(part, kernel) is part


@pytest.mark.parametrize("spec", ["fixed-point", None, 3, preimages.Ridge])
def test_unknown_methods_are_refused_in_words(spec):
    with pytest.raises(ValueError, match="expected one of 'auto', 'fixed_point'"):
        preimages.resolve(spec, kernels.RBF(gamma=1.0))


def test_method_and_kernel_must_fit():
    with pytest.raises(ValueError, match="slope is known"):
        preimages.resolve("fixed_point", kernels.Linear())
