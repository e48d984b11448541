"""Pictures of explanations: what is drawn is what the model says."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from kernelstream import StreamingKernelPCA, landmarks, plot
from tests.plot.conftest import drawn


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    t = rng.uniform(-2, 2, 600)
    columns = {"heat": 20 + 5 * t, "flow": 50 + 9 * np.sin(t), "load": 100 * t**2}
    return pd.DataFrame(columns) + 0.05 * rng.normal(size=(600, 3))


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> StreamingKernelPCA:
    return StreamingKernelPCA(5, scale="standard", basis=80, random_state=0).fit(table)


def test_curves_are_those_of_the_explanation(model: StreamingKernelPCA) -> None:
    told = model.explain_components(n_columns=2)[1]
    axes = plot.component_curves(model, component=1, n_columns=2)
    drawn(axes[0])
    assert [ax.get_xlabel() for ax in axes] == [c.name for c in told.columns]
    for ax, column in zip(axes, told.columns, strict=True):
        np.testing.assert_array_equal(ax.lines[1].get_xdata(), column.values)
        np.testing.assert_array_equal(ax.lines[1].get_ydata(), column.scores)
        assert ax.get_title(loc="left") == f"{column.share:.0%}, {column.shape}"
    assert axes[0].get_ylabel() == "mean score of component 2" and not axes[1].get_ylabel()


def test_curves_on_given_axes_and_rows(model: StreamingKernelPCA, table: pd.DataFrame) -> None:
    given = plt.subplots(1, 3)[1]
    shown = plot.component_curves(model, table[:200], ax=given)
    assert list(shown) == list(given)
    with pytest.raises(ValueError, match=r"1 Axes were given for 3 columns; ask for n_columns=1"):
        plot.component_curves(model, ax=given[0])
    with pytest.raises(ValueError, match="component must be between 0 and 4"):
        plot.component_curves(model, component=5)


def test_a_row_with_a_wrong_column(model: StreamingKernelPCA, table: pd.DataFrame) -> None:
    row = table[:1].assign(flow=90.0)
    cause = model.explain(row)[0].causes[0]
    ax = drawn(plot.row_causes(model, row, n_columns=1, reference=table))
    assert [label.get_text() for label in ax.get_yticklabels()] == [cause.name] == ["flow"]
    _, expected, actual = (float(line.get_xdata()[0]) for line in ax.lines)
    known = table["flow"].to_numpy()
    assert actual == pytest.approx((90.0 - known.mean()) / known.std())
    assert abs(expected) < 2.0 < actual
    assert ax.texts[0].get_text().startswith("90, expected ")
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["expected", "actual", "nine of ten rows"]
    assert ax.get_title(loc="left").startswith("error ")


def test_a_row_that_no_column_explains_and_rows_that_are_several(
    model: StreamingKernelPCA, table: pd.DataFrame
) -> None:
    bare = StreamingKernelPCA(5, scale="standard", basis=80, random_state=0).fit(table.to_numpy())
    errors = bare.reconstruction_error(table.to_numpy())
    ax = drawn(plot.row_causes(bare, table.to_numpy()[np.argmin(errors)]))
    assert [text.get_text() for text in ax.texts] == ["no single column is behind it"]
    with pytest.raises(ValueError, match=r"x is one row; got an array of shape \(3, 3\)"):
        plot.row_causes(model, table[:3])


def test_a_model_that_has_kept_one_row(table: pd.DataFrame) -> None:
    rows = table.to_numpy() / [10.0, 10.0, 200.0]
    basis = landmarks.Landmarks(1)
    model = StreamingKernelPCA(1, gamma=1.0, basis=basis, random_state=0).fit(rows)
    with pytest.raises(ValueError, match="At least two rows are needed to compare with; got 1"):
        plot.row_causes(model, rows[0])
    assert len(plot.component_curves(model, rows, n_columns=1)) == 1
    row = model.basis_points_[0] + [0.0, 3.0, 0.0]
    assert plot.row_causes(model, row, reference=rows).get_yticklabels()[0].get_text() == "x1"
