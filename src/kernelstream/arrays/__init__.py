"""Array layer: namespaces, devices, random draws, compilation, threads, progress."""

from kernelstream.arrays.compilation import compiled
from kernelstream.arrays.draws import generator, uniforms
from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
    cast,
    is_sparse,
    like,
    namespace_of,
    symmetric_eigen,
    to_float64,
    to_host,
)
from kernelstream.arrays.printing import prints_short
from kernelstream.arrays.threads import cores, in_threads

__all__ = [
    "Array",
    "as_dense",
    "cast",
    "compiled",
    "cores",
    "generator",
    "in_threads",
    "is_sparse",
    "like",
    "namespace_of",
    "prints_short",
    "symmetric_eigen",
    "to_float64",
    "to_host",
    "uniforms",
]
