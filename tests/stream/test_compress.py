"""Fewer points for a model that has learned: what it keeps, what it tells, how it goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernelstream import (
    StreamingKernelPCA,
    kernels,
    landmarks,
    load,
    metrics,
    trackers,
)
from kernelstream.landmarks.nystroem import factorise, transition
from kernelstream.papers import IncrementalKernelPCA, OnlineKernelPCA

RNG = np.random.default_rng(3)
MIXED = RNG.normal(size=(4, 8)) * np.linspace(2.0, 0.3, 4)[:, None]
X = np.tanh(RNG.normal(size=(3000, 4)) @ MIXED) + 0.05 * RNG.normal(size=(3000, 8))
ROWS, UNSEEN = X[:2500], X[2500:]


def moved_stream(forgetting: float = 1.0) -> StreamingKernelPCA:
    """A model whose points moved on the way, so that a sample corrects its moments."""
    tracker = trackers.Covariance(forgetting)
    model = StreamingKernelPCA(
        4, gamma=0.1, basis=40, batch_size=128, tracker=tracker, random_state=0
    )
    return model.partial_fit(ROWS[np.argsort(ROWS[:, 0])])


def test_half_of_the_points_keep_the_variance_of_rows_not_seen() -> None:
    model = StreamingKernelPCA(4, gamma=0.1, basis=60, random_state=0).fit(ROWS)
    small = model.compress(30)
    assert small.basis_points_.shape == (30, 8) and model.basis_points_.shape == (60, 8)
    lost = metrics.captured_variance(model, UNSEEN) - metrics.captured_variance(small, UNSEEN)
    assert np.sum(lost) < 0.002
    assert small.n_samples_seen_ == model.n_samples_seen_
    # signs are those of the larger model
    np.testing.assert_allclose(small.transform(UNSEEN), model.transform(UNSEEN), atol=0.05)


def test_points_that_are_merely_chosen_lose_more() -> None:
    """The polish is at work: as many rows, drawn, lose several times as much."""
    model = StreamingKernelPCA(4, gamma=0.1, basis=60, random_state=0).fit(ROWS)
    drawn = landmarks.Landmarks(ROWS[:12])
    plain = StreamingKernelPCA(4, gamma=0.1, basis=drawn, random_state=0).fit(ROWS)
    whole = np.sum(metrics.captured_variance(model, UNSEEN))
    small, naive = (
        whole - np.sum(metrics.captured_variance(each, UNSEEN))
        for each in (model.compress(12), plain)
    )
    assert small < naive / 4


@pytest.mark.parametrize(
    "kernel", ["laplacian", "poly", "cosine", kernels.RBF(0.1) + kernels.Linear()]
)
def test_any_kernel(kernel: object) -> None:
    model = StreamingKernelPCA(3, kernel=kernel, basis=60, random_state=0).fit(ROWS)
    small = model.compress(30)
    lost = metrics.captured_variance(model, UNSEEN) - metrics.captured_variance(small, UNSEEN)
    assert np.sum(lost) < 0.05


@pytest.mark.parametrize(
    "model",
    [
        StreamingKernelPCA(3, gamma=0.1, basis=landmarks.Everything(), random_state=0),
        StreamingKernelPCA(3, gamma=0.1, basis="distance", tracker="incremental_svd"),
        OnlineKernelPCA(3, gamma=0.1, nu=0.05, random_state=0),
        IncrementalKernelPCA(3, gamma=0.1, random_state=0),
    ],
    ids=lambda model: f"{type(model).__name__}-{getattr(model, 'tracker', '')}",
)
def test_any_basis_and_tracker(model: StreamingKernelPCA) -> None:
    model.partial_fit(ROWS[:300])
    small = model.compress(16)
    assert np.rad2deg(metrics.principal_angles(model, small).max()) < 8.0
    small.partial_fit(ROWS[300:400])  # and it goes on
    assert small.n_samples_seen_ == 400 and small.basis_points_.shape == (16, 8)


def test_the_certificate_has_the_loss_and_stays_true() -> None:
    rows = ROWS[:400]
    model = StreamingKernelPCA(2, gamma=0.05, basis=60, certify="tight", random_state=0).fit(rows)
    small = model.compress(25)
    exact = StreamingKernelPCA(2, gamma=0.05, basis="everything").fit(rows)
    before, after = model.certificate_.details, small.certificate_.details
    assert after.useful
    assert after.reconstruction_error > before.reconstruction_error
    low, high = after.eigenvalue_intervals.T
    assert np.all(low <= exact.eigenvalues_) and np.all(exact.eigenvalues_ <= high)
    error = float(np.mean(small.reconstruction_error(rows)))
    assert error <= after.reconstruction_error
    angle = metrics.principal_angles(small, exact).max()
    assert after.angle_bound is not None and angle <= after.angle_bound


def test_what_a_sample_corrected_stays_corrected() -> None:
    model = moved_stream()
    small = model.compress(20)
    stream = model.stream_.settled
    chain, state = stream.chain, stream.begun
    assert state.basis.carried  # else there was nothing to correct
    T = transition(chain.kernel, state.basis.span, small.stream_.begun.basis.span)
    sample = state.basis.correction(chain.kernel)
    assert sample is not None
    scatter, total = sample.moments(state.moments.weight)
    mean = T @ (state.moments.total + total) / state.moments.weight
    C = T @ (state.tracker.scatter + scatter) @ T.T / state.moments.weight - np.outer(mean, mean)
    values = np.linalg.eigvalsh(C)[::-1][:4]
    np.testing.assert_allclose(small.explained_variance_, values, rtol=1e-8)
    assert np.abs(scatter).max() > 1e-3 * np.abs(state.tracker.scatter).max()


@pytest.mark.parametrize("forgetting", [1.0, 0.999])
def test_it_goes_on_as_fixed_points_do(forgetting: float) -> None:
    """Rows learned later add to what was kept, exactly; forgetting reaches that, too."""
    small = moved_stream(forgetting).compress(20)
    before = small.stream_.begun
    small.partial_fit(UNSEEN)
    Z = factorise(small.kernel_, small.basis_points_).coordinates(small.kernel_, UNSEEN)
    after = small.stream_.caught_up.begun
    left = forgetting ** len(UNSEEN)
    w = forgetting ** np.arange(len(UNSEEN) - 1.0, -1.0, -1.0)
    expected = left * before.tracker.scatter + (Z * w[:, None]).T @ Z
    np.testing.assert_allclose(after.tracker.scatter, expected, rtol=1e-8, atol=1e-8)
    kept = left * before.basis.older.scatter
    np.testing.assert_allclose(after.basis.older.scatter, kept, rtol=1e-8, atol=1e-12)


def test_the_way_back_is_kept() -> None:
    model = StreamingKernelPCA(4, gamma=0.1, basis=40, preimage="ridge", random_state=0)
    model.partial_fit(ROWS[np.argsort(ROWS[:, 0])])
    small = model.compress(20)
    there = model.inverse_transform(model.transform(UNSEEN))
    np.testing.assert_allclose(small.inverse_transform(small.transform(UNSEEN)), there, atol=0.1)


def test_files_are_small_and_go_on(tmp_path: Path) -> None:
    model = moved_stream()
    small = model.compress(20)
    model.save(tmp_path / "large")
    small.save(tmp_path / "small")
    assert (tmp_path / "small").stat().st_size < (tmp_path / "large").stat().st_size / 5
    again = load(tmp_path / "small")
    np.testing.assert_array_equal(again.transform(UNSEEN), small.transform(UNSEEN))
    again.partial_fit(UNSEEN)
    np.testing.assert_array_equal(again.transform(ROWS), small.partial_fit(UNSEEN).transform(ROWS))


def test_what_cannot_be_compressed_is_said() -> None:
    model = StreamingKernelPCA(4, gamma=0.1, basis=40, random_state=0).fit(ROWS)
    for wrong in (40, 3, 0, 2.5):
        with pytest.raises(ValueError, match=r"from 4 .* to 39|integer of at least 1"):
            model.compress(wrong)  # type: ignore[arg-type]
    small = moved_stream().compress(20)
    with pytest.raises(ValueError, match="compressed cannot be merged"):
        small.merge(small)
