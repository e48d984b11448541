"""One self-contained HTML page about a model, which works offline; and the live page of a monitor.

>>> import numpy as np
>>> from kernelstream import StreamingKernelPCA
>>> from kernelstream.cli.report import html
>>> X = np.random.default_rng(0).normal(size=(500, 3))
>>> page = html(StreamingKernelPCA(3, basis=40, random_state=0).fit(X), X)
>>> "500 rows" in page
True
"""

from kernelstream.cli.report.live import Page, monitor_html, serve
from kernelstream.cli.report.observe import Observed, observe
from kernelstream.cli.report.page import html

__all__ = ["Observed", "Page", "html", "monitor_html", "observe", "serve"]
