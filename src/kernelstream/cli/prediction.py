"""Option ``--target`` of ``fit``: regression or classifier, held-out score with a baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from kernelstream import StreamingKernelClassifier, StreamingKernelRidge
from kernelstream.cli.terminal import RowProgress, Screen
from kernelstream.regression.base import (
    OnePassRidge,
    learn_block,
    mean_targets,
    with_moving_points,
)
from kernelstream.regression.classifier import set_classes
from kernelstream.regression.ridge import note_shape
from kernelstream.stream import HeldBack
from kernelstream.tables import Block, Learner, Source, Target

HOLDOUT = 0.2  # fraction of the rows
MOST_BYTES = 256 << 20  # of held-out rows of a pipe, which are kept until the model is there

Rows = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # with targets and weights


class TargetLearner(Learner):
    """Learn rows with their targets in one pass or two, and hold some of them out.

    Which rows these are depends on their number only, so that every pass, and a run that was
    resumed, holds out the same. Of files they are read once more at the end; those of a pipe are
    kept in memory, as long as they fit.

    Parameters
    ----------
    estimator : OnePassRidge
        The estimator that learns; it may have learned rows before.
    source : Source
        The rows.
    holdout : float
        Fraction of the rows that is held out.
    passes : int or None
        1 reads the rows once; None and 2 read files twice.
    """

    first_fraction = 0.5

    def __init__(self, estimator: OnePassRidge, source: Source, holdout: float, passes: int | None):
        super().__init__(estimator, source)
        self.source, self.holdout = source, holdout
        self.repeatable = passes != 1 and not source.from_pipe
        self.kept: list[Rows] = []
        self.kept_bytes = 0
        if estimator.__sklearn_is_fitted__() and self.repeatable:
            estimator.set_stream(with_moving_points(estimator, estimator.stream_, True))

    def learn_block(self, block: Block, first: int) -> None:
        """Learn the rows of a block that are not held out."""
        estimator = self.estimator
        if not estimator.__sklearn_is_fitted__():
            estimator.n_features_in_ = block.X.shape[1]
            estimator.set_stream(estimator.new_stream(block.X))
        held_out = self.held_out(first, len(block))
        if self.source.from_pipe:
            held_out = self._keep(block, held_out)
        X, y, weights = some_rows(block, ~held_out)
        if not len(X) or (weights is not None and not weights.any()):
            return
        learn_block(estimator, X, y, weights, frozen=self.number == 2)
        self.n_rows += len(X)

    def held_out(self, first: int, count: int) -> np.ndarray:
        """Which of some rows are not learned; the first row of all always is."""
        numbers = np.arange(first, first + count)
        seed = int(self.estimator.stream_.chain.seed)
        return (HeldBack.draws(seed, first, count) < self.holdout) & (numbers > 0)

    def _keep(self, block: Block, held_out: np.ndarray) -> np.ndarray:
        """Keep held-out rows of a pipe; once there is no more room, all rows are learned."""
        if self.kept_bytes > MOST_BYTES:
            return np.zeros(len(block), dtype=bool)
        self.kept.append(some_rows(block, held_out))
        self.kept_bytes += self.kept[-1][0].nbytes
        return held_out

    def end(self) -> bool:
        """Finish the present pass; True where the rows have to be read again."""
        if not self.n_rows:
            raise ValueError("There is no row to learn from.")
        estimator = self.estimator
        if self.number == 2:
            estimator.set_stream(estimator.stream_.finish())
        if self.number == self.n_passes:
            return False
        stream = estimator.stream_.begin_second_pass()
        estimator.set_stream(with_moving_points(estimator, stream, False))
        self.number, self.n_rows = 2, 0
        return True

    def score(self, screen: Screen) -> dict[str, Any]:
        """The score of the held-out rows, with that of the baseline."""
        scorer = HoldoutScorer(self.estimator)
        if self.holdout:
            for rows in self._held_out_rows(screen):
                scorer.add(*rows)
        return scorer.facts

    def _held_out_rows(self, screen: Screen) -> Iterator[Rows]:
        if self.source.from_pipe:
            yield from self.kept
            return
        n = 0
        with RowProgress(screen, self.source, "scoring held-out rows") as bar:
            for block in self.source.ahead():
                yield some_rows(block, self.held_out(n, len(block)))
                n += len(block)
                bar.update(len(block))


def announce_target(estimator: OnePassRidge, target: Target) -> None:
    """Tell a model that has learned nothing what it will predict."""
    if isinstance(estimator, StreamingKernelClassifier):
        set_classes(estimator, target.classes)
    elif isinstance(estimator, StreamingKernelRidge):
        note_shape(estimator, True)


def some_rows(block: Block, chosen: np.ndarray) -> Rows:
    """Rows of a block with their targets and weights."""
    assert block.y is not None
    weights = None if block.weights is None else block.weights[chosen]
    return block.X[chosen], block.y[chosen], weights


class HoldoutScorer:
    """How well held-out rows are predicted, compared with a baseline.

    The baseline is the mean of the targets learned, or their most frequent class.
    """

    def __init__(self, estimator: OnePassRidge):
        self.estimator = estimator
        mean = mean_targets(estimator)
        self.is_class = isinstance(estimator, StreamingKernelClassifier)
        self.baseline = estimator.classes_[mean.argmax()] if self.is_class else float(mean[0])
        self.n_rows, self.weight = 0, 0.0
        self.sums = np.zeros(3)

    def add(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> None:
        """Score some rows."""
        if not len(X):
            return
        w = np.ones(len(X)) if weights is None else weights
        predicted = self.estimator.predict(X)
        if self.is_class:
            parts = [predicted == y, y == self.baseline, np.zeros(len(y))]
        else:
            off = y - self.baseline
            parts = [(y - predicted) ** 2, off**2, off]
        self.n_rows, self.weight = self.n_rows + len(X), self.weight + float(w.sum())
        self.sums += [float(np.sum(w * part)) for part in parts]

    @property
    def facts(self) -> dict[str, Any]:
        """The score of the model and of the baseline, for machines."""
        if not self.weight:
            return {"rows_judged": 0, "score": None}
        first, second, off = self.sums / self.weight
        if self.is_class:
            return {
                "rows_judged": self.n_rows,
                "measure": "accuracy",
                "score": first,
                "most_frequent": str(self.baseline),
                "score_of_most_frequent": second,
            }
        variance = second - off**2
        return {
            "rows_judged": self.n_rows,
            "measure": "r2",
            "score": 1.0 - first / variance if variance > 0 else None,
            "error": math.sqrt(first),
            "error_of_mean": math.sqrt(second),
        }


def score_line(facts: dict[str, Any]) -> tuple[str, str]:
    """The score in words."""
    if not facts["rows_judged"]:
        return "score", "no rows were held out"
    rows = f"{facts['rows_judged']:,} held-out rows"
    if facts["measure"] == "accuracy":
        baseline = f"{facts['score_of_most_frequent']:.1%} for always {facts['most_frequent']}"
        return "accuracy", f"{facts['score']:.1%} of {rows} ({baseline})"
    errors = (
        f"root mean squared error {facts['error']:.4g}; {facts['error_of_mean']:.4g} for the mean "
        "alone"
    )
    score = "not defined" if facts["score"] is None else f"{facts['score']:.3f}"
    return "R²", f"{score} on {rows} ({errors})"


def target_facts(
    target: Target, score: dict[str, Any]
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The target and the score, for machines and for people."""
    classes = target.classes.tolist() if target.is_class else None
    facts = {"target": target.name, "classes": classes, **score}
    return facts, [("target", str(target)), score_line(score)]


def say_target(target: Target, screen: Screen) -> None:
    """Print the type of the target, where it may be wrong."""
    if target.is_class and target.classes.dtype.kind == "i":
        name = target.name
        screen.say(f"Target {target}; --treat '{name}=number' would predict a number.")
