"""Gradient, neighbours and ridge from the rows, against their naive twins."""

from __future__ import annotations

import sys

import array_api_strict
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from kernelstream import StreamingKernelPCA, kernels, landmarks, load, papers, preimages
from kernelstream.arrays.namespaces import to_host
from tests.naive import preimages as naive_preimages
from tests.preimages.test_preimages import distances, example, name, pointwise

SMOOTH = [
    kernels.RBF(gamma=0.4),
    kernels.Exponential(gamma=0.7),
    kernels.Matern(nu=0.5, length_scale=1.3),
    kernels.Matern(nu=1.5, length_scale=1.3),
    kernels.Matern(nu=2.5, length_scale=1.3),
    kernels.Laplacian(gamma=0.5),
    kernels.Linear(),
    kernels.Polynomial(degree=3, gamma=0.5, coef0=1.0),
    kernels.Sigmoid(gamma=0.2, coef0=0.5),
    kernels.Cosine(),
    kernels.RBF(gamma=0.3) + 0.5 * kernels.Linear(),
    kernels.RBF(gamma=0.3) * kernels.Polynomial(degree=2, gamma=0.5),
]
ODD = [
    (kernels.RBF(gamma=0.4), lambda v: -np.log(v) / 0.4),
    (kernels.Exponential(gamma=0.7), lambda v: (np.log(v) / 0.7) ** 2),
    (kernels.Matern(nu=0.5, length_scale=1.3), lambda v: (1.3 * np.log(v)) ** 2),
]


