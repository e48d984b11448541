"""
Which columns?
==============

Components of a kernel are functions of all columns at once, and so is the error of a row. Both can
be asked which columns are behind them: by changing one column and looking at what the model says.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kernelstream import StreamingKernelPCA, plot

# %%
# A table
# -------
# Four readings of a machine follow its speed, each in its own way; a fifth has nothing to do with
# it. The model learns the table as it is, with columns brought to one scale.

rng = np.random.default_rng(2)
n = 3000
speed = rng.uniform(-2, 2, n)
table = pd.DataFrame(
    {
        "temperature": 60 + 8 * speed + rng.normal(0, 0.8, n),
        "vibration": 1 + 0.4 * speed**2 + rng.normal(0, 0.05, n),
        "current": 12 + 3 * np.sin(1.5 * speed) + rng.normal(0, 0.2, n),
        "noise": 50 + 6 * np.abs(speed) + rng.normal(0, 0.4, n),
        "humidity": rng.normal(40, 5, n),
    }
)
model = StreamingKernelPCA(6, scale="standard", basis=120, random_state=0).fit(table)

# %%
# Columns behind components
# -------------------------
# ``explain_components`` gives a row the column of another row and looks how far its scores move:
# the share of a column. The curve is the mean score of rows along the column, as they are.

explained = model.explain_components()
for component in explained[:3]:
    print(component)

# %%
# The first component follows the two readings that know whether the machine runs forward or
# backward, the second the two that only know how fast.

plot.component_curves(model, component=0, n_columns=3)
plt.show()

# %%

plot.component_curves(model, component=1, n_columns=3)
plt.show()

# %%
# Columns behind a strange row
# ----------------------------
# One row of the table, with a vibration sensor that reads too much and a current that reads too
# little. Neither value is out of its usual range: it is the other columns that say so.

row = table.iloc[[4]].copy()
usual = float(model.reconstruction_error(row)[0])
row["vibration"] += 1.1
row["current"] -= 4.0
told = model.explain(row)[0]
print(f"error before: {usual:.3f}, after: {told.error:.3f}")
print(told)

plot.row_causes(model, row)
plt.show()

# %%
# **Learnt:** the two columns that were made wrong are named, with values near those that they had
# before, though each of them alone would pass for normal. Components have a meaning now: the first
# is the direction of the machine, the second how fast it runs, the third the humidity alone.
