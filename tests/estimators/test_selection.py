"""Numbers to begin with, and the curve behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from kernelstream import suggest
from kernelstream.estimators import selection
from kernelstream.estimators.selection import as_good_as_the_best, linear_probe, neighbours_probe
from kernelstream.stream import choosing

X, Y = load_iris(return_X_y=True)


@pytest.mark.parametrize("probe", ["linear", "neighbours"])
def test_with_classes(probe: str) -> None:
    found = suggest(X, Y, probe=probe, random_state=0)
    best = max(found.curve, key=lambda line: line["score"])
    chosen = [
        line
        for line in found.curve
        if line["gamma"] == found.gamma and line["n_components"] == found.n_components
    ]
    assert chosen[0]["score"] > best["score"] - 0.03 > 0.85
    model = found.estimator(random_state=0).fit(X)
    assert model.n_components_ == found.n_components and model.kernel_.gamma == found.gamma
    assert str(found).splitlines()[0].startswith("gamma=") and "n_components" in str(found)
    again = suggest(X, Y, probe=probe, random_state=0)
    assert again.gamma == found.gamma and again.curve == found.curve


def test_with_numbers_and_without_a_target() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 3))
    found = suggest(rows, np.sin(rows[:, 0]), scale="standard", random_state=0)
    assert "R²" in found.criterion and max(line["score"] for line in found.curve) > 0.8
    alone = suggest(X, random_state=0)
    assert set(alone.curve[0]) == {"gamma", "error"} and "reconstruct" in alone.criterion
    assert alone.estimator(n_components=3).n_components == 3


def test_the_target_decides_what_is_chosen() -> None:
    """A target of high frequency is told by narrow kernels only."""
    rows = np.random.default_rng(0).uniform(-3.0, 3.0, size=(300, 1))
    found = suggest(rows, np.sin(6.0 * rows[:, 0]), random_state=0)
    scores = {line["gamma"]: line["score"] for line in found.curve if line["n_components"] == 10}
    widest = min(scores)
    assert found.gamma > 16.0 * widest
    best = max(line["score"] for line in found.curve)
    assert best > 0.9 and scores[widest] < 0.5


def test_probes() -> None:
    S = np.linspace(0.0, 1.0, 50)[:, None]
    np.testing.assert_allclose(linear_probe(S, 2.0 * S, S), 2.0 * S, atol=0.02)
    near = neighbours_probe(S, S, np.array([[0.5]]))
    assert near[0, 0] == pytest.approx(0.5, abs=0.02)


def test_the_width_lies_amid_those_that_are_as_good_as_the_best() -> None:
    rng = np.random.default_rng(0)
    right = (rng.random(400) < 0.8).astype(float)
    worse = np.where(rng.random(400) < 0.3, 0.0, right)
    # alike but for a row of each: the best is so by chance
    as_good = [np.where(np.arange(400) == i, 0.0, right) for i in np.flatnonzero(right)[:5]]
    success = np.stack([*as_good, worse, worse])[:, None, :]
    assert as_good_as_the_best(success) == (2, 0)
    assert as_good_as_the_best(success[::-1]) == (4, 0)
    # one that is better for sure is taken
    assert as_good_as_the_best(np.stack([worse, worse, worse, right, worse])[:, None]) == (3, 0)
    assert as_good_as_the_best(np.ones((3, 1, 10))) == (1, 0)


def test_more_components_are_taken_where_nothing_speaks_against_them() -> None:
    rng = np.random.default_rng(0)
    right = (rng.random(400) < 0.8).astype(float)
    worse = np.where(rng.random(400) < 0.3, 0.0, right)
    nearly = right.copy()  # worse for one row, better for another
    nearly[[np.argmax(right), np.argmin(right)]] = 0.0, 1.0
    # with as many components as in the third column only the second width is as good
    success = np.stack(
        [
            np.stack([right, right, worse, worse]),
            np.stack([worse, right, nearly, worse]),
            np.stack([worse, worse, worse, worse]),
        ]
    )
    assert as_good_as_the_best(success) == (1, 2)
    certain = right.copy()
    certain[np.flatnonzero(right)[:9]] = 0.0  # three standard errors
    assert as_good_as_the_best(np.stack([right, certain])[None]) == (0, 0)


@pytest.mark.parametrize(("few", "folds"), [(90, 10), (89, 5)])
def test_each_row_is_held_back_once(few: int, folds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "FEW", few)
    monkeypatch.setattr(choosing, "FACTORS", (0.5, 1.0))
    monkeypatch.setattr(choosing, "MOST_FACTORS", 2)
    held: list[int] = []
    n, rows = 90, np.random.default_rng(0).normal(size=(90, 2))
    scores_of = choosing.scores_of

    def counted(kernel: Any, seen: np.ndarray, back: np.ndarray, r: int) -> Any:
        held.append(len(back))
        assert len(seen) + len(back) == n
        return scores_of(kernel, seen, back, r)

    monkeypatch.setattr(choosing, "scores_of", counted)
    suggest(rows, rows[:, 0] > 0.0, random_state=0)
    assert sum(held) == 2 * n and max(held) == n // folds


def test_what_makes_no_sense_is_said() -> None:
    with pytest.raises(ValueError, match="given by its name"):
        suggest(X, kernel="poly")
    with pytest.raises(ValueError, match="probe"):
        suggest(X, Y, probe="tree")
    with pytest.raises(ValueError, match="inconsistent"):
        suggest(X, Y[:10])


def test_suggest_of_a_frame_with_text_names_the_table_model() -> None:
    frame = pd.DataFrame({"a": np.arange(30.0), "kind": ["x", "y"] * 15})
    with pytest.raises(ValueError, match=r"Column 'kind' holds no numbers.*TableModel\("):
        suggest(frame)


@pytest.mark.parametrize(("first", "target"), [(-14, None), (8, None), (8, Y)])
def test_suggest_at_the_edge_of_its_grid_widens_it(
    first: int, target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a grid of bandwidths that are all too wide, or all too narrow, it goes inside."""
    factors = tuple(2.0**k for k in range(first, first + 8))
    monkeypatch.setattr(choosing, "FACTORS", factors)
    found = suggest(X, target, random_state=0)
    gammas = sorted({line["gamma"] for line in found.curve})
    assert len(gammas) > 8
    assert gammas[0] < found.gamma < gammas[-1] or len(gammas) == choosing.MOST_FACTORS
