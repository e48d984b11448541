"""A second pass in its steps: the basis it begins with, the rows that wait, the signs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, load
from kernelstream.bases.base import Clock
from kernelstream.estimators.base import set_stream
from kernelstream.stream.passes import (
    begin_first_pass,
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


def new(**options: Any) -> Stream:
    given = dict(gamma=0.3, basis=12, batch_size=64, random_state=0) | options
    return StreamingKernelPCA(2, **given)._new_stream(X)  # type: ignore[arg-type]


@pytest.mark.parametrize("tracker", ["covariance", "incremental_svd"])
def test_a_first_pass_finds_the_same_points_and_gathers_nothing(tracker: str) -> None:
    """Each look and the second pass find what they would with all that it has left out."""
    rows = np.vstack([0.2 * X[:500], X, X + 1.0])
    whole = new(tracker=tracker).learn(Rows(rows))
    looked = begin_first_pass(new(tracker=tracker))
    for piece in np.array_split(rows, 7):
        looked = looked.learn(Rows(piece))
    assert looked.n_rows == whole.n_rows
    a, b = begin_second_pass(looked), begin_second_pass(whole)
    assert not a.chain.only_points
    np.testing.assert_array_equal(a.begun.basis.span.points, b.begun.basis.span.points)
    a, b = (end_second_pass(s.learn(Rows(rows), frozen=True)) for s in (a, b))
    np.testing.assert_array_equal(a.components.variances, b.components.variances)
    np.testing.assert_array_equal(a.components.vectors, b.components.vectors)
    assert str(a.certificate) == str(b.certificate)


def test_a_first_pass_multiplies_no_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the products of a fold would be for a matrix that the second pass begins anew."""
    stream = begin_first_pass(new()).learn(Rows(X[:500]))
    monkeypatch.setattr(
        "kernelstream.bases.base.weighted_gram", lambda *given: pytest.fail("a scatter matrix")
    )
    assert stream.learn(Rows(X)).n_rows == 1400


def test_between_two_passes_nothing_is_claimed(tmp_path: Path) -> None:
    looked = begin_first_pass(new()).learn(Rows(X))
    assert not looked.components.variances.any()
    certificate = looked.certificate
    assert not certificate.useful and certificate.statistical.reason is not None
    model = StreamingKernelPCA(2, gamma=0.3, basis=12, batch_size=64, random_state=0)
    set_stream(model.partial_fit(X), looked)
    model.save(tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match="checkpoint of the first of two passes"):
        load(tmp_path / "m.safetensors")


def test_a_first_pass_gathers_what_fills_and_judges() -> None:
    """Gaps are filled by what came before, and rows judged by it."""
    assert not begin_first_pass(new(missing="fill", scale="auto")).chain.only_points
    assert not begin_first_pass(new(robust=True)).chain.only_points
    assert not begin_first_pass(new(tracker="hebbian")).chain.only_points
    assert begin_first_pass(new()).chain.only_points


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
