"""A second pass in its steps: the basis it begins with, the rows that wait, the signs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, landmarks, load, papers, trackers
from kernelstream.certificates import sample as audit_module
from kernelstream.stream import fit
from kernelstream.stream.fit import (
    begin_first_pass,
    begin_second_pass,
    finish,
    first_pass_fraction,
    take_signs,
    with_final_landmarks,
)
from kernelstream.stream.imputation import Imputation
from kernelstream.stream.state import Rows
from kernelstream.stream.step import Chain
from kernelstream.stream.stream import Stream
from tests.conftest import audit_sample

X = np.random.default_rng(0).normal(size=(900, 3))


def streamed() -> Stream:
    """A stream whose first rows were not like the others: it gains from another look."""
    model = StreamingKernelPCA(2, gamma=0.3, basis=12, batch_size=64, random_state=0)
    stream = model.partial_fit(np.vstack([0.2 * X[:500], X]))._stream
    assert stream is not None
    return stream


def new(**options: Any) -> Stream:
    given = dict(gamma=0.3, basis=12, batch_size=64, random_state=0) | options
    return StreamingKernelPCA(2, **given).new_stream(X)


ROWS = np.vstack([0.2 * X[:500], X, X + 1.0])


def in_pieces(stream: Stream, rows: np.ndarray, n: int) -> Stream:
    for piece in np.array_split(rows, n):
        stream = stream.learn(Rows(piece))
    return stream


@pytest.mark.parametrize(
    "parts",
    [
        {"basis": landmarks.Distance(0.3)},
        {"tracker": "incremental_svd"},
    ],
    ids=str,
)
def test_a_first_pass_that_reads_all_rows_finds_the_same_points(parts: dict[str, Any]) -> None:
    """What it leaves out has no use before the second pass."""
    whole, looked = new(**parts).learn(Rows(ROWS)), begin_first_pass(new(**parts))
    looked = in_pieces(looked, ROWS, 7)
    assert looked.n_rows == whole.n_rows
    a, b = begin_second_pass(looked), begin_second_pass(whole)
    assert not a.chain.only_points
    np.testing.assert_array_equal(a.begun.basis.span.points, b.begun.basis.span.points)
    a, b = (finish(s.learn(Rows(ROWS), frozen=True)) for s in (a, b))
    np.testing.assert_array_equal(a.components.variances, b.components.variances)
    assert str(a.certificate) == str(b.certificate)


@pytest.mark.parametrize("options", [{}, {"tracker": trackers.Covariance(0.999)}], ids=str)
def test_a_first_pass_for_centroids_only_draws(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Points are then as good as those of rows that were all measured, however rows are cut."""
    monkeypatch.setattr(landmarks.Centroids, "_sample_rows", 400)
    whole = begin_second_pass(new(**options).learn(Rows(ROWS)))
    with monkeypatch.context() as patch:
        patch.setattr(Chain, "step", lambda *given, **named: pytest.fail("measured"))
        looked = [in_pieces(begin_first_pass(new(**options)), ROWS, n) for n in (1, 9)]
    assert first_pass_fraction(looked[0]) < 0.5
    once, often = (begin_second_pass(stream) for stream in looked)
    np.testing.assert_array_equal(once.begun.basis.span.points, often.begun.basis.span.points)
    sample = once.begun.basis.sample
    rows, coordinates = sample.held()
    assert len(rows) == 400 and not once.begun.basis.carried
    np.testing.assert_allclose(
        coordinates, once.begun.basis.span.coordinates(once.chain.kernel, rows)
    )
    np.testing.assert_array_equal(sample.priority, whole.begun.basis.sample.priority)
    shares = [
        finish(s.learn(Rows(ROWS), frozen=True)).components.variances.sum() for s in (once, whole)
    ]
    assert shares[0] > 0.99 * shares[1]


def test_rows_that_are_drawn_hold_no_coordinates() -> None:
    """They are not known before the points are, and would take more memory than the rows."""
    stream = in_pieces(begin_first_pass(new()), ROWS, 9)
    pieces = stream.begun.basis.sample.coordinates
    rank = stream.begun.basis.span.rank
    assert pieces and all(piece.shape[1] == rank and piece.strides[0] == 0 for piece in pieces)
    assert not any(piece.any() for piece in pieces)


def test_rows_that_came_late_are_seen_by_points_that_held_all_before() -> None:
    """A pass that only draws does not know what it missed: the sample tells at its end."""
    flat = np.zeros((3000, 3))
    flat[:, 0] = np.random.default_rng(0).normal(size=3000)
    rows = np.vstack([flat, X])
    stream = begin_first_pass(new(kernel="linear", gamma=None, basis=20)).learn(Rows(rows))
    ended = finish(begin_second_pass(stream).learn(Rows(rows), frozen=True))
    np.testing.assert_allclose(
        ended.components.variances,
        np.linalg.eigvalsh(np.cov(rows.T, bias=True))[::-1][:2],
        rtol=1e-6,
    )


