"""Pictures of a stream: the learning curve."""

from __future__ import annotations

import numpy as np

from kernelstream import StreamingKernelPCA, plot
from tests.plot.conftest import drawn


def test_learning_curve_judges_before_it_learns() -> None:
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(200, 3)) for _ in range(8)]
    blocks += [block + 4.0 for block in blocks]  # a jump that the model has not seen
    model = StreamingKernelPCA(3, gamma=0.2, basis=40, random_state=0)
    curve = plot.follow(model, blocks)
    assert model.n_samples_seen_ == 3200 and len(curve.rows) == 15
    assert curve.error[7] > 2 * curve.error[6]
    ax = drawn(plot.learning_curve(curve, label="stream"))
    assert np.array_equal(ax.lines[0].get_ydata(), curve.error)
    assert plot.learning_curve(curve, ax=ax, label="again") is ax and len(ax.lines) == 2
