"""Polyak-Ruppert averaging of components, for any sequential tracker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from kernelstream import trackers
from kernelstream.arrays import Array
from kernelstream.papers.honeine_2012.recentred_hebbian import RecentredHebbian
from kernelstream.papers.sequential import Sequential, extended
from kernelstream.serialization import stored

# One iterate in so many enters the average: neighbours hardly differ, and a block of the rule's
# compiled pass stays in one piece.
STRIDE = 64


@stored
@dataclass(frozen=True)
class AveragedState:
    """The rule's own state, the average of its raw components, and the rows seen."""

    rule: Any
    mean: Annotated[Array, "float64 (rank, components)"]
    time: int

    @property
    def n_shortened(self) -> int:
        """Steps that the rule had to shorten."""
        return int(getattr(self.rule, "n_shortened", 0))


@stored
class Averaged(Sequential[AveragedState]):
    """A sequential rule whose components are averaged along the stream (Polyak and Ruppert).

    The rule learns as it would without; shown is the average of its components at rows 64, 128 and
    so on. The weights of the average grow linearly with time: the iterates of the start count for
    nothing in the end, and the noise is still averaged over the whole stream. With steps that fall
    slower than 1/t the average has the best possible rate, whatever the steps. Honeine leaves this
    as an open question.

    Parameters
    ----------
    rule : Tracker
        ``Hebbian``, ``SubsetHebbian``, ``LMS`` or ``RLS``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, papers
    >>> from kernelstream.papers import schedules
    >>> X = np.random.default_rng(0).normal(size=(5000, 3)) * [0.5, 0.6, 1]
    >>> def angle(tracker):
    ...     model = StreamingKernelPCA(1, kernel="linear", tracker=tracker).partial_fit(X)
    ...     low, high = model.transform([[0, 0, 0.0], [0, 0, 1]])[:, 0]
    ...     return float(np.arccos(abs(high - low)))
    >>> rule = papers.Hebbian(schedules.ConstantRate(0.05))
    >>> angle(papers.Averaged(rule)) < angle(rule) / 2
    True
    """

    def __init__(self, rule: Sequential):
        self.rule = rule

    @property
    def forgetting(self) -> float:  # type: ignore[override]
        """Forgetting of the rule."""
        return self.rule.forgetting

    @property
    def needs_points(self) -> bool:  # type: ignore[override]
        """Whether the rule needs the landmarks."""
        return self.rule.needs_points

    def check(self) -> None:
        """Raise ``ValueError`` in words when there is no sequential rule to average."""
        if not isinstance(self.rule, Sequential):
            raise ValueError(
                "Averaged: rule must be a tracker that learns row by row, such as "
                f"papers.Hebbian(); got {self.rule!r}."
            )
        if isinstance(self.rule, RecentredHebbian):
            raise ValueError(
                f"Averaged: the functions of {self.rule} move with the mean, and their averages "
                "would not; use papers.Hebbian()."
            )
        self.rule.check()

    def check_state(self, state: Any) -> None:
        """Raise unless ``state`` is an average of what the rule learns."""
        super().check_state(state)
        self.rule.check_state(state.rule)

    def suits(self, basis: Any, n_components: Any, center: bool = True) -> None:
        """What suits the rule."""
        self.rule.suits(basis, n_components, center)

    def begin(self, rank: int, n_components: int | None, reference: Array) -> AveragedState:
        """Nothing is averaged yet."""
        rule = self.rule.begin(rank, n_components, reference)
        return AveragedState(rule, 0.0 * rule.V, 0)

    def update(
        self,
        state: AveragedState,
        Z: Array,
        weights: Array | None,
        admitted: tuple[int, ...],
        points: Array | None = None,
    ) -> AveragedState:
        """Let the rule learn, and look at it after every 64th row of the stream."""
        old = int(Z.shape[1]) - len(admitted)
        rule, mean, time = state.rule, state.mean, state.time
        start, n = 0, int(Z.shape[0])
        while start < n:
            stop = min(n, start + STRIDE - time % STRIDE)
            rank = old + sum(i < stop for i in admitted)
            known = points
            if points is not None:  # those that are admitted later are not there yet
                known = points[: int(points.shape[0]) - sum(i >= stop for i in admitted), :rank]
            rule = self.rule.update(
                rule,
                Z[start:stop, :rank],  # coordinates that come later are zero for these rows
                None if weights is None else weights[start:stop],
                tuple(i - start for i in admitted if start <= i < stop),
                known,
            )
            mean, time = extended(mean, int(rule.V.shape[0])), time + stop - start
            if time % STRIDE == 0:
                mean = mean + (rule.V - mean) * (2.0 / (time // STRIDE + 1.0))
            start = stop
        return AveragedState(rule, mean, time)

    def pad(self, state: AveragedState, rank: int) -> AveragedState:
        """Components have no part in the new coordinates yet."""
        rule = self.rule.pad(state.rule, rank)
        return replace(state, rule=rule, mean=extended(state.mean, rank))

    def rebase(self, state: AveragedState, T: Array) -> tuple[AveragedState, float | None]:
        """The average follows like the components."""
        rule, loss = self.rule.rebase(state.rule, T)
        return replace(state, rule=rule, mean=T @ state.mean), loss

    def decay(self, state: AveragedState, factor: float) -> AveragedState:
        """Leave forgetting to the rule."""
        return replace(state, rule=self.rule.decay(state.rule, factor))

    def _shown(self, state: AveragedState) -> Any:
        """The rule with the averages in the place of its components; its own before row 64."""
        return state.rule if state.time < STRIDE else replace(state.rule, V=state.mean)

    def raw(self, state: AveragedState, mean: Array) -> Array:
        """The averages, of the lengths that they have."""
        return self.rule.raw(self._shown(state), mean)

    def components(
        self, state: AveragedState, moments: trackers.Moments, center: bool, correction: Any = None
    ) -> tuple[Array, Array, Array]:
        """The averages in the place of the components; the rule's own before row 64."""
        return self.rule.components(self._shown(state), moments, center, correction)
