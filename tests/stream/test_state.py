"""Rows with weights and targets, as a value."""

from __future__ import annotations

import numpy as np

from kernelstream.stream.state import Rows

X, W, Y = np.arange(12.0).reshape(6, 2), np.arange(1.0, 7.0), np.arange(6.0)[:, None]


def test_slices_and_choices_take_all_of_it_along() -> None:
    rows = Rows(X, W, Y)
    assert len(rows) == 6
    for part, index in (
        (rows[1:4], [1, 2, 3]),
        (rows[-2:], [4, 5]),
        (rows.take(np.array([5, 0])), [5, 0]),
    ):
        np.testing.assert_array_equal(part.X, X[index])
        np.testing.assert_array_equal(part.weights, W[index])
        np.testing.assert_array_equal(part.targets, Y[index])
    plain = Rows(X)
    for part in (plain[1:4], plain.take(np.array([2]))):
        assert part.weights is None and part.targets is None


def test_one_form_for_the_same_rows() -> None:
    fortran = Rows(np.asfortranarray(X), np.ones(6), np.asfortranarray(np.hstack([Y, Y])))
    same = fortran.canonical()
    assert same.X.flags.c_contiguous and same.targets.flags.c_contiguous  # type: ignore[union-attr]
    assert same.weights is None
    np.testing.assert_array_equal(same.X, X)
    nearly = Rows(X, np.array([1.0] * 5 + [1.0 + 1e-15])).canonical()
    assert nearly.weights is not None and Rows(X).canonical().weights is None
