"""Core estimators with scikit-learn conventions, ``load`` and ``suggest``."""

from kernelstream.estimators.base import (
    StoredEstimator,
    StreamEstimator,
    Transactional,
    at_one_moment,
    load,
)
from kernelstream.estimators.conformal import ConformalScores
from kernelstream.estimators.explain import ComponentExplanation, RowExplanation
from kernelstream.estimators.inputs import check_rows, require_summable
from kernelstream.estimators.kernel_estimator import KernelEstimator
from kernelstream.estimators.kernel_pca import KernelPCA
from kernelstream.estimators.passes import Passes
from kernelstream.estimators.selection import Suggestion, suggest
from kernelstream.estimators.streaming_kernel_pca import StreamingKernelPCA
from kernelstream.estimators.until import ProgressiveSampling

__all__ = [
    "ComponentExplanation",
    "ConformalScores",
    "KernelEstimator",
    "KernelPCA",
    "Passes",
    "ProgressiveSampling",
    "RowExplanation",
    "StoredEstimator",
    "StreamEstimator",
    "StreamingKernelPCA",
    "Suggestion",
    "Transactional",
    "at_one_moment",
    "check_rows",
    "load",
    "require_summable",
    "suggest",
]
