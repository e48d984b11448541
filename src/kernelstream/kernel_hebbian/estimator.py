"""The kernel Hebbian algorithm of Kim, Franz and Schölkopf: batch, and growing with a stream."""

from __future__ import annotations

import numbers
from typing import Any, Self

import numpy as np

from kernelstream import bases, schedules, trackers
from kernelstream.backends.arrays import as_dense, is_sparse, namespace_of
from kernelstream.bases.landmarks import FixedState
from kernelstream.certificate.ledger import Ledger
from kernelstream.estimators.base import all_or_nothing, new_stream, report_progress, set_stream
from kernelstream.estimators.inputs import NO_WEIGHT, first_rows
from kernelstream.estimators.paper import PaperMethod
from kernelstream.kernel_hebbian import epochs
from kernelstream.kernel_hebbian.gram import KernelMatrix
from kernelstream.part import as_number, check_choice, check_count
from kernelstream.stream.state import State
from kernelstream.stream.stream import Stream
from kernelstream.trackers import Moments
from kernelstream.trackers.hebbian import HebbianState


class KernelHebbianPCA(PaperMethod):
    """Kernel PCA by Sanger's rule in feature space (Kim, Franz, Schölkopf 2003).

    ``fit`` is the kernel Hebbian algorithm over a finite set: the components are expanded in all
    rows, every row of an epoch is an update, epochs follow in random order until the components
    come to rest. Memory is linear in the number of rows, ``cache_bytes`` apart. With
    ``kernel="linear"`` it is Sanger's generalised Hebbian algorithm, and with one component Oja's
    maximum eigenfilter.

    ``partial_fit`` is the semi-online form of the paper's appendix A: each new row joins the
    expansion, the mean runs along. In orthonormal coordinates that is ``bases.Everything`` with
    ``trackers.Hebbian``, and nothing else is needed; the re-centring of eqs. (16)–(17) has no
    counterpart, since the function w does not change when the mean does. Memory grows with the
    square of the rows; for a stream without end use :class:`OnlineKernelPCA`, whose expansion is
    bounded. After ``fit`` it goes on from the components found.

    Parameters
    ----------
    n_components : int
        Number of components.
    kernel, gamma, center, preimage, random_state, verbose : object
        As in :class:`~kernelstream.StreamingKernelPCA`.
    schedule : "auto", float or Schedule
        Step sizes. ``"auto"`` needs no tuning; a number is a constant step; see
        :mod:`kernelstream.schedules`. To follow a distribution that moves, let ``partial_fit``'s
        steps tend to a small constant, as in ``schedules.Automatic(floor=0.01)``.
    n_epochs : int
        Most passes that ``fit`` makes.
    tol : float
        ``fit`` stops when the squared change of every component (a unit vector of the feature
        space) over an epoch is smaller than this, which it looks at every fifth epoch. (The paper
        says *larger*, by mistake.)
    update : "sample" or "batch"
        Whether every row is an update, or every epoch one with the mean over all rows (batch KHA:
        no noise, but slow).
    init : "rows", "points" or int
        Where the components start in ``partial_fit``: at the first independent rows, at random
        points near the data (the paper's ``w_i(0) = φ(x_i(0))``), or, for very local Gaussian
        kernels, at combinations of so many points sampled in the ball around the data. ``fit``
        starts at random coefficients over all rows.
    batch_size : int or "auto"
        Rows in a block; the results do not depend on it, but for rounding.
    cache_bytes : int
        The kernel matrix is kept between epochs if it fits.

    Attributes
    ----------
    n_epochs_ : int
        Passes that ``fit`` made.
    converged_ : bool
        Whether ``tol`` was reached.
    basis_points_ : array of shape (l, d)
        The training rows.
    dual_coef_ : array of shape (l, r)
        The coefficients, Aᵀ, of unit components.

    See Also
    --------
    StreamingKernelPCA : All other attributes and methods are those of this class.

    Notes
    -----
    Queries need the components and the mean only: r + 1 functions over the l rows, orthonormalised
    after the last epoch. No matrix of size l × l is formed, except by ``inverse_transform`` with a
    kernel other than the linear one, and by ``partial_fit`` after ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelHebbianPCA
    >>> X = np.random.default_rng(0).normal(size=(300, 2)) * [2, 1]
    >>> model = KernelHebbianPCA(2, kernel="linear", random_state=0).fit(X)
    >>> exact = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1]
    >>> bool(np.allclose(model.explained_variance_, exact, rtol=1e-4))
    True
    """

    _also_saved = ("n_epochs_", "converged_")

    def _check_restored(self) -> None:
        epochs, converged = getattr(self, "n_epochs_", 0), getattr(self, "converged_", True)
        if type(epochs) is not int or epochs < 0 or type(converged) is not bool:
            raise ValueError(f"n_epochs_={epochs!r}, converged_={converged!r}")

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
        center: bool = True,
        update: str = "sample",
        init: Any = "rows",
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
        self.center = center
        self.update = update
        self.init = init
        self.preimage = preimage
        self.batch_size = batch_size
        self.cache_bytes = cache_bytes
        self.random_state = random_state
        self.verbose = verbose

    def fit(  # type: ignore[override]  # of rows in memory only
        self, X: Any, y: Any = None, sample_weight: Any = None
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

        Returns
        -------
        self
        """
        with all_or_nothing(self) as draft:
            rows = first_rows(draft, X, sample_weight)
            if len(rows) == 0:
                raise ValueError(NO_WEIGHT)
            X, weights, stream = rows.X, rows.weights, new_stream(draft, rows.X)
            chain, r = stream.chain, stream.chain.n_components
            assert isinstance(r, int)  # checked with the tracker, which learns row by row
            kernel = chain.kernel.fix(X, weights)
            data = KernelMatrix(
                kernel,
                X if is_sparse(X) else namespace_of(X).asarray(X, copy=True),
                chain.center,
                weights,
                r,
                None if draft.batch_size == "auto" else stream.batch_size,
                draft.cache_bytes,
            )
            start, means = epochs.begin(data, r, chain.seed)
            found, draft.n_epochs_, draft.converged_ = epochs.learn(
                data,
                start,
                means,
                schedules.resolve(draft.schedule),
                draft.n_epochs,
                draft.tol,
                chain.seed,
                draft.update == "batch",
            )
            solution = epochs.solution(data, means, found)
            set_stream(draft, finish(stream, kernel, solution, found, weights))
        report_progress(self)
        return self

    def partial_fit(  # type: ignore[override]
        self, X: Any, y: Any = None, sample_weight: Any = None
    ) -> Self:
        """Go on with the next rows of a stream; each may join the expansion (appendix A).

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
            The next rows, any number of them.
        y : ignored
        sample_weight : array of shape (n,), optional
            Non-negative weights.

        Returns
        -------
        self
        """
        with all_or_nothing(self) as draft:
            draft._open()
            super(KernelHebbianPCA, draft).partial_fit(X, y, sample_weight)
        return self

    def learn_one(self, x: Any) -> Self:
        """Learn one row: ``partial_fit`` without its overhead.

        Parameters
        ----------
        x : array of shape (d,)
            The row.
        """
        if self._single_rows is None:  # else a stream is under way
            with all_or_nothing(self) as draft:
                draft._open()
                super(KernelHebbianPCA, draft).learn_one(x)
            return self
        return super().learn_one(x)

    def _open(self) -> None:
        """After ``fit``: from the small span of the components to one that can grow."""
        if self._stream is not None and isinstance(self._stream.chain.basis, bases.Landmarks):
            set_stream(self, grow(self.stream_))

    def _basis_and_tracker(self) -> tuple[bases.Basis, trackers.Tracker]:
        if self.init not in ("rows", "points"):
            check_count("KernelHebbianPCA", "init", self.init, none_allowed=False)
        check_count("KernelHebbianPCA", "n_epochs", self.n_epochs, none_allowed=False)
        if not as_number(self.tol) >= 0:
            raise ValueError(f"tol must be a non-negative number, got {self.tol!r}.")
        if not (isinstance(self.cache_bytes, numbers.Integral) and int(self.cache_bytes) >= 0):
            raise ValueError(
                f"cache_bytes must be a non-negative integer, got {self.cache_bytes!r}."
            )
        check_choice("update", self.update, ("sample", "batch"))
        start: dict[Any, Any] = {"rows": None, "points": self.n_components}
        basis = bases.Everything(start.get(self.init, self.init))
        ball = self.init not in start
        return bases.resolve(basis), trackers.resolve(trackers.Hebbian(self.schedule, spread=ball))


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
    state = State(
        n_rows=n,
        moments=Moments(n * unit, solution.total * unit),
        basis=FixedState(solution.span),
        tracker=HebbianState(solution.V, n, solution.variances, found.n_shortened),
        ledger=Ledger().fold(solution.energy * unit, solution.missed * unit),
        signs=None,
        next_signs=n,
    )
    return stream.with_chain(kernel=kernel, basis=bases.Landmarks(n)).with_state(state)


def grow(stream: Stream) -> Stream:
    """The same stream over ``bases.Everything``: all training rows become points, w stays."""
    basis, chain, span = bases.Everything(), stream.chain, stream.begun.basis.span
    kernel, points = chain.kernel, as_dense(span.points)
    state = basis.begin(kernel, points, None, chain.seed)
    for start in range(0, points.shape[0], stream.batch_size):
        rows = points[start : start + stream.batch_size, :]
        state, _ = basis.offer(kernel, state, rows, chain.seed)
    # w = Σ_k f_k φ(x_k) has the coordinates Zᵀ f, Z those of the rows in the new basis.
    Z = basis.coordinates(kernel, state, points)
    T = namespace_of(Z).matrix_transpose(Z) @ span.factor
    grown = stream.with_chain(basis=basis)
    return grown.with_state(grown.chain.rebase(stream.begun, state, T))
