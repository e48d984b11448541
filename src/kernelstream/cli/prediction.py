"""Option ``--target`` of ``fit``: regression or classifier, held-out score with a baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from kernelstream import StreamingKernelClassifier, StreamingKernelRidge
from kernelstream.cli.intake import prepare_estimator
from kernelstream.cli.modelfile import Stored
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

    def learn_block(self, block: Block, first: int) -> None:
        """Learn the rows of a block that are not held out."""
        estimator = self.estimator
        if not estimator.__sklearn_is_fitted__():
            estimator.n_features_in_ = block.X.shape[1]
            estimator.set_stream(estimator.new_stream(block.X))
        if first == 0 and self.number == 1 and self.repeatable:
            estimator.set_stream(with_moving_points(estimator, estimator.stream_, True))
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

    def described(self, stored: Stored, screen: Screen) -> tuple[dict[str, Any], list[Any]]:
        """The target and the score of the held-out rows, which are stored, in data and words."""
        held_out = self._held_out_rows(screen) if self.holdout else ()
        facts, target = score_of(self.estimator, held_out), self.source.target
        assert target is not None
        stored.origin = {**stored.origin, "target": {**stored.origin["target"], "judged": facts}}
        classes = target.classes.tolist() if target.is_class else None
        lines = [("target", str(target)), score_line(facts)]
        return {"target": target.name, "classes": classes, **facts}, lines

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


def begin_prediction(estimator: OnePassRidge, source: Source, holdout: float) -> Stored:
    """A regression, or a classifier with its parameters, that has learned nothing."""
    target = source.target
    assert target is not None
    if target.is_class:
        estimator = StreamingKernelClassifier(**estimator.get_params(deep=False))
    prepare_estimator(estimator, source)
    if isinstance(estimator, StreamingKernelClassifier):
        set_classes(estimator, target.classes)
    elif isinstance(estimator, StreamingKernelRidge):
        note_shape(estimator, True)
    stored = Stored.of(estimator, source)
    stored.origin = {"target": {"column": target.to_facts(), "hold_back": holdout}}
    return stored


def some_rows(block: Block, chosen: np.ndarray) -> Rows:
    """Rows of a block with their targets and weights."""
    assert block.y is not None
    weights = None if block.weights is None else block.weights[chosen]
    return block.X[chosen], block.y[chosen], weights


def score_of(estimator: OnePassRidge, held_out: Iterable[Rows]) -> dict[str, Any]:
    """How well held-out rows are predicted, compared with a baseline.

    The baseline is the mean of the targets learned, or their most frequent class.
    """
    mean = mean_targets(estimator)
    is_class = isinstance(estimator, StreamingKernelClassifier)
    baseline = estimator.classes_[mean.argmax()] if is_class else float(mean[0])
    n_rows, sums = 0, np.zeros(4)
    for X, y, weights in held_out:
        if not len(X):
            continue
        predicted, w = estimator.predict(X), np.ones(len(X)) if weights is None else weights
        off = np.zeros(len(X)) if is_class else y - baseline
        errors = (predicted == y, y == baseline) if is_class else ((y - predicted) ** 2, off**2)
        n_rows += len(X)
        sums += [float(np.sum(w * part)) for part in (1.0, *errors, off)]
    if not sums[0]:
        return {"rows_judged": 0, "score": None}
    first, second, mean_off = sums[1:] / sums[0]
    if is_class:
        return {
            "rows_judged": n_rows,
            "measure": "accuracy",
            "score": first,
            "most_frequent": str(baseline),
            "score_of_most_frequent": second,
        }
    variance = second - mean_off**2
    return {
        "rows_judged": n_rows,
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


def say_target(target: Target | None, screen: Screen) -> None:
    """Print the type of the target, where it may be wrong."""
    if target is not None and target.is_class and target.classes.dtype.kind == "i":
        screen.say(f"Target {target}; --treat '{target.name}=number' would predict a number.")
