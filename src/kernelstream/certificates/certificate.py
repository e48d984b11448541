"""Certificate object: guaranteed intervals, bound on the error, reasons if bounds are loose.

The rows are gone, but what the basis missed of each was entered in the ledger. From that alone
follow intervals for the eigenvalues that batch kernel PCA would have found, a lower bound on the
error of *any* subspace of the same dimension, and, where the eigenvalues are certainly apart, a
bound on the angle between its components and ours. The statements themselves are in ``bounds.py``,
their proofs in docs/proofs.md; every one of them is deterministic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from kernelstream.arrays.namespaces import Array, dtype_name, to_host
from kernelstream.arrays.printing import prints_short
from kernelstream.certificates import bounds, rounding
from kernelstream.certificates.bounds import Evidence, Shown
from kernelstream.certificates.confidence import (
    ConfidenceBounds,
    bounds_of_sample,
)
from kernelstream.certificates.evaluation import EvaluatedModel
from kernelstream.certificates.ledger import Ledger
from kernelstream.certificates.observer import Accumulated
from kernelstream.landmarks.nystroem import Span, transition

UNDERFLOW = 1e6 * float(np.finfo(float).tiny)


@dataclass(frozen=True)
class GuaranteedBounds:
    """Bounds that hold for every stream: they follow from sums over all rows.

    Attributes
    ----------
    eigenvalue_intervals : array of shape (r, 2)
        An interval for each eigenvalue of exact kernel PCA (in the units of ``eigenvalues_``).
    explained_variance_ratio_interval : tuple of two floats
        Explained variance ratio of this model.
    best_explained_variance_ratio_interval : tuple of two floats
        Explained variance ratio of the best r components.
    reconstruction_error : float
        Upper bound on the mean squared reconstruction error of this model over the rows seen.
    reconstruction_error_lower_bound : float
        No affine subspace of dimension r has a smaller error.
    excess_bound : float
        The model's error is at most this much above the best possible.
    angle_bound : float or None
        Largest angle, in radians, between the spans of our components and the exact ones; None
        if the eigenvalues are not known to be separate.
    component_bounds : array of shape (r,)
        Squared length of the part of each exact component that lies outside the span of the
        landmarks (Honeine's Theorem 5, with the actual residuals).
    slack : float
        Allowance for rounding, relative to the mean squared norm; it is inside all bounds above.
    reason : str or None
        Why there are no bounds, or why they are too loose to be useful; None otherwise.
    """

    # The defaults hold for every model.
    eigenvalue_intervals: np.ndarray
    component_bounds: np.ndarray
    explained_variance_ratio_interval: tuple[float, float] = (0.0, 1.0)
    best_explained_variance_ratio_interval: tuple[float, float] = (0.0, 1.0)
    reconstruction_error: float = math.inf
    reconstruction_error_lower_bound: float = 0.0
    excess_bound: float = math.inf
    angle_bound: float | None = None
    slack: float = math.inf
    reason: str | None = None
    kind: ClassVar[str] = "guaranteed"

    @property
    def useful(self) -> bool:
        """Whether the bounds are tight enough to say something."""
        return self.reason is None


@prints_short
@dataclass(frozen=True)
class Certificate:
    """How far a model is from exact kernel PCA of the rows seen.

    Two intervals and how they are known; everything else is in ``details`` and ``statistical``,
    which bound the same numbers: the certificate shows the narrower of the two.

    Attributes
    ----------
    explained_variance_ratio_interval : tuple of two floats
        Lower and upper bound of the explained variance ratio of this model.
    best_explained_variance_ratio_interval : tuple of two floats
        Lower and upper bound of the explained variance ratio of the best r components.
    kind : str
        ``"guaranteed"``, or the confidence with which the two hold, such as ``"99% confidence"``.
    details : GuaranteedBounds
        Bounds that hold for every stream: eigenvalues, errors, angles.
    statistical : ConfidenceBounds
        Bounds from a sample of the rows.
    bounds : GuaranteedBounds or ConfidenceBounds
        The narrower of the two.
    filled : bool
        Whether missing values may have been imputed: all bounds are then about the imputed rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> X = np.random.default_rng(0).normal(size=(9000, 3))
    >>> model = StreamingKernelPCA(5, gamma=0.1, basis=40, random_state=0).partial_fit(X)
    >>> certificate = model.certificate_
    >>> low, high = certificate.explained_variance_ratio_interval
    >>> bool(high - low < 0.05), certificate.kind
    (True, 'guaranteed')
    """

    details: GuaranteedBounds
    filled: bool = False
    model: EvaluatedModel | None = field(default=None, repr=False, compare=False)
    drawn: ConfidenceBounds | None = field(default=None, repr=False, compare=False)

    @cached_property
    def statistical(self) -> ConfidenceBounds:
        """Bounds from a sample of the rows; computed when asked for."""
        if self.drawn is not None:
            return self.drawn
        if self.model is None:
            return ConfidenceBounds(reason="no model")
        return bounds_of_sample(self.model)

    @cached_property
    def bounds(self) -> GuaranteedBounds | ConfidenceBounds:
        """The narrower bounds; those from draws of all rows, where most were not read."""
        if self.drawn is not None:
            return self.drawn
        width = width_of(self.details)
        if self.model is not None and not self.model.complete:
            # Without the best subspace, which takes a second to bound.
            least = width_of(bounds_of_sample(self.model, compare=False))
            if least >= width:
                return self.details
        return self.statistical if width_of(self.statistical) < width else self.details

    @property
    def explained_variance_ratio_interval(self) -> tuple[float, float]:
        """Lower and upper bound of the explained variance ratio of this model."""
        return self.bounds.explained_variance_ratio_interval

    @property
    def best_explained_variance_ratio_interval(self) -> tuple[float, float]:
        """Lower and upper bound of the explained variance ratio of the best r components."""
        return self.bounds.best_explained_variance_ratio_interval

    @property
    def kind(self) -> str:
        """Whether the bounds are guaranteed, or with which confidence they hold."""
        bounds = self.bounds
        if isinstance(bounds, GuaranteedBounds) or bounds.complete:
            return "guaranteed"
        return f"{100 * bounds.confidence:.4g}% confidence"

    def rows(self) -> list[tuple[str, str]]:
        """The certificate in words, as pairs."""
        low, high = self.explained_variance_ratio_interval
        least, most = self.best_explained_variance_ratio_interval
        rows = [
            ("explained by this model", f"between {low:.4f} and {high:.4f}"),
            ("explained by the best", f"between {least:.4f} and {most:.4f}"),
            ("kind", self.bounds.kind),
        ]
        if self.bounds.reason is not None:
            rows.append(("limitation", self.bounds.reason))
        if self.filled:
            rows.append(("rows", "as they were imputed: missing values are the model's"))
        return rows

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.rows())
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.rows())

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in self.rows())
        return f"<table>{cells}</table>"


def width_of(bounds: GuaranteedBounds | ConfidenceBounds) -> float:
    """From the lower bound of this model to the upper bound of the best."""
    if isinstance(bounds, ConfidenceBounds) and bounds.reason is not None:
        return math.inf
    high = bounds.best_explained_variance_ratio_interval[1]
    return high - bounds.explained_variance_ratio_interval[0]


def certify(
    sums: Accumulated,
    ledger: Ledger | None,
    vectors: Array,
    mean: Array,
    shown_in: Span,
) -> GuaranteedBounds:
    """The bounds that follow from what was accumulated, for the components that a query is shown.

    Their vectors and mean may stand in another span, ``shown_in``, with corrected moments; the
    known difference between the two is added.
    """
    r = int(vectors.shape[1])
    if ledger is None:
        return no_guarantee(r, "certify=False was given")
    problem = obstacle(sums, ledger)
    if problem is not None:
        return no_guarantee(r, problem)
    known, seen = evidence(sums, ledger), as_shown(sums, ledger, vectors, mean, shown_in)
    if not known.slack + seen.error * known.energy < known.energy:
        return no_guarantee(r, "rounding errors are as large as the data; see the documentation")
    intervals = bounds.eigenvalues(known, r)
    error, best = bounds.own_error(known, seen), bounds.best_error(known, r)
    least, most = bounds.leading_sum(known, r)
    lowest, highest = bounds.total_variance(known)
    high = min(1.0, most / (most + best))  # above zero: the slack is in it
    # The variance that this model does not explain is at most its error.
    own = min(high, max(0.0, 1.0 - error / lowest)) if lowest > 0 else 0.0
    low = min(high, least / highest) if highest > 0 else 0.0
    found = GuaranteedBounds(
        eigenvalue_intervals=intervals * known.weight,
        explained_variance_ratio_interval=(own, high),
        best_explained_variance_ratio_interval=(max(own, low), high),
        reconstruction_error=error,
        reconstruction_error_lower_bound=best,
        excess_bound=max(error - best, 0.0),
        angle_bound=bounds.angle(known, seen, r),
        component_bounds=bounds.outside(known, seen, intervals),
        slack=known.slack / known.energy,
        reason=weakness(known, intervals),
    )
    numbers = (*found.eigenvalue_intervals.ravel(), error, best, least, most)
    if not np.all(np.isfinite(numbers)):
        return no_guarantee(r, "the numbers leave the range of float64")
    return found


def evidence(sums: Accumulated, ledger: Ledger) -> Evidence:
    """What was accumulated, as the statements want it."""
    W, S = sums.moments.weight, to_host(sums.scatter)
    mean = to_host(sums.moments.mean) if sums.center else np.zeros(sums.span.rank)
    moment = S / W
    values, vectors = np.linalg.eigh(moment - np.outer(mean, mean))
    slack = rounding.slack(sums.kernel, ledger, sums.span, S)
    return Evidence(
        ledger=ledger,
        weight=W,
        center=sums.center,
        moment=moment,
        mean=mean,
        values=np.maximum(values[::-1], 0.0),
        vectors=vectors[:, ::-1],
        slack=slack * ledger.energy / W,
    )


def as_shown(sums: Accumulated, ledger: Ledger, vectors: Array, mean: Array, new: Span) -> Shown:
    """The shown components and mean, beside the basis of what was accumulated."""
    V, mu, span = to_host(vectors), to_host(mean), sums.span
    V = V[:, np.linalg.norm(V, axis=0) > 0.5]  # zero columns fill up missing rank
    if new is span:
        return Shown(V, mu, np.eye(span.rank), 0.0, True)
    T = to_host(transition(sums.kernel, span, new))
    S = to_host(sums.scatter)
    carried, lost, _ = rounding.change(sums.kernel, ledger, span, new, T, S, T @ S @ T.T)
    return Shown(V, mu, T, 2 * carried + lost, False)


def obstacle(sums: Accumulated, ledger: Ledger) -> str | None:
    """Why there can be no certificate, if so."""
    if not sums.kernel.psd:
        return f"the kernel {sums.kernel} is not known to be positive semidefinite"
    if not math.isfinite(rounding.value_error(sums.kernel, ledger, sums.span)):
        return f"the rounding errors of the kernel {sums.kernel} are not known"
    if sums.scatter is None:
        return f"the tracker {sums.tracker} keeps no moments; use trackers.Covariance"
    if dtype_name(sums.span.projector) == "float32":
        return "rounding errors of float32 rows are not bounded; give rows in float64"
    if not ledger.complete or sums.moments.weight <= 0:
        return "the account of missed energy is not complete"
    if not ledger.energy > UNDERFLOW:
        return "the weights are so small that sums of them underflow; multiply all of them"
    if not ledger.energy / sums.moments.weight > UNDERFLOW:
        return "the kernel's values are so small that they underflow; scale the data"
    return None


def weakness(known: Evidence, intervals: np.ndarray) -> str | None:
    """Why the statements are true but of no use, if so."""
    width = intervals[0, 1] - intervals[0, 0] if len(intervals) else 0.0
    if width <= known.held(1)[0]:
        return None
    if known.missed(1)[0] > 0:
        return (
            "no useful certificate: many rows were folded before the basis last moved; call fit, "
            "or go on streaming"
        )
    return (
        "no useful certificate: the basis misses too much to say more; use certify='tight', or "
        "more points"
    )


def no_guarantee(r: int, reason: str) -> GuaranteedBounds:
    """Bounds that say nothing but why."""
    return GuaranteedBounds(np.tile([0.0, math.inf], (r, 1)), np.ones(r), reason=reason)
