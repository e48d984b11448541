"""Columns behind components and behind strange rows, where they are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import array_api_strict
import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, landmarks
from kernelstream.estimators.explain import (
    CHANGED_ROWS,
    ColumnEffect,
    along,
    chunks,
    explain_components,
    explain_rows,
)
from kernelstream.papers import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    KernelHebbianPCA,
    OnlineKernelPCA,
)

# Columns of these tables differ in scale on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:Nine tenths of the squared distances:UserWarning")

N = 900
Table = Callable[[np.random.Generator], np.ndarray]


def noise(rng: np.random.Generator, k: int, size: float = 0.05) -> np.ndarray:
    return size * rng.normal(size=(N, k))


def curve(rng: np.random.Generator) -> np.ndarray:
    t = rng.uniform(-2, 2, N)
    return np.column_stack([t, t**2, np.sin(2 * t), np.abs(t)]) + noise(rng, 4)


def ring(rng: np.random.Generator) -> np.ndarray:
    a = rng.uniform(0, 2 * np.pi, N)
    return np.column_stack([noise(rng, 2), 2 * np.cos(a), 2 * np.sin(a), 2 * np.cos(a)]) + noise(
        rng, 5
    )


def linear(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(N, 3)) @ rng.normal(size=(3, 8)) + noise(rng, 8, 0.1)


def squares(rng: np.random.Generator) -> np.ndarray:
    z = rng.normal(size=(N, 2))
    return np.column_stack([z, z[:, 0] * z[:, 1], z**2 - 1]) + noise(rng, 5)


def groups(rng: np.random.Generator) -> np.ndarray:
    centres = 3 * rng.normal(size=(4, 6))
    return centres[rng.integers(0, 4, N)] + noise(rng, 6, 0.3)


def sensors(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(N, 1)) + noise(rng, 10, 0.1)


def units(rng: np.random.Generator) -> np.ndarray:
    t = rng.uniform(-2, 2, N)
    return np.column_stack([1000 * t, t**2, np.exp(t) / 10]) + noise(rng, 3) * [400, 1, 0.4]


def roll(rng: np.random.Generator) -> np.ndarray:
    t = rng.uniform(-2, 2, N)
    turned = np.column_stack([t * np.cos(3 * t), t * np.sin(3 * t), t, t**2])
    return turned + noise(rng, 4)


TABLES: list[Table] = [curve, ring, linear, squares, groups, sensors, units, roll]


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial"])
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_a_column_made_wrong_is_named_first(table: Table, kernel: str) -> None:
    """Four deviations off in one column of each row: at least nine of ten are named."""
    rng = np.random.default_rng(1)
    X = table(rng)
    rows = X[-40:].copy()
    model = StreamingKernelPCA(12, kernel=kernel, basis=120, scale="standard", random_state=0)
    model.fit(X[:-40])
    wrong = rng.integers(0, X.shape[1], 40)
    by = rng.choice([-4.0, 4.0], 40) * X.std(axis=0)[wrong]
    right = rows[np.arange(40), wrong].copy()
    rows[np.arange(40), wrong] += by
    told = model.explain(rows)
    first = [e.causes[0] if e.causes else None for e in told]
    named = [c is not None and c.name == f"x{w}" for c, w in zip(first, wrong, strict=True)]
    assert np.mean(named) >= 0.9
    assert np.median([e.p_value for e in told]) < 0.05
    nearer = [
        abs(c.expected - r) < abs(c.actual - r)
        for c, r, ok in zip(first, right, named, strict=True)
        if c is not None and ok
    ]
    assert np.mean(nearer) >= 0.9


@dataclass(frozen=True)
class Pair:
    """A table of which two columns vary together: places, lengths, curve and number of columns."""

    places: tuple[int, int]
    lengths: tuple[float, float] = (2.0, -1.5)
    n_columns: int = 6
    heavy: bool = False
    noise: float = 0.2
    curved: bool = False


PAIRS = {
    "apart": Pair((0, 3)),
    "beside": Pair((2, 4)),
    "last": Pair((1, 5)),
    "equal": Pair((3, 1), (1.5, 1.5)),
    "many columns": Pair((7, 19), n_columns=24),
    "heavy tails": Pair((0, 2), heavy=True),
    "noisy": Pair((4, 5), noise=0.35),
    "curved": Pair((0, 4), (2.0, 2.0), curved=True),
}


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial"])
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_component_made_by_two_columns_names_both(pair: Pair, kernel: str) -> None:
    rng = np.random.default_rng(0)
    X = pair.noise * rng.normal(size=(N, pair.n_columns))
    t = rng.standard_t(5, size=N) if pair.heavy else rng.normal(size=N)
    first, second = pair.places
    X[:, first] += pair.lengths[0] * t
    X[:, second] += pair.lengths[1] * (np.tanh(t) * 1.5 if pair.curved else t)
    model = StreamingKernelPCA(1, kernel=kernel, basis=80, random_state=0).fit(X)
    told = model.explain_components(n_columns=2)[0]
    assert {c.name for c in told.columns} == {f"x{c}" for c in pair.places}
    assert sum(c.share for c in told.columns) > 0.8
    assert {c.shape for c in told.columns} <= {"rises", "falls"}
    signs = [np.sign(c.slope) for c in told.columns]
    assert signs[0] * signs[1] == np.sign(pair.lengths[0] * pair.lengths[1])
    assert f"component 1 ({told.variance_ratio:.1%}): x" in str(told)


def test_effects_are_those_of_a_sum() -> None:
    """For a sum of functions of single columns Jansen's formula gives their variances."""
    rng = np.random.default_rng(0)
    R = rng.normal(size=(256, 3)) * [1.0, 2.0, 0.0]  # the last column is constant

    def score(rows: np.ndarray) -> np.ndarray:
        return np.column_stack([3.0 * rows[:, 0] + rows[:, 1] ** 2, rows[:, 1]])

    one, two = explain_components(score, R, ["a", "b", "c"], np.array([0.7, 0.3]), 3)
    assert [c.name for c in one.columns] == ["b", "a"] and [c.name for c in two.columns] == ["b"]
    # variances 9 and 2·2⁴ = 32 of 41
    assert one.columns[1].share == pytest.approx(9 / 41, abs=0.06)
    assert one.columns[1].slope == pytest.approx(3.0, abs=0.5)
    assert two.columns[0].slope == pytest.approx(1.0)
    assert one.columns[1].shape == "rises" and one.columns[0].shape == "dips"
    assert two.columns[0].share == 1.0
    np.testing.assert_allclose(two.columns[0].scores, two.columns[0].values)
    assert len(two.columns[0].values) == 15


