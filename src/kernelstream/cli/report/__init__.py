"""One self-contained HTML page about a model, which works offline; and the live page of a monitor.

>>> import numpy as np
>>> from kernelstream import StreamingKernelPCA
>>> from kernelstream.cli.report import html
>>> X = np.random.default_rng(0).normal(size=(500, 3))
>>> page = html(StreamingKernelPCA(3, basis=40, random_state=0).fit(X), X)
>>> "500 rows" in page
True
"""

from importlib import import_module
from typing import Any

__all__ = ["Observed", "Page", "html", "monitor_html", "observe", "serve"]

# Imported on first use: the help of the command ``report`` needs no Bokeh.
_MODULES = {
    "Observed": "observation",
    "Page": "live.server",
    "html": "page",
    "monitor_html": "live.saved",
    "observe": "observation",
    "serve": "live.server",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
