"""What every kernel offers, as numbers: rounding, extent, limits of energy, rules for widths."""

from __future__ import annotations

import math
from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.sparse

from kernelstream.kernels import (
    RBF,
    Cosine,
    Euclidean,
    Exponential,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Normalised,
    Polynomial,
    Sigmoid,
    Smoothness,
)
from kernelstream.kernels.base import (
    _as_weights,
    as_rows,
    is_number,
    is_positive,
    is_rule,
    mirrored,
    representable,
    scale_gamma,
)

U32, U64 = 2.0**-24, 2.0**-53
TINY = np.finfo(float).tiny


class Plain(Kernel):
    """A kernel of one's own that says nothing about itself."""


class Distant(Euclidean):
    """A kernel of the distance, without its derivative."""

    resolution = 0.5

    def of_scaled_distances(self, t: Any) -> Any:
        return 1.0 / (1.0 + 0.5 * t)


def test_what_a_kernel_of_ones_own_has_unless_it_says_otherwise() -> None:
    kernel = Plain()
    assert kernel.psd and not kernel.unit_norm and kernel.fixed
    assert not (kernel.stationary or kernel.isotropic or kernel.invertible)
    assert kernel.smoothness is Smoothness.UNKNOWN
    assert kernel.max_squared_norm == kernel.rounding.worst(1.0, 2) == math.inf
    assert kernel.rounding.extent(np.ones((2, 2))) == 0.0
    assert kernel.rounding.in_float32(1.0) == 6.0 * U32
    points = np.ones((2, 2))
    assert kernel.prepared(points) is points
    with pytest.raises(NotImplementedError, match="Plain has no parameter that the data decide"):
        kernel.decide("median", points, np.ones(2))


@pytest.mark.parametrize("d", [0, 5])
@pytest.mark.parametrize("extent", [0.0, 7.0])
def test_rounding_is_that_of_the_page(d: int, extent: float) -> None:
    """The first line of the table in docs/proofs.md; a slope in the place of γ."""
    far, near = 4.0 + 3.0 * (d + 4), 6.0 * (d + 4) * extent
    assert RBF(0.3).rounding.worst(extent, d) == pytest.approx(far + 0.3 * near)
    for nu in (1.5, 2.5):
        slope = nu / (nu - 1) / 4.0
        assert Matern(nu, 2.0).rounding.worst(extent, d) == pytest.approx(far + slope * near)
    delta = near * U64
    assert Exponential(0.3).rounding.worst(extent, d) == pytest.approx(
        far + (1.0 - math.exp(-0.3 * math.sqrt(delta))) / U64
    )
    moved = 1.0 - math.exp(-math.sqrt(delta) / 2.0)  # nu = 1/2 is the exponential kernel
    assert Matern(0.5, 2.0).rounding.worst(extent, d) == pytest.approx(far + moved / U64)
    assert Laplacian(0.3).rounding.worst(extent, d) == d + 4.0
    assert Linear().rounding.worst(extent, d) == d + 3.0
    assert Polynomial(3, 0.5).rounding.worst(extent, d) == 3 * (d + 3.0) + 4.0
    assert Cosine().rounding.worst(extent, d) == 2.0 * d + 10.0
    assert Sigmoid(0.5).rounding.worst(extent, d) == math.inf


def test_slopes_of_kernels_with_and_without_a_kink() -> None:
    assert RBF(0.3).largest_slope == 0.3 and Exponential(0.3).largest_slope == math.inf
    assert Exponential(0.3).resolution == pytest.approx(0.09)
    for nu, expected in ((0.5, math.inf), (1.5, 0.75), (2.5, 5.0 / 12.0)):
        assert Matern(nu, 2.0).largest_slope == pytest.approx(expected)
    assert [Matern(nu).in_float64 for nu in (0.5, 1.5, 2.5)] == [True, False, False]


def test_rounding_in_single_precision() -> None:
    """An eighth of the worst case, and two units; where distances are in float64, one unit."""
    for kernel in (RBF(0.3), Matern(1.5, 2.0), Linear(), Polynomial(2, 0.5)):
        expected = U32 * (2.0 + kernel.rounding.worst(7.0, 0) / 8.0)
        assert kernel.rounding.in_float32(7.0) == pytest.approx(expected, rel=1e-12, abs=0)
    for kernel in (Exponential(0.3), Matern(0.5, 2.0)):
        expected = U32 + kernel.rounding.worst(7.0, 0) * U64
        assert kernel.rounding.in_float32(7.0) == pytest.approx(expected, rel=1e-12, abs=0)