def test_curves_of_few_values() -> None:
    column = np.array([0.0, 1.0, 0.0, 1.0, 1.0])
    slope, values, means = along(column, np.array([1.0, 3.0, 3.0, 5.0, 4.0]))
    np.testing.assert_array_equal(values, [0.0, 1.0])
    np.testing.assert_array_equal(means, [2.0, 4.0])
    assert slope == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("scores", "shape"),
    [
        ([0, 1, 2, 3], "rises"),
        ([3, 1, 0], "falls"),
        ([0, 2, 0.1], "peaks"),
        ([1, -1, 1], "dips"),
        ([0, 1, -1, 0.2], "waves"),
        ([0.3, 1, 0, 1, 0, 0.7], "waves"),
        ([1, 1, 1], "flat"),
    ],
)
def test_shapes_of_curves(scores: list[float], shape: str) -> None:
    values = np.arange(len(scores), dtype=float)
    assert ColumnEffect("a", 1.0, 0.0, values, np.array(scores, dtype=float)).shape == shape


def test_two_wrong_columns_are_named_one_after_the_other() -> None:
    rng = np.random.default_rng(0)
    X = sensors(rng)
    model = StreamingKernelPCA(4, gamma=0.05, basis=100, random_state=0).fit(X)
    row = X[:1].copy()
    row[0, 2] += 5.0
    row[0, 7] -= 4.0
    told = model.explain(row)[0]
    assert [c.name for c in told.causes[:2]] == ["x2", "x7"]
    assert told.causes[0].actual == row[0, 2]
    assert sum(c.share for c in told.causes) <= 1.0 + 1e-12
    assert str(told).startswith(f"error {told.error:.4g} (p = 0.00")
    assert len(model.explain(row, n_columns=1)[0].causes) == 1


def test_an_ordinary_row_has_no_cause() -> None:
    X = sensors(np.random.default_rng(0))
    model = StreamingKernelPCA(4, gamma=0.05, basis=100, random_state=0).fit(X)
    errors = model.reconstruction_error(X)
    told = model.explain(X[[int(np.argmin(errors))]])[0]
    assert told.causes == () and told.p_value > 0.9
    assert "no single column is behind it" in str(told)


def test_nothing_is_named_where_no_column_helps() -> None:
    rows = np.ones((1, 3))
    told = explain_rows(
        lambda changed: np.full(len(changed), 1.0) + (changed != 1.0).any(axis=1),
        rows,
        np.random.default_rng(0).normal(size=(30, 3)),
        ["a", "b", "c"],
        3,
    )
    assert told[0].causes == ()


