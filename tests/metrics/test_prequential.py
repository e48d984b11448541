"""Rows that are judged before they are learned."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from kernelstream import KernelNovelty, metrics


class Counting:
    """A detector that has learned n rows says of every row that it is as strange as n."""

    def __init__(self) -> None:
        self.n = 0

    def partial_fit(self, X: np.ndarray) -> None:
        self.n += len(X)

    def score_samples(self, X: np.ndarray) -> np.ndarray:
        return -np.full(len(X), float(self.n))

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.where(X[:, 0] > 0, -1, 1)


def test_every_row_is_judged_by_a_model_of_the_rows_before_its_block() -> None:
    X = np.random.default_rng(0).normal(size=(25, 2))
    found = metrics.prequential(Counting(), X, np.zeros(25), first=5, batch_size=8)
    np.testing.assert_array_equal(found.scores, [5] * 8 + [13] * 8 + [21] * 4)
    np.testing.assert_array_equal(found.flagged, X[5:, 0] > 0)
    assert len(found.labels) == 20 and np.isnan(found.auc) and np.isnan(found.average_precision)


def test_anomalies_may_be_left_out_of_what_is_learned() -> None:
    y = np.tile([0, 1], 10)
    detector = Counting()
    found = metrics.prequential(detector, np.ones((20, 2)), y, batch_size=4, learn="normal")
    assert detector.n == 10
    np.testing.assert_array_equal(found.scores, np.repeat([0, 2, 4, 6, 8], 4))


def test_areas_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    labels = rng.random(3000) < 0.1
    scores = np.round(rng.normal(size=3000) + labels, 1)  # with ties
    found = metrics.Prequential(scores, scores > 2, labels)
    assert found.auc == pytest.approx(roc_auc_score(labels, scores))
    assert found.average_precision == pytest.approx(average_precision_score(labels, scores))
    assert found.false_alarm_rate == pytest.approx(np.mean(scores[~labels] > 2))
    along = found.along(1250)
    np.testing.assert_array_equal(along["end"], [1250, 2500, 3000])
    assert along["auc"][1] == pytest.approx(roc_auc_score(labels[1250:2500], scores[1250:2500]))
    assert along["average_precision"].shape == along["false_alarm_rate"].shape == (3,)


def test_delays_are_counted_from_the_first_row_of_each_run() -> None:
    labels = np.array([1, 1, 0, 1, 1, 1, 0, 0, 1], dtype=bool)
    flagged = np.array([0, 0, 1, 0, 0, 1, 0, 0, 1], dtype=bool)
    found = metrics.Prequential(np.zeros(9), flagged, labels)
    np.testing.assert_array_equal(found.delays, [np.nan, 2, 0])
    assert found.false_alarm_rate == pytest.approx(1 / 3)


def test_a_detector_along_a_stream_that_drifts() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6000, 2)) + 0.001 * np.arange(6000)[:, None], np.zeros(6000)
    for start in (2000, 4000, 5500):
        X[start : start + 10] += [5.0, -5.0]
        y[start : start + 10] = 1
    detector = KernelNovelty(
        0.05, forgetting=0.998, basis=50, gamma=0.5, scale=None, random_state=0
    )
    found = metrics.prequential(detector, X, y, first=1000)
    assert found.auc > 0.97 and np.nanmax(found.delays) <= 3 and not np.isnan(found.delays).any()
    assert found.false_alarm_rate == pytest.approx(0.05, abs=0.04)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="one label a row"):
        metrics.prequential(Counting(), np.ones((5, 1)), np.zeros(4))
    with pytest.raises(ValueError, match="expected 'all' or 'normal'"):
        metrics.prequential(Counting(), np.ones((5, 1)), np.zeros(5), learn="none")
