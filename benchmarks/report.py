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


COLUMNS = (
    "work", "against", "captured", "size", "seconds", "theirs", "ratio", "asked", "reached"
)  # fmt: skip
CAPTION = "captured, size: ours / theirs; seconds: ours, then theirs"


def cells(outcome: Outcome) -> list[str]:
    """A line of the table, the note left out."""
    ours, theirs = outcome.ours, outcome.theirs
    return [
        outcome.work,
        theirs.name,
        pair(ours.captured, theirs.captured, "{:.3f}"),
        pair(ours.size, theirs.size, "{:,}"),
        duration(ours),
        duration(theirs),
        "–" if outcome.ratio is None else f"{outcome.ratio:.3g} {outcome.unit}",
        f"{outcome.sense} {outcome.asked:g} {outcome.unit}",
        {True: "yes", False: "no", None: "skipped"}[outcome.reached],
    ]


def title(facts: dict[str, Any]) -> str:
    """When and where."""
    machine = facts["machine"]
    threads = max((pool["num_threads"] for pool in facts["threads"]["pools"]), default=1)
    return (
        f"{facts['date'][:10]}, {machine['processor']}, {machine['cores']} cores, "
        f"BLAS threads: {threads}, best of {facts['repeats']}"
    )


def table(outcomes: list[Outcome], facts: dict[str, Any]) -> Table:
    """One line for each claim, for the screen."""
    shown = Table(title=title(facts), caption=CAPTION)
    for number, column in enumerate(COLUMNS):
        shown.add_column(column, justify="left" if number < 2 else "right")
    colours = {True: "green", False: "red", None: "yellow"}
    for outcome in outcomes:
        line = cells(outcome)
        line[0] += f"\n[dim]{outcome.note}[/dim]" if outcome.note else ""
        line[-1] = f"[{colours[outcome.reached]}]{line[-1]}[/]"
        shown.add_row(*line)
    return shown


def markdown(outcomes: list[Outcome], facts: dict[str, Any]) -> str:
    """The same for the documentation, with the versions."""
    versions = ", ".join(f"{k} {v}" for k, v in facts["versions"].items() if v)
    lines = [
        f"Measured on {title(facts)} ({facts['workload']}; {versions}). {CAPTION}.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---|---|" + "--:|" * (len(COLUMNS) - 2),
    ]
    for outcome in outcomes:
        line = cells(outcome)
        line[0] += f" ({outcome.note})" if outcome.note else ""
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines) + "\n"


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
    sysconf = getattr(os, "sysconf", None)  # Windows has none, and no load either
    memory = sysconf("SC_PAGE_SIZE") * sysconf("SC_PHYS_PAGES") if sysconf else None
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "processor": name,
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "memory_bytes": memory,
        "system": platform.platform(),
        "load_average": os.getloadavg() if hasattr(os, "getloadavg") else None,
    }
