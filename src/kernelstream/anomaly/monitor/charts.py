"""The charts of a monitor under their old name, for one release: they are in kernelstream.plot."""

import warnings
from typing import Any

_MOVED = (
    "adaptation_chart",
    "contribution_bars",
    "contribution_map",
    "control_charts",
    "score_plot",
)


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        raise AttributeError(
            f"module 'kernelstream.anomaly.monitor.charts' has no attribute {name!r}"
        )
    warnings.warn(
        "kernelstream.anomaly.monitor.charts goes with the next release: "
        f"use kernelstream.plot.{name}.",
        FutureWarning,
        stacklevel=2,
    )
    from kernelstream import plot

    return getattr(plot, name)
