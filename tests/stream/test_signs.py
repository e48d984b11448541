"""Signs of components along a stream: a plot does not flip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, landmarks, trackers
from kernelstream.stream.signs import first_components


def flips(X: np.ndarray, every: int = 20, **options: Any) -> list[tuple[int, int]]:
    """Rows and components where one query shows the opposite of what the last has shown."""
    model, last = StreamingKernelPCA(2, random_state=0, **options), None
    found: list[tuple[int, int]] = []
    for start in range(0, len(X), every):
        model.partial_fit(X[start : start + every])
        D, A = model.basis_points_, model.dual_coef_
        if last is not None:
            cosines = np.einsum("ik,ij,jk->k", A, model.kernel_(D, last[0]), last[1])
            found += [(start + every, int(k)) for k in np.flatnonzero(cosines < -0.95)]
        last = D, A
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"gamma": 0.05, "basis": 30},
        {"kernel": "linear", "basis": 30},
        {"gamma": 0.05, "basis": landmarks.Distance(0.1)},
    ],
    ids=["rbf", "linear", "a basis that grows"],
)
def test_signs_stay_while_the_start_is_awaited(options: dict[str, Any]) -> None:
    X = np.random.default_rng(0).normal(size=(1100, 4)) * [3, 2, 1, 0.5]
    assert flips(X, **options) == []


def test_signs_stay_where_the_memory_is_shorter_than_a_block() -> None:
    rng = np.random.default_rng(0)
    angle, u = np.linspace(0, np.pi, 3000), rng.normal(size=(3000, 2)) * [3, 1]
    cos, sin = np.cos(angle), np.sin(angle)
    X = np.stack([cos * u[:, 0] - sin * u[:, 1], sin * u[:, 0] + cos * u[:, 1]], axis=1)
    options: dict[str, Any] = {"kernel": "linear", "basis": landmarks.Landmarks(np.eye(2))}
    assert flips(X, tracker=trackers.Covariance(0.99), **options) == []


@pytest.mark.parametrize("center", [True, False])
def test_the_first_components_are_those_of_kernel_pca(center: bool) -> None:
    rng = np.random.default_rng(1)
    X, w = rng.normal(size=(50, 3)) * [3, 2, 1], rng.uniform(0.5, 2.0, size=50)
    A = first_components(X @ X.T, w, center, 3)
    V = X.T @ A
    mean = w @ X / w.sum() if center else np.zeros(3)
    C = (X - mean).T @ ((X - mean) * (w / w.sum())[:, None])
    np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(V.T @ C @ V, np.diag(np.linalg.eigvalsh(C)[::-1]), atol=1e-9)


def test_signs_are_followed_from_the_first_eight_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelstream.stream import signs

    sizes: list[int] = []
    plain = signs.exact_components

    def noted(K: np.ndarray, *rest: Any) -> Any:
        sizes.append(len(K))
        return plain(K, *rest)

    monkeypatch.setattr(signs, "exact_components", noted)
    X = np.random.default_rng(3).normal(size=(30, 3)) * [3.0, 2.0, 1.0]
    A = first_components(X @ X.T, None, True, 2)
    assert sizes == [8, 10, 12, 15, 18, 22, 27, 30]  # a quarter more each time
    alone = plain(X @ X.T, np.ones(30), True, 2)[0]
    np.testing.assert_allclose(np.abs(A), np.abs(alone), atol=1e-12)
    first = X[:8].T @ plain(X[:8] @ X[:8].T, np.ones(8), True, 2)[0]
    assert np.all(np.sum(first * (X.T @ A), axis=0) > 0)
    sizes.clear()
    first_components(X[:5] @ X[:5].T, None, True, 2)
    assert sizes == [5]
