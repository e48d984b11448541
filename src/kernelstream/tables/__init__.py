"""Tables: files, pipes and data frames as blocks of numbers; schema inference, encoding.

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
from kernelstream.tables.feeds import Feed, open_address, read_settings
from kernelstream.tables.files import File, SourceError, find_files, fingerprint, is_address
from kernelstream.tables.live import LiveRow, LiveRows
from kernelstream.tables.model import TableModel
from kernelstream.tables.readers import BadRow, Connection
from kernelstream.tables.run import FileRows, calibrate, prepare
from kernelstream.tables.source import BadRowError, Block, Position, Source, open_table
from kernelstream.tables.survey import Wishes, treatment_of
from kernelstream.tables.target import Target, target_of
from kernelstream.tables.text import as_number
from kernelstream.tables.treatment import Column, Treatment

__all__ = [
    "BadRow",
    "BadRowError",
    "Block",
    "Column",
    "Connection",
    "Feed",
    "File",
    "FileRows",
    "LiveRow",
    "LiveRows",
    "Position",
    "Source",
    "SourceError",
    "TableEncoder",
    "TableModel",
    "Target",
    "Treatment",
    "Wishes",
    "as_number",
    "calibrate",
    "find_files",
    "fingerprint",
    "is_address",
    "open_address",
    "open_table",
    "prepare",
    "read_settings",
    "target_of",
    "treatment_of",
]
