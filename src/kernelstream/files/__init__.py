"""Model files: safetensors with one JSON header, checksummed, written atomically.

A model file is data, never code. Arrays are stored as tensors; everything else (parameters,
counters, names) is a JSON tree in which a tensor is a reference by name and a part or a piece of
state is named by its class. Loading looks these names up among the classes that were declared with
:func:`stored`: nothing else can come out of a file, and every field has to be what its class
declares. ``docs/model-files.md`` has the specification.
"""

from kernelstream.files.declarations import STORED, described, stored, stored_name
from kernelstream.files.format import (
    FORMAT,
    ModelFile,
    from_bytes,
    naming,
    read,
    save,
    to_bytes,
)
from kernelstream.files.migrations import MIGRATIONS, VERSION

__all__ = [
    "FORMAT",
    "MIGRATIONS",
    "STORED",
    "VERSION",
    "ModelFile",
    "described",
    "from_bytes",
    "naming",
    "read",
    "save",
    "stored",
    "stored_name",
    "to_bytes",
]
