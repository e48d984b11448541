"""
All pictures
============

Every function of :mod:`kernelstream.plot`, once. They draw on Axes that are given, or make their
own, and return them; none calls ``show``.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelstream import KernelMonitor, StreamingKernelPCA, plot

# %%
# A model of rows in the plane
# ----------------------------
# Rows on a ring.

rng = np.random.default_rng(0)
angle = rng.uniform(0, 2 * np.pi, 3000)
ring = np.column_stack([2 * np.cos(angle), np.sin(angle)]) + rng.normal(0, 0.1, (3000, 2))

model = StreamingKernelPCA(4, basis=40, gamma=0.5, random_state=0).partial_fit(ring)

# %%
# Variances of the components, with what is certain about them; rows on two components; the points
# that span the model, and a component as a function on the plane.

plot.scree(model)
plt.show()

# %%

plot.embedding(model, ring, color=angle)
plt.show()

# %%

plot.basis(model, ring)
plt.show()

# %%

plot.contours(model, ring[:500], component=1)
plt.show()

# %%
# Columns
# -------
# Which columns are behind a component, and behind a strange row.

plot.component_curves(model, component=0)
plt.show()

# %%

plot.row_causes(model, np.array([0.0, 0.0]))
plt.show()

# %%
# A monitored stream
# ------------------
# Five sensors, and a fault of the second one from row 300 to row 360.

mix = rng.normal(size=(2, 5))


def process(n):
    return rng.normal(size=(n, 2)) @ mix + 0.3 * rng.normal(size=(n, 5))


monitor = KernelMonitor(basis=60, random_state=0).fit(process(800))
rows = process(500)
rows[300:360, 1] += 4.0
records = monitor.update_many(rows)
print(records)

plot.control_charts(records, monitor)
plt.show()

# %%
# Which sensors: over time, and in one row.

plot.contribution_map(records)
plt.show()

# %%

event = next(event for event in monitor.events_ if event.first_row <= 320 <= event.last_row)
plot.contribution_bars(monitor.event_contributions(event))
plt.show()

# %%
# **Learnt:** a fault of one sensor is seen in the chart within a few rows, and the bars name the
# sensor. Each picture is one line; what it shows can be read from the model as numbers, too.
