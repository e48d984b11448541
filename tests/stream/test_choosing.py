"""What a stream chooses for itself: widths, components above chance, points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from kernelstream import (
    StreamingKernelPCA,
    StreamingKernelRidge,
    kernels,
    landmarks,
    load,
    papers,
    serialization,
)
from kernelstream.papers import OnlineKernelPCA
from kernelstream.stream import choosing

RNG = np.random.default_rng(0)
T = RNG.uniform(0.0, 2.0 * np.pi, size=900)
CIRCLE = np.c_[np.cos(T), np.sin(T), np.cos(2.0 * T), np.sin(2.0 * T)]
CIRCLE += 0.02 * RNG.normal(size=CIRCLE.shape)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer rows to choose with: what is tested does not hang on their number."""
    for name, value in dict(LEARNED=150, HELD_BACK=75, SHUFFLED=150, PLACED=300).items():
        monkeypatch.setattr(choosing, name, value)


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def factors(k: int, n: int = 1200, d: int = 12) -> np.ndarray:
    """Rows with k factors behind their columns."""
    given = np.random.default_rng(k)
    return given.normal(size=(n, k)) @ given.normal(size=(k, d)) + 0.5 * given.normal(size=(n, d))


@pytest.mark.usefixtures("few")
def test_the_widest_kernel_is_not_the_best_by_construction() -> None:
    median = kernels.RBF().fix(CIRCLE)
    found = choosing.compare_widths(median, CIRCLE, 2, rng())
    assert found.gamma > 2.0 * found.gammas[0]
    # no linear map from scores comes below linear PCA, which is where the widest kernels end
    rows = CIRCLE[:300] - CIRCLE[:300].mean(axis=0)
    linear = float(np.sum(np.linalg.svd(rows, compute_uv=False)[2:] ** 2))
    for gamma in map(float, found.gammas):
        S, _ = choosing.scores_of(kernels.RBF(gamma), CIRCLE[:300], CIRCLE[600:], 2)
        left = rows - S @ np.linalg.lstsq(S, rows, rcond=None)[0]
        assert float(np.sum(left**2)) > linear * (1.0 - 1e-9)
    assert found.errors.min() < 0.5 * linear / float(np.sum(rows**2))
    # and one that is far too narrow tells nothing of rows that were held back
    assert found.errors[-1] > 2.0 * found.errors.min()


