"""Estimator: online kernel PCA (Honeine 2012), distance criterion, bounds on the dictionary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from kernelstream import kernels, landmarks, trackers
from kernelstream.arrays import prints_short, to_host
from kernelstream.papers import schedules
from kernelstream.papers.base import PaperMethod
from kernelstream.papers.honeine_2012.recentred_hebbian import RecentredHebbian
from kernelstream.papers.kim_2003.hebbian import Hebbian
from kernelstream.serialization import stored


@prints_short
@dataclass(frozen=True)
class ReducedOrderBounds:
    """What is proved about a dictionary, as numbers.

    For :class:`~kernelstream.papers.AdaptiveKernelPCA`, whose criterion is the coherence δ itself,
    both bounds on the coherence are δ, and κ(1 − δ²) takes the place of ν in what rows can miss.

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
    babel : float
        Largest sum of the cosines of a point with all others (the Babel measure), measured.
    babel_bound : float
        m − 1 times the smaller of the two bounds on the coherence.
    input_distance : float
        Smallest distance of two points in input space, measured; infinite for a single point.
    input_distance_bound : float or None
        For kernels that fall with the distance: two points are at least so far apart. For the
        Gaussian kernel the paper has √(−2σ² ln(1 − ν/2)); here with the smaller of the two bounds
        on the coherence. None for other kernels.
    eigenvalues : array of shape (m,)
        Of the kernel matrix of the points, descending, measured.
    eigenvalue_bounds, eigenvalue_bounds_sharp : (low, high)
        Theorem 4, with each of the two coherences. The lower bound is negative for any dictionary
        of some size and proves nothing; that the matrix is not singular follows from the criterion
        itself, whose pivots exceed ν.
    eigenvalue_bounds_babel : (low, high)
        The same discs with the Babel measure itself (Honeine 2015): far sharper.
    missed : float
        Mean squared distance of the rows to the span, at most ν unless the dictionary is full.
    missed_bound : float
        What a row that is no point can miss: ν for the distance criterion, κ(1 − δ²) for the
        coherence criterion (Honeine 2015); infinite once the dictionary is full.
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
    babel: float
    babel_bound: float
    input_distance: float
    input_distance_bound: float | None
    eigenvalues: np.ndarray
    eigenvalue_bounds: tuple[float, float]
    eigenvalue_bounds_sharp: tuple[float, float]
    eigenvalue_bounds_babel: tuple[float, float]
    missed: float
    missed_bound: float
    approximation_error: np.ndarray
    approximation_error_sharp: np.ndarray


