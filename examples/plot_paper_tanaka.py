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
# **Learnt:** RLS needs no step size and converges first.
