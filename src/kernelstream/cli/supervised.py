"""Option ``--target`` of ``fit``: regression or classifier, held-out score with a baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from kernelstream import StreamingKernelClassifier, StreamingKernelRidge
from kernelstream.cli import completion
from kernelstream.cli.checkpoints import Run
from kernelstream.cli.failures import DATA, CommandError
from kernelstream.cli.terminal import Screen, Watch
from kernelstream.regression.base import (
    OnePassRidge,
    learn_block,
    mean_targets,
    with_moving_points,
)
from kernelstream.regression.classifier import set_classes
from kernelstream.regression.ridge import note_shape
from kernelstream.stream import HeldBack
from kernelstream.tables import Block, Target
from kernelstream.tables.target import INTEGER

TARGET = "Prediction"
HELD_BACK = 0.2
MOST_BYTES = 256 << 20  # of rows of a pipe that are held back, and wait for the model


@dataclass(frozen=True)
class Aim:
    """What is to be predicted, and how it is judged."""

    target: Annotated[
        str | None,
        typer.Option(
            help="Column to predict: a number, or a class (words, or a few whole numbers). "
            "'kernelstream predict' then uses the model.",
            rich_help_panel=TARGET,
            autocompletion=completion.column,
        ),
    ] = None
    hold_back: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=0.9,
            help="With --target: share of the rows that is not learned, and by which the model is "
            f"judged; 0: none. Default: {HELD_BACK}.",
            rich_help_panel=TARGET,
            show_default=False,
        ),
    ] = None

    @property
    def share(self) -> float:
        """The share of rows that is held back."""
        return HELD_BACK if self.hold_back is None else self.hold_back


NO_AIM = Aim()


def aim_at(estimator: OnePassRidge, target: Target) -> None:
    """Let a model that has learned nothing know what it will predict."""
    if isinstance(estimator, StreamingKernelClassifier):
        set_classes(estimator, target.classes)
    elif isinstance(estimator, StreamingKernelRidge):
        note_shape(estimator, True)


class Judgement:
    """How well rows are predicted that were not learned, beside what needs no look at them.

    That is the mean of the targets learned, or their most frequent class.
    """

    def __init__(self, estimator: OnePassRidge):
        self.estimator = estimator
        mean = mean_targets(estimator)
        self.is_class = isinstance(estimator, StreamingKernelClassifier)
        self.trivial = estimator.classes_[mean.argmax()] if self.is_class else float(mean[0])
        self.rows, self.weight = 0, 0.0
        self.sums = np.zeros(3)

    def add(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> None:
        """Judge some rows."""
        if not len(X):
            return
        w = np.ones(len(X)) if weights is None else weights
        found = self.estimator.predict(X)
        if self.is_class:
            parts = [found == y, y == self.trivial, np.zeros(len(y))]
        else:
            off = y - self.trivial
            parts = [(y - found) ** 2, off**2, off]
        self.rows, self.weight = self.rows + len(X), self.weight + float(w.sum())
        self.sums += [float(np.sum(w * part)) for part in parts]

    @property
    def facts(self) -> dict[str, Any]:
        """The score of the model and of what is trivial, for machines."""
        if not self.weight:
            return {"rows_judged": 0, "score": None}
        first, second, off = self.sums / self.weight
        if self.is_class:
            return {
                "rows_judged": self.rows,
                "measure": "accuracy",
                "score": first,
                "most_frequent": str(self.trivial),
                "score_of_most_frequent": second,
            }
        variance = second - off**2
        return {
            "rows_judged": self.rows,
            "measure": "r2",
            "score": 1.0 - first / variance if variance > 0 else None,
            "error": math.sqrt(first),
            "error_of_mean": math.sqrt(second),
        }


def score_line(facts: dict[str, Any]) -> tuple[str, str]:
    """The score in words."""
    if not facts["rows_judged"]:
        return "score", "no row was held back to judge by"
    rows = f"{facts['rows_judged']:,} rows held back"
    if facts["measure"] == "accuracy":
        trivial = f"{facts['score_of_most_frequent']:.1%} for always {facts['most_frequent']}"
        return "accuracy", f"{facts['score']:.1%} of {rows} ({trivial})"
    errors = (
        f"root mean squared error {facts['error']:.4g}, and {facts['error_of_mean']:.4g} for the "
        "mean alone"
    )
    score = "not defined" if facts["score"] is None else f"{facts['score']:.3f}"
    return "R²", f"{score} on {rows} ({errors})"


class SupervisedRun(Run):
    """Learn rows with their targets, and judge the model by those held back.

    Which rows these are is a function of their number, so that every pass, and a run that goes on
    from a checkpoint, holds back the same. Of files they are read once more at the end; those of a
    pipe wait in memory, as many as fit.
    """

    any_kind = True

    def __init__(self, *values: Any, share: float):
        super().__init__(*values)
        self.share = share
        self.waiting: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = []
        self.waiting_bytes = 0
        estimator = self.stored.estimator
        if estimator.__sklearn_is_fitted__() and self.asked != 1 and not self.source.from_pipe:
            self.stored.stream = with_moving_points(estimator, self.stored.stream, True)

    def _held_back(self, first: int, count: int) -> np.ndarray:
        """Which of some rows are not learned; the first row always is."""
        numbers = np.arange(first, first + count)
        return (HeldBack.draws(self._seed, first, count) < self.share) & (numbers > 0)

    @property
    def _seed(self) -> int:
        return int(self.stored.stream.chain.seed)

    def _learn(self, block: Block) -> None:
        estimator = self.stored.estimator
        if not len(block):
            return
        if not estimator.__sklearn_is_fitted__():
            estimator.n_features_in_ = block.X.shape[1]
            estimator.set_stream(estimator.new_stream(block.X))
        held = self._held_back(self.place.rows, len(block))
        if self.source.from_pipe:
            held = self._let_wait(block, held)
        X, y, weights = some_rows(block, ~held)
        if not len(X) or (weights is not None and not weights.any()):
            return
        try:
            learn_block(estimator, X, y, weights, frozen=self.place.turn == 2)
        except ValueError as problem:
            where = f"{block.file}, rows {block.rows[0]} to {block.rows[-1]}"
            raise CommandError(DATA, f"{where}: {problem}") from problem

    def _let_wait(self, block: Block, held: np.ndarray) -> np.ndarray:
        """Keep rows of a pipe that are held back; once there is no more room, all are learned."""
        if self.waiting_bytes > MOST_BYTES:
            return np.zeros(len(block), dtype=bool)
        self.waiting.append(some_rows(block, held))
        self.waiting_bytes += self.waiting[-1][0].nbytes
        return held

    def _begin_first(self) -> None:
        """Targets are learned in both passes."""

    def _begin_second(self) -> None:
        super()._begin_second()
        self.stored.stream = with_moving_points(self.stored.estimator, self.stored.stream, False)

    def _model(self) -> Any:
        """None as well where no target was learned yet: such a checkpoint could not be read."""
        model = super()._model()
        if model is None:
            return None
        stream = model.stream_
        waits = any(rows.targets is not None for rows in stream.waiting.blocks)
        learned = stream.state is not None and stream.state.targets is not None
        return model if waits or learned else None

    def learn(self) -> None:
        """Run to the end, then judge."""
        super().learn()
        if self._model() is None:
            raise CommandError(DATA, "All rows were held back: there is nothing to learn.")
        judgement = Judgement(self.stored.estimator)
        if self.share:
            for rows in self._rows_to_judge():
                judgement.add(*rows)
        target = self.source.target
        assert target is not None
        self.judged = judgement.facts
        self.stored.origin = {
            **self.stored.origin,
            "target": {
                "column": target.to_facts(),
                "hold_back": self.share,
                "judged": self.judged,
            },
        }

    def _rows_to_judge(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
        if self.source.from_pipe:
            yield from self.waiting
            return
        n = 0
        with Watch(self.screen, self.source, "judging") as watch:
            for block in self.source.ahead():
                yield some_rows(block, self._held_back(n, len(block)))
                n += len(block)
                watch.update(len(block))

    def found(self) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """The target and the score."""
        target = self.source.target
        assert target is not None
        facts = {"target": target.name, "classes": None, **self.judged}
        if target.is_class:
            facts["classes"] = target.classes.tolist()
        return facts, [("target", str(target)), score_line(self.judged)]


def some_rows(block: Block, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Rows of a block with their targets and weights."""
    assert block.y is not None
    weights = None if block.weights is None else block.weights[chosen]
    return block.X[chosen], block.y[chosen], weights


def say_target(target: Target, screen: Screen) -> None:
    """What the target was taken for, where that may be wrong."""
    if target.labels == INTEGER:
        name = target.name
        screen.say(f"Target {target}; --treat '{name}=number' would predict a number.")
