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
from functools import partial
from typing import Annotated, Any

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
    like,
    namespace_of,
    padded,
    to_float64,
    to_host,
    weighted_sum,
)
from kernelstream.arrays.threads import in_threads, in_turn
from kernelstream.certificates.observer import Accumulated, CertificateObserver
from kernelstream.kernels import Kernel
from kernelstream.landmarks import Basis, Clock
from kernelstream.landmarks.base import Measured, finite
from kernelstream.serialization import stored
from kernelstream.stream.components import Learned, n_followed
from kernelstream.stream.robust import first_judge, first_weights
from kernelstream.stream.signs import MOST_ROWS, first_components, sign_of_nearest
from kernelstream.stream.state import State
from kernelstream.trackers import Moments, Tracker
from kernelstream.trackers.moments import CrossMoments

# Components that a file may ask for: what was not learned is shown as zeros, and takes memory.
MOST_COMPONENTS = 2**16
MOST_REFERENCES = 4  # for signs, within one block: more would take longer than its rows


@stored
@dataclass(frozen=True)
class Chain:
    """A kernel, a basis, a tracker, centred or not, and how many components to show.

    What they learn together is a :class:`State`, which the verbs take and return.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    basis : Basis
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
    early_signs : bool
        Whether the signs of the components are fixed by the first rows.
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
    basis: Basis
    tracker: Tracker
    center: bool
    n_components: Annotated[int | float | None, "= components"]
    seed: int
    certify: str | bool = "auto"
    regress_inputs: bool = False  # whether the rows themselves are targets of a regression
    early_signs: bool = False  # whether signs come from the first rows; a monitor needs none
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
        if self.tracker.sequential and not isinstance(r, int):
            raise ValueError(f"{r} components for {self.tracker}")
        if self.shown and not (self.tracker.sequential and self.shown <= self.wanted):
            raise ValueError(f"{self.shown} components shown of {r}")
        if not set(self.auto) <= {"gamma", "components", "points"}:
            raise ValueError(f"a choice of {self.auto}")
        if self.robust and not isinstance(r, int):
            raise ValueError(f"a robust stream with {r} components")
        if self.certify not in ("auto", "tight", False) or self.seed >= 2**32:
            raise ValueError(f"certify={self.certify!r}, seed={self.seed}")

    def begin(self, X: Array, weights: np.ndarray | None) -> State:
        """Start a stream: the basis looks at the first rows, which are folded afterwards.

        Parameters
        ----------
        X : array of shape (n, d)
            The first rows.
        weights : array of shape (n,) or None
            Weights of the rows; None means that all are 1.
        """
        if self.robust:
            left = first_weights(self.kernel, X, self.wanted, self.center, weights)
            weights = left if weights is None else left * weights
        basis = self.basis.begin(self.kernel, X, weights, self.seed, self.wanted)
        state = self.blank(basis, like(np.zeros(0), X))
        if not self.robust or weights is None:
            return state
        seen = self.basis.express(self.kernel, basis, X)
        judge = first_judge(seen, weights, self.wanted, self.center, int(X.shape[0]))
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
        sequential = self.tracker.sequential
        most = self.n_components if sequential else None
        if most is None and state is not None:
            most = self.tracker.most_components(state.tracker)
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
        rank = self.basis.rank(basis)
        r = self.n_components if isinstance(self.n_components, int) else None
        return State(
            n_rows=0,
            moments=Moments(0.0, like(np.zeros(rank), reference)),
            basis=basis,
            tracker=self.tracker.begin(rank, r, reference),
            signs=None,
            next_signs=1,
            observer=CertificateObserver.begin(self.certify, r, self.tracker.window is None),
        )

    def fold(
        self,
        state: State,
        X: Array,
        weights: np.ndarray | None,
        frozen: bool = False,
        targets: Array | None = None,
    ) -> State:
        """Learn one block of rows. With ``frozen`` the basis neither learns nor changes.

        Parameters
        ----------
        state : State
            The state before the block.
        X : array of shape (n, d)
            The rows.
        weights : array of shape (n,) or None
            Weights of the rows; None means that all are 1.
        frozen : bool, default=False
            Whether the landmarks are fixed.
        targets : array of shape (n, t), optional
            Targets of a regression.
        """
        begins, start, n = state.n_rows == 0, 0, int(X.shape[0])
        while start < n:  # once, unless a growing basis must be revised on the way
            w = None if weights is None else weights[start:]
            y = None if targets is None else targets[start:, :]
            state, n_read = self.fold_rows(state, X[start:, :], w, frozen, y)
            start += n_read
        if begins and state.signs is None and self.wants_early_signs(state):
            state = replace(state, signs=self.early_reference(state, X, weights))
        return self.renew_judge(self.keep_signs(state))

    def renew_judge(self, state: State) -> State:
        """Compare rows with the components of all rows so far, now and then.

        Parameters
        ----------
        state : State
            The state after a block.
        """
        judge = state.judge
        if judge is None or not judge.is_due(state.n_rows):
            return state
        _, vectors, mean = self.tracker.components(state.tracker, state.moments, self.center)
        vectors = vectors[:, : min(self.wanted, int(vectors.shape[1]))]
        return replace(state, judge=judge.renewed(vectors, mean, state.n_rows))

    def adds_up(self, state: State, n: int, frozen: bool, targets: bool) -> bool:
        """Whether a block of n rows changes nothing but sums, so that it can be measured ahead.

        Signs are looked at within the first block, and within those longer than the memory, where
        they are due.

        Parameters
        ----------
        state : State
            The state before the block.
        n : int
            Number of rows in the block.
        frozen : bool
            Whether the landmarks are fixed.
        targets : bool
            Whether the rows have targets.
        """
        long = state.n_rows == 0 or n * (1.0 - self.tracker.forgetting) > 1.0
        signs = long and state.next_signs <= state.n_rows + n
        return (
            self.tracker.adds_up
            and state.judge is None
            and not targets
            and self.certify != "tight"
            and not (signs and self.early_signs)
            and (frozen or self.basis.measures(state.basis))
        )

    def measure(
        self, basis: Any, at: tuple[tuple[Array, np.ndarray | None], int], scatter: bool
    ) -> Measured:
        """What a block says about itself: coordinates, energies, what is missed, and their sums.

        A function of basis and rows alone: a thread, a device and another machine compute the same.
        ``at`` has rows, weights and the number of the first row.

        Parameters
        ----------
        basis : object
            State of the landmark strategy.
        at : tuple
            Rows with their weights, and the index of the first row in the stream.
        scatter : bool
            Whether to compute the scatter matrix of the coordinates.
        """
        (X, weights), row = at[0], int(at[1])
        clock, left = forget(self.tracker.forgetting, int(X.shape[0]), weights, self.seed, row)
        block = self.basis.express(self.kernel, basis, X)
        return Measured.of(X, weights, left, clock, block, scatter)

    def fold_blocks(
        self,
        state: State,
        blocks: Sequence[tuple[Array, np.ndarray | None]],
        frozen: bool,
    ) -> State:
        """Learn blocks that change nothing but sums: measure them all, enter them in their turn.

        Where the basis changes after a block, those behind it are measured anew. Where only points
        are looked for, there is no scatter matrix, no reference for signs and no sample to judge.

        Parameters
        ----------
        state : State
            The state before the blocks.
        blocks : sequence of tuple
            Rows and weights of each block.
        frozen : bool
            Whether the landmarks are fixed.
        """
        only_points = self.only_points and not frozen
        if only_points and blocks and self.basis.draws(state.basis):
            return self.draw(state, blocks)
        while blocks:
            rows = state.n_rows + np.cumsum([0, *(int(X.shape[0]) for X, _ in blocks)])
            # what is measured behind a change of the points is measured in vain
            due = math.inf if frozen else self.basis.next_change(state.basis)
            measured = in_threads(
                partial(self.measure, state.basis, scatter=not only_points),
                list(zip(blocks[: 1 + int(np.searchsorted(rows[1:], due))], rows, strict=False)),
            )
            changed, entered = False, 0
            while entered < len(measured) and not changed:
                # up to the next reference for signs, which is one of the rows up to there
                due = math.inf if only_points else state.next_signs
                ahead = entered + 1 + int(np.searchsorted(rows[entered + 1 :], due))
                basis, now = state.basis, measured[entered:ahead]
                if not frozen:
                    basis, count = self.basis.enter(self.kernel, basis, now)
                    now = now[:count]
                state, entered = self.add_up(state, basis, now), entered + len(now)
                if not frozen:
                    change = self.basis.revise(self.kernel, basis, now[-1].clock)
                    if change is not None:
                        state, changed = self.rebase(state, *change), True
                state = state if only_points else self.keep_signs(state)
            blocks = blocks[entered:]
        return state

    def draw(self, state: State, blocks: Sequence[tuple[Array, np.ndarray | None]]) -> State:
        """Let the basis keep some of the rows, by which it will choose points at the end.

        Parameters
        ----------
        state : State
            The state before the blocks.
        blocks : sequence of tuple
            Rows and weights of each block.
        """
        X, weights = blocks[0]
        beta = self.tracker.forgetting
        clock = forget(beta, int(X.shape[0]), weights, self.seed, state.n_rows)[0]
        n = sum(int(X.shape[0]) for X, _ in blocks)
        basis = self.basis.keep_some(state.basis, blocks, clock)
        return replace(state, n_rows=state.n_rows + n, basis=basis)

    def add_up(self, state: State, basis: Any, blocks: Sequence[Measured]) -> State:
        """Enter measured blocks into mean, tracker and ledger.

        Parameters
        ----------
        state : State
            The state before the blocks.
        basis : object
            State of the landmark strategy after the blocks.
        blocks : sequence of Measured
            The measured blocks.
        """
        decays = [block.clock.decay for block in blocks]
        moments = state.moments
        weight, squared_norm = moments.weight, moments.squared_norm
        for decay, block in zip(decays, blocks, strict=True):
            weight = weight * decay + block.weight
            squared_norm = squared_norm * decay + block.energy
        total = in_turn(moments.total, [block.total for block in blocks], decays)
        tracker, observer = state.tracker, state.observer
        if blocks[0].scatter is not None:
            scatter = in_turn(tracker.scatter, [block.scatter for block in blocks], decays)
            tracker = replace(tracker, scatter=scatter)
            if observer is not None:
                observer = observer.on_blocks(self.accumulated(state), blocks)
        for block in blocks:
            if not math.isfinite(block.missed):
                finite(block.block.residual, self.kernel)
        state = replace(
            state,
            n_rows=state.n_rows + sum(map(len, blocks)),
            basis=basis,
            tracker=tracker,
            moments=Moments(weight, total, squared_norm),
            observer=observer,
        )
        self.require_finite_sums(state)
        return state

    def fold_rows(
        self,
        state: State,
        X: Array,
        weights: np.ndarray | None,
        frozen: bool,
        targets: Array | None,
    ) -> tuple[State, int]:
        """Learn rows as far as the basis can read them without a revision, and say how many.

        Parameters
        ----------
        state : State
            The state before the rows.
        X : array of shape (n, d)
            The rows.
        weights : array of shape (n,) or None
            Weights of the rows; None means that all are 1.
        frozen : bool
            Whether the landmarks are fixed.
        targets : array of shape (n, t) or None
            Targets of a regression.
        """
        tracker, given, before = self.tracker, (state, weights), state.moments
        seen = None
        if state.judge is not None:  # rows that fit badly lose weight before they are learned
            seen = self.basis.express(self.kernel, state.basis, X)
            missed = state.judge.missed(seen)
            left = state.judge.weights(missed)
            weights = left if weights is None else left * weights
            state = replace(state, judge=state.judge.seen(missed, left, tracker.memory))
        clock, faded = forget(tracker.forgetting, X.shape[0], weights, self.seed, state.n_rows)
        state = self.decay(state, clock.decay)

        # kernel → basis: coordinates z, energy k(x,x), and what the basis misses of it
        if frozen or self.basis.measures(state.basis):
            block = seen or self.basis.express(self.kernel, state.basis, X)
            measured = Measured.of(X, weights, faded, clock, block, scatter=False)
            if not frozen:
                basis, _ = self.basis.enter(self.kernel, state.basis, [measured])
                state = replace(state, basis=basis)
        else:
            basis, block = self.basis.project(self.kernel, state.basis, X, faded, clock)
            n_read = int(block.Z.shape[0])
            if n_read < X.shape[0]:  # anew with these rows: weights fade towards the end of a block
                state, weights = given
                w = None if weights is None else weights[:n_read]
                y = None if targets is None else targets[:n_read, :]
                return self.fold_rows(state, X[:n_read, :], w, frozen, y)
            measured = Measured.of(X, weights, faded, clock, block, scatter=False)
            state = replace(state, basis=basis)

        # mean → tracker: moments of the rows as they are; a sequential rule brings its own step
        rank = int(block.Z.shape[1])
        if tracker.sequential:
            w = None if weights is None else like(weights, block.Z)
            about, points = before if self.center else None, partial(self.points, state)
            learned = tracker.learn(state.tracker, block.Z, w, block.admitted, about, points)
        else:
            w = None if faded is None else like(faded, block.Z)
            if tracker.window is None:
                held = tracker.pad(state.tracker, rank)
                learned = tracker.update(held, block.Z, w, block.admitted)
            else:
                energies = block.energy, block.residual
                learned = tracker.slide(state.tracker, block.Z, *energies, w)
            state = self.signs_within(state, X, block.Z, weights, faded)
        # residuals are entered last: only now does the host wait for the numbers of a device
        observer = state.observer
        if observer is not None:
            so_far = self.accumulated(state, with_scatter=tracker.window is None)
            observer = observer.on_blocks(so_far, [measured])
        if not math.isfinite(measured.missed):
            finite(block.residual, self.kernel)
        state = replace(
            state,
            n_rows=state.n_rows + X.shape[0],
            tracker=learned,
            moments=joined(state.moments, block.Z, faded, measured.energy),
            targets=regress(state, block.Z, targets, faded),
            observer=observer,
        )
        if tracker.window is not None:  # all sums are those of the rows in it
            state = replace(state, moments=learned.moments)
            if observer is not None:
                squared_norm, residual = learned.energies
                observer = observer.on_window(squared_norm, residual, int(learned.Z.shape[0]))
                state = replace(state, observer=observer)
        self.require_finite_sums(state)

        # the basis may change its points at the end of a block: z ← T z everywhere
        change = None if frozen else self.basis.revise(self.kernel, state.basis, clock)
        if change is not None:
            state = self.rebase(state, *change)
        if self.basis.compresses_vectors and not frozen:
            state = self.compress(state)
        return state, int(X.shape[0])

    def compress(self, state: State) -> State:
        """Let the basis write the components and the mean, all that the model holds, anew.

        Parameters
        ----------
        state : State
            The state after a block.
        """
        mean = state.moments.mean
        raw = self.tracker.raw(state.tracker, mean)
        vectors = namespace_of(raw).concat([raw, mean[:, None]], axis=1)
        change = self.basis.compress(self.kernel, state.basis, vectors)
        return state if change is None else self.rebase(state, *change)

    def points(self, state: State) -> Array:
        """The points in their own coordinates, one a row.

        Parameters
        ----------
        state : State
            The learned state.
        """
        return self.basis.span(state.basis).own_coordinates(self.kernel)

    def require_finite_sums(self, state: State) -> None:
        """Raise unless Σ w k(x,x), which is above every entry of every accumulator, is finite.

        Parameters
        ----------
        state : State
            The state to check.
        """
        moments = state.moments
        if not (math.isfinite(moments.squared_norm) and math.isfinite(moments.weight)):
            raise ValueError(overflowing(self.kernel))

    def decay(self, state: State, factor: float) -> State:
        """Old rows lose weight (basis and observer do it where they add the new ones).

        Parameters
        ----------
        state : State
            The state before a block.
        factor : float
            Factor by which all weights are multiplied.
        """
        if factor == 1.0:
            return state
        return replace(
            state,
            moments=state.moments.decay(factor),
            tracker=self.tracker.decay(state.tracker, factor),
            targets=None if state.targets is None else state.targets.decay(factor),
        )

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
        signs, observer = state.signs, state.observer
        if observer is not None:
            observer = observer.on_rebase(
                self.accumulated(state),
                self.basis.span(basis),
                getattr(tracker, "scatter", None),
                T,
                loss,
                lambda n_orders: self.tracker.lost_orders(state.tracker, T, n_orders),
            )
        return replace(
            state,
            basis=basis,
            tracker=tracker,
            moments=state.moments.rebase(T),
            observer=observer,
            signs=None if signs is None else T @ padded(signs, (int(T.shape[1]), signs.shape[1])),
            targets=None if state.targets is None else state.targets.rebase(T),
            judge=None if state.judge is None else state.judge.rebase(T),
        )

    def keep_signs(self, state: State) -> State:
        """Take the components as a reference for signs when the rows have doubled since the last.

        Under forgetting the components never come to rest, so the reference is taken once a memory
        length. Sequential rules move their components continuously and need no reference.

        Parameters
        ----------
        state : State
            The state after a block.
        """
        if self.tracker.sequential or state.n_rows < state.next_signs:
            return state
        memory = self.tracker.memory
        return replace(
            state,
            signs=Learned(self, state).sign_reference(),
            next_signs=state.n_rows + int(min(state.n_rows, memory)),
        )

    def wants_early_signs(self, state: State) -> bool:
        """Whether signs come from the first rows; ``fit`` takes them from all rows at its end.

        Parameters
        ----------
        state : State
            The learned state.
        """
        deferred = state.next_signs > max(state.n_rows, 1)
        return self.early_signs and not (deferred or self.tracker.sequential)

    def early_reference(self, state: State, X: Array, weights: np.ndarray | None) -> Array:
        """Components after the first rows X, with the signs that the very first gave them.

        Parameters
        ----------
        state : State
            The state after the rows.
        X : array of shape (n, d)
            The first rows.
        weights : array of shape (n,) or None
            Weights of the rows; None means that all are 1.
        """
        n = min(MOST_ROWS, int(X.shape[0]))
        first, given = as_dense(X[:n, :]), None if weights is None else weights[:n]
        faded = forget(self.tracker.forgetting, n, given, self.seed, 0)[1]
        r = self.n_components
        K = to_host(to_float64(self.kernel.gram(first)))
        coefficients = first_components(
            K, faded, self.center, n_followed(r) if isinstance(r, int) else None
        )
        Z = to_float64(self.basis.coordinates(self.kernel, state.basis, first))
        start = namespace_of(Z).matrix_transpose(Z) @ like(coefficients, Z)
        vectors, _ = Learned(self, state).followed(start)
        cosines = coefficients.T @ to_host(Z @ vectors)
        return vectors * like(sign_of_nearest(cosines), vectors)[None, :]

    def signs_within(
        self,
        state: State,
        X: Array,
        Z: Array,
        weights: np.ndarray | None,
        faded: np.ndarray | None,
    ) -> State:
        """Take references for signs on the way through a block that is longer than the memory.

        Signs that were only looked at where it ends would flip in between. What was learned up to
        there is computed on the side, and leaves nothing but the reference.

        Parameters
        ----------
        state : State
            The state before the block.
        X : array of shape (n, d)
            The rows.
        Z : array of shape (n, q)
            Coordinates of the rows.
        weights : array of shape (n,) or None
            Weights of the rows; None means that all are 1.
        faded : array of shape (n,) or None
            Weights of the rows at the end of the block, after forgetting.
        """
        n, beta = int(Z.shape[0]), self.tracker.forgetting
        memory = n if beta == 1.0 else math.ceil(1.0 / (1.0 - beta))
        first = state.n_rows == 0 and state.signs is None and self.wants_early_signs(state)
        due = first or (state.signs is not None and state.next_signs <= state.n_rows + n)
        if memory >= n or faded is None or not due:
            return state
        piece, now = max(memory, n // MOST_REFERENCES), state
        for start in range(0, n - piece, piece):
            rows, w = Z[start : start + piece, :], faded[start : start + piece]
            tracked = self.tracker.pad(now.tracker, int(Z.shape[1]))
            tracked = self.tracker.update(tracked, rows, like(w, Z), ())
            now = replace(now, tracker=tracked, moments=joined(now.moments, rows, w))
            if now.signs is None:
                given = None if weights is None else weights[:piece]
                signs = self.early_reference(now, X[:piece, :], given)
            else:
                signs = Learned(self, now).sign_reference()
            now = replace(now, signs=signs)
        return replace(state, signs=now.signs)

    def accumulated(self, state: State, with_scatter: bool = True) -> Accumulated:
        """What the certificate reads of a state; that of a window takes time to add up.

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
            span=self.basis.span(state.basis),
            moments=state.moments,
            scatter=getattr(state.tracker, "scatter", None) if with_scatter else None,
        )