@stored
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
        As in :class:`~kernelstream.StreamingKernelPCA`.
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
    guard : bool
        Whether steps that are too long are shortened (``n_shortened_steps_`` counts them). False
        runs the paper's rule and nothing else; where it diverges, an error says so.
    center : bool or "paper"
        Whether the mapped data is centred. With True the centre is the running mean in coordinates,
        and components are functions that do not change when the mean does; ``"paper"`` is the
        centring κ^c of section 5.2, where they move with it
        (:class:`~kernelstream.papers.RecentredHebbian`).
    preimage : str or Preimage
        How ``inverse_transform`` goes back to inputs, as in
        :class:`~kernelstream.StreamingKernelPCA`.
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
    >>> from kernelstream.papers import OnlineKernelPCA
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, size=3000)
    >>> X = np.stack([x, x**2 + 0.1 * rng.normal(size=3000)], axis=1)
    >>> model = OnlineKernelPCA(2, gamma=2.0, nu=0.5).fit(X)
    >>> bounds = model.bounds()
    >>> bounds.order, bounds.coherence <= bounds.coherence_bound_sharp <= bounds.coherence_bound
    (6, True)
    """

    _paper_centres = True
    paper = "Honeine 2012, Online kernel PCA: a reduced-order model"
    equations = "distance criterion (8)-(11), rule (17)-(19), steps (20), centring section 5.2"

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
        guard: bool = True,
        center: bool | str = True,
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
        self.guard = guard
        self.center = center  # type: ignore[assignment]
        self.preimage = preimage
        self.random_state = random_state

    def _basis_and_tracker(self) -> tuple[landmarks.LandmarkStrategy, trackers.Tracker]:
        steps = schedules.SearchThenConverge(self.eta0, self.tau)
        rule: trackers.Tracker = Hebbian(steps, guard=self.guard)
        if self._centres_as_the_paper():
            rule = RecentredHebbian(steps, self.guard)
        dictionary = landmarks.Distance(self.nu, self.max_points)
        return landmarks.resolve(dictionary), trackers.resolve(rule)

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
        return dictionary_bounds(self, lambda largest: self.nu / largest, eigenvalues)


def dictionary_bounds(
    model: Any,
    share: Callable[[float], float],
    eigenvalues: Any,
    delta: float | None = None,
) -> ReducedOrderBounds:
    """What is proved about the dictionary of a model.

    ``share`` is what a row that is no point can miss, as a share of the largest energy; ``delta``
    is the coherence that the criterion allows, where that is the criterion.
    """
    seen, state = model.stream_.components, model.stream_.settled.begun
    K, D = to_host(seen.kernel.gram(seen.points)), to_host(seen.points).astype(float)
    if len(K) == 0:
        raise ValueError(
            f"nu={model.nu!r} is above k(x, x) of every row, so the dictionary is empty and "
            "there is nothing to bound; use a smaller nu."
        )
    energy = np.diag(K)
    m, largest, low = len(K), float(energy.max()), float(energy.min())
    cosines = np.abs(K) / np.sqrt(np.outer(energy, energy)) - np.eye(m)
    coherence, babel = float(cosines.max(initial=0.0)), float(cosines.sum(axis=1).max())
    if delta is None:  # Lemma 3: a share below 1, for a point misses at most its own energy
        plain, sharp = 1.0 - share(largest) / 2.0, float(np.sqrt(1.0 - share(largest)))
    else:  # the first points were admitted whatever their coherence
        plain = sharp = max(delta, coherence)
    radius, least = largest * (m - 1), min(plain, sharp)
    lam = np.asarray(model.explained_variance_ if eigenvalues is None else eigenvalues, float)
    lam = np.maximum(lam, np.finfo(float).tiny)  # no variance: nothing is claimed
    # without a certificate nobody has added up the residuals
    observer, weight = state.observer, state.moments.weight
    missed = np.inf if observer is None else observer.ledger.missed / weight
    full = model.max_points is not None and m >= model.max_points
    most = np.inf if full else share(largest) * largest
    apart = pdist(D).min(initial=np.inf)
    return ReducedOrderBounds(
        order=m,
        coherence=coherence,
        coherence_bound=plain,
        coherence_bound_sharp=sharp,
        babel=babel,
        babel_bound=(m - 1) * least,
        input_distance=float(apart),
        input_distance_bound=distance_at(seen.kernel, least),
        eigenvalues=np.linalg.eigvalsh(K)[::-1],
        eigenvalue_bounds=(low - radius * plain, largest + radius * plain),
        eigenvalue_bounds_sharp=(low - radius * sharp, largest + radius * sharp),
        eigenvalue_bounds_babel=(low - largest * babel, largest + largest * babel),
        missed=missed,
        missed_bound=float(most),
        approximation_error=most / lam,
        approximation_error_sharp=missed / lam,
    )


def distance_at(kernel: kernels.Kernel, value: float) -> float | None:
    """The distance up to which an invertible stationary kernel is above a value; else None."""
    if not 0.0 < value < 1.0:
        return 0.0 if value >= 1.0 else None
    if not (kernel.stationary and kernel.invertible):
        return None
    squared = kernel.inverse(np.full((1, 1), value), np.ones(1), np.zeros((1, 1)))
    # A lower bound: an inverse by interpolation is less than 1e-5 too large.
    return float(squared[0, 0] * (1.0 - 1e-5)) ** 0.5
