"""
Drift and forgetting
====================

A stream changes: what was normal last week is not normal now. A model that remembers everything
describes a mixture of both. With a forgetting factor it describes the present. What does that cost
while nothing changes?
"""

import copy

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kernelstream import StreamingKernelPCA, metrics, plot, trackers

# %%
# A stream that changes
# ---------------------
# First 3,000 rows with the digits 0 to 4, then 3,000 with the digits 5 to 9. scikit-learn has 900
# of each kind, so they are drawn with replacement and a little noise is added: no row comes twice.

rng = np.random.default_rng(0)
digits = load_digits()
images = digits.data / 16.0
small, large = images[digits.target < 5], images[digits.target >= 5]


def drawn(rows, n):
    """``n`` of the rows, with noise."""
    return rows[rng.integers(len(rows), size=n)] + 0.05 * rng.normal(size=(n, 64))


CHANGE = 3000
COLOURS = "#9aa1ac", "#b3364a", "#3b6ea5"
stream = np.vstack([drawn(small, CHANGE), drawn(large, CHANGE)])

# %%
# Three memories
# --------------
# ``trackers.Covariance(forgetting=f)`` multiplies the weight of all earlier rows by *f* with each
# new row. It remembers about 1 / (1 − f) rows: all, the last 1,000, the last 100. The basis follows
# the stream by itself: when new rows are missed by far more than usual, points are looked for anew
# in a sample of the rows, and old rows fade from the sample as they do from the memory.

memories = {"all rows": 1.0, "1,000 rows": 0.999, "100 rows": 0.99}
models = {
    name: StreamingKernelPCA(
        10,
        gamma=0.05,
        basis=100,
        tracker=trackers.Covariance(forgetting=forgetting),
        random_state=0,
    )
    for name, forgetting in memories.items()
}

# %%
# Every 250 rows we ask what each model captures of the rows that come *now*, as a share of what
# exact kernel PCA of such rows would capture. They are drawn for this question and not learned.

judges = {"before": drawn(small, 500), "after": drawn(large, 500)}
captured = {name: [] for name in models}
earlier = None
for block in np.array_split(stream, 24):
    for name, model in models.items():
        model.partial_fit(block)
        when = "before" if model.n_samples_seen_ <= CHANGE else "after"
        captured[name].append(metrics.captured_variance(model, judges[when]))
    if model.n_samples_seen_ == CHANGE:
        earlier = copy.deepcopy(model)

seen = np.arange(1, 25) * 250
figure, axis = plt.subplots(figsize=(9, 4), layout="constrained")
for (name, shares), colour in zip(captured.items(), COLOURS, strict=True):
    axis.plot(seen, shares, "o-", ms=3, lw=1.5, color=colour, label=f"remembers {name}")
axis.axvline(CHANGE, color="#222222", lw=0.8, ls=":")
axis.annotate(" the digits change", (CHANGE, 0.52), fontsize=9)
axis.set(xlabel="rows seen", ylabel="captured variance, exact = 1", ylim=(0.5, 1.02))
axis.spines[["top", "right"]].set_visible(False)
axis.legend(frameon=False, loc="lower left")
axis.set_title("What the model captures of the rows that come now", loc="left")
plt.show()

# %%
# Before the change a long memory is better, because more rows say more precisely what the
# components are. After it a short memory is back at its old level within a few hundred rows, while
# the model that remembers everything has to outweigh 3,000 rows that will never come again.

print("memory        before  500 rows after  at the end")
for name, shares in captured.items():
    print(f"{name:12} {shares[11]:7.3f}  {shares[13]:14.3f}  {shares[23]:10.3f}")

# %%
# The basis follows
# -----------------
# A tracker can only find components that the points span. Here are those of the shortest memory.
# They have moved as well, without being told that something has changed: now they are 5s to 9s.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for axis, state in zip(axes, (earlier, model), strict=True):
    plot.basis(state, image_shape=(8, 8), ax=axis, n_points=60).images[0].set_cmap("gray_r")
axes[0].set_title("60 of the 100 points when the digits change", loc="left", fontsize=10)
axes[1].set_title("… and 3,000 rows later", loc="left", fontsize=10)
plt.show()

# %%
# **Learnt:** choose the memory by how fast the stream changes, not by how much there is of it. A
# memory of 1 / (1 − f) rows is back at its level after about twice as many, and costs precision:
# 100 rows are few for ten components. Where nothing changes, remember everything.
