"""The whole chain on other array namespaces gives what it gives on NumPy.

``array_api_strict`` refuses everything that the standard does not have; PyTorch joins where it is
installed (``make test-torch``).
"""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelstream import StreamingKernelPCA, kernels, landmarks, load, papers, trackers
from kernelstream.arrays import namespaces
from kernelstream.arrays.namespaces import is_foreign, namespace_of, to_host
from kernelstream.papers import schedules
from tests import samples


def installed(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError:
        return None


NAMESPACES = [
    pytest.param(
        name, marks=[] if installed(name) else pytest.mark.skip(f"{name} is not installed")
    )
    for name in ("numpy", "array_api_strict", "torch")
]
BASES: dict[str, Any] = {
    **samples.landmark_strategies(12),
    "given landmarks": landmarks.Landmarks(np.random.default_rng(5).normal(size=(10, 4))),
}
TRACKERS: dict[str, Any] = {
    "covariance": trackers.Covariance(),
    "forgetting": trackers.Covariance(forgetting=0.995),
    "hebbian": papers.Hebbian(schedules.SearchThenConverge(0.05, 100.0)),
}
KERNELS: dict[str, Any] = {
    **samples.kernels_of_numbers(),
    "rbf scale": kernels.RBF(gamma="scale"),
    "matern 2.5": kernels.Matern(nu=2.5),
    "composite": 0.5 * kernels.RBF(gamma=0.3) + kernels.Linear() * kernels.RBF(gamma=0.1),
}


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 4)) / 2


def on(namespace: str, X: np.ndarray) -> Any:
    """The array in another namespace."""
    if namespace == "numpy":
        return X
    module = installed(namespace)
    return module.asarray(X.copy()) if namespace != "torch" else module.from_numpy(X.copy())


def same_kind(x: Any, reference: Any) -> None:
    assert type(x) is type(reference)
    assert x.dtype == reference.dtype
    assert getattr(x, "device", None) == getattr(reference, "device", None)


def model(n_components: Any = 3, **parameters: Any) -> StreamingKernelPCA:
    return StreamingKernelPCA(n_components, **{"random_state": 0, "batch_size": 128, **parameters})


def check_chain(namespace: str, method: str, tolerance: float = 1e-10, **parameters: Any) -> None:
    """Learn, ask and go back on both namespaces."""
    X, more, unseen = rows(700), rows(150, seed=1), rows(30, seed=2)
    ours, reference = model(**parameters), model(**parameters)
    getattr(ours, method)(on(namespace, X))
    getattr(reference, method)(X)
    ours.partial_fit(on(namespace, more), sample_weight=np.linspace(0.5, 1.5, 150))
    reference.partial_fit(more, sample_weight=np.linspace(0.5, 1.5, 150))

    asked = on(namespace, unseen)
    scores, expected = ours.transform(asked), reference.transform(unseen)
    same_kind(scores, asked)
    np.testing.assert_allclose(to_host(scores), expected, atol=tolerance)

    error = ours.reconstruction_error(asked)
    same_kind(error, asked)
    np.testing.assert_allclose(
        to_host(error), reference.reconstruction_error(unseen), atol=tolerance
    )

    one = ours.transform_one(asked[0, :])
    same_kind(one, asked)
    np.testing.assert_allclose(to_host(one), reference.transform_one(unseen[0]), atol=tolerance)

    variances = to_host(ours.explained_variance_)
    np.testing.assert_allclose(variances, reference.explained_variance_, atol=tolerance)
    assert ours.n_components_ == reference.n_components_
    same_kind(ours.basis_points_, asked)
    same_kind(ours.dual_coef_, asked)
    back = ours.inverse_transform(scores)
    same_kind(back, asked)
    # iterations end where a step is below 1e-6 of the data's size
    np.testing.assert_allclose(to_host(back), reference.inverse_transform(expected), atol=1e-5)
    assert ours.score(asked) == pytest.approx(reference.score(unseen), rel=1e-4)


@samples.grid(
    "method, tracker, basis, namespace", ["fit", "partial_fit"], TRACKERS, BASES, NAMESPACES
)
def test_every_basis_and_tracker(namespace: str, basis: str, tracker: str, method: str) -> None:
    parts = {"basis": BASES[basis], "tracker": TRACKERS[tracker]}
    check_chain(namespace, method, gamma=2.0, **parts)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_kernel(namespace: str, kernel: str) -> None:
    # equal points are 1e-8 apart for a kernel with a kink, in one namespace and not in the other
    tolerance = 1e-7 if kernel in ("exponential", "laplacian") else 1e-10
    check_chain(namespace, "partial_fit", tolerance, kernel=KERNELS[kernel], basis=12)


