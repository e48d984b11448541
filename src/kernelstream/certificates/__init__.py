"""What is certain about a model: an account of what its basis missed, and statements drawn from it.

Statements about numbers: nothing here knows a stream.
"""

from kernelstream.certificates.certificate import Certificate
from kernelstream.certificates.statement import Statement

__all__ = ["Certificate", "Statement"]