def overflowing(kernel: Kernel) -> str:
    """What is said of rows whose sums are no numbers."""
    return (
        f"The sum of the kernel {kernel} over the rows, with their weights, overflows: scale the "
        "data (for example with scale='standard') or the weights."
    )


def joined(
    before: Moments, Z: Array, weights: np.ndarray | None, squared_norm: float = 0.0
) -> Moments:
    """Sums of the rows so far and of those of a block."""
    return Moments(
        before.weight + (float(Z.shape[0]) if weights is None else float(weights.sum())),
        padded(before.total, (int(Z.shape[1]),))
        + weighted_sum(Z, None if weights is None else like(weights, Z)),
        before.squared_norm + squared_norm,
    )


def regress(
    state: State, Z: Array, targets: Array | None, weights: np.ndarray | None
) -> CrossMoments | None:
    """Beside the tracker: the moments of coordinates with targets, where rows have some."""
    if targets is None:
        return state.targets
    known = state.targets or CrossMoments.begin(int(Z.shape[1]), targets)
    return known.update(Z, targets, None if weights is None else like(weights, Z))


def forget(
    beta: float, n: int, weights: np.ndarray | None, seed: int, row: int
) -> tuple[Clock, np.ndarray | None]:
    """The block's place in the stream, and the weights its rows have left at its end."""
    if beta == 1.0:
        return Clock(seed, row), weights
    clock = Clock(seed, row, beta**n, math.log(beta))
    faded = clock.fading(n)
    return clock, faded if weights is None else faded * weights
