"""A stream of ten million rows: as fast and as small as after the first million.

    python -m benchmarks.rows.endless EARLY LATE WINDOW FEATURES POINTS

is the measurement itself, in a process of its own so that resident memory is that of the stream.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measuring import Outcome, Side
from benchmarks.processes import fresh_module

if TYPE_CHECKING:
    from benchmarks.run import Run

CHUNK = 10_000  # rows a call


def ten_million_rows(run: Run) -> list[Outcome]:
    """Rows per second and resident memory, late against early."""
    s = run.sizes
    numbers = (
        s.endless_early, s.endless_late, s.endless_window, s.endless_features, s.endless_points
    )  # fmt: skip
    found = json.loads(fresh_module("benchmarks.rows.endless", *map(str, numbers)))
    run.raw["endless"] = found
    early, late = found["early"], found["late"]
    title = f"Covariance at {s.endless_late:.0e} rows, d = {s.endless_features}"
    ours = Side("kernelstream", [late["seconds_per_row"]], size=s.endless_points)
    theirs = Side(
        f"itself at {s.endless_early:.0e}", [early["seconds_per_row"]], size=s.endless_points
    )
    memory = late["resident"] / early["resident"]
    note = f"{late['resident'] / 1e6:.0f} MB against {early['resident'] / 1e6:.0f} MB"
    return [
        Outcome("endless", f"{title}: rows per second", ours, theirs, theirs.best / ours.best, 0.9),
        Outcome(
            "endless", f"{title}: resident memory", Side("kernelstream"), Side(theirs.name),
            memory, 1.02, "within", note=note,
        ),
    ]  # fmt: skip


def measure(early: int, late: int, window: int, d: int, m: int) -> dict[str, Any]:
    """One stream; the time of a row is the median over the chunks of a window before each mark."""
    from kernelstream import StreamingKernelPCA

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(50, d)).astype(np.float32)
    model = StreamingKernelPCA(5, gamma=0.5 / d, basis=m, random_state=0)
    times: list[float] = []
    marks: dict[str, Any] = {}
    for end in range(CHUNK, late + 1, CHUNK):
        rows = centres[rng.integers(50, size=CHUNK)]
        rows += np.float32(0.3) * rng.standard_normal(rows.shape, dtype=np.float32)
        start = time.perf_counter()
        model.partial_fit(rows)
        times.append(time.perf_counter() - start)
        if end in (early, late):
            recent = np.array(times[-window // CHUNK :]) / CHUNK
            name = "early" if end == early else "late"
            marks[name] = {"seconds_per_row": float(np.median(recent)), "resident": resident()}
    return {**marks, "rows": model.n_samples_seen_, "seconds": float(np.sum(times))}


def resident() -> int:
    """Bytes of memory that the process has now, or its peak where the system does not tell."""
    import resource  # which Windows has not

    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:]))))
