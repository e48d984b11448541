"""One-pass kernel ridge regression and classification on a stream."""

from kernelstream.regression.classifier import StreamingKernelClassifier
from kernelstream.regression.ridge import StreamingKernelRidge

__all__ = ["StreamingKernelClassifier", "StreamingKernelRidge"]
