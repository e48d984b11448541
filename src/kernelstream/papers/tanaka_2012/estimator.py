"""Estimator: adaptive kernel PCA (Tanaka, Washizawa and Kuh 2012), coherence criterion."""

from __future__ import annotations

from typing import Any

from kernelstream import landmarks, trackers
from kernelstream.papers.base import PaperMethod
from kernelstream.papers.honeine_2012.estimator import ReducedOrderBounds, dictionary_bounds
from kernelstream.papers.tanaka_2012.lms import LMS
from kernelstream.papers.tanaka_2012.rls import RLS
from kernelstream.papers.tanaka_2012.subset_hebbian import SubsetHebbian
from kernelstream.serialization import check_choice, check_count, stored


@stored
class AdaptiveKernelPCA(PaperMethod):
    """Tracking of kernel principal components over a coherence dictionary.

    Rows that no point resembles become points; an LMS- or RLS-type rule or SubKHA follows the
    eigenvectors of the weighted cost (4) in their span, one row after the other. Started as in the
    paper: the first r rows are the first points, and the components are the orthonormal vectors
    nearest to them.

    Parameters
    ----------
    n_components : int
        Number of components r.
    kernel : str, Kernel or callable
        As in :class:`~kernelstream.StreamingKernelPCA`.
    gamma : float, str or None
        Width of a kernel given by name.
    delta : float
        Largest coherence allowed between two points (eq. 7).
    coherence : "cosine" or "paper"
        ``"cosine"`` compares cosines, which suits kernels of any norm; ``"paper"`` the bare values
        k(x, d) of eq. (7). For positive kernels of unit norm both are the same.
    max_points : int or None
        Most points of the dictionary. When they are reached, a warning says so.
    method : "rls", "lms" or "subkha"
        The rule. RLS is the fastest and needs no step size.
    eta : float or Schedule
        Step of LMS and SubKHA.
    beta : float
        Forgetting factor of RLS.
    weights : sequence of float or None
        The diagonal of D, positive and not increasing, one for each component; None is from 1 to
        0.5 (the paper does not give its own).
    guard : bool
        Whether steps that are too long are shortened (``n_shortened_steps_`` counts them). False
        runs the paper's rule and nothing else; where it diverges, an error says so.
    center : bool
        The paper does not centre.
    preimage : str or Preimage
        How ``inverse_transform`` goes back to inputs, as in
        :class:`~kernelstream.StreamingKernelPCA`.
    random_state : int, RandomState or None
        Nothing is drawn; for uniformity with the other estimators.

    Notes
    -----
    To the letter: ``guard=False, coherence="paper"``, and ``raw_dual_coef_`` for A[k], by the
    paper's index and at its own length. A row in the span of the points is no point in any case:
    F4 would divide by zero there.

    References
    ----------
    Tanaka, Washizawa, Kuh, "Adaptive kernel principal components tracking", ICASSP 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.papers import AdaptiveKernelPCA
    >>> X = np.random.default_rng(0).normal(size=(1000, 6))
    >>> model = AdaptiveKernelPCA(2, gamma=0.1, delta=0.5).fit(X)
    >>> model.transform(X).shape
    (1000, 2)
    """

    paper = "Tanaka, Washizawa and Kuh 2012, Adaptive kernel principal components tracking"
    equations = "cost (4), coherence (7), algorithm 1 (lms), algorithm 2 (rls) or SubKHA"

    def __init__(
        self,
        n_components: int = 2,
        *,
        kernel: Any = "rbf",
        gamma: float | str | None = None,
        delta: float = 0.95,
        coherence: str = "cosine",
        max_points: int | None = 2000,
        method: str = "rls",
        eta: Any = 0.02,
        beta: float = 0.98,
        weights: Any = None,
        guard: bool = True,
        center: bool = False,
        preimage: Any = "auto",
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.delta = delta
        self.coherence = coherence
        self.max_points = max_points
        self.method = method
        self.eta = eta
        self.beta = beta
        self.weights = weights
        self.guard = guard
        self.center = center
        self.preimage = preimage
        self.random_state = random_state

    def _basis_and_tracker(self) -> tuple[landmarks.LandmarkStrategy, trackers.Tracker]:
        rules: dict[str, trackers.Tracker] = {
            "rls": RLS(self.beta, self.weights, self.guard),
            "lms": LMS(self.eta, self.weights, guard=self.guard),
            "subkha": SubsetHebbian(self.eta, self.weights, guard=self.guard),
        }
        if not isinstance(self.method, str) or self.method not in rules:
            raise ValueError(f"method must be one of {', '.join(rules)}; got {self.method!r}.")
        check_count(type(self).__name__, "n_components", self.n_components, none_allowed=False)
        check_choice("coherence", self.coherence, ("cosine", "paper"))
        dictionary = landmarks.Coherence(
            self.delta,
            self.max_points,
            self.n_components,  # type: ignore[arg-type]
            self.coherence == "cosine",
        )
        return landmarks.resolve(dictionary), trackers.resolve(rules[self.method])

    def bounds(self, eigenvalues: Any = None) -> ReducedOrderBounds:
        """What the coherence criterion proves about the model as it is (Honeine 2015).

        A row that is no point resembles one by more than δ, so it misses at most k(x, x)(1 − δ²) of
        itself; with that in the place of ν, Theorem 5 holds as for the distance criterion.

        Parameters
        ----------
        eigenvalues : array of shape (r,), optional
            λ_r of the second moments of all rows (of the covariance, with ``center=True``). Left
            out, the running estimates of the model stand in: then its bounds are estimates as well.

        Returns
        -------
        ReducedOrderBounds
        """
        if self.coherence != "cosine":
            raise ValueError(
                f"bounds are those of cosines, and coherence={self.coherence!r} compares kernel "
                "values; use coherence='cosine' (for kernels of unit norm both are the same)."
            )
        return dictionary_bounds(self, lambda _: 1.0 - self.delta**2, eigenvalues, self.delta)
