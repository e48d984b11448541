"""What a report knows of the rows, in one pass."""

from __future__ import annotations

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA
from kernelstream.cli.report import observe
from kernelstream.cli.report.observe import SAMPLE_ROWS


@pytest.mark.parametrize("cut", [1, 97, 3000])
def test_observing_does_not_depend_on_the_cutting(
    model: StreamingKernelPCA, X: np.ndarray, cut: int
) -> None:
    blocks = ((X[i : i + cut], list(range(i, min(i + cut, 3000)))) for i in range(0, 3000, cut))
    seen = observe(model, blocks)
    assert seen.n_rows == 3000 and len(seen.rows) == SAMPLE_ROWS
    assert np.array_equal(seen.rows, X[seen.numbers - 1])
    assert seen.labels == (seen.numbers - 1).tolist()
    errors = model.reconstruction_error(X)
    assert np.allclose(seen.errors, errors[seen.numbers - 1])
    numbers, largest, rows = zip(*seen.largest, strict=True)
    assert np.allclose(largest, np.sort(errors)[:-11:-1])
    assert np.array_equal(rows, X[np.array(numbers) - 1])


def test_the_sample_does_not_know_how_the_rows_were_drawn(model: StreamingKernelPCA) -> None:
    """Rows that a user drew with seed 0 are sampled as any others."""
    first = np.random.default_rng(0).random(6000)
    rows = np.column_stack([first, np.zeros((6000, 15))])
    seen = observe(model, [(rows, None)])
    assert abs(seen.rows[:, 0].mean() - first.mean()) < 4 * first.std() / np.sqrt(SAMPLE_ROWS)
