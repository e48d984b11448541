"""Array layer: namespaces, devices, random draws, compilation, threads, progress."""

from kernelstream.arrays.compilation import compiled
from kernelstream.arrays.draws import evenly_spaced, generator, uniforms
from kernelstream.arrays.namespaces import (
    Array,
    like,
    symmetric_eigen,
    to_float64,
    to_host,
)
from kernelstream.arrays.printing import prints_short
from kernelstream.arrays.threads import cores, in_threads

__all__ = [
    "Array",
    "compiled",
    "cores",
    "evenly_spaced",
    "generator",
    "in_threads",
    "like",
    "prints_short",
    "symmetric_eigen",
    "to_float64",
    "to_host",
    "uniforms",
]
