"""From scores to inputs: what a fitted model and a pre-image method do together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kernelstream.backends.arrays import Array, cast, namespace_of, to_float64
from kernelstream.preimages.base import Preimage, Report, remaining
from kernelstream.preimages.ridge import Ridge
from kernelstream.stream.components import View


@dataclass(frozen=True)
class WayBack:
    """Scores → point of the span → input, in the units of the data."""

    view: View
    method: Preimage
    standard: Any

    @cached_property
    def learned(self) -> Array | None:
        """The map from scores to inputs that was learned with the model, where there is one."""
        seen = self.view
        if not isinstance(self.method, Ridge) or seen.inputs is None:
            return None
        return self.method.from_moments(
            seen.inputs.covariance, seen.variances, seen.total_variance, seen.weight
        )

    def report(self, scores: Array) -> Report:
        """Inputs for a block of scores, in their type."""
        seen, xp = self.view, namespace_of(scores)
        assert seen.span is not None
        held = to_float64(scores) @ xp.matrix_transpose(seen.lift) + seen.mean[None, :]
        coefficients = held @ xp.matrix_transpose(seen.span.factor)
        if self.learned is None or seen.inputs is None:
            found = self.method.report(seen.kernel, seen.span.points, coefficients)
        else:
            X = to_float64(scores) @ self.learned + seen.inputs.mean[None, :]
            energy = xp.sum(held * held, axis=1)  # coordinates are orthonormal
            points = to_float64(seen.span.points)
            found = Report.without_search(
                X, remaining(seen.kernel, X, points, coefficients, energy)
            )
        X = found.X if self.standard is None else self.standard.undo(found.X)
        return replace(found, X=cast(X, scores.dtype), distance=cast(found.distance, scores.dtype))