@pytest.mark.parametrize(
    "estimator",
    [
        AdaptiveKernelPCA(2, gamma=0.1),
        IncrementalKernelPCA(2, gamma=0.1),
        KernelHebbianPCA(2, gamma=0.1, n_epochs=20, random_state=0),
        OnlineKernelPCA(2, gamma=0.1, random_state=0),
        StreamingKernelPCA(2, gamma=0.1, basis=landmarks.Landmarks(40), random_state=0),
    ],
    ids=lambda e: type(e).__name__,
)
def test_every_estimator_explains_itself(estimator: Any) -> None:
    X = np.random.default_rng(0).normal(size=(300, 3)) * [0.1, 2.0, 0.1]
    estimator.fit(X, X[:, 1])
    assert estimator.explain_components()[0].columns[0].name == "x1"
    row = X[:1] + np.array([3.0, 0.0, 0.0])
    assert estimator.explain(row)[0].causes[0].name == "x0"


def test_names_of_a_frame_and_rows_that_are_given() -> None:
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(300, 2)) * [0.1, 2.0]
    frame = pandas.DataFrame(X, columns=["flow", "heat"])
    model = StreamingKernelPCA(1, gamma=0.1, basis=40, random_state=0).fit(frame)
    assert model.explain_components()[0].columns[0].name == "heat"
    assert model.explain_components(frame.iloc[:50])[0].columns[0].name == "heat"
    wrong = frame.iloc[:1] + np.array([3.0, 0.0])
    cause = model.explain(wrong, reference=frame)[0].causes[0]
    assert cause.name == "flow" and cause.actual == wrong.iloc[0, 0]
    assert abs(cause.expected) < 1.0


def test_rows_of_another_namespace_and_a_query_changes_nothing() -> None:
    X = np.random.default_rng(0).normal(size=(300, 2)) * [0.1, 2.0]
    model = StreamingKernelPCA(1, gamma=0.1, basis=40, random_state=0)
    model.fit(array_api_strict.asarray(X))
    before = np.asarray(model.transform(array_api_strict.asarray(X[:5])))
    assert model.explain_components()[0].columns[0].name == "x1"
    told = model.explain(array_api_strict.asarray(X[:1] + np.array([3.0, 0.0])))
    assert told[0].causes[0].name == "x0"
    after = np.asarray(model.transform(array_api_strict.asarray(X[:5])))
    np.testing.assert_array_equal(before, after)


def test_what_cannot_be_explained_is_said_in_words() -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    features = StreamingKernelPCA(1, gamma=0.1, basis=20, random_state=0).fit(X)
    assert len(features.explain_components(X)) == 1
    with pytest.raises(ValueError, match="At least two rows"):
        features.explain_components(X[:1])
    with pytest.raises(ValueError, match="3 feature_names were given for 2 columns"):
        features.explain(X[:1], reference=X, feature_names=["a", "b", "c"])
    named = features.explain_components(X, feature_names=["a", "b"])
    assert {c.name for c in named[0].columns} == {"a", "b"}
    with pytest.raises(ValueError, match="n_columns must be an integer"):
        features.explain(X, n_columns=0)


def test_columns_in_groups_that_fit_into_memory() -> None:
    groups = chunks(np.arange(10), 2**21)
    assert [len(group) for group in groups] == [2] * 5
    assert chunks(np.arange(0), 5) == []
    assert len(chunks(np.arange(3), 2**30)) >= 3


def test_many_columns_cost_a_bounded_number_of_rows() -> None:
    asked: list[int] = []

    def counted(R: np.ndarray) -> np.ndarray:
        asked.append(len(R))
        return R[:, 3:4]

    d = 700
    rows = np.random.default_rng(0).normal(size=(300, d))
    names = [f"x{i}" for i in range(d)]
    told = explain_components(counted, rows, names, np.ones(1), 1)
    assert told[0].columns[0].name == "x3" and told[0].columns[0].share == 1.0
    assert sum(asked) <= CHANGED_ROWS + 2 * len(rows) < 256 * d
    asked.clear()
    found = explain_rows(lambda R: counted(R)[:, 0] ** 2, rows[:1] + 5.0, rows, names, 1)
    assert found[0].causes[0].name == "x3" and abs(found[0].causes[0].expected) < 0.1
    assert sum(asked) <= 10 * d + len(rows)


def test_a_column_is_found_with_a_few_dozen_errors_each() -> None:
    """A model is asked for every one of them."""
    asked = []

    def error(rows: np.ndarray) -> np.ndarray:
        asked.append(len(rows))
        return ((rows - [0.0, 0.123, 0.0]) ** 2).sum(axis=1)

    reference = np.random.default_rng(0).normal(size=(300, 3)) * 0.1
    (found,) = explain_rows(error, np.array([[0.0, 5.0, 0.0]]), reference, ["a", "b", "c"], 1)
    assert [cause.name for cause in found.causes] == ["b"]
    assert found.causes[0].expected == pytest.approx(0.123, abs=0.01)
    assert sum(asked[2:]) < 50 * 3  # after the reference and the row itself
