"""Estimator: kernel Hebbian algorithm (Kim, Franz and Schölkopf 2003), batch and streaming."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning

from kernelstream import landmarks, trackers
from kernelstream.arrays import cores
from kernelstream.papers import schedules
from kernelstream.papers.base import PaperMethod
from kernelstream.papers.kim_2003 import epochs
from kernelstream.papers.kim_2003.expansion import ExpansionChain, SemiOnlineHebbian
from kernelstream.papers.kim_2003.gram import KernelMatrix
from kernelstream.papers.kim_2003.hebbian import Hebbian
from kernelstream.serialization import as_number, check_choice, check_count, stored
from kernelstream.stream import Rows, Stream


@stored
class KernelHebbianPCA(PaperMethod):
    """Kernel PCA by Sanger's rule in feature space (Kim, Franz, Schölkopf 2003).

    ``fit`` is the kernel Hebbian algorithm over a finite set: the components are expanded in all
    rows, every row of an epoch is an update, epochs follow in random order until the components
    come to rest. Memory is linear in the number of rows, ``cache_bytes`` apart. With
    ``kernel="linear"`` it is Sanger's generalised Hebbian algorithm, and with one component Oja's
    maximum eigenfilter.

    ``partial_fit`` is the semi-online form of the paper's appendix A: each new row joins the
    expansion, the mean runs along. The model is the rows and r + 1 coefficients for each; a row
    costs as many kernel values as there are rows before it. For a stream without end use
    :class:`OnlineKernelPCA`, whose expansion is bounded. After ``fit`` it goes on from the
    components found.

    Parameters
    ----------
    n_components : int
        Number of components.
    kernel, gamma, center, preimage, random_state, verbose : object
        As in :class:`~kernelstream.StreamingKernelPCA`.
    schedule : "auto", float or Schedule
        Step sizes. ``"auto"`` needs no tuning; a number is a constant step; see
        :mod:`kernelstream.papers.schedules`. To follow a distribution that moves, let
        ``partial_fit``'s steps tend to a small constant: ``schedules.AutomaticRate(floor=0.01)``.
    n_epochs : int
        Most passes that ``fit`` makes.
    tol : float
        ``fit`` stops when the squared change of every component (a unit vector of the feature
        space) over an epoch is smaller than this, which it looks at every fifth epoch, and the
        residuals are small enough. (The paper says *larger*, by mistake.)
    init : "rows", "points", int or array of shape (r, l)
        Where the components start in ``partial_fit``: at the first independent rows, at random
        points near the data (the paper's ``w_i(0) = φ(x_i(0))``), or, for very local Gaussian
        kernels, at combinations of so many points sampled in the ball around the data. ``fit``
        starts at random coefficients over all rows, made orthonormal, or at an array A(0) of
        coefficients, which is taken as it is.
    guard : bool
        Whether steps that are too long are shortened (``n_shortened_steps_`` counts them). False
        runs the bare rule; where it diverges, an error says so.
    ritz : bool
        Whether ``fit`` ends with a Rayleigh–Ritz step: the components are turned, in the span that
        was found, into the principal directions of their outputs. Sanger's rule finds the span long
        before it has told components of nearly the same variance apart. False leaves the
        components as the rule has them.
    batch_size : int or "auto"
        Rows in a block; the results do not depend on it, but for rounding.
    cache_bytes : int
        Bytes of the kernel matrix that are kept between epochs: all of it, or so many rows.

    Attributes
    ----------
    n_epochs_ : int
        Passes that ``fit`` made.
    converged_ : bool
        Whether no component can be more than a degree away from an eigenvector whose eigenvalue
        differs from all others by more than 5 % of itself: every residual is at most 0.00087.
        A warning says where it is not so.
    residuals_ : tuple of float
        ``|C v − λ v| / λ`` of each component v, C the covariance in feature space. The angle to the
        eigenvector is at most arcsin(residual · λ / gap), with the gap to the nearest other
        eigenvalue.
    basis_points_ : array of shape (l, d)
        The training rows.
    dual_coef_ : array of shape (l, r)
        The coefficients, Aᵀ, of unit components.

    See Also
    --------
    kernelstream.StreamingKernelPCA : All other attributes and methods are those of this class.

    Notes
    -----
    Queries need the components and the mean only: r + 1 functions over the l rows, orthonormalised
    after the last epoch. No matrix of size l × l is formed, ``cache_bytes`` apart, except by
    ``inverse_transform`` with a kernel other than the linear one.

    To the letter: ``guard=False, ritz=False``, a schedule of one's own, ``center="paper"`` in
    ``partial_fit`` for the mean without the present row (14), and ``raw_dual_coef_`` for the
    components by the paper's index and at their own length.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.papers import KernelHebbianPCA
    >>> X = np.random.default_rng(0).normal(size=(300, 2)) * [2, 1]
    >>> model = KernelHebbianPCA(2, kernel="linear", random_state=0).fit(X)
    >>> exact = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1]
    >>> bool(np.allclose(model.explained_variance_, exact, rtol=1e-4))
    True
    """

    _also_saved = ("n_epochs_", "converged_", "residuals_")
    _paper_centres = True
    paper = "Kim, Franz and Schölkopf 2003, Kernel Hebbian algorithm (MPI technical report 109)"
    equations = "fit: (10)-(13); partial_fit: appendix A, (14)-(17)"

    def _check_restored(self) -> None:
        epochs, converged = getattr(self, "n_epochs_", 0), getattr(self, "converged_", True)
        if type(epochs) is not int or epochs < 0 or type(converged) is not bool:
            raise ValueError(f"n_epochs_={epochs!r}, converged_={converged!r}")
        residuals = getattr(self, "residuals_", ())  # none after partial_fit
        if type(residuals) is not tuple or not all(as_number(one) >= 0 for one in residuals):
            raise ValueError(f"residuals_={residuals!r}")

    can_fill = False  # the Gram matrix of a finite set takes rows as they are

    def __init__(
        self,
        n_components: int = 2,
        *,
        kernel: Any = "rbf",
        gamma: float | str | None = None,
        schedule: Any = "auto",
        n_epochs: int = 100,
        tol: float = 1e-6,
        center: bool | str = True,
        init: Any = "rows",
        guard: bool = True,
        ritz: bool = True,
        preimage: Any = "auto",
        batch_size: int | str = "auto",
        cache_bytes: int = 2**30,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.schedule = schedule
        self.n_epochs = n_epochs
        self.tol = tol
        self.center = center  # type: ignore[assignment]
        self.init = init
        self.guard = guard
        self.ritz = ritz
        self.preimage = preimage
        self.batch_size = batch_size
        self.cache_bytes = cache_bytes
        self.random_state = random_state
        self.verbose = verbose

    def fit(  # type: ignore[override]  # of rows in memory only
        self, X: Any, y: Any = None, sample_weight: Any = None, until: Any = None
    ) -> Self:
        """Pass over the rows until the components come to rest.

        Parameters
        ----------
        X : array of shape (l, d), dense or CSR
            The rows.
        y : ignored
        sample_weight : array of shape (l,), optional
            Non-negative weights: a row of weight two moves components and mean twice as much. In
            the limit that is the row twice; on the way there, not bit for bit.
        until : None
            Refused: all rows are passed over, again and again.

        Returns
        -------
        self
        """
        if until is not None:
            raise ValueError(
                "KernelHebbianPCA.fit passes over all rows again and again, and says nothing of "
                "rows that it was not given: use StreamingKernelPCA().fit(X, until=...), or give "
                "it some of the rows."
            )
        with self.transaction() as draft:
            rows, _ = draft._rows_to_learn(X, sample_weight, anew=True)
            stream = draft.new_stream(rows.X)
            kernel = stream.chain.kernel.fix(rows.X, rows.weights)
            with cores():
                expansion, solution = draft._pass_over(rows, stream, kernel)
            draft.converged_, draft.residuals_ = solution.converged, tuple(solution.residuals)
            draft.set_stream(finish(stream, kernel, solution, expansion, rows.weights))
        self.report_progress()
        if not self.converged_:
            warnings.warn(
                f"KernelHebbianPCA did not converge in {self.n_epochs_} epochs: the largest "
                f"residual |Cv − λv|/λ is {max(self.residuals_):.2g}, and {epochs.TOLERATED:.2g} "
                "would be small enough (residuals_ has all of them). Make more passes (n_epochs), "
                "or use StreamingKernelPCA(basis='everything'), which is exact.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _pass_over(
        self, rows: Rows, stream: Stream, kernel: Any
    ) -> tuple[epochs.Expansion, epochs.Solution]:
        """The kernel Hebbian algorithm over all rows; notes the number of epochs."""
        chain, r = stream.chain, stream.chain.n_components
        assert isinstance(r, int)  # checked with the tracker, which learns row by row
        data = KernelMatrix(
            kernel,
            rows.X if issparse(rows.X) else array_namespace(rows.X).asarray(rows.X, copy=True),
            chain.center,
            rows.weights,
            r,
            None if self.batch_size == "auto" else stream.batch_size,
            self.cache_bytes,
        )
        if isinstance(self.init, np.ndarray):
            start, means = epochs.given(data, given_start(self.init, r, len(rows)))
        else:
            start, means = epochs.begin(data, r, chain.seed)
        expansion, self.n_epochs_, solution = epochs.learn(
            data,
            start,
            means,
            schedules.resolve(self.schedule),
            self.n_epochs,
            self.tol,
            chain.seed,
            self.guard,
            self.ritz,
        )
        return expansion, solution

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, on_bad_rows: str = "error"
    ) -> Self:
        """Go on with the next rows of a stream; each may join the expansion (appendix A).

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
            The next rows, any number of them.
        y : ignored
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        on_bad_rows : "error" or "skip"
            A row with a number that is not finite is an error that names row and column, or is
            passed over.

        Returns
        -------
        self
        """
        with self.transaction() as draft:
            draft._open()
            super(KernelHebbianPCA, draft).partial_fit(X, y, sample_weight, on_bad_rows)
        return self

    def learn_one(self, x: Any) -> Self:
        """Learn one row: ``partial_fit`` without its overhead.

        Parameters
        ----------
        x : array of shape (d,)
            The row.
        """
        with self.transaction() as draft:
            draft._open()
            super(KernelHebbianPCA, draft).learn_one(x)
        return self

    def new_stream(self, X: Any) -> Stream:
        """A stream for rows like X with the parameters of this estimator, which are checked.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows that determine the number of columns and the data type of the stream.

        Returns
        -------
        Stream
            A stream without rows.
        """
        stream = super().new_stream(X)
        chain = ExpansionChain.of(stream.chain)
        return replace(stream, learned=replace(stream.learned, chain=chain))

    def _open(self) -> None:
        """After ``fit``: from the small span of the components to one that can grow."""
        if self._stream is None and isinstance(self.init, np.ndarray):
            raise ValueError(
                "init has coefficients over all rows, and a stream does not know them yet: call "
                "fit, or start partial_fit with init='rows', 'points' or a number."
            )
        if self._stream is not None and isinstance(self._stream.chain.basis, landmarks.Landmarks):
            self.set_stream(grow(self.stream_))

    def _basis_and_tracker(self) -> tuple[landmarks.LandmarkStrategy, trackers.Tracker]:
        at_rows = isinstance(self.init, np.ndarray)
        if not at_rows and self.init not in ("rows", "points"):
            check_count("KernelHebbianPCA", "init", self.init, none_allowed=False)
        check_count("KernelHebbianPCA", "n_epochs", self.n_epochs, none_allowed=False)
        if not as_number(self.tol) >= 0:
            raise ValueError(f"tol must be a non-negative number, got {self.tol!r}.")
        if self.cache_bytes != 0:
            check_count("KernelHebbianPCA", "cache_bytes", self.cache_bytes, none_allowed=False)
        check_choice("ritz", self.ritz, (True, False))
        start: dict[Any, Any] = {"rows": None, "points": self.n_components}
        points = None if at_rows else start.get(self.init, self.init)
        ball = not at_rows and self.init not in start
        kind = SemiOnlineHebbian if self._centres_as_the_paper() else Hebbian
        rule = kind(self.schedule, spread=ball, guard=self.guard)
        return landmarks.resolve(landmarks.Everything(points)), trackers.resolve(rule)


def given_start(A: np.ndarray, r: int, n: int) -> np.ndarray:
    """A(0) as it was given, checked."""
    if A.shape != (r, n) or A.dtype.kind not in "fiu" or not np.all(np.isfinite(A)):
        raise ValueError(
            f"init has shape {A.shape}; A(0) has a finite coefficient for each of the {r} "
            f"components and each of the {n} rows, ({r}, {n}), the rows of weight zero left out."
        )
    return A.astype(float)


def finish(
    stream: Stream,
    kernel: Any,
    solution: epochs.Solution,
    found: epochs.Expansion,
    weights: np.ndarray | None,
) -> Stream:
    """The solution as a stream whose basis is the span of components and mean, fixed.

    A stream that goes on from here has seen l rows, however often: its time is l.
    """
    n = int(solution.span.points.shape[0])
    unit = 1.0 if weights is None else float(weights.mean())
    basis = landmarks.Landmarks(n)
    stream = stream.with_chain(kernel=kernel, basis=basis)
    blank = stream.chain.blank(basis.holding(kernel, solution.span), solution.total)
    state = replace(
        blank,
        n_rows=n,
        moments=trackers.Moments(n * unit, solution.total * unit, solution.energy * unit),
        tracker=replace(
            blank.tracker,
            V=solution.V,
            time=n,
            variances=solution.variances,
            n_shortened=found.n_shortened,
        ),
        next_signs=n,
        # the rows were passed over again and again: none are left to evaluate the model on
        observer=None if blank.observer is None else blank.observer.without_sample(),
    )
    return stream.with_state(state)


def grow(stream: Stream) -> Stream:
    """The same stream, with an expansion that may grow: functions and mean stay as they are."""
    state, basis = stream.begun, landmarks.Everything()
    grown = basis.holding(stream.chain.kernel, state.basis.span)
    chain = replace(ExpansionChain.of(stream.chain), basis=basis)
    learned = replace(stream.learned, chain=chain, state=replace(state, basis=grown))
    return replace(stream, learned=learned)
