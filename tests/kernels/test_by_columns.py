"""Kernels of groups of columns, and of categories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV

from kernelstream import StreamingKernelPCA, load
from kernelstream.cli.failures import CommandError
from kernelstream.cli.parsing import parse_kernel
from kernelstream.kernels import RBF, Categorical, FromCallable, Linear, On, with_numbers

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(400, 2)) * [1.0, 50.0], RNG.integers(0, 3, size=(400, 2))])
FRAME = pd.DataFrame(X, columns=["a", "b", "c", "d"])
MIXED = On([0], RBF()) + On([1], RBF()) * On([2, 3], Categorical())


def test_a_kernel_sees_its_columns_only() -> None:
    kernel = On([1, 0], RBF(gamma=0.3))
    assert np.allclose(kernel(X[:5], X[:7]), RBF(gamma=0.3)(X[:5, [1, 0]], X[:7, [1, 0]]))
    assert np.allclose(kernel(X[:5]), RBF(gamma=0.3)(X[:5, [0, 1]]))
    assert np.array_equal(kernel.diag(X[:4]), np.ones(4)) and kernel.unit_norm and kernel.psd
    single = kernel(X[:5].astype(np.float32), X[:7].astype(np.float32))
    assert single.dtype == np.float32


def test_widths_are_those_of_the_groups() -> None:
    kernel = MIXED.fix(X)
    for place, group in ((kernel.left, [0]), (kernel.right.left, [1])):
        assert place.kernel.gamma == RBF().fix(X[:, group]).gamma
    assert kernel.fixed and not MIXED.fixed


def test_names_and_patterns() -> None:
    names = ["t_in", "t_out", "colour=red", "colour=blue", "when.hour.sin", "p"]
    for columns, numbers in ((["t_*", "p"], (0, 1, 5)), ("colour", (2, 3)), ("when", (4,))):
        assert with_numbers(On(columns, Linear()), names).get_params()["columns"] == numbers
    both: Any = with_numbers(On("p", RBF()) * 2.0 + On([0], RBF()), names)
    assert both.left.left.columns == (5,) or both.left.right.columns == (5,)
    with pytest.raises(ValueError, match="no column 'q'"):
        with_numbers(On(["q"], Linear()), names)
    with pytest.raises(ValueError, match="the rows have no names"):
        StreamingKernelPCA(kernel=On(["a"], RBF())).fit(X)


@pytest.mark.parametrize(
    ("columns", "kernel"),
    [([], RBF()), ([-1], RBF()), ([True], RBF()), ([0], "rbf"), (None, RBF())],
)
def test_what_makes_no_sense_is_refused(columns: Any, kernel: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        On(columns, kernel).check()


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="wants column 7 of 4 columns"):
        StreamingKernelPCA(kernel=On([7], RBF())).fit(X)


def test_categories_are_compared() -> None:
    codes = np.array([[0.0, 1.0], [0.0, 2.0], [5.0, 7.0]])
    expected = np.exp(-0.5 * np.array([[0, 1, 2], [1, 0, 2], [2, 2, 0]]))
    assert np.allclose(Categorical(gamma=0.5)(codes), expected)
    assert Categorical().fix(codes).gamma == pytest.approx(0.5)
    assert Categorical().fix(np.ones((3, 2))).gamma == 1.0
    many = RNG.integers(0, 4, size=(60, 5)).astype(float)
    assert np.linalg.eigvalsh(Categorical(gamma=0.1)(many)).min() > -1e-9


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_codes_stay_codes_in_a_model(learn: str, tmp_path: Path) -> None:
    model = StreamingKernelPCA(3, kernel=MIXED, basis=40, certify="tight", random_state=0)
    getattr(model, learn)(X)
    assert set(np.unique(model.basis_points_[:, 2:])) <= {0.0, 1.0, 2.0}
    low, high = model.certificate_.best_explained_variance_ratio_interval
    K = model.kernel_(X)
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    values = np.linalg.eigvalsh(K)[::-1]
    assert low <= values[:3].sum() / values.sum() <= high
    model.save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").transform(X), model.transform(X))
    assert str(load(tmp_path / "m").kernel_) == str(model.kernel_)


def test_a_small_stream_is_exact() -> None:
    """With a point for every row, the model is batch kernel PCA of the same kernel."""
    model = StreamingKernelPCA(3, kernel=MIXED, basis="everything").fit(X[:80])
    K = model.kernel_(X[:80])
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    assert np.allclose(model.eigenvalues_, np.linalg.eigvalsh(K)[::-1][:3])


def test_gradients_reach_the_columns() -> None:
    kernel = On([1, 0], RBF(gamma=0.3)) + On([2], Linear())
    points, weights = X[:6] / [1, 50, 1, 1], RNG.normal(size=(3, 6))
    rows, step = points[:3] + 0.1, 1e-6
    found = kernel.gradient_of_sum(rows, points, weights)
    energy = kernel.gradient_of_diagonal(rows)
    for j in range(4):
        moved = rows.copy()
        moved[:, j] += step
        rise = ((kernel(moved, points) - kernel(rows, points)) * weights).sum(axis=1) / step
        assert np.allclose(found[:, j], rise, atol=1e-4)
        assert np.allclose(energy[:, j], (kernel.diag(moved) - kernel.diag(rows)) / step, atol=1e-4)


def test_grid_search_reaches_the_widths() -> None:
    model = StreamingKernelPCA(2, kernel=On([0, 1], RBF()), basis=20, random_state=0)
    search = GridSearchCV(model, {"kernel__kernel__gamma": [0.01, 1.0]}, cv=2).fit(X)
    assert search.best_params_["kernel__kernel__gamma"] in (0.01, 1.0)
    named = StreamingKernelPCA(2, basis=20, gamma=3.0, random_state=0)
    assert GridSearchCV(named, {"kernel__gamma": [0.1, 1.0]}, cv=2).fit(X[:, 2:]).best_params_
    named.set_params(kernel__gamma=0.5)
    assert named.kernel.gamma == 0.5 and named.gamma is None
    assert StreamingKernelPCA(kernel="matern").set_params(kernel__nu=2.5).kernel.nu == 2.5
    with pytest.raises(ValueError, match="Invalid parameter"):
        named.set_params(kernel__width=1.0)


def test_named_columns_of_a_frame() -> None:
    kernel = On(["a"], RBF()) + On(["b"], RBF()) * On(["c", "d"], Categorical())
    found = StreamingKernelPCA(3, kernel=kernel, basis=30, random_state=0).fit(FRAME)
    same = StreamingKernelPCA(3, kernel=MIXED, basis=30, random_state=0).fit(FRAME)
    assert np.array_equal(found.dual_coef_, same.dual_coef_)
    function = with_numbers(On(["a"], FromCallable(lambda A, B: A @ B.T)), list(FRAME))
    assert np.allclose(function(X[:3]), X[:3, :1] @ X[:3, :1].T) and not function.psd


def test_kernels_of_the_command_line() -> None:
    found = parse_kernel("on('a,t_*', rbf(gamma=0.1)) * on('c', categorical) + 2 * linear")
    assert isinstance(found.left.left, On) and found.left.left.columns == ["a", "t_*"]
    assert found.left.left.kernel.gamma == 0.1 and isinstance(found.left.right.kernel, Categorical)
    assert parse_kernel("on(3, rbf)").columns == [3] and parse_kernel("on([0, 1], rbf)").columns
    for wrong in ("on(rbf)", "on('a', wrong)", "rbf - rbf", "on(x, rbf)", "rbf +", "2 + 2"):
        with pytest.raises(CommandError):
            parse_kernel(wrong)
