"""Error certificate: guaranteed bounds and confidence intervals relative to exact kernel PCA.

Every bound is a function of numbers: no module of this package imports a stream.
"""

from kernelstream.certificates.certificate import Certificate, GuaranteedBounds
from kernelstream.certificates.confidence import ConfidenceBounds

__all__ = ["Certificate", "ConfidenceBounds", "GuaranteedBounds"]
