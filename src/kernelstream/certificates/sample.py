"""Audit sample: uniform sample of rows that are not learned, for confidence intervals.

Which rows are in it depends on their numbers in the stream and on the seed, never on what was
learned; so for the model it is a sample of rows like any other, whatever the model became.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from kernelstream.arrays.draws import generator, uniforms
from kernelstream.arrays.namespaces import Array, as_dense, largest_entry, to_host
from kernelstream.kernels import Kernel
from kernelstream.landmarks.base import Clock, Measured
from kernelstream.landmarks.sample import UniformSample
from kernelstream.serialization import stored

# So many draws tell the share of a model within .05 on the sets of docs/certificate.md, and to keep
# them takes a few percent of the time of a fold. That which places the default points is as large.
ROWS = 5120
NAMING_ROWS = 8  # rows that tell one stream from another


@stored
@dataclass(frozen=True)
class AuditSample(UniformSample):
    """Rows that judge, in the units of the kernel."""

    # Two streams with one seed must not draw the same numbers: they may be merged.
    key: Annotated[int, "of any size"] = 0
    largest: Annotated[float, "not negative"] = (
        0.0  # energy of all rows, if the kernel has no bound
    )

    @staticmethod
    def empty() -> AuditSample:
        """A sample of no rows yet."""
        return AuditSample(ROWS)

    def noise(self, clock: Clock, n: int) -> np.ndarray:
        """The numbers in (0, 1) by which n rows compete, the first at ``clock``."""
        return uniforms(clock.seed, f"audit {self.key}", clock.row, n)

    def observe(self, kernel: Kernel, blocks: Sequence[Measured]) -> AuditSample:
        """Offer the rows of blocks, each with the weights that were given."""
        sample = self
        if len(sample) == 0:
            X = blocks[0].X
            sample = sample.named_by(X[: min(NAMING_ROWS, int(X.shape[0])), :])
        if not math.isfinite(kernel.max_squared_norm):
            most = max(largest_entry(block.block.energy) for block in blocks)
            sample = replace(sample, largest=max(sample.largest, most))
        return sample.offer([(block.X, block.weights) for block in blocks], blocks[0].clock)

    def named_by(self, first: Array) -> AuditSample:
        """The sample with a key from the first rows of its stream."""
        host = np.ascontiguousarray(to_host(as_dense(first)))
        return replace(self, key=zlib.crc32(host.tobytes()))

    def join(self, other: AuditSample) -> AuditSample:
        """The sample of both streams."""
        return replace(self.merge(other), largest=max(self.largest, other.largest))

    def bound(self, kernel: Kernel) -> float:
        """A number that the energy of no row seen exceeds."""
        limit = kernel.max_squared_norm
        return limit if math.isfinite(limit) else self.largest

    def in_order(self, log_forgetting: float) -> tuple[np.ndarray, np.ndarray]:
        """Where the rows are, in the order in which they were drawn, and their present weights."""
        order = np.argsort(-self.priority, kind="stable")
        weights = np.ones(len(self))
        if self.log_weight is not None:
            # the last row that came has its whole weight
            weights = np.exp(self.log_weight - self.now - log_forgetting)
        return order, weights[order]


def with_replacement(weights: np.ndarray, total: float, seed: int, purpose: str) -> np.ndarray:
    """Independent draws in proportion to weight, from a sample without replacement.

    ``weights`` are those of the sample in the order in which it was drawn, ``total`` that of all
    rows. The next independent draw repeats a row that was drawn already with the probability that
    their weight says, and is otherwise the next row of the sample: as many draws as there are rows
    never need another. Indices into the sample, as many as it has rows.

    Examples
    --------
    >>> with_replacement(np.ones(4), 1e9, 0, "example")
    array([0, 1, 2, 3])
    """
    n = len(weights)
    held = np.concatenate([[0.0], np.cumsum(weights)])
    chances, places = generator(seed, purpose).random((2, n))
    drawn = np.empty(n, dtype=np.intp)
    count = 0
    for i in range(n):
        if chances[i] * total < held[count]:
            at = int(np.searchsorted(held[1 : count + 1], places[i] * held[count], side="right"))
            drawn[i] = min(at, count - 1)
        else:
            drawn[i] = count
            count += 1
    return drawn
