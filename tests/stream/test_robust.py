"""Rows that do not fit lose weight: at the start and later, whatever the kernel and the cuts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelstream import (
    StreamingKernelPCA,
    kernels,
    landmarks,
    load,
    metrics,
    papers,
    serialization,
    trackers,
)
from kernelstream.landmarks import Projection
from kernelstream.stream.fit import begin_second_pass
from kernelstream.stream.robust import RobustWeights, first_weights, quartiles
from tests import samples

SCALES = np.array([5.0, 4.0, 3.0, 1.0, 0.9, 0.8, 0.7, 0.6])
KERNELS = {
    "linear": kernels.Linear(),
    "quadratic": kernels.Polynomial(degree=2, gamma=0.02, coef0=1.0),
    "wide": kernels.RBF(0.002),
}


def rows(n: int = 3000) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(n, len(SCALES))) * SCALES


def spoiled(X: np.ndarray, how: str, share: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which a share is far out, outside of the main directions, and which they are."""
    rng = np.random.default_rng(2)
    n, d = X.shape
    count = int(share * n)
    bad = np.arange(count) if how == "start" else rng.choice(n, count, replace=False)
    away = rng.normal(size=(count, d))
    away[:, :3] *= 0.1
    away *= 5.0 * np.abs(X).max() / np.linalg.norm(away, axis=1)[:, None]
    if how == "clustered":
        away = 5.0 * np.abs(X).max() * np.eye(d)[-1] + 0.1 * rng.normal(size=(count, d))
    X = X.copy()
    X[bad] = away
    return X, np.isin(np.arange(n), bad)


@samples.grid(
    "verb, how, name", ["fit", "partial_fit"], ["scattered", "clustered", "start"], KERNELS
)
def test_bad_rows_hardly_turn_the_components(name: str, how: str, verb: str) -> None:
    X, bad = spoiled(rows(), how)
    options: dict[str, Any] = dict(kernel=KERNELS[name], basis=40, random_state=0)
    good, plain = (getattr(StreamingKernelPCA(3, **options), verb)(each) for each in (X[~bad], X))
    robust = getattr(StreamingKernelPCA(3, robust=True, **options), verb)(X)
    turned = [np.rad2deg(metrics.principal_angles(good, m).max()) for m in (plain, robust)]
    assert turned[0] > 30.0 and turned[1] < 5.0
    assert robust.n_samples_seen_ == len(X)


@pytest.mark.parametrize("name", KERNELS)
def test_clean_rows_lose_next_to_nothing(name: str) -> None:
    X = rows()
    options: dict[str, Any] = dict(kernel=KERNELS[name], basis=40, random_state=0)
    plain, robust = (
        StreamingKernelPCA(3, robust=robust, **options).fit(X[:2000]) for robust in (False, True)
    )
    lost = metrics.captured_variance(plain, X[2000:]) - metrics.captured_variance(robust, X[2000:])
    assert lost < 0.002


def test_units_and_width_are_not_those_of_bad_rows() -> None:
    X, bad = spoiled(rows(), "scattered")
    good, plain, robust = (
        StreamingKernelPCA(3, basis=40, scale="standard", robust=robust, random_state=0).fit(each)
        for each, robust in ((X[~bad], False), (X, False), (X, True))
    )
    right, wrong, units = (model.stream_.scaler.deviation for model in (good, plain, robust))
    assert np.abs(units / right - 1.0).max() < 0.1 and np.abs(wrong / right - 1.0).max() > 1.0
    assert robust.kernel_.gamma == pytest.approx(good.kernel_.gamma, rel=0.2)


@pytest.mark.parametrize("basis", [landmarks.Centroids(20), landmarks.Landmarks(20)])
@pytest.mark.parametrize("tracker", ["covariance", "incremental_svd", papers.Hebbian()])
def test_the_model_does_not_hang_on_the_cuts(basis: object, tracker: str) -> None:
    X, _ = spoiled(rows(1300), "scattered")
    X = X[:, :3] / 10.0
    files_of = []
    for cuts in ([], [1, 500, 999, 1003, 1299]):
        model = StreamingKernelPCA(
            2,
            gamma=0.1,
            basis=basis,
            tracker=tracker,
            batch_size=64,
            robust=True,
            random_state=0,
        )
        for piece in np.split(X, cuts):
            model.partial_fit(piece)
            if model.n_samples_seen_ > 1000:
                assert np.all(np.isfinite(model.transform(piece)))
        files_of.append(serialization.to_bytes({"model": model.stream_.for_file()}))
    assert files_of[0] == files_of[1]


def test_the_second_pass_judges_in_the_finished_basis() -> None:
    X = rows(1200)
    model = StreamingKernelPCA(3, gamma=0.01, basis=20, robust=True, random_state=0)
    model.partial_fit(np.vstack([0.3 * X[:600], X]))  # points that further rows make better
    before = model.stream_.caught_up
    again = begin_second_pass(model.stream_)
    chain, old, new = before.chain, before.begun, again.begun
    assert old.judge is not None and new.judge is not None
    assert not np.array_equal(old.basis.span.points, new.basis.span.points)
    missed = [
        judge.missed(chain.basis.project(chain.kernel, basis, X))
        for judge, basis in ((old.judge, old.basis), (new.judge, new.basis))
    ]
    assert np.abs(missed[1] / missed[0] - 1.0).max() < 0.2


def test_a_file_goes_on_as_the_model_would(tmp_path: Path) -> None:
    X, _ = spoiled(rows(), "scattered")
    model = StreamingKernelPCA(3, kernel="linear", basis=20, robust=True, random_state=0)
    model.partial_fit(X[:2000]).save(tmp_path / "model")
    again = load(tmp_path / "model").partial_fit(X[2000:])
    np.testing.assert_array_equal(again.transform(X), model.partial_fit(X[2000:]).transform(X))