def test_a_first_pass_multiplies_no_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the products of a fold would be for a matrix that the second pass begins anew."""
    stream = begin_first_pass(new(basis=landmarks.Distance(0.3))).learn(Rows(X[:500]))
    assert first_pass_fraction(stream) == 0.5
    monkeypatch.setattr(
        "kernelstream.landmarks.base.weighted_gram", lambda *given: pytest.fail("a scatter matrix")
    )
    assert stream.learn(Rows(X)).n_rows == 1400


def test_between_two_passes_nothing_is_claimed(tmp_path: Path) -> None:
    looked = begin_first_pass(new()).learn(Rows(X))
    assert not looked.components.variances.any()
    certificate = looked.certificate
    assert not certificate.details.useful and certificate.statistical.reason is not None
    model = StreamingKernelPCA(2, gamma=0.3, basis=12, batch_size=64, random_state=0)
    model.partial_fit(X).set_stream(looked)
    model.save(tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match="checkpoint of the first of two passes"):
        load(tmp_path / "m.safetensors")


def test_a_first_pass_gathers_what_rows_are_evaluated_by() -> None:
    assert begin_first_pass(new(scale=Imputation("auto"))).chain.only_points
    assert not begin_first_pass(new(robust=True)).chain.only_points
    assert not begin_first_pass(new(tracker=papers.Hebbian())).chain.only_points
    assert begin_first_pass(new()).chain.only_points


def test_a_second_pass_begins_with_the_finished_basis_and_nothing_else() -> None:
    stream = streamed().caught_up
    chain, state = stream.chain, stream.begun
    wanted = with_final_landmarks(stream).begun.basis
    assert not np.array_equal(wanted.span.points, state.basis.span.points)
    begun = begin_second_pass(streamed()).begun
    np.testing.assert_array_equal(begun.basis.span.points, wanted.span.points)
    np.testing.assert_allclose(
        begun.basis.sample.held()[1],
        wanted.span.coordinates(chain.kernel, wanted.sample.held()[0]),
    )
    assert begun.n_rows == 0 and begun.moments.weight == 0.0 and not begun.basis.carried
    assert begun.signs is None and begun.next_signs == sys.maxsize


def test_rows_that_wait_at_the_end_of_a_second_pass_are_folded_once() -> None:
    stream = begin_second_pass(streamed()).learn(Rows(X), frozen=True)
    assert len(stream.waiting) == 900 % 64
    ended = finish(stream)
    assert len(ended.waiting) == 0 and ended.begun.n_rows == 900
    assert finish(ended).begun.n_rows == 900


def test_signs_of_a_finished_model_do_not_hang_on_older_ones() -> None:
    ended = finish(begin_second_pass(streamed()).learn(Rows(X), frozen=True))
    signs = ended.begun.signs
    assert signs is not None
    turned = ended.with_state(replace(ended.begun, signs=-signs))
    np.testing.assert_array_equal(take_signs(turned).begun.signs, signs)


@pytest.mark.parametrize(
    "options",
    [{}, {"scale": "standard"}, {"kernel": "laplacian"}, {"kernel": "poly"}, {"robust": True}],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_judges_of_all_rows_are_those_of_their_blocks(
    options: dict[str, Any], weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawn before the pass or block by block: the same rows, in the units of the kernel."""
    X = np.random.default_rng(1).normal(3.0, 2.0, size=(1500, 3))
    X[::50] += 30.0  # rows that fit badly
    weights = np.linspace(1.0, 3.0, 1500) if weighted else None
    monkeypatch.setattr(audit_module, "ROWS", 200)

    def judges() -> audit_module.AuditSample:
        model = StreamingKernelPCA(3, basis=20, random_state=0, **options)
        found = audit_sample(model.fit(X, sample_weight=weights).stream_.begun)
        assert found is not None
        return found.compact()

    at_once = judges()
    monkeypatch.setattr(fit, "sample_of_all", lambda stream, rows: None)
    by_blocks = judges()
    assert len(at_once) == 200 and at_once.key == by_blocks.key
    assert np.array_equal(at_once.rows[0], by_blocks.rows[0])
    assert np.array_equal(at_once.priority, by_blocks.priority)
    assert at_once.threshold == by_blocks.threshold and at_once.largest == by_blocks.largest
    ours, theirs = at_once.log_weight, by_blocks.log_weight
    alike = ours is theirs is None
    assert alike or (ours is not None and theirs is not None and np.array_equal(ours, theirs))
