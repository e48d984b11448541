"""Plots with Matplotlib: every function draws on Axes and returns them.

>>> import matplotlib
>>> matplotlib.use("Agg")
>>> import numpy as np
>>> from kernelstream import StreamingKernelPCA, plot
>>> X = np.random.default_rng(0).normal(size=(500, 2))
>>> model = StreamingKernelPCA(3, basis=40, random_state=0).fit(X)
>>> plot.scree(model).get_xlabel()
'component'
"""

from kernelstream.plot.explanations import component_curves, row_causes
from kernelstream.plot.models import basis, contours, embedding, scree
from kernelstream.plot.monitor import (
    ControlChart,
    contribution_bars,
    contribution_map,
    control_charts,
    monitor_charts,
)

__all__ = [
    "ControlChart",
    "basis",
    "component_curves",
    "contours",
    "contribution_bars",
    "contribution_map",
    "control_charts",
    "embedding",
    "monitor_charts",
    "row_causes",
    "scree",
]
