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

import numpy as np

from kernelstream.arrays.namespaces import Array, to_host
from kernelstream.arrays.printing import prints_short
from kernelstream.certificates import bounds, rounding
from kernelstream.certificates.bounds import Evidence, Shown
from kernelstream.certificates.confidence import (
    ConfidenceBounds,
    bounds_of_sample,
    is_complete,
    no_bounds,
)
from kernelstream.certificates.evaluation import EvaluatedModel
from kernelstream.certificates.ledger import Ledger
from kernelstream.certificates.observer import Accumulated
from kernelstream.landmarks.nystroem import Span, transition

UNDERFLOW = 1e6 * float(np.finfo(np.float32).tiny), 1e6 * float(np.finfo(np.float64).tiny)


@prints_short
@dataclass(frozen=True)
class Certificate:
    """What is certain about batch kernel PCA of the rows seen.

    Attributes
    ----------
    eigenvalue_intervals : array of shape (r, 2)
        Each eigenvalue of batch kernel PCA (in the units of ``eigenvalues_``) lies in its interval.
    explained_variance_ratio_interval : tuple of two floats
        Share of the variance that the best r components explain.
    reconstruction_error : float
        Mean squared reconstruction error of this model over the rows seen, or a bound on it.
    reconstruction_error_lower_bound : float
        No affine subspace of dimension r has a smaller error.
    excess_bound : float
        The model's error is at most this much above the best possible.
    angle_bound : float or None
        Largest angle, in radians, between the spans of our components and the exact ones; None
        where the eigenvalues are not certainly apart.
    component_bounds : array of shape (r,)
        Squared length of the part of each exact component that lies outside the span of the basis
        points (Honeine's Theorem 5, with the actual residuals).
    slack : float
        Allowance for rounding, relative to the mean energy; it is inside all numbers above.
    proved : bool
        Whether the allowance for rounding was derived (float64) or measured (float32).
    reason : str or None
        Why there is no certificate, or why it is of no use; None when all is well.
    filled : bool
        Whether missing values may have been filled: all statements are then of the filled rows.
    statistical : ConfidenceBounds
        What a sample of the rows says with a stated confidence, whether or not there is a proof.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> model = StreamingKernelPCA(2, gamma=0.1, certify="tight", random_state=0).fit(X)
    >>> bound = model.certificate_
    >>> bool(bound.excess_bound < 0.05 * bound.reconstruction_error)
    True
    """

    eigenvalue_intervals: np.ndarray
    explained_variance_ratio_interval: tuple[float, float]
    reconstruction_error: float
    reconstruction_error_lower_bound: float
    excess_bound: float
    angle_bound: float | None
    component_bounds: np.ndarray
    slack: float
    proved: bool
    reason: str | None
    filled: bool = False
    judged: EvaluatedModel | None = field(default=None, repr=False, compare=False)
    told: ConfidenceBounds | None = field(default=None, repr=False, compare=False)

    @cached_property
    def statistical(self) -> ConfidenceBounds:
        """What a sample of the rows says with a stated confidence; computed when asked for."""
        if self.told is not None:
            return self.told
        return no_bounds("no model") if self.judged is None else bounds_of_sample(self.judged)

    @property
    def useful(self) -> bool:
        """Whether the statements say something."""
        return self.reason is None

    @property
    def narrowest_ratio(self) -> tuple[tuple[float, float], str]:
        """The narrower interval for the share that the best r components explain, and its kind.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import StreamingKernelPCA
        >>> X = np.random.default_rng(0).normal(size=(900, 3))
        >>> model = StreamingKernelPCA(2, gamma=0.1, random_state=0).partial_fit(X)
        >>> model.certificate_.narrowest_ratio[1]
        'computed from all 900 rows'
        """
        proved = self.explained_variance_ratio_interval
        if self.told is None and self.judged is not None and not is_complete(self.judged):
            low, high = bounds_of_sample(self.judged, False).explained_variance_ratio_interval
            if high - low >= proved[1] - proved[0]:
                return proved, self.kind  # bounds that take a second could not be narrower
        said = self.statistical
        known = said.explained_variance_ratio_interval
        wider = said.reason is not None or proved[1] - proved[0] <= known[1] - known[0]
        # a proof is about the rows that were learned, and those may be few of all
        return (proved, self.kind) if wider and not said.n_rows else (known, said.kind)

    @property
    def kind(self) -> str:
        """How the proof's numbers are known, in words."""
        return "deterministic" if self.proved else "deterministic, but rounding was measured"

    def rows(self) -> list[tuple[str, str]]:
        """The statements in words, as pairs: of a proof and of a sample the one that says more."""
        said = self.statistical
        if said.n_rows:
            return said.rows()
        if not np.all(np.isfinite(self.eigenvalue_intervals)):
            nothing = [("certificate", f"no certificate: {self.reason}")]
            return nothing if said.reason is not None else [*nothing, *said.rows()]
        found = [
            (f"eigenvalue {i}", f"between {low:.6g} and {high:.6g}")
            for i, (low, high) in enumerate(self.eigenvalue_intervals[:10], 1)
        ]
        hidden = len(self.eigenvalue_intervals) - len(found)
        if hidden > 0:
            found.append(("", f"… and {hidden} more in eigenvalue_intervals"))
        (low, high), of_ratio = self.narrowest_ratio
        ratio = f"between {low:.4f} and {high:.4f}"
        angle = "no certificate (eigenvalues not certainly apart)"
        if self.angle_bound is not None:
            angle = f"at most {math.degrees(self.angle_bound):.3g} degrees"
        error = f"at most {self.reconstruction_error:.6g}"
        excess = f"at most {self.excess_bound:.6g}"
        kind = self.kind
        if said.reason is None:
            least, most = said.reconstruction_error_interval
            own = "between {:.4f} and {:.4f}".format(*said.own_ratio_interval)
            found.append(("explained by this model", f"{own} ({said.kind})"))
            if of_ratio == said.kind:
                ratio += f" ({said.kind})"
            if most < self.reconstruction_error:
                error = f"between {least:.6g} and {most:.6g} ({said.kind})"
            if said.excess_bound < self.excess_bound:
                excess = f"at most {said.excess_bound:.6g} ({said.kind})"
            kind += ", where nothing else is said"
        found += [
            ("explained variance ratio", ratio),
            ("reconstruction error", error),
            ("best possible error", f"at least {self.reconstruction_error_lower_bound:.6g}"),
            ("above the best possible", excess),
            ("angle to the exact components", angle),
            ("kind", kind),
        ]
        if self.filled:
            found.append(("rows", "as they were filled: missing values are the model's"))
        if self.reason is not None:
            found.append(("beware", self.reason))
        return found

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.rows())
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.rows())

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in self.rows())
        return f"<table>{cells}</table>"