def test_sums_are_those_of_the_weighted_rows() -> None:
    """In fixed points, against the moments of all rows with the weights that they were given."""
    X, bad = spoiled(rows(1600), "clustered")
    points = landmarks.Landmarks(X[~bad][:12])
    model = StreamingKernelPCA(
        2, kernel="linear", basis=points, robust=True, batch_size=100, random_state=0
    ).partial_fit(X[:1000])
    state, chain = model.stream_.begun, model.stream_.chain
    new = X[1000:1100]
    block = chain.basis.project(chain.kernel, state.basis, new)
    assert state.judge is not None
    w = state.judge.weights(state.judge.missed(block))
    assert w[bad[1000:1100]].max() < 1e-2 and w[~bad[1000:1100]].min() > 0.99
    after = model.partial_fit(new).stream_.begun
    expected = state.tracker.scatter + (block.Z * w[:, None]).T @ block.Z
    np.testing.assert_allclose(after.tracker.scatter, expected, rtol=1e-12, atol=1e-9)
    assert after.moments.weight == pytest.approx(state.moments.weight + w.sum())
    norms = after.moments.squared_norm, state.moments.squared_norm
    assert norms[0] == pytest.approx(norms[1] + w @ block.energy)


def test_a_stream_that_moves_for_good_is_followed() -> None:
    X = rows(4000)
    moved = X[:, ::-1] + 3.0
    model = StreamingKernelPCA(
        3,
        kernel="linear",
        basis=20,
        tracker=trackers.Covariance(forgetting=0.999),
        robust=True,
        random_state=0,
    ).partial_fit(X)
    for _ in range(10):
        model.partial_fit(moved)
    there = StreamingKernelPCA(3, kernel="linear", basis=20, random_state=0).fit(moved)
    assert np.rad2deg(metrics.principal_angles(there, model).max()) < 10.0


def judge(first: float, half: float, third: float) -> RobustWeights:
    return RobustWeights(np.eye(3)[:, :1], np.zeros(3), (first, half, third), 100, 100)


def test_the_weight_falls_with_what_is_missed_of_a_row() -> None:
    e = np.array([1.0, 2.0 * np.exp(6.0 * np.log(2.0)), 1e4, 1e8])
    w = judge(1.0, 2.0, 3.0).weights(e)
    assert w[0] > 1.0 - 1e-6 and w[1] == pytest.approx(0.5)
    assert np.all(np.diff(w) < 0) and (w * e)[-1] < 10.0 * (w * e)[0]
    # rows that are all alike: those within an e-th of the median keep half of their weight
    assert judge(1.0, 1.0, 1.0).weights(np.array([1.5]))[0] > 0.9
    assert 0.0 < judge(1.0, 1.0, 1.0).weights(np.array([np.inf]))[0] < 1e-300


def test_what_is_missed_is_the_distance_from_the_subspace() -> None:
    Z, residual = np.array([[3.0, 4.0, 0.0]]), np.array([2.0])
    block = Projection(Z, np.array([27.0]), residual)
    assert judge(1.0, 1.0, 1.0).missed(block)[0] == pytest.approx(18.0)
    T = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    turned = judge(1.0, 1.0, 1.0).rebase(T)
    assert turned.missed(Projection(Z @ T.T, block.energy, residual))[0] == pytest.approx(18.0)


def test_quartiles_are_weighted() -> None:
    assert quartiles(np.arange(100.0)) == (24.0, 49.0, 74.0)
    assert quartiles(np.arange(100.0), np.repeat([1.0, 1e-9], [51, 49])) == (12.0, 25.0, 38.0)


def test_quartiles_move_slowly_and_components_are_renewed_when_rows_are_a_tenth_more() -> None:
    model = StreamingKernelPCA(2, kernel="linear", basis=20, robust=True, batch_size=100)
    X = np.concatenate([rows(1000), 1e3 * rows(1000)])
    pieces = [X[start : start + 100] for start in range(0, 2000, 100)]
    states = [model.partial_fit(piece).stream_.state for piece in pieces]
    known = [state.judge for state in states if state is not None and state.judge is not None]
    assert [judge.n for judge in known][:3] == [2000, 2100, 2200]
    seen = np.array([judge.quartiles for judge in known])
    steps = np.abs(np.log(seen[1:] / seen[:-1]))
    assert 0 < steps.max() <= np.log(4.0) * 100 / 2000  # by the fraction of the rows
    renewed = [judge.renewed_at for judge in known]
    assert renewed[0] == 1000 and set(np.diff(renewed)) <= {0, 100, 200}


def test_up_to_four_in_ten_of_the_first_rows_may_be_bad() -> None:
    X, bad = spoiled(rows(1000), "clustered", share=0.4)
    for kernel in KERNELS.values():
        w = first_weights(kernel, X, 3, True, None)
        assert w[bad].max() < 1e-2 and np.median(w[~bad]) > 0.99


def test_what_cannot_be_robust_is_said() -> None:
    X = rows(50)
    for n_components in (None, 0.9):
        with pytest.raises(ValueError, match="give n_components as an integer"):
            StreamingKernelPCA(n_components, robust=True).fit(X)
    with pytest.raises(ValueError, match="one by one"):
        StreamingKernelPCA(2, robust=True, basis="everything").fit(X)
    with pytest.raises(ValueError, match="robust must be"):
        StreamingKernelPCA(2, robust="yes").fit(X)  # type: ignore[arg-type]
    one, two = (StreamingKernelPCA(2, gamma=0.1, robust=r).fit(X) for r in (True, False))
    with pytest.raises(ValueError, match="different robust"):
        one.merge(two)
    assert one.merge(one).partial_fit(X).n_samples_seen_ == 150
