"""Signs of components along a stream: a plot does not flip."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, landmarks, trackers
from kernelstream.stream.components import agreement, oriented
from kernelstream.stream.gram import exact_components
from kernelstream.stream.signs import final, first_components, n_followed, next_reference
from tests.conftest import settled_state


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


def test_signs_are_followed_from_the_first_eight_rows() -> None:
    X = np.random.default_rng(3).normal(size=(30, 3)) * [3.0, 2.0, 1.0]
    A = first_components(X @ X.T, np.ones(30), True, 2)
    alone = exact_components(X @ X.T, np.ones(30), True, 2)[0]
    np.testing.assert_allclose(np.abs(A), np.abs(alone), atol=1e-12)
    first = X[:8].T @ exact_components(X[:8] @ X[:8].T, np.ones(8), True, 2)[0]
    assert np.all(np.sum(first * (X.T @ A), axis=0) > 0)
    few = X[:5] @ X[:5].T
    np.testing.assert_array_equal(
        first_components(few, np.ones(5), True, 2), exact_components(few, np.ones(5), True, 2)[0]
    )


def test_agreement_is_a_cosine_above_its_limit_in_either_direction() -> None:
    near, far = np.array([0.72, 0.69]), np.array([0.69, 0.72])
    reference = np.array([[1.0], [0.0]])
    V = np.array([near, -near, far, -far, [0.0, 1.0]]).T
    np.testing.assert_array_equal(agreement(V, reference), [1.0, -1.0, 0.0, 0.0, 0.0])
    # of several references one is enough, and coordinates that came later are zero
    two = np.array([[0.0, -1.0], [1.0, 0.0]])
    wide = np.pad(V, ((0, 1), (0, 0)))
    np.testing.assert_array_equal(agreement(wide, two), [-1.0, 1.0, 1.0, -1.0, 1.0])
    for nothing in (None, np.zeros((2, 0))):
        np.testing.assert_array_equal(agreement(V, nothing), np.zeros(5))
    assert agreement(np.zeros((2, 0)), reference).shape == (0,)


def test_oriented_without_a_near_reference_makes_the_largest_score_of_a_landmark_positive() -> None:
    X = np.random.default_rng(10).normal(size=(60, 2))
    model = StreamingKernelPCA(2, gamma=0.3, basis=landmarks.Landmarks(X[:5]), batch_size=60)
    learned = model.partial_fit(X).stream_.learned
    chain, state = learned.chain, learned.state
    assert state is not None
    V, mean = np.linalg.qr(np.random.default_rng(11).normal(size=(5, 4)))[0], state.moments.mean
    span = state.basis.span
    scores = (chain.kernel(span.points) @ span.factor - mean) @ V
    largest = np.sign(scores[np.argmax(np.abs(scores), axis=0), range(4)])
    np.testing.assert_array_equal(oriented(chain, state, V, mean, None), V * largest)
    # those that are not asked for stay as they are
    near = oriented(chain, state, V, mean, V[:, :2] * [1.0, -1.0])
    np.testing.assert_array_equal(near, V * [1.0, -1.0, 1.0, 1.0])
    more = oriented(replace(chain, n_components=3), state, V, mean, V[:, :2] * [1.0, -1.0])
    np.testing.assert_array_equal(more, V * [1.0, -1.0, *largest[2:]])


@pytest.mark.parametrize("columns", [None, 3, 10])
def test_next_reference_has_a_few_more_components_than_are_asked_for(columns: int | None) -> None:
    """From a reference with as many, by subspace iteration; else all of them are computed."""
    X = np.random.default_rng(0).normal(size=(2000, 4))
    points = landmarks.Landmarks(X[:40])
    model = StreamingKernelPCA(2, gamma=0.3, basis=points, random_state=0).partial_fit(X)
    chain, state = model.stream_.chain, settled_state(model)
    assert [n_followed(replace(chain, n_components=r)) for r in (1, 4, 10)] == [9, 13, 20]
    exact = chain.tracker.components(state.tracker, state.moments, True)[1][:, :10]
    last = None if columns is None else exact[:, :columns]
    vectors = next_reference(chain, state, last)
    assert vectors.shape == (40, 10)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(10), atol=1e-10)
    cosines = np.sum(vectors * exact, axis=0)[:5]
    np.testing.assert_allclose(np.abs(cosines), 1.0, atol=1e-6)
    if columns is not None:
        assert np.all(cosines[:columns] > 0)


@pytest.mark.parametrize(("beta", "step"), [(1.0, 400), (0.99, 100), (0.9999, 400)])
def test_reference_is_taken_again_when_rows_double_or_once_a_memory(beta: float, step: int) -> None:
    X = np.random.default_rng(0).normal(size=(400, 3))
    tracker = trackers.Covariance(beta)
    basis = landmarks.Landmarks(X[:20])
    model = StreamingKernelPCA(2, gamma=0.3, basis=basis, tracker=tracker, batch_size=400)
    state = model.partial_fit(X).stream_.begun
    assert state.n_rows == 400 and state.next_signs == 400 + step
    assert final(model.stream_.chain, state).next_signs == 400 + step