def test_the_extent_of_points_is_about_their_mean_where_they_lie_far_from_zero() -> None:
    """A shift is made from γ|mean|² > 16 on."""
    spread = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    for offset, shifted in ((3.99, False), (4.01, True)):
        points = spread + np.array([offset, 0.0])
        plain = float(np.max(np.sum(points**2, axis=1)))
        for kernel in (RBF(1.0), Exponential(1.0), Matern(1.5, 1.0)):
            assert kernel.rounding.extent(points) == pytest.approx(4.0 if shifted else plain)
            assert kernel.rounding.extent(points, shifted=False) == pytest.approx(plain)
            elsewhere = array_api_strict.asarray(points)
            assert kernel.rounding.extent(elsewhere) == pytest.approx(
                kernel.rounding.extent(points)
            )
    assert RBF(1.0).rounding.extent(np.zeros((0, 2))) == 0.0
    assert Linear().rounding.extent(spread) == Laplacian(1.0).rounding.extent(spread) == 0.0


def test_bounds_of_squared_norms() -> None:
    for kernel in (RBF(1.0), Laplacian(1.0), Cosine(), Normalised(Linear())):
        assert kernel.max_squared_norm == 1.0
    for kernel in (Linear(), Polynomial(3, 0.5), Sigmoid(0.5)):
        assert kernel.max_squared_norm == math.inf


@pytest.mark.parametrize("kernel", [Plain(), Distant(), Linear(), RBF(1.0) + RBF(2.0)], ids=str)
def test_what_is_not_known_is_refused_in_words(kernel: Any) -> None:
    """Nothing stands in for the derivative of a kernel that has none."""
    X, D = np.zeros((2, 2)), np.ones((3, 2))
    unknown = [
        (kernel.slope, (X, D), "derivative with respect to the squared distance"),
        (kernel.gradient_of_sum, (X, D, np.ones((2, 3))), r"gradient|derivative"),
        (kernel.gradient_of_diagonal, (X,), "gradient"),
        (kernel.inverse, (np.ones((2, 3)), np.ones(2), D), "inverse"),
    ]
    known = {"Linear": (1, 2), "Sum": (1, 2), "Distant": (2, 3)}.get(type(kernel).__name__, ())
    for i, (method, arguments, what) in enumerate(unknown):
        if i in known:
            assert np.all(np.isfinite(method(*arguments)))
            continue
        with pytest.raises(ValueError, match=rf"^The .*({what}).* is not known: write .*Ridge\(\)"):
            method(*arguments)


def test_numbers_and_rules() -> None:
    assert is_number(1) and is_number(np.float32(0.5)) and is_number(-1.0)
    assert not any(is_number(bad) for bad in (True, math.nan, math.inf, "1", None, 1j))
    assert is_positive(TINY) and not is_positive(TINY / 2) and not is_positive(0.0)
    assert not is_positive(-1.0) and not is_positive("median")
    assert is_rule("median", "median", None) and is_rule(None, "median", None)
    assert not is_rule("scale", "median", None) and not is_rule(None, "median")
    assert not is_rule(np.array(["median"]), "median")
    single = np.zeros((1, 1), dtype=np.float32)
    least, most = float(np.finfo("f4").tiny), float(np.finfo("f4").max)
    for value in (least, most, 1.0):
        assert representable(value, single, "it") == value
    for value in (least / 2, most * 1.01):
        with pytest.raises(
            ValueError, match=r"it is .* on these rows, which float32 cannot repres"
        ):
            representable(value, single, "it")


@pytest.mark.parametrize(
    ("kernel", "fine"),
    [
        (Matern(2.5, 1.0), True),
        (Matern(3.5, 1.0), False),
        (Matern(math.inf, 1.0), False),
        (Matern(0.0, 1.0), False),
        (Matern(1.5, 0.0), False),
        (Polynomial(1), True),
        (Polynomial(0), False),
        (Polynomial(2.0), False),  # type: ignore[arg-type]
        (Polynomial(True), False),
        (Polynomial(2, 0.0), False),
        (Polynomial(2, "scale", math.inf), False),
        (RBF("scale"), True),
        (RBF("other"), False),
        (Exponential("scale"), False),
        (Laplacian("scale"), False),
        (Laplacian(None), True),
        (Sigmoid("median"), False),
    ],
    ids=str,
)
def test_parameters_at_the_edge(kernel: Kernel, fine: bool) -> None:
    if fine:
        kernel.check()
    else:
        with pytest.raises(ValueError, match="must be"):
            kernel.check()
    assert Polynomial(2, coef0=0.0).psd and not Polynomial(2, coef0=-1e-9).psd