@pytest.mark.parametrize(
    "parameters",
    [
        {"scale": "standard"},
        {"center": False},
        {"n_components": None},
        {"n_components": 0.8},
        {"preimage": "ridge"},
        {"certify": "tight"},
    ],
    ids=str,
)
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_parameter(namespace: str, parameters: dict[str, Any]) -> None:
    # with all components, those of the smallest variances have the least certain directions
    tolerance = 1e-6 if parameters.get("n_components", 1) is None else 1e-10
    check_chain(namespace, "fit", tolerance, gamma=2.0, basis=12, **parameters)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_float32(namespace: str, basis: str) -> None:
    X = rows(700).astype(np.float32)
    ours = model(basis=BASES[basis], gamma=2.0).fit(on(namespace, X))
    reference = model(basis=BASES[basis], gamma=2.0).fit(X)
    scores = ours.transform(on(namespace, X))
    same_kind(scores, on(namespace, X))
    assert str(scores.dtype).endswith("float32")
    if basis == "centroids":  # cells on the edge go one way or the other in the last digit
        expected = reference.explained_variance_
        np.testing.assert_allclose(to_host(ours.explained_variance_), expected, rtol=0.02)
    else:
        np.testing.assert_allclose(to_host(scores), reference.transform(X), atol=1e-4)


@samples.grid("waiting, basis, namespace", [10, 700], BASES, NAMESPACES)
def test_save(namespace: str, basis: str, waiting: int, tmp_path: Path) -> None:
    """A file does not know where its model was computed: it is read as NumPy."""
    X = rows(waiting)
    ours = model(basis=BASES[basis], gamma=2.0).partial_fit(on(namespace, X))
    ours.save(tmp_path / "model")
    again = load(tmp_path / "model")
    expected = to_host(ours.transform(on(namespace, X)))
    scores = again.transform(X)
    assert isinstance(scores, np.ndarray)
    np.testing.assert_allclose(scores, expected, atol=1e-10)
    again.partial_fit(X)
    np.testing.assert_allclose(
        again.transform(X),
        to_host(ours.partial_fit(on(namespace, X)).transform(on(namespace, X))),
        atol=1e-10,
    )


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_streams_are_cut_anywhere(namespace: str, tmp_path: Path) -> None:
    X = rows(620)
    whole = model(basis=12, gamma=2.0).partial_fit(on(namespace, X))
    pieces = model(basis=12, gamma=2.0)
    for start in range(0, 620, 31):
        pieces.partial_fit(on(namespace, X[start : start + 31]))
    whole.save(tmp_path / "whole")
    pieces.save(tmp_path / "pieces")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "pieces").read_bytes()


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_a_stream_may_begin_with_a_single_row(namespace: str) -> None:
    X = on(namespace, rows(40))
    stream = model(gamma=2.0, batch_size=16)
    for i in range(40):
        stream.learn_one(X[i, :])
    scores = stream.transform(X)
    same_kind(scores, X)
    whole = model(gamma=2.0, batch_size=16).partial_fit(X)
    np.testing.assert_array_equal(to_host(scores), to_host(whole.transform(X)))


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_names_of_a_frame_are_forgotten_with_it(namespace: str) -> None:
    fitted = model(gamma=2.0).fit(pd.DataFrame(rows(40), columns=list("abcd")))
    assert list(fitted.feature_names_in_) == list("abcd")
    assert not hasattr(fitted.fit(on(namespace, rows(40))), "feature_names_in_")


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_rows_are_copied(namespace: str) -> None:
    X = on(namespace, rows(60))
    stream = model(gamma=2.0).partial_fit(X)
    expected = to_host(stream.transform(on(namespace, rows(60)))).copy()
    X[:, 0] = 5.0
    stream.learn_one(on(namespace, rows(1))[0, :])
    again = model(gamma=2.0).partial_fit(on(namespace, rows(60)))
    np.testing.assert_array_equal(to_host(again.transform(on(namespace, rows(60)))), expected)
    again.learn_one(on(namespace, rows(1))[0, :])
    np.testing.assert_array_equal(
        to_host(again.transform(on(namespace, rows(60)))),
        to_host(stream.transform(on(namespace, rows(60)))),
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X: X[:, :2], "2 features.*expecting 4"),
        (lambda X: X[0, :], r"shape \(n, d\)"),
        (lambda X: X[:0, :], r"shape \(n, d\)"),
        (lambda X: X * np.nan, "NaN or infinity"),
        (lambda X: X * 1e200, "overflows.*scale"),
    ],
    ids=["narrow", "1-D", "empty", "NaN", "huge"],
)
@pytest.mark.parametrize("namespace", NAMESPACES[1:])
def test_bad_rows(namespace: str, change: Any, words: str) -> None:
    X = rows(60)
    stream = model(gamma=2.0).partial_fit(on(namespace, X))
    value = stream.stream_
    with pytest.raises(ValueError, match=words):
        stream.partial_fit(change(on(namespace, X)))
    assert stream.stream_ is value


