"""Tables: files, pipes and data frames as blocks of numbers; schema inference, encoding.

From bytes to blocks: ``files`` (which files, decompressed), ``dialect`` (how a text is written),
``text``, ``columnar`` and ``arrays`` (readers of batches), ``schema`` and ``inference`` (types of
columns, their encoding), ``sample`` (a uniform sample of all rows), ``source`` (all of them).
On top of them: ``encoder`` and ``model`` for scikit-learn, ``run`` for passes over files, ``live``,
``feeds`` and ``addresses`` for rows that come one by one.

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

from kernelstream.tables.dialect import as_number
from kernelstream.tables.encoder import TableEncoder
from kernelstream.tables.feeds import Feed, open_address, read_settings
from kernelstream.tables.files import File, SourceError, find_files, fingerprint, is_address
from kernelstream.tables.inference import SchemaOptions, infer_schema, infer_target
from kernelstream.tables.live import LiveRow, LiveRows
from kernelstream.tables.model import TableModel
from kernelstream.tables.readers import BadRow, Connection, ReadOptions
from kernelstream.tables.run import (
    CheckpointMismatchError,
    Learner,
    Progress,
    Run,
    calibrate,
    prepare,
)
from kernelstream.tables.schema import ColumnSchema, Schema, Target
from kernelstream.tables.source import BadRowError, Block, Source, SourcePosition, open_table

__all__ = [
    "BadRow",
    "BadRowError",
    "Block",
    "CheckpointMismatchError",
    "ColumnSchema",
    "Connection",
    "Feed",
    "File",
    "Learner",
    "LiveRow",
    "LiveRows",
    "Progress",
    "ReadOptions",
    "Run",
    "Schema",
    "SchemaOptions",
    "Source",
    "SourceError",
    "SourcePosition",
    "TableEncoder",
    "TableModel",
    "Target",
    "as_number",
    "calibrate",
    "find_files",
    "fingerprint",
    "infer_schema",
    "infer_target",
    "is_address",
    "open_address",
    "open_table",
    "prepare",
    "read_settings",
]
