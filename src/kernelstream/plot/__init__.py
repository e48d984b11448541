"""Pictures with matplotlib: every function draws on Axes and returns them; none calls ``show``.

>>> import matplotlib
>>> matplotlib.use("Agg")
>>> import numpy as np
>>> from kernelstream import StreamingKernelPCA, plot
>>> X = np.random.default_rng(0).normal(size=(500, 2))
>>> model = StreamingKernelPCA(3, basis=40, random_state=0).fit(X)
>>> plot.scree(model).get_xlabel()
'component'
"""

from importlib import import_module
from typing import Any

from kernelstream.plot.models import basis, contours, embedding, scree
from kernelstream.plot.streams import LearningCurve, control_chart, follow, learning_curve

__all__ = [
    "LearningCurve",
    "basis",
    "contours",
    "control_chart",
    "embedding",
    "follow",
    "learning_curve",
    "scree",
]

# Those of a KernelMonitor and its records; they live beside it.
_OF_MONITORS = (
    "adaptation_chart",
    "contribution_bars",
    "contribution_map",
    "control_charts",
    "score_plot",
)


def __getattr__(name: str) -> Any:
    if name not in _OF_MONITORS:
        raise AttributeError(f"module 'kernelstream.plot' has no attribute {name!r}")
    return getattr(import_module("kernelstream.plot.monitor"), name)