@pytest.mark.parametrize("sparse", [False, True])
def test_scale_is_one_over_the_variance_of_all_entries(sparse: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 4)) * (rng.random((20, 4)) < 0.5) + (0.0 if sparse else 3.0)
    w = rng.integers(1, 4, size=20).astype(float)
    repeated = np.repeat(X, w.astype(int), axis=0)
    rows = scipy.sparse.csr_matrix(X) if sparse else X
    expected = 1.0 / (4 * repeated.var())
    assert scale_gamma(rows, w / w.max()) == pytest.approx(expected)
    for size in (1e-150, 1e150):
        found = scale_gamma(rows * size, w)
        assert found == pytest.approx(expected / size / size, rel=1e-9, abs=0)
    constant = scipy.sparse.csr_matrix((3, 2)) if sparse else np.full((3, 2), 0.1)
    assert scale_gamma(constant, np.ones(3)) == 1.0
    if sparse:  # one entry that is there, and others that are not
        lone = scipy.sparse.csr_matrix(np.array([[5.0, 0.0], [0.0, 0.0]]))
        assert scale_gamma(lone, np.ones(2)) == pytest.approx(1 / (2 * np.var([5.0, 0, 0, 0])))


def test_rules_become_numbers() -> None:
    X = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])  # distances 5, 5 and 10; L1: 7, 7 and 14
    # and what they are where all rows are alike
    for kernel, name, expected, at_rest in (
        (RBF(), "gamma", 0.02, 1.0),
        (RBF(None), "gamma", 0.02, 1.0),
        (Exponential(), "gamma", 0.2, 1.0),
        (Laplacian(), "gamma", 1 / 7, 1.0),
        (Matern(), "length_scale", 5.0, 1.0),
        (Polynomial(2), "gamma", 0.5, 0.5),
        (Sigmoid(), "gamma", 0.5, 0.5),
        (RBF("scale"), "gamma", 1 / (2 * X.var()), 1.0),
        (Polynomial(2, "scale"), "gamma", 1 / (2 * X.var()), 1.0),
    ):
        fixed = kernel.fix(X)
        assert fixed.get_params()[name] == pytest.approx(expected) and fixed.fixed
        assert not kernel.fixed
        assert kernel.fix(np.ones((3, 2))).get_params()[name] == at_rest
    half: Any = np.float32(0.5)
    two: Any = np.int64(2)
    found = {**RBF(half).fix(X).get_params(), **Polynomial(two, 0.5).fix(X).get_params()}
    assert type(found["gamma"]) is float and type(found["degree"]) is int
    assert type(RBF(half).fix(X).get_params()["gamma"]) is float
    ready = RBF(0.5)
    assert ready.fix(X) is ready


def test_rows_and_weights_that_a_kernel_takes() -> None:
    assert as_rows([[1, 2]], "X").dtype == np.float64
    assert as_rows(np.ones((1, 1), dtype="f4"), "X").dtype == np.float32
    for bad in (np.ones(3), np.ones((0, 2)), np.ones((2, 0))):
        with pytest.raises(ValueError, match=r"Y has shape .*: expected \(rows, features\)"):
            as_rows(bad, "Y")
    np.testing.assert_array_equal(_as_weights([2.0, 4.0], 2), [0.5, 1.0])
    np.testing.assert_array_equal(_as_weights(None, 2), [1.0, 1.0])
    bad_weights: list[Any] = [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, math.inf]]
    for weights in bad_weights:
        with pytest.raises(ValueError, match="weights"):
            _as_weights(weights, 2)


def test_a_gram_matrix_is_that_of_its_lower_triangle() -> None:
    K = np.array([[1.0, 9.0, 9.0], [2.0, 1.0, 9.0], [3.0, 4.0, 1.0]])
    found = mirrored(K, np.array([5.0, 6.0, 7.0]))
    np.testing.assert_array_equal(found, [[5.0, 2.0, 3.0], [2.0, 6.0, 4.0], [3.0, 4.0, 7.0]])


@pytest.mark.parametrize("degree", range(1, 12))
def test_powers_by_squaring(degree: int) -> None:
    x = np.array([[1.5, -0.7, 0.0]])
    found = Polynomial(degree, 1.0, 0.0).block(np.ones((1, 1)), x.T)
    np.testing.assert_allclose(found, x**degree, rtol=1e-13)
