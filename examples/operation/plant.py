"""A simulated plant as two CSV files: normal.csv, and day.csv with a fault and a lost sensor.

python examples/operation/plant.py [FOLDER]
"""

from __future__ import annotations

import csv
import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

NAMES = (
    "feed [m³/h]", "heat [°C]", "load [%]", "pressure [bar]", "level [m]", "speed [1/min]",
    "valve [%]", "current [A]",
)  # fmt: skip
CENTRE = np.array([20.0, 80.0, 50.0, 3.0, 2.0, 1450.0, 35.0, 9.0])
SPREAD = np.array([1.0, 2.0, 5.0, 0.1, 0.2, 20.0, 3.0, 0.5])
FAULT, LOST = slice(1500, 2300), slice(3200, None)


def rows(n: int, seed: int) -> np.ndarray:
    """Three slow factors, seen by eight sensors that bend them."""
    rng = np.random.default_rng(seed)
    law = np.random.default_rng(1)
    mix, bend = law.normal(size=(3, 8)), 0.3 * law.normal(size=(3, 8))
    factors = lfilter([0.6], [1, -0.8], rng.normal(size=(n + 200, 3)), axis=0)[200:]
    seen = factors @ mix + (factors**2 - 1) @ bend + 0.3 * rng.normal(size=(n, 8))
    return CENTRE + SPREAD * seen


def write(path: Path, X: np.ndarray, begin: datetime) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["t", *NAMES])
        for i, row in enumerate(X):
            cells = ["" if np.isnan(v) else f"{v:.5g}" for v in row]
            table.writerow([(begin + timedelta(seconds=i / 10)).isoformat(), *cells])


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "normal.csv", rows(1500, 2), datetime(2026, 1, 1))
    day = rows(6000, 3)
    day[FAULT, 1] += 12.0
    day[LOST, 4] = np.nan
    write(folder / "day.csv", day, datetime(2026, 1, 2))
    print(f"{folder / 'normal.csv'} and {folder / 'day.csv'} are there.")


if __name__ == "__main__":
    main()
