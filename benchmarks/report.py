"""The table on the screen, and the facts in a file."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.table import Table
from threadpoolctl import threadpool_info

from benchmarks import kernlab
from benchmarks.measuring import Outcome, Side
from benchmarks.run import Run

PACKAGES = ("kernelstream", "numpy", "scipy", "scikit-learn", "numba", "threadpoolctl")
THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"
)  # fmt: skip


def table(outcomes: list[Outcome], facts: dict[str, Any]) -> Table:
    """One line for each claim."""
    machine = facts["machine"]
    shown = Table(
        title=f"{facts['date'][:10]}, {machine['processor']}, {machine['cores']} cores, "
        f"best of {facts['repeats']}",
        caption="captured and size: ours / theirs; seconds: ours, theirs",
    )
    for column in ("work", "against"):
        shown.add_column(column)
    for column in ("captured", "size", "seconds", "against", "ratio", "asked", "reached"):
        shown.add_column(column, justify="right")
    for outcome in outcomes:
        ours, theirs = outcome.ours, outcome.theirs
        work = outcome.work + (f"\n[dim]{outcome.note}[/dim]" if outcome.note else "")
        verdict = {True: "[green]yes[/green]", False: "[red]no[/red]", None: "skipped"}
        shown.add_row(
            work,
            theirs.name,
            pair(ours.captured, theirs.captured, "{:.3f}"),
            pair(ours.size, theirs.size, "{:,}"),
            duration(ours),
            duration(theirs),
            "–" if outcome.ratio is None else value(outcome.ratio, outcome.unit),
            f"{outcome.sense} {outcome.asked:g} {outcome.unit}",
            verdict[outcome.reached],
        )
    return shown


def pair(ours: Any, theirs: Any, form: str) -> str:
    """Both numbers, or a dash for what has no such number."""
    if ours is None and theirs is None:
        return "–"
    return " / ".join("–" if x is None else form.format(x) for x in (ours, theirs))


def duration(side: Side) -> str:
    """Seconds with three digits, or the unit that suits them."""
    if not side.seconds:
        return "–"
    if side.best >= 0.1:
        return f"{side.best:.3g}"
    return f"{1e3 * side.best:.3g} ms" if side.best >= 1e-3 else f"{1e6 * side.best:.3g} µs"


def value(number: float, unit: str) -> str:
    """A ratio or a value with three digits."""
    return f"{number:.3g} {unit}"


def facts(run: Run, outcomes: list[Outcome], seconds: float) -> dict[str, Any]:
    """Everything that was measured and where, ready for JSON."""
    sizes = run.sizes
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "threads": {
            "pools": [
                {k: pool.get(k) for k in ("internal_api", "version", "num_threads", "architecture")}
                for pool in threadpool_info()
            ],
            "variables": {k: os.environ[k] for k in THREAD_VARIABLES if k in os.environ},
        },
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
            "kernlab": kernlab.version(),
        },
        "repeats": run.repeats,
        "workload": f"{'MNIST' if run.folder else 'made-up rows'}, {sizes.stream_rows:,} × "
        f"{sizes.features}, {sizes.components} components",
        "target": sizes.target,
        "sizes": asdict(sizes),
        "outcomes": [{**asdict(o), "reached": o.reached, "ratio": o.ratio} for o in outcomes],
        "curves": run.curves(),
        "raw": run.raw,
        "seconds": seconds,
    }


def machine() -> dict[str, Any]:
    """Processor, cores that this process may use, memory, and how busy the machine was."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [s for s in cpuinfo.read_text().splitlines() if s.startswith("model name")]
        name = models[0].partition(":")[2].strip() if models else name
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "processor": name,
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "memory_bytes": memory,
        "system": platform.platform(),
        "load_average": os.getloadavg(),
    }
