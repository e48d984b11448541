"""The table of a certificate: which statement goes where, what it says, and why there is none."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, kernels, papers, trackers
from kernelstream.certificates import bounds, rounding
from kernelstream.certificates.certificate import (
    Certificate,
    GuaranteedBounds,
    as_shown,
    certify,
    evidence,
    no_guarantee,
    obstacle,
    weakness,
)
from kernelstream.certificates.ledger import Ledger
from kernelstream.certificates.observer import Accumulated
from kernelstream.landmarks.nystroem import factorise, transition
from kernelstream.trackers import Moments
from tests.conftest import ledger_of

KERNEL = kernels.Polynomial(degree=2, gamma=0.5, coef0=1.0)


def accumulated(center: bool = True, dtype: Any = np.float64) -> tuple[Accumulated, Ledger]:
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(60, 3)), rng.uniform(0.5, 2.0, size=60)
    span = factorise(KERNEL, rng.normal(size=(8, 3)).astype(dtype))
    Z = np.asarray(span.coordinates(KERNEL, X), dtype=float)
    energy = float(w @ KERNEL.diag(X))
    ledger = Ledger(
        energy=energy,
        fresh=energy - float(w @ np.sum(Z**2, axis=1)),
        blocks=2,
        longest=40,
        extent=1.0,
    )
    sums = Accumulated(
        kernel=KERNEL,
        tracker=trackers.Covariance(),
        center=center,
        span=span,
        moments=Moments(float(w.sum()), w @ Z),
        scatter=(Z * w[:, None]).T @ Z,
    )
    return sums, ledger


def shown_by(held: Accumulated, ledger: Ledger, r: int = 2) -> tuple[np.ndarray, np.ndarray]:
    known = evidence(held, ledger)
    return known.vectors[:, :r], known.mean


@pytest.mark.parametrize("center", [True, False])
def test_every_number_is_that_of_its_statement(center: bool) -> None:
    held, ledger = accumulated(center)
    span = held.span
    W, S = held.moments.weight, np.asarray(held.scatter)
    known = evidence(held, ledger)
    mean = held.moments.total / W if center else np.zeros(span.rank)
    np.testing.assert_allclose(known.mean, mean, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(known.moment, S / W, rtol=1e-14)
    C = S / W - np.outer(mean, mean)
    np.testing.assert_allclose(known.values, np.linalg.eigvalsh(C)[::-1].clip(0), atol=1e-12)
    np.testing.assert_allclose(C @ known.vectors, known.vectors * known.values, atol=1e-10)
    slack = rounding.slack(KERNEL, ledger, span, S)
    assert known.slack == pytest.approx(slack * ledger.energy / W, rel=1e-12)
    assert known.weight == W and known.center is center and known.ledger is ledger

    vectors, mu = shown_by(held, ledger)
    found = certify(held, ledger, np.hstack([vectors, np.zeros((span.rank, 1))]), mu, span)
    seen = as_shown(held, ledger, vectors, mu, span)
    assert seen.same_span and seen.error == 0.0
    np.testing.assert_array_equal(seen.T, np.eye(span.rank))
    intervals = bounds.eigenvalues(known, 3)
    np.testing.assert_allclose(found.eigenvalue_intervals, intervals * W, rtol=1e-12)
    error, best = bounds.own_error(known, seen), bounds.best_error(known, 3)
    assert found.reconstruction_error == error
    assert found.reconstruction_error_lower_bound == best
    assert found.excess_bound == error - best > 0
    assert found.angle_bound is None  # two vectors of three
    least, most = bounds.leading_sum(known, 3)
    ratio = least / bounds.total_variance(known)[1], most / (most + best)
    assert found.best_explained_variance_ratio_interval == pytest.approx(ratio, rel=1e-12)
    np.testing.assert_array_equal(found.component_bounds, bounds.outside(known, seen, intervals))
    assert found.slack == pytest.approx(slack, rel=1e-12)
    assert found.reason is None and found.useful
    one = certify(held, ledger, vectors[:, :1], mu, span)
    assert one.angle_bound == bounds.angle(
        known, as_shown(held, ledger, vectors[:, :1], mu, span), 1
    )


def test_what_is_shown_in_another_basis() -> None:
    held, ledger = accumulated()
    span = held.span
    new = factorise(KERNEL, np.random.default_rng(1).normal(size=(7, 3)))
    T = transition(KERNEL, span, new)
    vectors, mu = T @ shown_by(held, ledger)[0], T @ shown_by(held, ledger)[1]
    vectors[:, 1] = 0.0  # fills up missing rank
    vectors[:, 0] /= np.linalg.norm(vectors[:, 0])
    seen = as_shown(held, ledger, vectors, mu, new)
    S = np.asarray(held.scatter)
    carried, lost, _ = rounding.change(KERNEL, ledger, span, new, T, S, T @ S @ T.T)
    assert not seen.same_span and seen.V.shape == (new.rank, 1)
    assert seen.error == pytest.approx(2 * carried + lost)
    np.testing.assert_allclose(seen.T, T, atol=1e-14)


def test_one_is_the_most_that_components_explain() -> None:
    """Where nothing but rounding is left, shares are 0 and 1."""
    held, ledger = accumulated()
    exact = replace(ledger, energy=float(np.trace(np.asarray(held.scatter))), fresh=0.0)
    vectors, mu = shown_by(held, ledger, held.span.rank)
    low, high = certify(held, exact, vectors, mu, held.span).best_explained_variance_ratio_interval
    assert 1.0 - 1e-9 < low <= 1.0 and high == 1.0
    none = certify(held, exact, vectors[:, :0], mu, held.span)
    assert none.best_explained_variance_ratio_interval == pytest.approx((0.0, 0.0), abs=1e-9)
    assert none.eigenvalue_intervals.shape == (0, 2) and none.reason is None


OBSTACLES: list[tuple[dict[str, Any], str]] = [
    (dict(kernel=kernels.Sigmoid()), "the kernel Sigmoid() is not known to be positive semidef"),
    (dict(scatter=None, tracker=papers.RLS()), "the tracker RLS() keeps no moments; use tr"),
]


@pytest.mark.parametrize(("changed", "words"), OBSTACLES, ids=lambda value: str(value)[:30])
def test_why_there_is_none(changed: dict[str, Any], words: str) -> None:
    held, ledger = accumulated()
    assert obstacle(held, ledger) is None
    other = replace(held, **changed)
    reason = obstacle(other, ledger)
    assert reason is not None and reason.startswith(words)
    found = certify(other, ledger, np.zeros((8, 2)), np.zeros(8), held.span)
    assert found.reason == reason and not found.useful
    np.testing.assert_array_equal(found.eigenvalue_intervals, [[0.0, math.inf]] * 2)
    assert found.best_explained_variance_ratio_interval == (0.0, 1.0)
    assert found.reconstruction_error == found.excess_bound == found.slack == math.inf
    assert found.reconstruction_error_lower_bound == 0.0 and found.angle_bound is None
    np.testing.assert_array_equal(found.component_bounds, [1.0, 1.0])
    assert ("limitation", reason) in Certificate(found).rows()
    unobserved = certify(held, None, np.zeros((8, 2)), np.zeros(8), held.span)
    assert unobserved.reason == "certify=False was given"


def with_energy(energy: float, weight: float) -> str | None:
    held, ledger = accumulated()
    sums = replace(held, moments=Moments(weight, held.moments.total))
    return obstacle(sums, replace(ledger, energy=energy))


def test_where_energies_underflow() -> None:
    """A million times the smallest number that has all its digits, in float64."""
    tiny = 1e6 * np.finfo(np.float64).tiny
    assert with_energy(1.001 * tiny, 1.0) is None
    for weight in (1e-3, 1.0):
        reason = with_energy(0.999 * tiny, weight)
        assert reason is not None and reason.startswith("the weights are so small that sums of th")
    reason = with_energy(1.0, 1.001 / tiny)
    assert reason is not None and reason.startswith("the kernel's values are so small that they")
    assert with_energy(1.0, 0.999 / tiny) is None
    for weight in (0.0, -1.0):
        reason = with_energy(1.0, weight)
        assert reason is not None and reason.startswith("the account of missed energy is not comp")
    held, ledger = accumulated()
    lost = replace(ledger, complete=False)
    assert obstacle(held, lost) == "the account of missed energy is not complete"


def test_rounding_as_large_as_the_data() -> None:
    held, ledger = accumulated()
    vectors, mu = shown_by(held, ledger)
    for share, useless in ((0.45, False), (0.55, True)):  # twice as much enters the slack
        rough = replace(ledger, rounding=share)
        reason = certify(held, rough, vectors, mu, held.span).reason
        assert (reason == "rounding errors are as large as the data; see the documentation") == (
            useless
        )


def test_numbers_that_leave_the_range() -> None:
    held, ledger = accumulated()
    vectors, mu = shown_by(held, ledger)
    huge = replace(ledger, stale=math.inf)
    assert (
        certify(held, huge, vectors, mu, held.span).reason
        == "the numbers leave the range of float64"
    )


def test_float32_rows_have_no_guaranteed_bounds() -> None:
    single, ledger = accumulated(dtype=np.float32)
    found = certify(single, ledger, *shown_by(single, ledger), single.span)
    assert found.reason is not None and "float32" in found.reason
    X = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
    stream = StreamingKernelPCA(2, gamma=0.1, basis=20, batch_size=100).partial_fit(X).stream_
    assert not ledger_of(stream.caught_up.begun).complete
    certificate = stream.certificate
    assert not certificate.details.useful and certificate.statistical.complete


def test_statements_that_are_true_but_of_no_use() -> None:
    held, ledger = accumulated()
    known = evidence(held, ledger)
    first = known.values[0]
    for width, useless in ((first, False), (1.001 * first, True)):
        reason = weakness(known, np.array([[0.0, width]]))
        assert (reason is not None) == useless
    assert reason is not None and reason.startswith("no useful certificate: the basis misses too m")
    assert weakness(known, np.zeros((0, 2))) is None
    stale = replace(known, ledger=replace(known.ledger, stale=1.0))
    reason = weakness(stale, np.array([[0.0, 2 * first]]))
    assert reason is not None and "many rows were folded before the basis last moved" in reason


def table(r: int, angle: float | None, reason: str | None) -> GuaranteedBounds:
    return GuaranteedBounds(
        eigenvalue_intervals=np.array([[1.0 + i, 2.5 + i] for i in range(r)]),
        component_bounds=np.ones(r),
        explained_variance_ratio_interval=(0.125, 0.75),
        best_explained_variance_ratio_interval=(0.25, 0.75),
        reconstruction_error=0.5,
        reconstruction_error_lower_bound=0.125,
        excess_bound=0.375,
        angle_bound=angle,
        slack=1e-12,
        reason=reason,
    )


def test_a_certificate_in_words() -> None:
    certificate = Certificate(table(2, None, None))
    assert certificate.kind == "guaranteed" and certificate.bounds is certificate.details
    assert certificate.rows() == [
        ("explained by this model", "between 0.1250 and 0.7500"),
        ("explained by the best", "between 0.2500 and 0.7500"),
        ("kind", "guaranteed"),
    ]
    lines = str(certificate).splitlines()
    assert lines[0] == "explained by this model  between 0.1250 and 0.7500"
    html = certificate._repr_html_()
    assert html.startswith("<table><tr><th>explained by this model</th><td>between 0.1250 and")
    nothing = str(Certificate(no_guarantee(1, "why")))
    assert nothing.splitlines()[-1] == "limitation               why"
    imputed = Certificate(table(2, None, None), filled=True)
    assert imputed.rows()[-1][0] == "rows"


def test_explained_variance_ratio_of_this_model_is_below_the_best() -> None:
    held, ledger = accumulated()
    found = certify(held, ledger, *shown_by(held, ledger), held.span)
    low, high = found.explained_variance_ratio_interval
    least, most = found.best_explained_variance_ratio_interval
    known = evidence(held, ledger)
    assert 0.0 < low <= least <= most == high <= 1.0
    expected = 1.0 - found.reconstruction_error / bounds.total_variance(known)[0]
    assert low == pytest.approx(expected, rel=1e-12)
