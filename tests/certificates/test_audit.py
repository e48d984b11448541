"""The rows that judge: which they are, and that nothing is learned from them."""

from __future__ import annotations

import itertools
from collections import Counter

import array_api_strict
import numpy as np
import pytest
import scipy.sparse

from kernelstream import StreamingKernelPCA, kernels, landmarks, load, trackers
from kernelstream.arrays.namespaces import is_foreign
from kernelstream.certificates import sample as audit
from kernelstream.certificates.sample import with_replacement
from tests.conftest import audit_sample

ROWS = audit.ROWS  # before the tests make it fewer


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "ROWS", 60)


def model(**changed: object) -> StreamingKernelPCA:
    given: dict[str, object] = dict(gamma=0.1, basis=10, batch_size=32, random_state=0)
    return StreamingKernelPCA(2, **(given | changed))  # type: ignore[arg-type]


def numbered(n: int) -> np.ndarray:
    """Rows that know their number."""
    X = np.random.default_rng(0).normal(size=(n, 3))
    X[:, 0] = np.arange(n) / n
    return X


def numbers(fitted: StreamingKernelPCA, n: int) -> np.ndarray:
    sample = audit_sample(fitted.stream_.caught_up.begun)
    assert sample is not None
    return np.sort(np.round(sample.held()[0][:, 0] * n).astype(int))


def test_the_cuts_of_the_stream_do_not_matter() -> None:
    X = numbered(700)
    whole = model().partial_fit(X)
    for cuts in ([1], [500], [31, 33, 64, 600]):
        parts = model()
        for a, b in itertools.pairwise([0, *cuts, 700]):
            parts.partial_fit(X[a:b])
        assert np.array_equal(numbers(parts, 700), numbers(whole, 700))
        assert parts.certificate_.statistical == whole.certificate_.statistical


