"""
Watching a reactor
==================

A simulated stirred-tank reactor runs for two weeks. Its coolant slowly warms up with the season,
which is no fault; then a heat exchanger fouls within hours, a feed valve sticks, and a thermometer
dies. What do the charts show, and what does a person do?

``python examples/plot_monitor_reactor.py FOLDER`` prints the log of the control room and writes the
three pictures into that folder.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kernelstream import KernelMonitor, plot
from kernelstream.anomaly import Records

# %%
# The reactor
# -----------
# Nine variables, one row every five minutes. The operators vary feed and set point all the time;
# temperature and concentration follow them on a curve (Arrhenius), with a memory of some rows.

NAMES = ["feed", "feed_temp", "setpoint", "reactor_temp", "coolant", "coolant_temp", "jacket_temp"]
NAMES += ["concentration", "level"]
PER_DAY = 288


def reactor(n: int, seed: int, season: np.ndarray, fouling: np.ndarray, valve: np.ndarray):
    """Rows of a reactor; ``season`` warms the coolant, ``fouling`` insulates, ``valve`` sticks."""
    rng = np.random.default_rng(seed)
    wander = np.zeros((n, 3))
    for t in range(1, n):
        wander[t] = 0.97 * wander[t - 1] + rng.normal(scale=0.25, size=3)
    feed = 10 + 0.8 * wander[:, 0]
    feed_temp = 25 + 0.7 * wander[:, 1]
    setpoint = 80 + 1.5 * wander[:, 2]
    temp, coolant, rows = 80.0, 20.0, np.empty((n, 9))
    for t in range(n):
        flow = feed[t] * (1 - valve[t])
        coolant_temp = 15 + season[t] + 0.3 * rng.normal()
        coolant += 0.3 * (20 + 2.5 * (temp - setpoint[t]) + 0.8 * (flow - 10) - coolant)
        exchange = 0.045 * (1 - fouling[t]) * coolant
        rate = 0.35 * flow * np.exp(0.03 * (temp - 80))
        jacket = coolant_temp + (temp - coolant_temp) * np.exp(-exchange)
        temp += 0.25 * (
            rate * 5 - exchange * (temp - coolant_temp) * 0.3 + 0.1 * (feed_temp[t] - 25)
        )
        temp += 0.3 * (setpoint[t] - temp) * 0.5
        concentration = 0.2 + 0.6 * flow / (flow + 8 * rate)
        rows[t] = [feed[t], feed_temp[t], setpoint[t], temp, coolant, coolant_temp, jacket,
                   concentration, 2 + 0.05 * (flow - 10)]  # fmt: skip
    noise = [0.1, 0.1, 0.05, 0.1, 0.2, 0.1, 0.2, 0.002, 0.01]
    return rows + rng.normal(size=rows.shape) * noise


n = 14 * PER_DAY
rows = np.arange(n)
season = 2.0 * np.clip(rows / n, 0, 1)
fouling = np.where((rows > 6 * PER_DAY) & (rows < 7 * PER_DAY), 0.3, 0.0)
fouling *= np.clip((rows - 6 * PER_DAY) / 60, 0, 1)  # within five hours; cleaned after a day
valve = np.where(rows > 9 * PER_DAY, 0.12, 0.0)  # … and the plant is run like this from then on
X = reactor(n, 0, season, fouling, valve)
dead = 12 * PER_DAY
X[dead:, NAMES.index("jacket_temp")] = X[dead, NAMES.index("jacket_temp")]
stamps = pd.Timestamp("2026-03-01") + pd.to_timedelta(5 * rows, unit="min")
data = pd.DataFrame(X, columns=NAMES, index=stamps)

# %%
# Normal operation
# ----------------
# The first three days are known to be good. Limits come from folds of them; nobody has to choose a
# number.

monitor = KernelMonitor(alpha=0.01, lags=1, random_state=0).fit(data[: 3 * PER_DAY])
print(f"width {monitor.width_:g}, ridge {monitor.ridge_:g}, whitened: {monitor.whiten_}")

# %%
# The stream
# ----------
# Rows come in by the hour. The person in the control room is told when an event begins and when it
# ends, looks at the causes, and decides.

records = Records()
known, reported = None, 0
for _, hour in data[3 * PER_DAY :].groupby(pd.Grouper(freq="h")):
    records += monitor.update_many(hour)
    event, now = monitor.event_, hour.index[-1]
    if event is not None and event.id != known and event.n_rows >= 10:
        known = event.id
        causes = monitor.event_contributions(event)
        print(f"{now:%d %b %H:%M}  event {event.id} since {event.first_time[5:16]}; {causes}")
        monitor.acknowledge()
    if event is None and known is not None and monitor.events_[-1].id == known:
        print(f"{now:%d %b %H:%M}  event {known} is over")
        known = None
    # The valve cannot be mended before the next stop: the plant runs with less feed from now on.
    if event is not None and now > stamps[9 * PER_DAY] and event.n_rows >= PER_DAY // 2:
        monitor.accept()
        print(f"{now:%d %b %H:%M}  event {event.id} accepted as the new normal")
        known = None
    # A dead thermometer is an event of its own: from then on rows are judged by the other eight.
    for sensor in monitor.sensor_events_[reported:]:
        reported += 1
        print(f"{now:%d %b %H:%M}  {sensor.kind} since {sensor.first_time[5:16]}: {sensor.sensor}")

# %%
# The charts
# ----------
# The season is followed without an alarm, and the drift chart shows it all the same: normal
# operation has moved, seen from the first three days. T² sees less than the index; the crosses
# mark where it saw nothing.

axes = plot.control_charts(records, monitor)
axes[0].set_title("Two weeks of a reactor", loc="left")
pictures = {"charts.png": axes[0].figure}
plt.show()

# %%
# What adaptation has followed:

figure, axis = plt.subplots(figsize=(9, 2.6), layout="constrained")
axis.plot(records.column("drift.largest_shift"), label="largest shift of a mean [sd]")
axis.plot(records.column("drift.largest_scale"), label="largest change of a deviation [×]")
axis.set_title("Normal operation against the first three days", loc="left")
axis.legend(frameon=False)
pictures["adaptation.png"] = figure
plt.show()

# %%
# The causes
# ----------
# Averaged over an event: how much of the index comes from a variable, and how far the variable is
# from where the others expect it, in its own units.

long = [event for event in monitor.events_ if event.n_rows > 50]
figure, panels = plt.subplots(1, len(long), figsize=(4.5 * len(long), 3.2), layout="constrained")
for panel, event in zip(np.atleast_1d(panels), long, strict=True):
    plot.contribution_bars(monitor.event_contributions(event), ax=panel, most=5)
    panel.set_title(f"event {event.id}, {event.first_time[5:16]}", loc="left")
pictures["causes.png"] = figure
plt.show()

alarms = records.column("alarm")[: 3 * PER_DAY]  # before the first fault
print(f"false alarms: {alarms.mean():.1%} of the rows before the first fault")
print(f"drift: {monitor.drift_.largest_shift:.1f} deviations")

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for name, figure in pictures.items():
        figure.savefig(folder / name, dpi=130)
