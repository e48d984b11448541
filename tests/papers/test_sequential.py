"""What the papers' trackers share: the running mean of rows, and columns at unit length."""

from __future__ import annotations

import array_api_strict
import numpy as np

from kernelstream.papers.sequential import column_norms, less_running_mean, unit_columns
from kernelstream.trackers import Moments
from tests import samples
from tests.trackers.test_covariance import rows as random_rows


@samples.grid("weighted, beta, before", [False, True], [1.0, 0.9, 1e-30], [0, 12])
def test_each_row_less_the_mean_up_to_it(weighted, beta, before):
    """Row by row on the host, in pieces on a device: both are the definition.

    Also where a piece is a single row, since all before it is forgotten.
    """
    Z, w, _ = random_rows(3, 4, 12 + (700 if beta > 0.5 else 30))
    w = w if weighted else np.ones(len(Z))
    age = np.arange(len(Z))
    expected = []
    for t in range(before, len(Z)):
        v = w[: t + 1] * beta ** (t - age[: t + 1])
        expected.append(Z[t] - v @ Z[: t + 1] / v.sum())
    v = w[:before] * beta ** (before - 1.0 - age[:before])
    for array in (np.asarray, array_api_strict.asarray):
        moments = Moments(float(v.sum()), array(v @ Z[:before]))
        given_weights = array(w[before:]) if weighted else None
        found = less_running_mean(array(Z[before:]), given_weights, moments, beta)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=1e-13)


def test_equal_rows_are_at_their_mean_exactly():
    """What rounding would leave of them would start components."""
    z = np.random.default_rng(0).normal(size=5)
    w = np.random.default_rng(1).uniform(0.1, 3.0, size=40)
    for weights in (None, w):
        found = less_running_mean(np.tile(z, (40, 1)), weights, Moments(0.0, np.zeros(5)), 1.0)
        assert not found.any()


def test_columns_at_unit_length():
    V = np.array([[3.0, 0.0, 1e-200], [4.0, 0.0, 0.0]])
    unit, scale = unit_columns(V)
    np.testing.assert_allclose(unit[:, :2], [[0.6, 0.0], [0.8, 0.0]], rtol=1e-15)
    np.testing.assert_allclose(scale[:2], [0.2, 0.0])
    np.testing.assert_array_equal(column_norms(V[:, :2]), [5.0, 0.0])
