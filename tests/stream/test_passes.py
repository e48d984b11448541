"""A second pass in its steps: the basis it begins with, the rows that wait, the signs."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from kernelstream import StreamingKernelPCA
from kernelstream.bases.base import Clock
from kernelstream.stream.passes import (
    begin_second_pass,
    end_second_pass,
    finish_basis,
    take_signs,
)
from kernelstream.stream.state import Rows
from kernelstream.stream.stream import Stream

X = np.random.default_rng(0).normal(size=(900, 3))


def streamed() -> Stream:
    """A stream whose first rows were not like the others: it gains from another look."""
    model = StreamingKernelPCA(2, gamma=0.3, basis=12, batch_size=64, random_state=0)
    stream = model.partial_fit(np.vstack([0.2 * X[:500], X]))._stream
    assert stream is not None
    return stream


def test_a_second_pass_begins_with_the_finished_basis_and_nothing_else() -> None:
    stream = streamed().caught_up
    chain, state = stream.chain, stream.begun
    wanted = chain.basis.finish(chain.kernel, state.basis, Clock(chain.seed, state.n_rows))
    assert not np.array_equal(wanted.span.points, state.basis.span.points)
    np.testing.assert_array_equal(finish_basis(stream).begun.basis.span.points, wanted.span.points)
    begun = begin_second_pass(streamed()).begun
    np.testing.assert_array_equal(begun.basis.span.points, wanted.span.points)
    np.testing.assert_allclose(
        begun.basis.sample.sample()[1],
        wanted.span.coordinates(chain.kernel, wanted.sample.sample()[0]),
    )
    assert begun.n_rows == 0 and begun.moments.weight == 0.0 and not begun.basis.carried
    assert begun.signs is None and begun.next_signs == sys.maxsize


def test_rows_that_wait_at_the_end_of_a_second_pass_are_folded_once() -> None:
    stream = begin_second_pass(streamed()).learn(Rows(X), frozen=True)
    assert len(stream.waiting) == 900 % 64
    ended = end_second_pass(stream)
    assert len(ended.waiting) == 0 and ended.begun.n_rows == 900
    assert end_second_pass(ended).begun.n_rows == 900


def test_signs_of_a_finished_model_do_not_hang_on_older_ones() -> None:
    ended = end_second_pass(begin_second_pass(streamed()).learn(Rows(X), frozen=True))
    signs = ended.begun.signs
    assert signs is not None
    turned = ended.with_state(replace(ended.begun, signs=-signs))
    np.testing.assert_array_equal(take_signs(turned).begun.signs, signs)
