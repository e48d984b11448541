"""
Lecture notes: Oja's rule
=========================

One neuron whose weights grow with input times output. Hebb's rule grows without bound; Oja's ends
at the first principal component.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelstream import StreamingKernelPCA, papers
from kernelstream.papers import oja, schedules

rng = np.random.default_rng(0)
X = rng.multivariate_normal([0, 0], [[1.0, 0.6], [0.6, 0.6]], size=2000)
values, vectors = np.linalg.eigh(X.T @ X / len(X))
q1 = vectors[:, -1]

# %%
# The path of the weights
# -----------------------
# Small steps follow a differential equation; the unit sphere attracts them, and so does q1.

figure, axis = plt.subplots(figsize=(5, 5), layout="constrained")
circle = np.linspace(0, 2 * np.pi, 200)
axis.plot(np.cos(circle), np.sin(circle), color="#dddddd")
for start in ((0.3, -0.2), (-1.4, 0.2), (0.1, 1.3), (1.2, -1.2)):
    path = oja.learn(oja.oja, X, np.array(start), schedules.ConstantRate(0.01))
    axis.plot(*path.T, lw=0.8)
axis.plot(*np.stack([-q1, q1]).T, "o", color="#b3364a", label="±q₁")
axis.set_aspect("equal")
axis.legend()

# %%
# The same by the library
# -----------------------
# A linear kernel, a basis of all directions, and the bare rule with steps that fall.

rule = papers.Hebbian(schedules.SearchThenConverge(0.1, 200), guard=False)
model = StreamingKernelPCA(1, kernel="linear", basis="everything", tracker=rule, center=False)
w = (model.partial_fit(X).basis_points_.T @ model.dual_coef_)[:, 0]
print("cosine to q1:", round(abs(float(w @ q1)), 4))
plt.show()

# %%
# **Learnt:** the weights end at the first principal component, at length one, wherever they began
# (but exactly across it).
