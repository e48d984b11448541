"""
Honeine 2012: a reduced-order model
===================================

A row becomes a point when it is far from the span of the others; Sanger's rule learns from every
row. The dictionary, what is proved about it, and the variance along the stream.
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np

from kernelstream import StreamingKernelPCA
from kernelstream.papers import OnlineKernelPCA

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, 3000)
X = np.stack([x, x**2 + 0.2 * rng.normal(size=3000)], axis=1)

# %%
# The dictionary
# --------------
# A larger threshold keeps fewer points. ``bounds()`` has Lemma 3 and Theorems 4 and 5 as numbers.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.3), layout="constrained", sharey=True)
for axis, nu in zip(axes, (0.05, 0.2, 0.5), strict=True):
    model = OnlineKernelPCA(3, gamma=2.0, nu=nu).fit(X)
    bounds = model.bounds()
    axis.plot(*X[:800].T, ".", color="#dddddd", ms=3)
    axis.plot(*model.basis_points_.T, "o", color="#b3364a")
    axis.set_title(f"ν = {nu}: {bounds.order} points", fontsize=10)
    print(
        f"nu={nu}: coherence {bounds.coherence:.2f} <= {bounds.coherence_bound_sharp:.2f}, "
        f"points at least {bounds.input_distance_bound:.2f} apart ({bounds.input_distance:.2f})"
    )
plt.show()

# %%
# The variance along the stream
# -----------------------------
# Eq. (23): what the functions explain of all rows, future ones included.

times = np.unique(np.geomspace(5, len(X), 30).astype(int))
best = StreamingKernelPCA(3, gamma=2.0, basis=100, random_state=0).fit(X).explained_variance_
figure, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
for tau, colour in ((10, "#9aa1ac"), (100, "#222222"), (1000, "#b3364a")):
    model, curve = OnlineKernelPCA(3, gamma=2.0, nu=0.2, tau=tau), []
    for start, stop in itertools.pairwise([0, *times]):
        model.partial_fit(X[start:stop])
        curve.append(model.transform(X).var(axis=0).sum())
    axis.semilogx(times, np.array(curve) / best.sum(), color=colour, label=f"τ = {tau}")
axis.set(xlabel="rows", ylabel="variance, batch = 1")
axis.legend()
plt.show()

# %%
# **Learnt:** a threshold for what a row may miss keeps the number of points finite on bounded data,
# and steps that fall let the functions come to rest.