def certify(
    sums: Accumulated,
    ledger: Ledger | None,
    vectors: Array,
    mean: Array,
    shown_in: Span,
) -> Certificate:
    """The certificate of what was accumulated, for the components that a query is shown.

    Their vectors and mean may stand in another span, ``shown_in``, with corrected moments; the
    known difference between the two is added.
    """
    r = int(vectors.shape[1])
    if ledger is None:
        return no_certificate(r, "certify=False was given")
    problem = obstacle(sums, ledger)
    if problem is not None:
        return no_certificate(r, problem)
    known, seen = evidence(sums, ledger), as_shown(sums, ledger, vectors, mean, shown_in)
    single = rounding.in_float32(sums.span.projector)
    if not known.slack + seen.error * known.energy < known.energy:
        return no_certificate(r, "rounding errors are as large as the data; see the documentation")
    intervals = bounds.eigenvalues(known, r)
    error, best = bounds.own_error(known, seen), bounds.best_error(known, r)
    least, most = bounds.leading_sum(known, r)
    variance = bounds.total_variance(known)[1]
    certificate = Certificate(
        eigenvalue_intervals=intervals * known.weight,
        explained_variance_ratio_interval=(
            min(1.0, least / variance) if variance > 0 else 0.0,
            min(1.0, most / (most + best)),  # above zero: the slack is in it
        ),
        reconstruction_error=error,
        reconstruction_error_lower_bound=best,
        excess_bound=max(error - best, 0.0),
        angle_bound=bounds.angle(known, seen, r),
        component_bounds=bounds.outside(known, seen, intervals),
        slack=known.slack / known.energy,
        proved=ledger.deviation == 0 and not single,
        reason=weakness(known, intervals),
    )
    numbers = (*certificate.eigenvalue_intervals.ravel(), error, best, least, most)
    if not np.all(np.isfinite(numbers)):
        return no_certificate(r, "the numbers leave the range of float64")
    return certificate


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
    if not ledger.complete or sums.moments.weight <= 0:
        return "the account of missed energy is not complete"
    if not ledger.energy > UNDERFLOW[1]:
        return "the weights are so small that sums of them underflow; multiply all of them"
    mean_energy = ledger.energy / sums.moments.weight
    if not mean_energy > UNDERFLOW[0 if rounding.in_float32(sums.span.projector) else 1]:
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


def no_certificate(r: int, reason: str) -> Certificate:
    """A certificate that states nothing but why."""
    return Certificate(
        eigenvalue_intervals=np.tile([0.0, math.inf], (r, 1)),
        explained_variance_ratio_interval=(0.0, 1.0),
        reconstruction_error=math.inf,
        reconstruction_error_lower_bound=0.0,
        excess_bound=math.inf,
        angle_bound=None,
        component_bounds=np.ones(r),
        slack=math.inf,
        proved=False,
        reason=reason,
    )