def near(seed=0, n=7, m=12, d=3):
    """Points, and combinations near the images of inputs: weights that are positive."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(m, d))
    weights = rng.dirichlet(np.full(m, 0.5), size=n)
    return points, weights


# --- gradient


@pytest.mark.parametrize("kernel", SMOOTH, ids=name)
def test_gradient_descends_to_a_point_of_rest(kernel):
    points, coefficients = near()
    begin, at_start = preimages.Gradient(max_iter=0).solve(kernel, points, coefficients)
    found = preimages.Gradient(max_iter=2000, tol=1e-9).report(kernel, points, coefficients)
    assert np.all(found.distance <= at_start + 1e-12)
    if isinstance(kernel, kernels.Laplacian | kernels.Exponential) or kernel is SMOOTH[2]:
        return  # a kink at every point: the gradient does not vanish where descent ends
    assert found.converged.all()
    slope = kernel.gradient_of_diagonal(found.X) - 2 * kernel.gradient_of_sum(
        found.X, points, coefficients
    )
    assert np.abs(slope).max() < 1e-4
    assert begin.shape == found.X.shape


def test_gradient_and_fixed_point_agree():
    points, coefficients = near()
    kernel = kernels.RBF(gamma=0.4)
    climbed, _ = preimages.FixedPoint(max_iter=1000, tol=1e-9).solve(kernel, points, coefficients)
    found, _ = preimages.Gradient(max_iter=1000, tol=1e-9).solve(kernel, points, coefficients)
    np.testing.assert_allclose(found, climbed, atol=1e-5)


def test_more_starts_are_never_worse():
    points, coefficients = example(n=40)
    kernel = kernels.RBF(gamma=2.0)
    one = preimages.Gradient(n_starts=1).solve(kernel, points, coefficients)[1]
    all_six = preimages.Gradient(n_starts=6).solve(kernel, points, coefficients)[1]
    assert np.all(all_six <= one + 1e-12)
    assert np.any(all_six < one - 1e-6)


# --- fixed point: starts and reports


def test_a_stuck_row_is_started_again():
    # All weights negative: the weighted mean pulls the wrong way, descent leaves all points.
    rng = np.random.default_rng(0)
    points = rng.normal(size=(8, 2)) * 2
    coefficients = -np.abs(rng.normal(size=(40, 8)))
    kernel = kernels.RBF(gamma=0.3)
    k = pointwise(kernel)
    found = preimages.FixedPoint().report(kernel, points, coefficients)
    for x, gamma in zip(found.X, coefficients, strict=True):
        at_start = naive_preimages.start(k, points, gamma)
        before = naive_preimages.distance(k, at_start, points, gamma)
        assert naive_preimages.distance(k, x, points, gamma) < before - 1e-3


def test_weights_of_both_signs_are_climbed_as_well(monkeypatch):
    """Only a sum that is rounding has no meaning: a fifth of all weights leads to the top."""
    points = np.array([[0.0], [1.0], [1.5]])
    coefficients = np.array([[1.0, 0.5, -1.0]])
    weights = coefficients * np.exp(-0.1 * (points.T - points[0]) ** 2)
    assert 0.1 < weights.sum() / np.abs(weights).sum() < 0.4
    monkeypatch.setattr(preimages.fixed_point, "Gradient", None)  # no row is stuck
    found = preimages.FixedPoint().report(kernels.RBF(gamma=0.1), points, coefficients)
    assert found.converged.all()
    grid = np.linspace(-6.0, 6.0, 1201)[:, None]
    f = np.exp(-0.1 * (grid - points.T) ** 2) @ coefficients[0]
    assert abs(found.X[0, 0] - grid[np.argmax(f), 0]) < 0.02


def test_report_says_who_came_to_rest():
    points, coefficients = near()
    kernel = kernels.RBF(gamma=0.4)
    short = preimages.FixedPoint(max_iter=1).report(kernel, points, coefficients)
    long = preimages.FixedPoint(max_iter=500).report(kernel, points, coefficients)
    assert not short.converged.any()
    assert long.converged.all()
    assert np.all(long.n_iter > 1)
    np.testing.assert_allclose(
        long.distance, distances(kernel, long.X, points, coefficients), atol=1e-9
    )


@pytest.mark.parametrize(
    "method",
    [
        preimages.FixedPoint(),
        preimages.Gradient(n_starts=2),
        preimages.Gradient(n_neighbours=5),
        preimages.Neighbours(5),
        preimages.Ridge(),
    ],
    ids=str,
)
def test_arrays_stay_on_their_device(method, monkeypatch):
    """Arrays of the standard's strictest library on a device that the host cannot read."""
    device = array_api_strict.Device("device1")

    def fetched(x):
        is_there = getattr(x, "device", None) == device
        return to_host(x.to_device(array_api_strict.Device("CPU_DEVICE")) if is_there else x)

    for path, module in list(sys.modules.items()):
        if path.startswith("kernelstream.") and hasattr(module, "to_host"):
            monkeypatch.setattr(module, "to_host", fetched)
    kernel = kernels.RBF(gamma=0.4)
    points, coefficients = near()
    # rows that pull in no direction: the fixed point hands them to steepest descent
    coefficients = np.concatenate([coefficients, -coefficients])
    expected = method.report(kernel, points, coefficients)
    there = [array_api_strict.asarray(a, device=device) for a in (points, coefficients)]
    found = method.report(kernel, *there)
    assert found.X.device == device and found.distance.device == device
    np.testing.assert_allclose(fetched(found.X), expected.X, atol=1e-6)
    np.testing.assert_array_equal(found.converged, expected.converged)


def test_a_start_is_used_and_checked():
    points, coefficients = near()
    kernel, start = kernels.RBF(gamma=0.4), np.full((7, 3), 0.25)
    X, _ = preimages.FixedPoint(max_iter=0).solve(kernel, points, coefficients, start)
    np.testing.assert_allclose(X, start)
    with pytest.raises(ValueError, match=r"start has shape \(2, 3\); expected \(7, 3\)"):
        preimages.FixedPoint().solve(kernel, points, coefficients, start[:2])
    with pytest.raises(ValueError, match="takes no start"):
        preimages.Ridge().solve(kernel, points, coefficients, start)


# --- neighbours


@pytest.mark.parametrize(("kernel", "invert"), ODD, ids=name)
@pytest.mark.parametrize("count", [3, 6, 12])
def test_neighbours_are_the_papers_scaling(kernel, invert, count):
    points, coefficients = near()
    X, _ = preimages.Neighbours(count).solve(kernel, points, coefficients)
    for x, gamma in zip(X, coefficients, strict=True):
        expected = naive_preimages.neighbours(pointwise(kernel), invert, points, gamma, count)
        np.testing.assert_allclose(x, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.RBF(gamma=0.4),
        kernels.Matern(nu=2.5, length_scale=1.3),
    ],
    ids=name,
)
def test_neighbours_find_the_image_of_an_input(kernel):
    points, _ = near(m=40, d=2)
    X, _ = preimages.Neighbours(8).solve(kernel, points, np.eye(40))
    np.testing.assert_allclose(X, points, atol=1e-3)