def test_every_row_has_the_same_chance() -> None:
    counts = np.zeros(4)
    for seed in range(60):
        rows = numbers(model(random_state=seed).partial_fit(numbered(400)), 400)
        counts += np.bincount(rows // 100, minlength=4)
    assert counts.sum() == 60 * 60
    assert np.all(np.abs(counts - 900) < 4 * np.sqrt(900 * 0.75 * 0.85))


def test_nothing_is_learned_from_the_sample() -> None:
    """Without it the model is the same, bit for bit."""
    X = numbered(500)
    ours, without = model().partial_fit(X), model(certify=False).partial_fit(X)
    assert np.array_equal(ours.dual_coef_, without.dual_coef_)
    assert audit_sample(without.stream_.caught_up.begun) is None
    assert without.certificate_.statistical.reason == "certify=False was given"


def test_samples_of_streams_with_one_seed_are_independent() -> None:
    """Equal seeds drew equal numbers: of two such streams the same rows were in the sample."""
    X = numbered(400)
    other = X + 0.001
    first, second = model().partial_fit(X), model().partial_fit(other)
    same = set(numbers(first, 400)) & set(numbers(second, 400))
    assert len(same) < 25  # 9 are expected by chance


@pytest.mark.parametrize("sizes", [(300, 300), (500, 100)])
def test_a_merged_sample_has_rows_of_both_in_proportion(sizes: tuple[int, int]) -> None:
    of_first = 0
    for seed in range(20):
        X = numbered(600)
        parts = (
            model(random_state=seed).partial_fit(X[: sizes[0]]),
            model(random_state=seed).partial_fit(X[sizes[0] :]),
        )
        merged = parts[0].merge(parts[1])
        rows = numbers(merged, 600)
        assert len(rows) == 60
        of_first += int(np.sum(rows < sizes[0]))
    share = sizes[0] / 600
    assert abs(of_first - 1200 * share) < 4 * np.sqrt(1200 * share * (1 - share))


def test_forgetting_fades_the_sample_and_weights_are_those_of_the_rows() -> None:
    X = numbered(400)
    fitted = model(tracker=trackers.Covariance(0.97)).partial_fit(X)
    state = fitted.stream_.caught_up.begun
    sample = audit_sample(state)
    assert sample is not None
    order, weights = sample.in_order(np.log(0.97))
    rows = np.round(sample.held()[0][order, 0] * 400).astype(int)
    np.testing.assert_allclose(weights, 0.97 ** (399.0 - rows), rtol=1e-9)
    assert weights.sum() < state.moments.weight
    assert np.median(rows) > 330


def test_it_is_in_the_file_and_goes_on(tmp_path) -> None:
    X = numbered(600)
    whole = model().partial_fit(X)
    half = model().partial_fit(X[:300])
    half.save(tmp_path / "half.safetensors")
    again = load(tmp_path / "half.safetensors").partial_fit(X[300:])
    assert np.array_equal(numbers(again, 600), numbers(whole, 600))
    assert again.certificate_.statistical == whole.certificate_.statistical


def test_sparse_rows_are_kept_sparse() -> None:
    X = scipy.sparse.random(300, 40, density=0.1, format="csr", random_state=0)
    fitted = model().partial_fit(X)
    sample = audit_sample(fitted.stream_.caught_up.begun)
    assert sample is not None and scipy.sparse.issparse(sample.held()[0])
    assert fitted.certificate_.statistical.reason is None


def test_rows_of_another_namespace_stay_there_and_say_the_same() -> None:
    X = numbered(300)
    for kernel in ("rbf", "poly"):
        ours = model(kernel=kernel).partial_fit(array_api_strict.asarray(X))
        sample = audit_sample(ours.stream_.caught_up.begun)
        assert sample is not None and is_foreign(sample.held()[0])
        host = model(kernel=kernel).partial_fit(X).certificate_.statistical
        said = ours.certificate_.statistical
        np.testing.assert_allclose(
            said.explained_variance_ratio_interval,
            host.explained_variance_ratio_interval,
            atol=1e-6,
        )
        np.testing.assert_allclose(said.shortfall_bound, host.shortfall_bound, atol=1e-6)
    few = model(basis=landmarks.Landmarks(X[:3])).partial_fit(array_api_strict.asarray(X[:5]))
    assert few.certificate_.statistical.complete


def test_the_largest_energy_is_known_where_the_kernel_has_no_bound() -> None:
    X = numbered(300)
    X[17] *= 30.0
    largest = float((X**2).sum(axis=1).max())
    linear = model(gamma=None, kernel="linear", basis=landmarks.Landmarks(3)).partial_fit(X)
    sample = audit_sample(linear.stream_.caught_up.begun)
    assert sample is not None
    assert sample.bound(kernels.Linear()) == pytest.approx(largest)
    assert sample.bound(kernels.RBF(gamma=1.0) * 2.0) == 2.0


def test_draws_with_replacement_are_independent_and_in_proportion() -> None:
    """All orders of two draws of three rows, as often as their weights say."""
    weights, seen = np.array([1.0, 2.0, 5.0]), Counter[tuple[int, ...]]()
    rng = np.random.default_rng(0)
    for trial in range(6000):
        order = np.argsort(-(np.log(weights) + rng.gumbel(size=3)))[:2]
        drawn = order[with_replacement(weights[order], 8.0, trial, "test")]
        seen[tuple(int(i) for i in drawn)] += 1
    for i, j in itertools.product(range(3), range(3)):
        expected = 6000 * weights[i] * weights[j] / 64.0
        assert abs(seen[i, j] - expected) < 4.5 * np.sqrt(expected)


def test_about_as_many_rows_judge_as_place_the_default_points() -> None:
    basis = landmarks.Centroids()
    placing = basis.begin(kernels.RBF(0.1), landmarks.Start(numbered(600)))
    assert 0.8 < placing.sample.size / ROWS < 1.25


def test_two_streams_that_begin_alike_draw_the_same_and_others_do_not() -> None:
    """The first few rows name a stream: as many as tell it, no more, or cuts would matter."""
    X = numbered(700)
    other, late = X.copy(), X.copy()
    other[7, 1] += 1.0
    late[8, 1] += 1.0
    chosen = numbers(model().partial_fit(X), 700)
    assert np.array_equal(numbers(model().partial_fit(late), 700), chosen)
    assert not np.array_equal(numbers(model().partial_fit(other), 700), chosen)
