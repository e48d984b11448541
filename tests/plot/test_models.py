"""Pictures of a model: what is drawn is what the model says."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from kernelstream import StreamingKernelPCA, plot
from tests.plot.conftest import drawn


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(600, 2)) * [1.0, 0.4] + [5.0, -3.0]


@pytest.fixture(scope="module")
def model(X: np.ndarray) -> StreamingKernelPCA:
    return StreamingKernelPCA(4, basis=60, scale="standard", random_state=0).fit(X)


def test_scree_shows_variances_and_certified_intervals(model: StreamingKernelPCA) -> None:
    ax = drawn(plot.scree(model))
    assert np.allclose([bar.get_height() for bar in ax.patches], model.explained_variance_)
    lines = ax.containers[1].lines[2][0].get_segments()
    intervals = model.certificate_.details.eigenvalue_intervals / model.n_samples_seen_
    assert np.allclose([segment[:, 1] for segment in lines], intervals)
    assert len(plot.scree(model, n_components=2).patches) == 2


def test_scree_says_when_nothing_is_certain(X: np.ndarray) -> None:
    model = StreamingKernelPCA(2, basis=20, certify=False, random_state=0).fit(X)
    assert [text.get_text() for text in plot.scree(model).texts] == ["no useful certificate"]


def test_embedding_shows_the_scores(model: StreamingKernelPCA, X: np.ndarray) -> None:
    ax = drawn(plot.embedding(model, X, components=(1, 2)))
    shown = np.asarray(ax.collections[0].get_offsets())
    scores = model.transform(X)[:, 1:3]
    assert np.allclose(np.sort(shown, axis=0), np.sort(scores, axis=0))
    assert ax.get_xlabel() == "component 2"


def test_embedding_in_colours(model: StreamingKernelPCA, X: np.ndarray) -> None:
    kinds = np.where(X[:, 0] > 5, "right", "left")
    ax = drawn(plot.embedding(model, X, color=kinds))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["left", "right"]
    offsets, colours = ax.collections[0].get_offsets(), ax.collections[0].get_facecolors()
    scores = model.transform(X)[:, :2]
    for i in (0, 17, 300):  # a row has the colour of its kind, wherever the shuffling put it
        place = int(np.argmin(np.square(np.asarray(offsets) - scores[i]).sum(axis=1)))
        expected = plt.get_cmap("tab10")(int(kinds[i] == "right"))[:3]
        assert np.allclose(colours[place][:3], expected)
    numbers = drawn(plot.embedding(model, X, color=X[:, 0]))
    assert len(numbers.figure.axes) == 2  # with a scale


def test_embedding_refuses_in_words(model: StreamingKernelPCA, X: np.ndarray) -> None:
    with pytest.raises(ValueError, match="the model has 4"):
        plot.embedding(model, X, components=(0, 4))
    with pytest.raises(ValueError, match="3 entries for 600 rows"):
        plot.embedding(model, X, color=[1, 2, 3])
    with pytest.raises(ValueError, match="at most 20"):
        plot.embedding(model, X, color=[f"kind {i}" for i in range(600)])
    with pytest.raises(ValueError, match="1 entries for 600 rows"):
        plot.embedding(model, X, color="red")


def test_rows_without_a_kind_are_a_kind(model: StreamingKernelPCA, X: np.ndarray) -> None:
    kinds = np.where(X[:, 0] > 5, None, "left")  # type: ignore[call-overload]
    ax = drawn(plot.embedding(model, X, color=kinds))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["None", "left"]


def test_contours(model: StreamingKernelPCA, X: np.ndarray) -> None:
    ax = drawn(plot.contours(model, X, component=2))
    left, right = ax.get_xlim()
    assert left < X[:, 0].min() and right > X[:, 0].max()
    drawn(plot.contours(model))  # in the units of the data, though the model standardises
    assert plt.gca().get_xlim()[0] > 0
    with pytest.raises(ValueError, match="two features"):
        plot.contours(StreamingKernelPCA(2, basis=20, random_state=0).fit(np.hstack([X, X])))
    with pytest.raises(ValueError, match="between 0 and 3"):
        plot.contours(model, component=4)


def test_models_of_data_frames(X: np.ndarray) -> None:
    table = pd.DataFrame(X, columns=["flow", "heat"])
    model = StreamingKernelPCA(2, basis=20, random_state=0).fit(table)
    assert drawn(plot.contours(model, table)).get_ylabel() == "heat"
    assert drawn(plot.basis(model, table)).get_xlabel() == "flow"
    assert list(model.feature_names_in_) == ["flow", "heat"]
    drawn(plot.embedding(model, table))
    three = table.assign(load=table["flow"] ** 2)
    drawn(plot.basis(StreamingKernelPCA(2, basis=20, random_state=0).fit(three), three))


def test_basis_in_the_plane_on_components_and_as_pictures(
    model: StreamingKernelPCA, X: np.ndarray
) -> None:
    ax = drawn(plot.basis(model, X))
    points = np.asarray(ax.collections[1].get_offsets())
    assert len(points) == 60 and abs(points[:, 0].mean() - 5) < 1
    images = np.random.default_rng(1).random(size=(300, 12))
    pictures = StreamingKernelPCA(2, basis=10, random_state=0).fit(images)
    assert len(drawn(plot.basis(pictures)).collections[0].get_offsets()) == 10
    mosaic = drawn(plot.basis(pictures, image_shape=(3, 4))).images[0].get_array()
    assert np.isfinite(mosaic).sum() == 10 * 12
    with pytest.raises(ValueError, match="does not fit rows of 12"):
        plot.basis(pictures, image_shape=(4, 4))