# --- all of them


@pytest.mark.parametrize(
    ("method", "kernel"),
    [
        (preimages.Gradient(), kernels.Categorical(gamma=1.0)),
        (preimages.Gradient(), kernels.FromCallable(lambda X, Y: X @ Y.T) + kernels.Linear()),
        (preimages.Neighbours(), kernels.Polynomial(degree=3)),
        (preimages.Neighbours(), kernels.Laplacian()),
        (preimages.Neighbours(), kernels.Cosine()),
    ],
    ids=name,
)
def test_kernels_that_a_method_cannot_do_are_refused_in_words(method, kernel):
    with pytest.raises(ValueError, match=r"(?s)needs a kernel whose.*use preimages\.Ridge"):
        preimages.resolve(method, kernel)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (preimages.Gradient(max_iter=-1), "max_iter=-1"),
        (preimages.Gradient(tol=-1.0), "tol=-1"),
        (preimages.Gradient(n_neighbours=0), "n_neighbours"),
        (preimages.Gradient(n_starts=0), "n_starts"),
        (preimages.FixedPoint(n_starts=0), "n_starts"),
        (preimages.Neighbours(0), "n_neighbours"),
        (preimages.Ridge(source="clouds"), "source='clouds'"),
    ],
    ids=repr,
)
def test_parameters_are_checked(part, words):
    with pytest.raises(ValueError, match=words):
        preimages.resolve(part, kernels.RBF(gamma=1.0))


METHODS = [preimages.Gradient(), preimages.Neighbours(4), preimages.Ridge()]


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_distance_namespace_precision_and_empty(method):
    points, coefficients = near()
    kernel = kernels.RBF(gamma=0.4)
    X, distance = method.solve(kernel, points, coefficients)
    expected = np.maximum(distances(kernel, X, points, coefficients), 0.0)
    np.testing.assert_allclose(distance, expected, rtol=1e-6, atol=1e-7)
    other, _ = method.solve(
        kernel, array_api_strict.asarray(points), array_api_strict.asarray(coefficients)
    )
    np.testing.assert_allclose(np.asarray(other), X, rtol=1e-6, atol=1e-7)
    single, _ = method.solve(kernel, points.astype(np.float32), coefficients)
    assert single.dtype == np.float32
    assert method.solve(kernel, points, coefficients[:0])[0].shape == (0, 3)
    for i in range(7):  # rows do not influence each other
        alone, _ = method.solve(kernel, points, coefficients[i : i + 1])
        np.testing.assert_allclose(alone[0], X[i], rtol=1e-6, atol=1e-7)


# --- in a model


def digits(n=1200):
    return load_digits().data[:n] / 16.0


def test_ridge_from_rows_is_the_regression_of_the_rows_on_the_scores():
    X = digits()
    model = StreamingKernelPCA(
        12, gamma=0.05, basis=landmarks.Landmarks(X[:150]), preimage=preimages.Ridge(alpha=0.0)
    ).partial_fit(X)
    scores = model.transform(X)
    design = np.column_stack([np.ones(len(X)), scores])
    expected = design @ np.linalg.lstsq(design, X, rcond=None)[0]
    np.testing.assert_allclose(model.inverse_transform(scores), expected, atol=1e-7)


def test_ridge_with_the_linear_kernel_is_pca():
    X = digits()
    model = StreamingKernelPCA(
        10, kernel="linear", basis="everything", preimage=preimages.Ridge(alpha=0.0)
    ).fit(X)
    pca = PCA(10).fit(X)
    expected = pca.inverse_transform(pca.transform(X))
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), expected, atol=2e-6)


@pytest.mark.parametrize("scale", [None, "standard"])
def test_ridge_from_rows_beats_ridge_from_points(scale):
    X = digits(1700) + np.linspace(-3, 5, 64)
    rows, test = X[:1500], X[1500:]
    errors = {}
    for source in ("rows", "points"):
        model = StreamingKernelPCA(
            30, basis=80, scale=scale, preimage=preimages.Ridge(source=source), random_state=0
        )
        errors[source] = -model.fit(rows).score(test)
        errors[source + ", one pass"] = -clone(model).partial_fit(rows).score(test)
    assert errors["rows"] < 0.95 * errors["points"]
    assert errors["rows, one pass"] < 0.95 * errors["points, one pass"]


