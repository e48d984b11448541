"""Learning step: a block through kernel, landmarks, mean and tracker; then its observers.

The landmarks turn a row x into ``z = Fᵀ k(D, x)``, the orthonormal coordinates of the projection
of φ(x) on their span; the tracker does PCA of the z; observers (certificate, robust weights,
regression targets) read the block afterwards. Then the row is gone, unless the strategy keeps it as
a landmark or in its sample.

Every state is a value: ``learn`` returns a new one and leaves the old one as it was. So a block
that is rejected half-way changes nothing, and a query can learn the buffered rows into a copy.
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
from kernelstream.stream.robust import first_robust_weights, first_weights
from kernelstream.stream.state import Rows, State
from kernelstream.trackers import Covariance, CrossMoments, Moments, Tracker
from kernelstream.trackers.covariance import lost_orders

# Components that a file may ask for: what was not learned is shown as zeros, and takes memory.
MOST_COMPONENTS = 2**16


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
            observer=CertificateObserver.begin(self.certify, r, self.tracker.kind != "window")
            if self.certify
            else None,
        )

    def _blank_tracker(self, basis: Any, reference: Array) -> Any:
        """The state of the tracker before the first row, in the coordinates of some landmarks."""
        r = self.n_components if isinstance(self.n_components, int) else None
        return self.tracker.begin(basis.span.rank, r, reference)

    def learn(self, state: State, blocks: Sequence[Rows], frozen: bool = False) -> State:
        """Learn blocks of rows, one after the other.

        Parameters
        ----------
        state : State
            The state before the blocks.
        blocks : sequence of Rows
            Rows in the units of the kernel, in C order. There is more than one block only if they
            :meth:`add_up`.
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
        self, state: State, blocks: Sequence[Rows], frozen: bool
    ) -> tuple[State, Sequence[Rows]]:
        """Learn blocks up to a change of the landmarks: kernel → landmarks → mean → tracker.

        Parameters
        ----------
        state : State
            The state before the blocks.
        blocks : sequence of Rows
            The blocks.
        frozen : bool
            Whether the landmarks are fixed.

        Returns
        -------
        state : State
            The state after the rows that were learned.
        blocks : sequence of Rows
            Those that were not.
        """
        admits = not frozen and self.basis.admits(state.basis)
        # the first of two passes wants landmarks only: sums would be computed in vain
        sums = frozen or not (self.only_points and self.tracker.kind == "sums")
        project = self._admit if admits else self._project
        basis, learned = project(state, blocks, frozen, sums)
        before = self._decayed(replace(state, basis=basis), learned[0].clock.decay)
        after = replace(
            before,
            n_rows=before.n_rows + sum(map(len, learned)),
            moments=added(before.moments, learned),
        )
        if sums:
            after = replace(after, tracker=self._track(before, learned, state.moments))
            after = self._observed(before, after, learned, blocks[0].targets)
        elif admits:
            after = replace(after, tracker=self._blank_tracker(basis, state.moments.total))
        self.require_finite(after, learned)
        if sums and self.tracker.kind != "sequential" and after.n_rows >= after.next_signs:
            after = signs.follow(self, before, after, learned[-1])
        after = after if frozen else self._revised(after, learned[-1].clock)
        return after, remaining(blocks, learned)

    # -- kernel → landmarks: coordinates, squared norms k(x, x), squared residuals

    def _project(
        self, state: State, blocks: Sequence[Rows], frozen: bool, sums: bool
    ) -> tuple[Any, list[Measured]]:
        """Project blocks on landmarks that stay; let the strategy learn from them."""
        rows = state.n_rows + np.cumsum([0, *map(len, blocks)])
        # blocks behind a change of the landmarks, or a reference for signs, come later
        due = math.inf if frozen else state.basis.next_update
        due = min(due, state.next_signs) if sums else due

        def measured(i: int) -> Measured:
            """A function of landmarks and rows alone, for every thread."""
            projection = self.basis.project(self.kernel, state.basis, blocks[i].X)
            weights = blocks[i].weights
            if state.judge is not None:
                weights = state.judge.reweigh(projection, weights)
            return self._measured(blocks[i].X, weights, int(rows[i]), projection, sums)

        learned = in_threads(
            measured, list(range(len(blocks)))[: 1 + np.searchsorted(rows[1:], due)]
        )
        if frozen:
            return state.basis, learned
        basis, n = self.basis.update(self.kernel, state.basis, learned)
        return basis, learned[:n]

    def _admit(
        self, state: State, blocks: Sequence[Rows], frozen: bool, sums: bool
    ) -> tuple[Any, list[Measured]]:
        """Project a block whose rows may become landmarks: it may end before its last row."""
        block, n_read = blocks[0], 0
        while n_read != len(block):  # once more if it ended: weights fade towards the end
            block = block[:n_read] if n_read else block
            clock, left = forget(self.tracker.forgetting, block, self.seed, state.n_rows)
            basis, projection = self.basis.admit(self.kernel, state.basis, block.X, left, clock)
            n_read = int(projection.Z.shape[0])
        # row by row: rounding of near-dependent landmarks must not cancel the residuals of others
        projection = replace(projection, missed=projection.residual)
        return basis, [self._measured(block.X, block.weights, state.n_rows, projection, sums)]

    def _measured(
        self, X: Array, weights: np.ndarray | None, row: int, projection: Projection, sums: bool
    ) -> Measured:
        """The sums of a projected block that begins at a row of the stream."""
        clock, left = forget(self.tracker.forgetting, Rows(X, weights), self.seed, row)
        scatter = sums and self.tracker.kind == "sums"
        return Measured.of(X, weights, left, clock, projection, scatter)

    # -- mean → tracker

    def _track(self, before: State, blocks: Sequence[Measured], moments: Moments) -> Any:
        """The state of the tracker after blocks; there are several only if they add up.

        Old rows have lost weight in ``before``, not yet in ``moments``.
        """
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

    # -- observers: what else is kept of a block

    def _observed(
        self, before: State, after: State, blocks: Sequence[Measured], targets: Array | None
    ) -> State:
        """Targets, robust weights, the certificate and a window learn from blocks."""
        block, observer, judge = blocks[0], before.observer, before.judge
        if targets is not None:
            known = before.targets or CrossMoments.begin(int(block.block.Z.shape[1]), targets)
            left = None if block.left is None else like(block.left, block.block.Z)
            after = replace(
                after, targets=known.update(block.block.Z, targets[: len(block), :], left)
            )
        if judge is not None:
            after = replace(after, judge=judge.on_block(self, after, block.block))
        if observer is not None:
            # residuals come last: only now does the host wait for the numbers of a device
            so_far = self.accumulated(before, with_scatter=self.tracker.kind != "window")
            after = replace(after, observer=observer.on_blocks(so_far, blocks))
        return within_window(after) if self.tracker.kind == "window" else after

    # -- the end of a block

    def _revised(self, state: State, clock: Clock) -> State:
        """The landmarks may change at the end of a block: z ← T z everywhere."""

        def vectors() -> Array:
            """What the tracker holds, and the mean, as columns."""
            mean = state.moments.mean
            raw = self.tracker.raw(state.tracker, mean)
            return namespace_of(raw).concat([raw, mean[:, None]], axis=1)

        change = self.basis.revise(self.kernel, state.basis, clock, vectors)
        return state if change is None else self.rebase(state, *change)

    def _draw(self, state: State, blocks: Sequence[Rows]) -> State:
        """Offer rows to the sample from which landmarks will be chosen at the end of a pass."""
        clock, _ = forget(self.tracker.forgetting, blocks[0], self.seed, state.n_rows)
        basis = state.basis.draw([(block.X, block.weights) for block in blocks], clock)
        return replace(state, n_rows=state.n_rows + sum(map(len, blocks)), basis=basis)

    def add_up(self, state: State, block: Rows, frozen: bool) -> bool:
        """Whether a block only adds to sums, so that several can be projected at once.

        Parameters
        ----------
        state : State
            The state before the block.
        block : Rows
            The block.
        frozen : bool
            Whether the landmarks are fixed.
        """
        return (
            self.tracker.kind == "sums"
            and state.judge is None
            and block.targets is None
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


def remaining(blocks: Sequence[Rows], learned: Sequence[Measured]) -> Sequence[Rows]:
    """The blocks that were not learned; a block that ended early leaves the rest of its rows."""
    last, n, rest = blocks[len(learned) - 1], len(learned[-1]), blocks[len(learned) :]
    return rest if n == len(last) else [last[n:], *rest]


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


def overflowing(kernel: Kernel) -> str:
    """The message for rows whose sums are not finite."""
    return (
        f"The sum of the kernel {kernel} over the rows, with their weights, overflows: scale the "
        "data (for example with scale='standard') or the weights."
    )


def forget(beta: float, rows: Rows, seed: int, row: int) -> tuple[Clock, np.ndarray | None]:
    """The place of a block in the stream, and the weights that its rows have left at its end."""
    if beta == 1.0:
        return Clock(seed, row), rows.weights
    clock = Clock(seed, row, beta ** len(rows), math.log(beta))
    faded = clock.fading(len(rows))
    return clock, faded if rows.weights is None else faded * rows.weights