@pytest.mark.parametrize("namespace", NAMESPACES[1:])
def test_other_types(namespace: str) -> None:
    module = installed(namespace)
    whole = np.round(rows(60) * 10)
    expected = model(gamma=0.1).fit_transform(whole)
    for dtype in (module.int64, module.int32):
        X = on(namespace, whole.astype(str(dtype).rsplit(".", 1)[-1]))
        np.testing.assert_allclose(to_host(model(gamma=0.1).fit_transform(X)), expected, atol=1e-10)
    if namespace == "torch":
        half = on(namespace, whole).to(module.float16)
        np.testing.assert_allclose(
            to_host(model(gamma=0.1).fit_transform(half)), expected, atol=1e-10
        )
    with pytest.raises(ValueError, match=r"[Cc]omplex"):
        model().fit(on(namespace, whole + 0j))


@pytest.mark.parametrize("namespace", NAMESPACES[1:])
def test_weights_of_the_same_namespace(namespace: str) -> None:
    X, w = rows(60), np.linspace(0.0, 2.0, 60)
    ours = model(gamma=2.0).fit(on(namespace, X), sample_weight=on(namespace, w))
    expected = model(gamma=2.0).fit(X, sample_weight=w)
    scores = to_host(ours.transform(on(namespace, X)))
    np.testing.assert_allclose(scores, expected.transform(X), atol=1e-10)


@pytest.mark.parametrize("namespace", NAMESPACES[1:])
def test_a_stream_changes_its_namespace(namespace: str) -> None:
    """A model that was learned in one namespace says so when asked in another."""
    X = rows(60)
    ours = model(gamma=2.0).fit(on(namespace, X))
    there = model(gamma=2.0).fit(X)
    for stream, asked in ((ours, X), (there, on(namespace, X))):
        value = stream.stream_
        for call in (stream.transform, stream.partial_fit, stream.reconstruction_error):
            with pytest.raises(ValueError, match=r"learned .*rows.*convert"):
                call(asked)
        assert stream.stream_ is value


# --- the few operations that the standard lacks


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_operations(namespace: str) -> None:
    X, w = rows(9), np.linspace(0.5, 2.0, 9)
    x, v = on(namespace, X), on(namespace, w)
    assert is_foreign(x) == (namespace != "numpy")
    labels = np.array([0, 2, 1, 0, 2, 2, 0, 1, 0])
    values, vectors = namespaces.symmetric_eigen(on(namespace, X.T @ X))
    lam = np.linalg.eigvalsh(X.T @ X)[::-1]
    for got, expected in [
        (namespaces.row_norms_squared(x), np.sum(X**2, axis=1)),
        (namespaces.product(x, x), X @ X.T),
        (namespaces.weighted_gram(x, v), X.T @ (w[:, None] * X)),
        (namespaces.weighted_gram(x, None), X.T @ X),
        (namespaces.weighted_sum(x, v), w @ X),
        (namespaces.weighted_sum(x, None), X.sum(axis=0)),
        (namespaces.sum_by_label(x, labels, 4, w), np.eye(4)[labels].T @ (w[:, None] * X)),
        (namespaces.sum_by_label(x, labels, 4), np.eye(4)[labels].T @ X),
        (namespaces.take_rows(x, [3, 3, 1]), X[[3, 3, 1]]),
        (namespaces.concatenate_rows([x, x]), np.vstack([X, X])),
        (values, lam),
        (vectors @ (values[:, None] * namespace_of(vectors).matrix_transpose(vectors)), X.T @ X),
        (namespaces.like(np.array([1.0, 2.0]), x), np.array([1.0, 2.0])),
        (namespaces.as_dense(x), X),
    ]:
        same_kind(got, x)
        np.testing.assert_allclose(to_host(got), expected, atol=1e-13)
    assert namespaces.largest_entry(x) == np.abs(X).max()
    assert namespaces.all_finite(x)
    assert not namespaces.all_finite(x * np.inf)
    single = namespaces.cast(x, namespace_of(x).float32)
    assert str(namespaces.to_float64(single).dtype).endswith("float64")
    assert namespaces.weighted_gram(single, None).dtype == x.dtype
