"""
Tanaka 2012: three rules that track
===================================

A dictionary of rows that do not resemble each other, and three adaptive filters over it: LMS, RLS
and SubKHA. How near they come to batch kernel PCA while the rows pass.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from kernelstream import StreamingKernelPCA, metrics
from kernelstream.papers import AdaptiveKernelPCA

rng = np.random.default_rng(0)
X = rng.normal(size=(1500, 6)) * [1.5, 1.0, 0.5, 0.5, 0.3, 0.3]
exact = StreamingKernelPCA(2, gamma=0.1, basis="everything", center=False).fit(X)

# %%
# Direction cosines along the stream
# ----------------------------------
# RLS needs no step and is there first. ``guard=False`` would run the bare rules of the paper.

times = np.unique(np.geomspace(10, len(X), 25).astype(int))
figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained", sharey=True)
for method, eta in (("rls", 0.0), ("subkha", 0.02), ("lms", 0.002)):
    options = {"eta": eta} if eta else {}
    model = AdaptiveKernelPCA(2, gamma=0.1, delta=0.6, method=method, **options)
    cosines, start = [], 0
    for stop in times:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            model.partial_fit(X[start:stop])
        start = stop
        cosines.append(metrics.direction_cosines(model, exact))
    for i, axis in enumerate(axes):
        axis.semilogx(times, np.array(cosines)[:, i], label=method)
for i, axis in enumerate(axes):
    axis.set(title=f"eigenvector {i + 1}", xlabel="rows")
axes[0].set_ylabel("direction cosine to batch")
axes[0].legend()
plt.show()

# %%
# A dictionary that moves
# -----------------------
# Rows that wander fill any dictionary. With ``exchange`` points go that recent rows do not need.

walk = rng.normal(size=(2000, 2)) * 0.5 + np.linspace(0, 10, 2000)[:, None]
figure, axis = plt.subplots(figsize=(5, 4), layout="constrained")
axis.plot(*walk.T, ".", color="#dddddd", ms=2)
for exchange, colour in ((None, "#9aa1ac"), (200, "#b3364a")):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = AdaptiveKernelPCA(
            2, gamma=1.0, delta=0.8, max_points=25, exchange=exchange
        ).partial_fit(walk)
    axis.plot(*model.basis_points_.T, "o", color=colour, label=f"exchange={exchange}")
axis.legend()
plt.show()

# %%
# **Learnt:** RLS needs no step and is there first; a dictionary that may exchange points follows
# rows that wander.
