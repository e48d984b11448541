"""Core estimators with scikit-learn conventions, ``load`` and ``suggest``."""

from kernelstream.estimators.base import (
    StoredEstimator,
    StreamEstimator,
    Transactional,
    at_one_moment,
    build,
    class_named,
    load,
)
from kernelstream.estimators.explain import ComponentExplanation, RowExplanation
from kernelstream.estimators.inputs import check_rows, warn_of_scales
from kernelstream.estimators.kernel_estimator import KernelEstimator
from kernelstream.estimators.kernel_pca import KernelPCA
from kernelstream.estimators.passes import Passes, blocks_of, comes_in_blocks
from kernelstream.estimators.selection import Suggestion, suggest
from kernelstream.estimators.streaming_kernel_pca import StreamingKernelPCA
from kernelstream.estimators.until import checked_until, learn_until

__all__ = [
    "ComponentExplanation",
    "KernelEstimator",
    "KernelPCA",
    "Passes",
    "RowExplanation",
    "StoredEstimator",
    "StreamEstimator",
    "StreamingKernelPCA",
    "Suggestion",
    "Transactional",
    "at_one_moment",
    "blocks_of",
    "build",
    "check_rows",
    "checked_until",
    "class_named",
    "comes_in_blocks",
    "learn_until",
    "load",
    "suggest",
    "warn_of_scales",
]
