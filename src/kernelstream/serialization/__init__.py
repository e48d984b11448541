"""Model files: safetensors with a JSON header, checksum, declared classes only, atomic writing.

A model file is data, never code. Arrays are stored as tensors; everything else (parameters,
counters, names) is a JSON tree in which a tensor is a reference by name and a part or a piece of
state is named by its class. Loading looks these names up among the classes that were declared with
:func:`stored`: nothing else can come out of a file, and every field has to be what its class
declares. ``docs/model-files.md`` has the specification.
"""

# `__all__` is for applications; the other names are for the core.
from kernelstream.serialization.declarations import STORED as STORED
from kernelstream.serialization.declarations import described as described
from kernelstream.serialization.declarations import stored as stored
from kernelstream.serialization.declarations import stored_name as stored_name
from kernelstream.serialization.format import FORMAT as FORMAT
from kernelstream.serialization.format import VERSION as VERSION
from kernelstream.serialization.format import ModelFile
from kernelstream.serialization.format import from_bytes as from_bytes
from kernelstream.serialization.format import naming as naming
from kernelstream.serialization.format import save as save
from kernelstream.serialization.format import to_bytes as to_bytes
from kernelstream.serialization.part import (
    Part,
    as_number,
    check_choice,
    check_count,
    check_number,
)
from kernelstream.serialization.writing import Replacement

__all__ = [
    "ModelFile",
    "Part",
    "Replacement",
    "as_number",
    "check_choice",
    "check_count",
    "check_number",
    "stored",
]