def test_ridge_after_a_landmark_update_equals_ridge_with_these_landmarks_from_the_start():
    X = digits(1700) + np.linspace(-3, 5, 64)
    rows, test = X[:1500], X[1500:]
    model = StreamingKernelPCA(30, gamma=0.02, basis=80, preimage="ridge", random_state=0)
    updated = clone(model).partial_fit(rows[:1000])
    before = updated.basis_points_
    updated.partial_fit(rows[1000:])
    assert not np.array_equal(updated.basis_points_, before)
    # The sample holds all these rows, so that it corrects the carried sums up to rounding.
    known = clone(model).set_params(basis=landmarks.Landmarks(updated.basis_points_))
    assert updated.score(test) == pytest.approx(known.partial_fit(rows).score(test), rel=1e-6)


@pytest.mark.parametrize("basis", [landmarks.Centroids(8), landmarks.Distance(nu=0.2)], ids=repr)
def test_moments_of_inputs_obey_the_laws(basis, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    X[900:] += [3.0, -2.0]

    def make():
        return StreamingKernelPCA(
            3, gamma=0.4, basis=basis, preimage="ridge", batch_size=64, random_state=3
        )

    whole, parts = make().partial_fit(X), make()
    for rows in np.split(X, [7, 640, 641, 1300]):
        parts.partial_fit(rows)
    scores = whole.transform(X[:20])
    np.testing.assert_array_equal(parts.inverse_transform(scores), whole.inverse_transform(scores))
    whole.save(tmp_path / "model")
    np.testing.assert_array_equal(
        load(tmp_path / "model").inverse_transform(scores), whole.inverse_transform(scores)
    )


def test_merged_moments_of_inputs():
    X = digits()

    def make():
        return StreamingKernelPCA(
            5, gamma=0.05, basis=landmarks.Landmarks(X[:60]), preimage="ridge"
        )

    both = make().partial_fit(X[:500]).merge(make().partial_fit(X[500:]))
    whole = make().partial_fit(X)
    found, expected = (each.inverse_transform(each.transform(X)) for each in (both, whole))
    np.testing.assert_allclose(found, expected, atol=1e-8)
    plain = StreamingKernelPCA(5, gamma=0.05, basis=landmarks.Landmarks(X[:60])).partial_fit(X)
    with pytest.raises(ValueError, match="different regress_inputs"):
        whole.merge(plain)


def test_trackers_without_a_scatter_use_the_points():
    X = digits(400)
    model = StreamingKernelPCA(
        3, gamma=0.05, basis=40, tracker=papers.Hebbian(), preimage="ridge", random_state=0
    ).partial_fit(X)
    found = model.inverse_transform(model.transform(X))
    points = model.set_params(preimage=preimages.Ridge(source="points"))
    np.testing.assert_array_equal(found, points.inverse_transform(points.transform(X)))


@pytest.mark.parametrize("preimage", ["auto", "ridge", "fixed_point", "gradient", "neighbours"])
def test_report_of_a_model(preimage):
    X = digits(600)
    model = StreamingKernelPCA(20, gamma=0.05, basis=100, preimage=preimage, random_state=0).fit(X)
    scores = model.transform(X[:50])
    found = model.inverse_transform(scores, return_report=True)
    np.testing.assert_array_equal(found.X, model.inverse_transform(scores))
    # |φ(x) − P|², from the model's own numbers
    D, A = model.basis_points_, model.dual_coef_
    gamma = scores @ A.T + model.mean_coef_
    K = model.kernel_(D)
    expected = (
        1
        - 2 * np.sum(gamma * model.kernel_(found.X, D), axis=1)
        + np.sum((gamma @ K) * gamma, axis=1)
    )
    np.testing.assert_allclose(found.distance, expected, atol=1e-6)
    assert found.converged.shape == found.n_iter.shape == (50,)
    assert np.mean((found.X - X[:50]) ** 2) < 0.35 * X.var()


def test_thousands_of_rows_at_once():
    X = np.tile(digits(1500), (4, 1))
    model = StreamingKernelPCA(10, gamma=0.05, basis=50, random_state=0).fit(X[:1500])
    found = model.inverse_transform(model.transform(X))
    np.testing.assert_allclose(found[:1500], found[4500:], atol=1e-5)
