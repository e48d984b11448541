"""Online kernel PCA with a reduced-order model (Honeine 2012)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelstream import bases, schedules, trackers
from kernelstream.backends.arrays import to_host
from kernelstream.estimators.paper import PaperMethod

@dataclass(frozen=True)
class ReducedOrderBounds:
    """What is proved about the dictionary of the distance criterion, as numbers.

    The paper states Lemma 3 and Theorem 4 for kernels of unit norm. Here they hold for every
    kernel: with the largest energy κ = max k(d,d) of a point, ν/κ takes the place of ν, and
    coherences are cosines.

    Attributes
    ----------
    order : int
        Number of points m.
    coherence : float
        Largest cosine between two points, measured.
    coherence_bound : float
        Lemma 3: 1 − ν/2κ. (The proof bounds k(x_i, x_j) from above only; the absolute value holds
        because −φ(x_i) lies in the span as well.)
    coherence_bound_sharp : float
        √(1 − ν/κ), never larger: the squared distance to the span is at most the one to the line
        through φ(x_i), k(x_j,x_j) (1 − cos²).
    eigenvalues : array of shape (m,)
        Of the kernel matrix of the points, descending, measured.
    eigenvalue_bounds, eigenvalue_bounds_sharp : (low, high)
        Theorem 4, with each of the two coherences. The lower bound is negative for any dictionary
        of some size and proves nothing; that the matrix is not singular follows from the criterion
        itself, whose pivots exceed ν.
    missed : float
        Mean squared distance of the rows to the span, at most ν unless the dictionary is full.
    approximation_error : array of shape (r,)
        Theorem 5: the squared distance of the r-th exact principal function to the span is at most
        ν/λ_r.
    approximation_error_sharp : array of shape (r,)
        ``missed``/λ_r: the proof needs the sum of the squared distances only. This one also holds
        for a dictionary that is full.
    """

    order: int
    coherence: float
    coherence_bound: float
    coherence_bound_sharp: float
    eigenvalues: np.ndarray
    eigenvalue_bounds: tuple[float, float]
    eigenvalue_bounds_sharp: tuple[float, float]
    missed: float
    approximation_error: np.ndarray
    approximation_error_sharp: np.ndarray


class OnlineKernelPCA(PaperMethod):
    """Sanger's rule over a dictionary of rows that are far from the span of the others.

    A row whose squared distance to the span exceeds ν becomes a point; the components learn from
    every row by the generalised Hebbian rule (eq. 19), or Oja's rule for one component, with the
    search-then-converge step η₀/(1 + t/τ).

    Parameters
    ----------
    n_components : int
        Number of components r.
    kernel : str, Kernel or callable
        As in :class:`StreamingKernelPCA`.
    gamma : float, str or None
        Width of a kernel given by name (``1/(2σ²)`` for the paper's Gaussian).
    nu : float
        Threshold ν on the squared distance.
    eta0, tau : float
        The step is ``eta0/(1 + t/tau)``. After τ rows it falls like η₀τ/t (the paper has η₀/t).
        Large values of τ follow a stream that moves; small ones come to rest early (section 5.1 of
        the paper has it the other way round).
    max_points : int or None
        Most points of the dictionary. When they are reached, a warning says so.
    exchange : int or None
        With a number of rows, a full dictionary moves with the stream: rows take the places of
        points that the last so many rows needed least (:class:`bases.Distance`).
    guard : bool
        Whether steps that are too long are shortened (``n_shortened_steps_`` counts them). False
        runs the paper's rule and nothing else; where it diverges, an error says so.
    center : bool or "paper"
        Whether the mapped data is centred. With True the centre is the running mean in coordinates,
        and components are functions that do not change when the mean does; ``"paper"`` is the
        centring κ^c of section 5.2, where they move with it (:class:`trackers.RecentredHebbian`).
    average : bool
        Show the averages of the components along the stream (:class:`trackers.Averaged`).
    preimage : str or Preimage
        How ``inverse_transform`` goes back to inputs, as in :class:`StreamingKernelPCA`.
    random_state : int, RandomState or None
        Nothing is drawn; for uniformity with the other estimators.

    Notes
    -----
    The paper gives no start, and α = 0 would stay 0: component j starts at the j-th point, less its
    projection on the earlier ones. To the letter: ``guard=False, center="paper"``, and
    ``raw_dual_coef_`` for the components by the paper's index and at their own length.

    References
    ----------
    Honeine, "Online kernel principal component analysis: a reduced-order model", IEEE TPAMI 34(9),
    2012.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import OnlineKernelPCA
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, size=3000)
    >>> X = np.stack([x, x**2 + 0.1 * rng.normal(size=3000)], axis=1)
    >>> model = OnlineKernelPCA(2, gamma=2.0, nu=0.5).fit(X)
    >>> bounds = model.bounds()
    >>> bounds.order, bounds.coherence <= bounds.coherence_bound_sharp <= bounds.coherence_bound
    (6, True)
    """

    _paper_centres = True

    def __init__(
        self,
        n_components: int = 2,
        *,
        kernel: Any = "rbf",
        gamma: float | str | None = None,
        nu: float = 0.1,
        eta0: float = 0.5,
        tau: float = 1000,
        max_points: int | None = 2000,
        exchange: int | None = None,
        guard: bool = True,
        center: bool | str = True,
        average: bool = False,
        preimage: Any = "auto",
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.nu = nu
        self.eta0 = eta0
        self.tau = tau
        self.max_points = max_points
        self.exchange = exchange
        self.guard = guard
        self.center = center
        self.average = average
        self.preimage = preimage
        self.random_state = random_state

    def _basis_and_tracker(self) -> tuple[bases.Basis, trackers.Tracker]:
        steps = schedules.SearchThenConverge(self.eta0, self.tau)
        rule: trackers.Tracker = trackers.Hebbian(steps, guard=self.guard)
        if self._centres_as_the_paper():
            rule = trackers.RecentredHebbian(steps, self.guard)
        if self.average:
            rule = trackers.Averaged(rule)
        dictionary = bases.Distance(self.nu, self.max_points, self.exchange)
        return bases.resolve(dictionary), trackers.resolve(rule)

    def bounds(self, eigenvalues: Any = None) -> ReducedOrderBounds:
        """The paper's Lemma 3, Theorem 4 and Theorem 5 for the model as it is, as numbers.

        Parameters
        ----------
        eigenvalues : array of shape (r,), optional
            λ_r of the covariance of all rows (of the second moments, with ``center=False``) for
            Theorem 5. Left out, the running estimates of the model stand in: then its bounds are
            estimates as well.

        Returns
        -------
        ReducedOrderBounds
        """
        seen, state = self.stream_.components, self.stream_.settled.begun
        K = to_host(seen.kernel.gram(seen.points))
        if len(K) == 0:
            raise ValueError(
                f"nu={self.nu!r} is above k(x, x) of every row, so the dictionary is empty and "
                "there is nothing to bound; use a smaller nu."
            )
        energy = np.diag(K)
        m, largest = len(K), float(energy.max())
        cosines = np.abs(K) / np.sqrt(np.outer(energy, energy))
        share = self.nu / largest  # below 1: a point misses at most its own energy
        plain, sharp = 1.0 - share / 2.0, float(np.sqrt(1.0 - share))
        radius = largest * (m - 1)
        low = float(energy.min())
        lam = np.asarray(self.explained_variance_ if eigenvalues is None else eigenvalues, float)
        missed = state.ledger.missed / state.moments.weight
        tiny = np.finfo(float).tiny  # no variance: nothing is claimed
        full = self.max_points is not None and m >= self.max_points
        return ReducedOrderBounds(
            order=m,
            coherence=float((cosines - np.eye(m)).max(initial=0.0)),
            coherence_bound=plain,
            coherence_bound_sharp=sharp,
            eigenvalues=np.linalg.eigvalsh(K)[::-1],
            eigenvalue_bounds=(low - radius * plain, largest + radius * plain),
            eigenvalue_bounds_sharp=(low - radius * sharp, largest + radius * sharp),
            missed=missed,
            approximation_error=(np.inf if full else self.nu) / np.maximum(lam, tiny),
            approximation_error_sharp=missed / np.maximum(lam, tiny),
        )
