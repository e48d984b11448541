"""One-pass regression on the stream's features: numbers, many columns, classes."""

from kernelstream.regression.classifier import StreamingKernelClassifier
from kernelstream.regression.ridge import StreamingKernelRidge

__all__ = ["StreamingKernelClassifier", "StreamingKernelRidge"]
