"""Equal accuracy: the smallest size at which a system reaches the target.

The sizes are searched once, before anything is timed for the table. Every trial learns from the
whole stream, is judged on the same rows and is timed (twice where it is short): together the trials
are the curve of time against captured variance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.measuring import Judge, brief_or_once
from benchmarks.systems import Problem, System


@dataclass(frozen=True)
class Trial:
    """A size, the time of one run and how accurate it was.

    ``explained`` is there for every system that is drawn; ``captured`` decides, and is the same as
    ``explained`` where the scores are not those of the kernel's feature space (see ``Judge``).
    """

    size: int
    seconds: float
    captured: float
    explained: float


@dataclass
class Search:
    """Trials of one system on one problem."""

    system: System
    X: np.ndarray
    problem: Problem
    judge: Judge
    target: float
    say: Callable[[str], None]
    trials: dict[int, Trial] = field(default_factory=dict)

    def reaches(self, size: int) -> bool:
        """Whether the system reaches the target with this size; each size is tried once."""
        if size not in self.trials:
            seconds, scores = brief_or_once(lambda: self.system.learn(self.X, size, self.problem))
            explained = self.judge.explained(scores)
            strict = self.system.in_feature_space
            captured = self.judge.captured(scores) if strict else explained
            self.trials[size] = Trial(size, seconds, captured, explained)
            self.say(f"{self.system.name}({size}): {captured:.4f} in {seconds:.2f} s")
        return self.trials[size].captured >= self.target

    def smallest(self, sizes: Sequence[int], step: int | None = None) -> int:
        """Try ever larger sizes until one reaches the target, then halve the gap below it.

        The largest size if none does: the captured variance in the table then says so.
        """
        below = 0
        for size in sizes:
            if self.reaches(size):
                break
            below = size
        else:
            return sizes[-1]
        while step is not None and size - below > step:
            middle = below + max(step, (size - below) // 2 // step * step)
            if self.reaches(middle):
                size = middle
            else:
                below = middle
        return size

    def smallest_near(self, start: int, step: int, most: int) -> int:
        """The same, step by step from a size that should be near: fewer trials of a slow system."""
        size = start
        if self.reaches(size):
            while size > step and self.reaches(size - step):
                size -= step
            return size
        while size + step <= most and not self.reaches(size):
            size += step
        return size

    @property
    def curve(self) -> list[Trial]:
        """All trials by size."""
        return [self.trials[size] for size in sorted(self.trials)]
