"""Files and pipes as streams of blocks: Parquet, CSV, Arrow, NDJSON and NumPy in bounded memory.

>>> import numpy as np, tempfile, os
>>> from kernelstream import StreamingKernelPCA
>>> from kernelstream.sources import Source
>>> path = os.path.join(tempfile.mkdtemp(), "rows.npy")
>>> np.save(path, np.random.default_rng(0).normal(size=(1000, 3)))
>>> model = StreamingKernelPCA(2, basis=30, random_state=0)
>>> for block in Source(path):
...     model = model.partial_fit(block.X)
>>> model.n_samples_seen_
1000
"""

from kernelstream.sources.files import File, SourceError, find_files, fingerprint
from kernelstream.sources.readers import BadRow, Connection
from kernelstream.sources.source import BadRowError, Block, Position, Source
from kernelstream.sources.survey import Wishes, treatment_of
from kernelstream.sources.target import Target, target_of
from kernelstream.sources.treatment import Column, Treatment

__all__ = [
    "BadRow",
    "BadRowError",
    "Block",
    "Column",
    "Connection",
    "File",
    "Position",
    "Source",
    "SourceError",
    "Target",
    "Treatment",
    "Wishes",
    "find_files",
    "fingerprint",
    "target_of",
    "treatment_of",
]
