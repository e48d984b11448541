"""Any number of rows, in pieces; the way back from scores; what goes to a device comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, landmarks, preimages
from kernelstream.stream.inverse import Reconstruction
from kernelstream.stream.stream import slices

X = np.random.default_rng(0).normal(size=(50, 3)) + 1.0


def stream_of(**parameters: Any) -> Any:
    given: dict[str, Any] = dict(gamma=0.3, basis=landmarks.Landmarks(X[:10]))
    return StreamingKernelPCA(2, **(given | parameters)).partial_fit(X).stream_


def test_rows_come_in_pieces_and_none_is_left_out() -> None:
    stream = stream_of()
    assert slices(X, 20) == [slice(0, 20), slice(20, 40), slice(40, 50)]
    seen: list[int] = []
    many = np.tile(X, (100, 1))

    def first(piece: np.ndarray) -> np.ndarray:
        seen.append(len(piece))
        return piece[:, :1]

    np.testing.assert_array_equal(stream.query(first, many), many[:, :1])
    assert sorted(seen) == [904, 1024, 1024, 1024, 1024]
    assert stream.query(first, X.astype("f4")).dtype == np.float32
    with pytest.raises(ValueError, match="gave values that are not finite on these rows"):
        stream.query(lambda piece: piece * np.inf, X)


def test_units_are_those_of_the_start() -> None:
    plain, scaled = stream_of(), stream_of(scale="standard", basis="everything")
    assert plain.units is None
    np.testing.assert_array_equal(plain.query(lambda rows: rows, X), X)
    scaler = scaled.units  # all rows wait: decided by what there is
    np.testing.assert_allclose(scaler.mean, X.mean(axis=0))
    seen = scaled.query(lambda rows: rows, X)
    np.testing.assert_allclose(seen, (X - X.mean(axis=0)) / X.std(axis=0))


@pytest.mark.parametrize("learned", [True, False])
def test_the_way_back_that_was_learned_is_the_regression_on_the_scores(learned: bool) -> None:
    """With moments of all rows; without them a method looks at the points only."""
    ridge = preimages.Ridge()
    stream = stream_of(preimage="ridge" if learned else "fixed_point")
    scores = stream.components.scores(X)
    found = stream.inverse_transform(scores, ridge)
    shown = stream.components
    back = Reconstruction(shown, ridge, None)
    assert (back.learned is not None) == learned and (shown.inputs is not None) == learned
    if back.learned is not None:
        expected = scores @ back.learned + X.mean(axis=0)
        np.testing.assert_allclose(found.X, expected, atol=1e-9)
        slopes = np.linalg.lstsq(scores, X - X.mean(axis=0), rcond=None)[0]
        np.testing.assert_allclose(back.learned, slopes, atol=0.05)
    held = scores @ shown.vectors.T + shown.mean
    kernel = shown.kernel
    distance = (
        kernel.diag(found.X)
        - 2 * np.sum((kernel(found.X, shown.points) @ shown.span.factor) * held, axis=1)
        + np.sum(held**2, axis=1)
    )
    np.testing.assert_allclose(found.distance, distance, atol=1e-9)
    single = stream.inverse_transform(scores.astype("f4"), ridge)
    assert single.X.dtype == single.distance.dtype == np.float32


def test_a_scaled_model_gives_inputs_in_the_units_of_the_data() -> None:
    far = 100.0 + 10.0 * X
    model = StreamingKernelPCA(2, gamma=0.3, basis="everything", scale="standard").partial_fit(far)
    back = model.inverse_transform(model.transform(far))
    assert np.abs(back - far).mean() < 10.0
