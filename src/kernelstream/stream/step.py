"""Learning step: a block through kernel, landmarks, mean, tracker; forgetting, sign references.

The basis turns a row x into ``z = Fᵀ k(D, x)``, the orthonormal coordinates of the projection of
φ(x) on the span of the points D; the tracker does PCA of the z; the observer of the certificate
keeps account of the residuals. Then the row is gone, unless the basis keeps it as a point or in its
sample.

Every state is a value: ``fold`` returns a new one and leaves the old one as it was. So a block that
is rejected half-way changes nothing, and a query can fold the rows that still wait and then forget
that it did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from kernelstream.arrays.namespaces import Array, like, namespace_of, padded
from kernelstream.arrays.threads import in_threads, in_turn
from kernelstream.certificates.observer import Accumulated, CertificateObserver
from kernelstream.kernels import Kernel
from kernelstream.landmarks import Clock, LandmarkStrategy, Projection, Start
from kernelstream.landmarks.base import Measured
from kernelstream.landmarks.nystroem import finite
from kernelstream.landmarks.sample import UniformSample
from kernelstream.serialization import stored
from kernelstream.stream import signs
from kernelstream.stream.robust import RobustWeights, first_robust_weights, first_weights
from kernelstream.stream.state import State
from kernelstream.trackers import Covariance, CrossMoments, Moments, Tracker
from kernelstream.trackers.covariance import lost_orders

# Components that a file may ask for: what was not learned is shown as zeros, and takes memory.
MOST_COMPONENTS = 2**16

Block = tuple[Array, np.ndarray | None, Array | None]  # rows, weights, targets


@stored
@dataclass(frozen=True)
class Chain:
    """A kernel, a basis, a tracker, centred or not, and how many components to show.

    What they learn together is a :class:`State`, which the verbs take and return.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    basis : LandmarkStrategy
        The landmark strategy.
    tracker : Tracker
        The tracker.
    center : bool
        Whether the coordinates are centered.
    n_components : int, float or None
        Number of components, or the fraction of the variance that they explain.
    seed : int
        Random seed.
    certify : "auto", "tight" or False
        Which bounds the certificate computes.
    regress_inputs : bool
        Whether the rows themselves are targets of a regression.
    shown : int
        Number of components of a sequential rule that queries use; 0 means all.
    robust : bool
        Whether rows with a large residual lose weight.
    auto : tuple of str
        Parameters that are chosen from the first rows: "gamma", "components", "points".
    only_points : bool
        Whether this is the first of two passes, which only selects landmarks.
    """

    kernel: Kernel
    basis: LandmarkStrategy
    tracker: Tracker
    center: bool
    n_components: Annotated[int | float | None, "= components"]
    seed: int
    certify: str | bool = "auto"
    regress_inputs: bool = False  # whether the rows themselves are targets of a regression
    # components that queries see of those that a sequential rule learns; 0: all of them
    shown: int = 0
    robust: bool = False  # whether rows that the components miss lose weight
    auto: tuple[str, ...] = ()  # what the start of the stream has to choose: see choosing.py
    only_points: bool = False  # the first of two passes: what it would forget is not gathered

    def check(self, sizes: dict[str, int]) -> None:
        """Raise where numbers make no sense; the parts have looked at their own.

        Parameters
        ----------
        sizes : dict of str to int
            Sizes of the dimensions that a model file names.
        """
        r = self.n_components
        if r is not None and not 0 < r <= (MOST_COMPONENTS if isinstance(r, int) else 1.0):
            raise ValueError(f"{r} components")
        if self.tracker.kind == "sequential" and not isinstance(r, int):
            raise ValueError(f"{r} components for {self.tracker}")
        if self.shown and not (self.tracker.kind == "sequential" and self.shown <= self.wanted):
            raise ValueError(f"{self.shown} components shown of {r}")
        if not set(self.auto) <= {"gamma", "components", "points"}:
            raise ValueError(f"a choice of {self.auto}")
        if self.robust and not isinstance(r, int):
            raise ValueError(f"a robust stream with {r} components")
        if self.certify not in ("auto", "tight", False) or self.seed >= 2**32:
            raise ValueError(f"certify={self.certify!r}, seed={self.seed}")

    def begin(
        self,
        X: Array,
        weights: np.ndarray | None,
        sample: UniformSample | None = None,
        n_rows: int = 0,
    ) -> State:
        """Start a stream: choose the first landmarks; the rows are learned afterwards.

        Parameters
        ----------
        X : array of shape (n, d)
            The first rows, or those of the sample.
        weights : array of shape (n,) or None
            Weights of the rows; None means that all are 1.
        sample : UniformSample, optional
            A sample of all rows.
        n_rows : int, default=0
            Number of rows that the sample represents.
        """
        if self.robust:
            left = first_weights(self.kernel, X, self.wanted, self.center, weights)
            weights = left if weights is None else left * weights
        start = Start(X, weights, self.seed, self.wanted, sample, n_rows)
        basis = self.basis.begin(self.kernel, start)
        state = self.blank(basis, like(np.zeros(0), X))
        if not self.robust or weights is None:
            return state
        seen = self.basis.project(self.kernel, basis, X)
        judge = first_robust_weights(seen, weights, self.wanted, self.center, int(X.shape[0]))
        return replace(state, judge=judge)

    def showing(self, n_components: int | float | None, state: State | None) -> Chain:
        """The same chain, of whose components queries see so many; nothing is learned anew.

        Moments of all rows hold any number of components. A sequential rule has learned those that
        it was given from the first row on, and a truncated factorisation those that it kept.

        Parameters
        ----------
        n_components : int, float or None
            Number of components, or the fraction of the variance that they explain.
        state : State or None
            The learned state, if there is one.
        """
        sequential = self.tracker.kind == "sequential"
        most = self.n_components if sequential else None
        if most is None and state is not None:
            most = getattr(state.tracker, "n_components", None) or None  # of a truncated state
        if isinstance(most, int) and not (isinstance(n_components, int) and n_components <= most):
            raise ValueError(
                f"The tracker {self.tracker} has learned {most} components and can show as many or "
                f"fewer, got n_components={n_components!r}: fit a new model for that."
            )
        if sequential and isinstance(n_components, int):
            return replace(self, shown=0 if n_components == most else n_components)
        return replace(self, n_components=n_components)

    @property
    def wanted(self) -> int:
        """The number of components that will be asked for, as far as it is known."""
        r = self.n_components
        return r if isinstance(r, int) else self.basis.size

    def blank(self, basis: Any, reference: Array) -> State:
        """A state that has a basis and has seen no rows.

        Parameters
        ----------
        basis : object
            State of the landmark strategy.
        reference : array
            Array whose namespace and device the sums have.
        """
        r = self.n_components if isinstance(self.n_components, int) else None
        return State(
            n_rows=0,
            moments=Moments(0.0, like(np.zeros(basis.span.rank), reference)),
            basis=basis,
            tracker=self._blank_tracker(basis, reference),
            signs=None,
            next_signs=1,
            observer=CertificateObserver.begin(self.certify, r, self.tracker.kind != "window"),
        )

    def _blank_tracker(self, basis: Any, reference: Array) -> Any:
        """The state of the tracker before the first row, in the coordinates of some landmarks."""
        r = self.n_components if isinstance(self.n_components, int) else None
        return self.tracker.begin(basis.span.rank, r, reference)

    def learn(self, state: State, blocks: Sequence[Block], frozen: bool = False) -> State:
        """Learn blocks of rows, one after the other.

        Parameters
        ----------
        state : State
            The state before the blocks.
        blocks : sequence of tuple
            Rows, weights (None means that all are 1) and targets (or None) of each block. There is
            more than one only if they :meth:`add_up`.
        frozen : bool, default=False
            Whether the landmarks are fixed.
        """
        drawing = self.only_points and not frozen and self.basis.kind == "adaptive"
        if blocks and drawing and not self.basis.admits(state.basis):
            return self._draw(state, blocks)
        while blocks:
            state, blocks = self.step(state, blocks, frozen)
        return state

    def step(
        self, state: State, blocks: Sequence[Block], frozen: bool
    ) -> tuple[State, Sequence[Block]]:
        """Learn blocks up to a change of the landmarks: kernel → landmarks → mean → tracker.

        Parameters
        ----------
        state : State
            The state before the blocks.
        blocks : sequence of tuple
            Rows, weights and targets of each block.
        frozen : bool
            Whether the landmarks are fixed.

        Returns
        -------
        state : State
            The state after the rows that were learned.
        blocks : sequence of tuple
            Those that were not.
        """
        admits = not frozen and self.basis.admits(state.basis)
        # the first of two passes wants landmarks only: sums would be computed in vain
        sums = frozen or not (self.only_points and self.tracker.kind == "sums")
        if admits:
            basis, learned = self._admit(state, blocks[0], sums)
        else:
            state, basis, learned = self._project(state, blocks, frozen, sums)
        before = self._decayed(replace(state, basis=basis), learned[0].clock.decay)
        after = replace(before, n_rows=before.n_rows + sum(map(len, learned)))
        after = replace(after, moments=added(before.moments, learned))
        if sums:
            after = self._add(before, after, learned, state.moments, blocks[0][2])
        elif admits:
            after = replace(after, tracker=self._blank_tracker(basis, state.moments.total))
        self.require_finite(after, learned)
        if sums and self.tracker.kind != "sequential" and after.n_rows >= after.next_signs:
            after = signs.follow(self, before, after, learned[-1])
        after = after if frozen else self._revised(after, learned[-1].clock)
        if after.judge is not None and after.judge.is_due(after.n_rows):
            after = replace(after, judge=self._renewed(after.judge, after))
        return after, remaining(blocks, learned)

    # -- kernel → landmarks: coordinates, squared norms k(x, x), squared residuals

    def _project(
        self, state: State, blocks: Sequence[Block], frozen: bool, sums: bool
    ) -> tuple[State, Any, list[Measured]]:
        """Project blocks on landmarks that stay; let the strategy learn from them."""
        scatter = sums and self.tracker.kind == "sums"
        if state.judge is not None:  # rows with a large residual lose weight
            X, weights, _ = blocks[0]
            projection = self.basis.project(self.kernel, state.basis, X)
            weights, judge = state.judge.reweigh(projection, weights, self.tracker.memory)
            state = replace(state, judge=judge)
            measured = [self._measured(X, weights, state.n_rows, projection, scatter)]
        else:
            rows = state.n_rows + np.cumsum([0, *(int(X.shape[0]) for X, _, _ in blocks)])
            # blocks behind a change of the landmarks, or a reference for signs, come later
            due = math.inf if frozen else state.basis.next_update
            due = min(due, state.next_signs) if sums else due
            ahead = 1 + int(np.searchsorted(rows[1:], due))
            measured = in_threads(
                lambda at: self._measured(
                    *at[0][:2],
                    int(at[1]),
                    self.basis.project(self.kernel, state.basis, at[0][0]),
                    scatter,
                ),
                list(zip(blocks[:ahead], rows, strict=False)),
            )
        if frozen:
            return state, state.basis, measured
        basis, n = self.basis.update(self.kernel, state.basis, measured)
        return state, basis, measured[:n]

    def _admit(self, state: State, block: Block, sums: bool) -> tuple[Any, list[Measured]]:
        """Project a block whose rows may become landmarks: it may end before its last row."""
        X, weights, _ = block
        n = int(X.shape[0])
        while True:
            w = None if weights is None else weights[:n]
            clock, left = forget(self.tracker.forgetting, n, w, self.seed, state.n_rows)
            basis, projection = self.basis.admit(self.kernel, state.basis, X[:n, :], left, clock)
            n_read = int(projection.Z.shape[0])
            if n_read == n:
                break
            n = n_read  # once more: weights fade towards the end of a block
        # row by row: rounding of near-dependent landmarks must not cancel the residuals of others
        projection = replace(projection, missed=projection.residual)
        scatter = sums and self.tracker.kind == "sums"
        return basis, [Measured.of(X[:n, :], w, left, clock, projection, scatter)]

    def _measured(
        self, X: Array, weights: np.ndarray | None, row: int, block: Projection, scatter: bool
    ) -> Measured:
        """Sums of a projected block: a function of landmarks and rows alone, for every thread."""
        n, beta = int(X.shape[0]), self.tracker.forgetting
        clock, left = forget(beta, n, weights, self.seed, row)
        return Measured.of(X, weights, left, clock, block, scatter)

    # -- mean → tracker, and whatever observes them

    def _add(
        self,
        before: State,
        after: State,
        blocks: Sequence[Measured],
        moments: Moments,
        targets: Array | None,
    ) -> State:
        """Add blocks to tracker, targets and certificate.

        Old rows have lost weight in ``before``, not yet in ``moments``.
        """
        after = replace(
            after,
            tracker=self._track(before, blocks, moments),
            targets=regress(before, blocks[0], targets),
        )
        # residuals come last: only now does the host wait for the numbers of a device
        if before.observer is not None:
            so_far = self.accumulated(before, with_scatter=self.tracker.kind != "window")
            observer = before.observer.on_blocks(so_far, blocks)
            after = replace(after, observer=observer)
        return within_window(after) if self.tracker.kind == "window" else after

    def _track(self, before: State, blocks: Sequence[Measured], moments: Moments) -> Any:
        """The state of the tracker after blocks; there are several only if they add up."""
        tracker, block = self.tracker, blocks[0]
        if isinstance(tracker, Covariance):
            decays = [1.0, *(later.clock.decay for later in blocks[1:])]
            return tracker.add(before.tracker, [each.scatter for each in blocks], decays)
        # a sequential rule forgets by itself
        weights = block.weights if tracker.kind == "sequential" else block.left
        return tracker.learn(
            before.tracker,
            block.block,
            None if weights is None else like(weights, block.block.Z),
            moments if self.center else None,
            lambda: before.basis.span.own_coordinates(self.kernel),
        )

    def _revised(self, state: State, clock: Clock) -> State:
        """The landmarks may change at the end of a block: z ← T z everywhere."""

        def vectors() -> Array:
            """What the tracker holds, and the mean, as columns."""
            mean = state.moments.mean
            raw = self.tracker.raw(state.tracker, mean)
            return namespace_of(raw).concat([raw, mean[:, None]], axis=1)

        change = self.basis.revise(self.kernel, state.basis, clock, vectors)
        return state if change is None else self.rebase(state, *change)

    def _renewed(self, weights: RobustWeights, state: State) -> RobustWeights:
        """Robust weights with the components of all rows so far."""
        _, vectors, mean = self.tracker.components(state.tracker, state.moments, self.center)
        vectors = vectors[:, : min(self.wanted, int(vectors.shape[1]))]
        return weights.renewed(vectors, mean, state.n_rows)

    def _draw(self, state: State, blocks: Sequence[Block]) -> State:
        """Offer rows to the sample from which landmarks will be chosen at the end of a pass."""
        X, weights, _ = blocks[0]
        beta, n = self.tracker.forgetting, int(X.shape[0])
        clock = forget(beta, n, weights, self.seed, state.n_rows)[0]
        basis = state.basis.draw([block[:2] for block in blocks], clock)
        n_rows = state.n_rows + sum(int(X.shape[0]) for X, _, _ in blocks)
        return replace(state, n_rows=n_rows, basis=basis)

    def add_up(self, state: State, block: Block, frozen: bool) -> bool:
        """Whether a block only adds to sums, so that several can be projected at once.

        Parameters
        ----------
        state : State
            The state before the block.
        block : tuple
            Rows, weights and targets.
        frozen : bool
            Whether the landmarks are fixed.
        """
        return (
            self.tracker.kind == "sums"
            and state.judge is None
            and block[2] is None
            and self.certify != "tight"
            and (frozen or not self.basis.admits(state.basis))
        )

    def _decayed(self, state: State, factor: float) -> State:
        """Old rows lose weight (strategy and observer do it where they add the new ones)."""
        if factor == 1.0:
            return state
        return replace(
            state,
            moments=state.moments.decay(factor),
            tracker=self.tracker.decay(state.tracker, factor),
            targets=None if state.targets is None else state.targets.decay(factor),
        )

    def require_finite(self, state: State, blocks: Sequence[Measured] = ()) -> None:
        """Raise unless residuals and sums are finite.

        Parameters
        ----------
        state : State
            The state, whose Σ w k(x,x) is above every entry of every sum.
        blocks : sequence of Measured, default=()
            The blocks that were just added.
        """
        for block in blocks:
            if not math.isfinite(block.missed):
                finite(block.block.residual, self.kernel)
        moments = state.moments
        if not (math.isfinite(moments.squared_norm) and math.isfinite(moments.weight)):
            raise ValueError(overflowing(self.kernel))

    def rebase(self, state: State, basis: Any, T: Array | None) -> State:
        """Change the basis: one matrix carries mean, tracker, signs and targets along.

        None: the coordinates stay as they are.

        Parameters
        ----------
        state : State
            The learned state.
        basis : object
            The new state of the landmark strategy.
        T : array of shape (q_new, q) or None
            Matrix from old to new coordinates.
        """
        if T is None:
            return replace(state, basis=basis)
        tracker, loss = self.tracker.rebase(state.tracker, T)
        reference, observer = state.signs, state.observer
        sums = self.tracker.kind == "sums"
        if reference is not None:
            reference = T @ padded(reference, (int(T.shape[1]), reference.shape[1]))
        if observer is not None:
            observer = observer.on_rebase(
                self.accumulated(state),
                basis.span,
                getattr(tracker, "scatter", None),
                T,
                loss,
                lambda n: lost_orders(state.tracker.scatter, T, n) if sums else None,
            )
        return replace(
            state,
            basis=basis,
            tracker=tracker,
            moments=state.moments.rebase(T),
            observer=observer,
            signs=reference,
            targets=None if state.targets is None else state.targets.rebase(T),
            judge=None if state.judge is None else state.judge.rebase(T),
        )

    def accumulated(self, state: State, with_scatter: bool = True) -> Accumulated:
        """Sums that the certificate reads; the scatter matrix of a window takes time to add up.

        Parameters
        ----------
        state : State
            The learned state.
        with_scatter : bool, default=True
            Whether to include the scatter matrix.
        """
        return Accumulated(
            kernel=self.kernel,
            tracker=self.tracker,
            center=self.center,
            span=state.basis.span,
            moments=state.moments,
            scatter=getattr(state.tracker, "scatter", None) if with_scatter else None,
        )


def remaining(blocks: Sequence[Block], learned: Sequence[Measured]) -> Sequence[Block]:
    """The blocks that were not learned; a block that ended early leaves the rest of its rows."""
    rest = blocks[len(learned) :]
    X, weights, targets = blocks[len(learned) - 1]
    n = len(learned[-1])
    if n == int(X.shape[0]):
        return rest
    w = None if weights is None else weights[n:]
    return [(X[n:, :], w, None if targets is None else targets[n:, :]), *rest]


def added(before: Moments, blocks: Sequence[Measured]) -> Moments:
    """Moments with those of blocks; the first of them has decayed the older ones already."""
    weight, squared_norm = before.weight, before.squared_norm
    decays = [1.0, *(block.clock.decay for block in blocks[1:])]
    for decay, block in zip(decays, blocks, strict=True):
        weight = weight * decay + block.weight
        squared_norm = squared_norm * decay + block.energy
    total = padded(before.total, tuple(blocks[0].total.shape))
    return Moments(weight, in_turn(total, [block.total for block in blocks], decays), squared_norm)


def within_window(state: State) -> State:
    """The state whose sums are those of the rows in the window."""
    window, observer = state.tracker, state.observer
    if observer is not None:
        squared_norm, residual = window.energies
        observer = observer.on_window(squared_norm, residual, int(window.Z.shape[0]))
    return replace(state, moments=window.moments, observer=observer)


def regress(state: State, block: Measured, targets: Array | None) -> CrossMoments | None:
    """Moments of coordinates with targets, if rows have some."""
    if targets is None:
        return state.targets
    Z, left = block.block.Z, block.left
    known = state.targets or CrossMoments.begin(int(Z.shape[1]), targets)
    return known.update(Z, targets[: len(block), :], None if left is None else like(left, Z))


def overflowing(kernel: Kernel) -> str:
    """What is said of rows whose sums are no numbers."""
    return (
        f"The sum of the kernel {kernel} over the rows, with their weights, overflows: scale the "
        "data (for example with scale='standard') or the weights."
    )


def forget(
    beta: float, n: int, weights: np.ndarray | None, seed: int, row: int
) -> tuple[Clock, np.ndarray | None]:
    """The block's place in the stream, and the weights its rows have left at its end."""
    if beta == 1.0:
        return Clock(seed, row), weights
    clock = Clock(seed, row, beta**n, math.log(beta))
    faded = clock.fading(n)
    return clock, faded if weights is None else faded * weights
