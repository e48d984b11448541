"""Static HTML report of a model: one self-contained file that works offline.

>>> import numpy as np
>>> from kernelstream import StreamingKernelPCA
>>> from kernelstream.cli.report import html
>>> X = np.random.default_rng(0).normal(size=(500, 3))
>>> page = html(StreamingKernelPCA(3, basis=40, random_state=0).fit(X), X)
>>> "500 rows" in page
True
"""

from kernelstream.cli.report.observe import Observed, observe
from kernelstream.cli.report.page import html

__all__ = ["Observed", "html", "observe"]
