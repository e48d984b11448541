"""Error certificate: how far a model is from exact kernel PCA of the rows seen.

A user reads two numbers, the lower and the upper bound of the explained variance ratio, and whether
they are guaranteed or hold with 99% confidence: :class:`Certificate`. The modules, in the order in
which they are used:

1. While rows are learned: ``observer`` is called after every block. It enters squared residuals
   into the ``ledger`` and offers the rows to the audit ``sample``.
2. Guaranteed bounds, from sums and ledger: ``certificate.certify``, which asks ``rounding`` for
   the allowance for rounding errors, and ``bounds`` for what follows.
3. Bounds that hold with 99% confidence, from the sample: ``confidence``, with ``evaluation`` (the
   residuals of the model on the sampled rows), ``eigenvalues`` (how little any subspace leaves of
   them) and ``betting`` (from the sample to all rows).

Every bound is a function of numbers: no module of this package imports a stream.
"""

from kernelstream.certificates.certificate import Certificate, GuaranteedBounds
from kernelstream.certificates.confidence import ConfidenceBounds

__all__ = ["Certificate", "ConfidenceBounds", "GuaranteedBounds"]