@pytest.mark.parametrize(("n", "sizes"), [(900, (600, 300)), (90, (60, 30)), (2, (2, 2))])
def test_a_third_of_the_rows_is_held_back(
    n: int, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two rows none: they are told from each other, and from nothing else."""
    asked = []

    def told(kernel: Any, seen: np.ndarray, back: np.ndarray, r: int) -> Any:
        asked.append((seen, back))
        return seen, back

    monkeypatch.setattr(choosing, "scores_of", told)
    choosing.compare_widths(kernels.RBF(1.0), CIRCLE[:n], 2, rng())
    assert len(asked) >= len(choosing.FACTORS)
    for seen, back in asked:
        assert (len(seen), len(back)) == sizes
        together = np.vstack([seen, back])
        assert len(np.unique(together, axis=0)) == n


@pytest.mark.parametrize("best", [1e-4, 1e-3, 1e-2, 1e-1])
def test_the_way_back_is_as_stiff_as_suits_it(best: float) -> None:
    """The error is that of the best of four ridges, a decade apart: each is the best somewhere."""
    noise = {1e-4: 0.0, 1e-3: 0.02, 1e-2: 0.1, 1e-1: 0.6}[best]
    given = np.random.default_rng(0)
    scores = given.uniform(-1.0, 1.0, size=(90, 1))
    X = np.sin(3.0 * scores) + noise * given.normal(size=(90, 1))
    (S, B), (seen, back) = np.split(scores, [60]), np.split(X, [60])
    apart = choosing.squared_distances(S, S)
    gamma = 1.0 / float(np.median(apart[np.triu_indices(60, 1)]))
    errors = {}
    for alpha in (1e-4, 1e-3, 1e-2, 1e-1):
        ridge = KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma).fit(S, seen - seen.mean())
        left = float(np.sum((ridge.predict(B) + seen.mean() - back) ** 2))
        errors[alpha] = left / float(np.sum((back - seen.mean()) ** 2))
    assert min(errors, key=lambda alpha: errors[alpha]) == best
    found = choosing.reconstruction_error(S, B, seen, back)
    assert found == pytest.approx(errors[best], rel=1e-6)


def test_of_widths_that_are_as_good_the_narrowest_is_taken() -> None:
    found = choosing.Compared(np.array([1.0, 2.0, 4.0, 8.0]), np.array([0.3, 0.301, 0.302, 0.5]))
    assert found.gamma == 4.0


def test_scores_are_those_of_exact_kernel_pca() -> None:
    S, B = choosing.scores_of(kernels.RBF(0.5), CIRCLE[:200], CIRCLE[200:250], 3)
    exact = StreamingKernelPCA(3, gamma=0.5, basis="everything").fit(CIRCLE[:200])
    np.testing.assert_allclose(np.abs(S), np.abs(exact.transform(CIRCLE[:200])), atol=1e-6)
    np.testing.assert_allclose(np.abs(B), np.abs(exact.transform(CIRCLE[200:250])), atol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_parallel_analysis_finds_the_factors(k: int) -> None:
    r, found, chance = choosing.parallel_analysis(kernels.Linear(), factors(k), True, rng())
    assert r == k
    assert found[k - 1] > chance[k - 1] and found[k] <= chance[k]


def test_columns_without_connection_have_one_component() -> None:
    X = np.random.default_rng(3).normal(size=(800, 10))
    assert choosing.parallel_analysis(kernels.Linear(), X, True, rng())[0] == 1


def test_chance_is_the_largest_of_several_shuffles_of_few_rows() -> None:
    """One shuffle would find components in every other table without any."""
    counts = []
    for seed in range(20):
        X = np.random.default_rng(seed).normal(size=(60, 5))
        counts.append(choosing.parallel_analysis(kernels.Linear(), X, True, rng())[0])
    assert np.mean(counts) < 1.2
    X = np.random.default_rng(3).normal(size=(3000, 2))
    _, found, chance = choosing.parallel_analysis(kernels.Linear(), X, True, rng())
    assert len(found) == len(chance) <= 1000  # eigenvalues of many rows would take minutes


@pytest.mark.parametrize(("n", "r"), [(1, 1), (2, 1), (6, 5), (300, 100)])
def test_no_more_components_than_rows_have_or_anybody_looks_at(
    n: int, r: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all are above chance."""
    found = iter([np.ones(n)])
    monkeypatch.setattr(choosing, "exact_variances", lambda *given: next(found, np.zeros(n)))
    assert choosing.parallel_analysis(kernels.Linear(), np.ones((n, 2)), True, rng())[0] == r


def test_points_are_enough_for_the_components() -> None:
    kernel = kernels.RBF(0.05)
    m = choosing.enough_points(kernel, factors(5, n=600), 10, rng())
    assert choosing.enough_points(kernel, factors(5, n=600), 2, rng()) < m


def test_as_many_points_as_rows_miss_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no more are tried, nor more than anybody wants, whatever is missed."""
    monkeypatch.setattr(choosing, "MISSED", -1.0)
    assert choosing.enough_points(kernels.RBF(0.05), factors(5, n=40), 10, rng()) == 64
    monkeypatch.setattr(choosing, "MOST_POINTS", 64)
    assert choosing.enough_points(kernels.RBF(5.0), factors(5, n=90), 10, rng()) == 64


def test_points_are_chosen_with_some_of_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def told(K: np.ndarray, center: bool) -> np.ndarray:
        asked.append(len(K))
        return np.full(len(K), 1e-300)

    monkeypatch.setattr(choosing, "exact_variances", told)
    assert choosing.enough_points(kernels.RBF(0.5), factors(2, n=5000, d=3), 2, rng()) == 32
    assert asked[0] <= 2000  # eigenvalues of all of them would take minutes


@pytest.mark.usefixtures("few")
def test_all_at_once(tmp_path: Path) -> None:
    X = factors(4)
    options: dict[str, Any] = dict(gamma="auto", basis="auto", random_state=0)
    model = StreamingKernelPCA("auto", **options).fit(X)
    assert 2 <= model.n_components_ <= 6 and model.n_components == "auto"
    assert model.stream_.chain.auto == () and model.kernel_.fixed
    # the numbers, given, are the same model
    given = StreamingKernelPCA(
        model.n_components_,
        gamma=model.kernel_.gamma,
        basis=len(model.basis_points_),
        random_state=0,
    ).fit(X)
    np.testing.assert_array_equal(given.transform(X), model.transform(X))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").transform(X), model.transform(X))


@pytest.mark.usefixtures("few")
def test_a_stream_chooses_at_its_start_however_it_is_cut(tmp_path: Path) -> None:
    X = factors(4, n=2700)
    contents = []
    for cuts in ([], [3, 900, 2560, 2561]):
        model = StreamingKernelPCA("auto", gamma="auto", basis="auto", random_state=0)
        for piece in np.split(X, cuts):
            model.partial_fit(piece).save(tmp_path / "model")
            model = load(tmp_path / "model")  # what is to be chosen is in the file
        contents.append(serialization.to_bytes({"model": model.stream_.for_file()}))
    assert contents[0] == contents[1] and model.stream_.chain.auto == ()


@pytest.mark.usefixtures("few")
def test_nothing_is_chosen_before_a_thousand_rows_have_come() -> None:
    X = factors(4, n=1100)
    model = StreamingKernelPCA(2, gamma="auto", basis=20, random_state=0)
    assert model.partial_fit(X[:990]).stream_.chain.auto == ("gamma",)
    assert model.partial_fit(X[990:]).stream_.chain.auto == ()


@pytest.mark.usefixtures("few")
def test_papers_choose_a_width_too() -> None:
    model = OnlineKernelPCA(2, gamma="auto", random_state=0).partial_fit(CIRCLE[:200])
    assert isinstance(model.kernel_.gamma, float)


def test_what_cannot_be_chosen_is_said() -> None:
    X = factors(3, n=60)
    with pytest.raises(ValueError, match="given by its name"):
        StreamingKernelPCA(2, kernel="poly", gamma="auto").fit(X)
    with pytest.raises(ValueError, match="as an integer, got 'auto'"):
        StreamingKernelPCA("auto", tracker=papers.Hebbian()).fit(X)
    with pytest.raises(ValueError, match="give n_components as an integer"):
        StreamingKernelPCA("auto", robust=True).fit(X)
    with pytest.raises(ValueError, match="knows no targets"):
        StreamingKernelRidge(gamma="auto").fit(X, X[:, 0])
    with pytest.raises(ValueError, match="n_components must be"):
        StreamingKernelPCA(2, basis=landmarks.Landmarks(10)).fit(X).set_params(n_components="auto")
