"""Files and pipes as streams of blocks: Parquet, CSV, Arrow, NDJSON and NumPy in bounded memory.

>>> import numpy as np, tempfile, os
>>> from kernelstream import StreamingKernelPCA
>>> from kernelstream.tables import Source
>>> path = os.path.join(tempfile.mkdtemp(), "rows.npy")
>>> np.save(path, np.random.default_rng(0).normal(size=(1000, 3)))
>>> model = StreamingKernelPCA(2, basis=30, random_state=0)
>>> for block in Source(path):
...     model = model.partial_fit(block.X)
>>> model.n_samples_seen_
1000
"""

from kernelstream.tables.encoder import TableEncoder
from kernelstream.tables.files import File, SourceError, find_files, fingerprint
from kernelstream.tables.model import TableModel
from kernelstream.tables.readers import BadRow, Connection
from kernelstream.tables.run import FileRows, calibrate, prepare
from kernelstream.tables.source import BadRowError, Block, Position, Source
from kernelstream.tables.survey import Wishes, treatment_of
from kernelstream.tables.target import Target, target_of
from kernelstream.tables.treatment import Column, Treatment

__all__ = [
    "BadRow",
    "BadRowError",
    "Block",
    "Column",
    "Connection",
    "File",
    "FileRows",
    "Position",
    "Source",
    "SourceError",
    "TableEncoder",
    "TableModel",
    "Target",
    "Treatment",
    "Wishes",
    "calibrate",
    "find_files",
    "fingerprint",
    "prepare",
    "target_of",
    "treatment_of",
]
