"""Entries into the account, where features can be written down: the kernel is the inner product."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from kernelstream import StreamingKernelPCA, kernels, landmarks, trackers
from kernelstream.certificates import observer, rounding
from kernelstream.certificates.ledger import Ledger
from kernelstream.certificates.observer import (
    Accumulated,
    CertificateObserver,
    rebased,
    spectrum,
)
from kernelstream.landmarks.base import Clock, Measured, Projection
from kernelstream.landmarks.nystroem import Span, factorise, transition, weighted_total
from kernelstream.trackers import Moments
from tests.conftest import ledger_of, settled_state
from tests.naive.certificate import kappa

LINEAR = kernels.Linear()


def accumulated(span: Span, Z: np.ndarray, w: np.ndarray, **more: Any) -> Accumulated:
    """What rows with the coordinates Z leave."""
    given: dict[str, Any] = dict(
        kernel=LINEAR,
        tracker=trackers.Covariance(),
        center=True,
        span=span,
        moments=Moments(float(w.sum()), w @ Z),
        scatter=(Z * w[:, None]).T @ Z,
    )
    return Accumulated(**(given | more))


def blank_ledger(certify: Any, n_components: int | None) -> Ledger:
    return CertificateObserver.begin(certify, n_components, sampled=False).ledger


def learned(X: Any, block: Projection, w: np.ndarray | None = None) -> Measured:
    """A block of rows, learned with such weights."""
    return Measured.of(X, w, w, Clock(0, 0), block, scatter=False)


def entered(
    held: Accumulated, ledger: Ledger, X: Any, block: Projection, w: np.ndarray | None = None
) -> Ledger:
    """The ledger after one block."""
    return CertificateObserver(ledger).on_blocks(held, [learned(X, block, w)]).ledger


def orders(R: np.ndarray, w: np.ndarray, n: int = 4) -> np.ndarray:
    """κ_1 … κ_n of the missed parts R, with their weights."""
    return np.array([kappa((R * w[:, None]).T @ R, k) for k in range(1, n + 1)])


def test_points_far_apart_are_remembered() -> None:
    """The kernel's rounding depends on the squared norm of the points, about their mean."""
    kernel = kernels.RBF(0.1)
    points = np.array([[50.0, 0.0], [60.0, 0.0]])
    span = factorise(kernel, points)
    X = points[:1]
    held = accumulated(span, np.zeros((0, 2)), np.zeros(0), kernel=kernel)
    block = Projection(span.coordinates(kernel, X), np.ones(1), np.zeros(1))
    ledger = blank_ledger("tight", 3)
    dense = entered(held, ledger, X, block)
    assert dense.extent == kernel.rounding.extent(points, True) > 0
    sparse = entered(held, ledger, scipy.sparse.csr_matrix(X), block)
    assert (
        sparse.extent
        == kernel.rounding.extent(points, False)
        > kernel.rounding.extent(points, True)
    )
    # fewer rows than orders: the last sum stands for the others
    np.testing.assert_allclose(sparse.fresh_orders, 0.0, atol=1e-12)
    few = accumulated(factorise(LINEAR, np.eye(6)[:3]), np.zeros((0, 3)), np.zeros(0))
    rows = np.random.default_rng(0).normal(size=(2, 6))
    missed = np.sum(rows[:, 3:] ** 2, axis=1)
    block = Projection(rows[:, :3], np.sum(rows**2, axis=1), missed)
    found = entered(few, ledger, rows, block).fresh_orders
    np.testing.assert_allclose(found, orders(rows[:, 3:], np.ones(2)), rtol=1e-9)


def test_a_ledger_has_an_order_for_each_component_and_the_mean() -> None:
    for certify, n_components, expected in (
        ("tight", 3, 4),
        ("tight", 0, 1),
        ("tight", None, 21),
        ("auto", 3, 0),
    ):
        blank = blank_ledger(certify, n_components)
        assert len(blank.fresh_orders) == len(blank.stale_orders) == expected
        assert not blank.fresh_orders.any() and not blank.stale_orders.any()
    model = StreamingKernelPCA(1, gamma=1.0, basis=2, certify=False, random_state=0)
    model.partial_fit(np.random.default_rng(0).normal(size=(20, 2)))
    assert model.stream_.caught_up.begun.observer is None


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "pieces"), [(100, 1), (128, 1), (300, 3)])
def test_a_block_in_a_fixed_basis(n: int, pieces: int, weighted: bool) -> None:
    """128 rows at a time, or as many as there are points: their orders are added up."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(n, 6)), rng.uniform(0.2, 3.0, size=n)
    w = w if weighted else np.ones(n)
    span = factorise(LINEAR, rng.normal(size=(3, 6)))
    held = accumulated(span, np.zeros((0, 3)), np.zeros(0))
    before = replace(blank_ledger("tight", 3), blocks=2, longest=120, extent=0.5)
    Z, Q = span.coordinates(LINEAR, X), np.linalg.qr(span.points.T)[0]
    R = X - X @ Q @ Q.T
    energy, residual = np.sum(X**2, axis=1), np.sum(R**2, axis=1)
    block = Projection(Z, energy, residual)
    ledger = entered(held, before, X, block, w if weighted else None)
    assert ledger.blocks == 3 and ledger.longest == max(120, n) and ledger.exact == 0.0
    assert ledger.energy == pytest.approx(w @ energy) and ledger.stale == 0.0
    assert ledger.fresh == pytest.approx(w @ residual)
    cuts = [slice(i * 128, (i + 1) * 128) for i in range(pieces)]
    expected = sum(orders(R[cut], w[cut]) for cut in cuts)
    # besides, what rounding of the rows' own values may have hidden: √k c u E
    np.testing.assert_allclose(ledger.fresh_orders, np.minimum(expected, w @ residual), rtol=1e-9)
    assert np.all(np.asarray(ledger.fresh_orders)[:2] > np.asarray(expected)[:2])
    assert ledger.extent == max(0.5, span.extent(LINEAR))
    far = entered(held, before, X, replace(block, extent=1e4), w)
    assert far.extent == 1e4


def test_rounding_of_the_rows_own_values_is_entered() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5, 6))
    span = factorise(LINEAR, np.eye(6)[:3])
    held = accumulated(span, np.zeros((0, 3)), np.zeros(0))
    block = Projection(X[:, :3], np.sum(X**2, axis=1), np.sum(X[:, 3:] ** 2, axis=1))
    w = np.full(5, 2.0)
    found = spectrum(held, blank_ledger("tight", 3), learned(X, block, w), slice(0, 5))
    assert found is not None
    more = found - orders(X[:, 3:], w)
    expected = rounding.gram_error(LINEAR, X) * 2.0 * np.sum(X**2) * np.sqrt([1, 2, 3, 4])
    np.testing.assert_allclose(more, expected, atol=4e-15 * np.sum(X**2))


@pytest.mark.parametrize("points", [100, 200, 600])
def test_as_many_rows_are_looked_at_together_as_there_are_points(
    points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def gram(self: kernels.Linear, x: np.ndarray) -> np.ndarray:
        seen.append(len(x))
        return np.zeros((len(x), len(x)))

    held = accumulated(factorise(LINEAR, np.eye(1)), np.zeros((0, points)), np.zeros(0))
    monkeypatch.setattr(kernels.Linear, "gram", gram)
    block = Projection(np.zeros((1100, points)), np.zeros(1100), np.zeros(1100))
    rows = learned(np.zeros((1100, 1)), block)
    spectrum(held, blank_ledger("tight", 1), rows, slice(0, 1100))
    length = {100: 128, 200: 200, 600: 512}[points]
    assert seen == [length] * (1100 // length) + [1100 % length]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("certify", ["tight", "auto"])
def test_rows_before_the_last_point_of_a_block_are_stale(certify: Any, weighted: bool) -> None:
    """Held is the projection on the points of a row's own time, and the features are the rows."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(90, 8)) * 0.7 ** np.arange(8)
    w = rng.uniform(0.2, 3.0, size=90) if weighted else np.ones(90)
    model = StreamingKernelPCA(
        3,
        kernel="linear",
        basis=landmarks.Distance(nu=0.25, max_points=5),
        certify=certify,
        batch_size=90,
    ).partial_fit(X, sample_weight=w if weighted else None)
    ledger = ledger_of(settled_state(model))
    points: list[int] = []
    held = np.zeros_like(X)
    for i, x in enumerate(X):
        Q = np.linalg.qr(X[points].T)[0]
        if np.sum((x - Q @ (Q.T @ x)) ** 2) > 0.25 and len(points) < 5:
            points.append(i)
            Q = np.linalg.qr(X[points].T)[0]
        held[i] = Q @ (Q.T @ x)
    assert len(points) == 5 and 5 < points[-1] < 60
    last = points[-1]  # itself in the span that it completes
    early, late, R = slice(0, last), slice(last, 90), X - held
    energy = np.sum(X**2, axis=1)
    assert ledger.energy == pytest.approx(w @ energy, rel=1e-9)
    assert ledger.fresh == pytest.approx(w[late] @ np.sum(R[late] ** 2, axis=1), rel=1e-9)
    assert ledger.stale == pytest.approx(w[early] @ np.sum(R[early] ** 2, axis=1), rel=1e-9)
    assert ledger.exact == pytest.approx(w[points] @ energy[points], rel=1e-9)
    before = w[points[:-1]] @ energy[points[:-1]]
    assert ledger.loose == pytest.approx(w[early] @ energy[early] - before, rel=1e-9)
    assert ledger.stale_weight == pytest.approx(w[early].sum(), rel=1e-9)
    assert ledger.stale_trace == pytest.approx(
        w[early] @ np.sum(held[early] ** 2, axis=1), rel=1e-9
    )
    total = w[early] @ held[early]
    assert np.linalg.norm(ledger.stale_sum) == pytest.approx(np.linalg.norm(total), rel=1e-9)
    if certify == "auto":
        assert ledger.stale_scatter.size == ledger.stale_orders.size == 0
        return
    S = (held[early] * w[early, None]).T @ held[early]
    np.testing.assert_allclose(
        np.linalg.eigvalsh(ledger.stale_scatter)[::-1], np.linalg.eigvalsh(S)[::-1][:5], 1e-8, 1e-12
    )
    np.testing.assert_allclose(ledger.stale_orders, orders(R[early], w[early]), rtol=1e-8)
    np.testing.assert_allclose(ledger.fresh_orders, orders(R[late], w[late]), rtol=1e-8)


def change_of(
    certify: Any = "tight", exact: float = 0.0
) -> tuple[Accumulated, Ledger, Span, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    old, new = (factorise(LINEAR, rng.normal(size=(m, 6))) for m in (4, 3))
    Z, w = rng.normal(size=(30, 4)), rng.uniform(0.5, 2.0, size=30)
    ledger = blank_ledger(certify, 2)
    ledger = replace(ledger.fold(100.0, 5.0, exact=exact), blocks=3, longest=20, extent=2.0)
    return accumulated(old, Z, w), ledger, new, Z, w


@pytest.mark.parametrize("certify", ["tight", "auto"])
def test_a_change_of_basis_is_entered_with_its_rounding(certify: Any) -> None:
    held, ledger, new, _, _ = change_of(certify, exact=7.0)
    assert held.span is not None
    T = transition(LINEAR, held.span, new)
    S = np.asarray(held.scatter)
    moved = T @ S @ T.T
    loss = float(np.trace(S) - np.trace(moved))
    asked: list[int] = []

    def lost(n: int) -> np.ndarray | None:
        asked.append(n)
        return np.linspace(0.5, 0.9, n) * loss if n else None

    found = rebased(held, ledger, new, moved, T, loss, lost)
    carried, more, off = rounding.change(LINEAR, ledger, held.span, new, T, S, moved)
    hidden = rounding.slack(LINEAR, ledger, held.span, S, off) * ledger.inexact
    tight = certify == "tight"
    expected = ledger.widen(hidden).rebase(
        held.moments.weight,
        loss + 100.0 * more,
        np.linspace(0.5, 0.9, 3) * loss + 100.0 * more if tight else None,
        trace=float(np.trace(S)),
        total=T @ held.moments.total,
        scatter=moved if tight else None,
        rounding=carried,
    )
    assert asked == [3 if tight else 0]
    for name, value in vars(expected).items():
        np.testing.assert_array_equal(getattr(found, name), value, name)
    assert found.rounding == carried > 0 and found.exact == 0.0


@pytest.mark.parametrize("certify", ["tight", "auto"])
def test_rebased_where_all_rows_are_points_keeps_a_bound_on_what_is_missed(certify: Any) -> None:
    """Their energy may be rounded up, and that of all rows down."""
    held, ledger, new, _, _ = change_of(certify, exact=float(np.nextafter(100.0, 101.0)))
    ledger = replace(ledger, fresh=0.0, fresh_orders=0.0 * ledger.fresh_orders)
    T = transition(LINEAR, held.span, new)
    found = rebased(held, ledger, new, T @ held.scatter @ T.T, T, 1.0, lambda n: np.ones(n))
    assert 0.0 < found.stale < 1e-20
    assert np.all(found.stale_orders == found.stale)


def test_points_that_are_only_appended_change_nothing_else() -> None:
    held, ledger, _, Z, w = change_of()
    old = held.span
    assert old is not None
    T = np.eye(5, 4)
    points = np.vstack([old.points, np.ones(6)])
    factor = np.zeros((5, 5))
    factor[:4, :4], factor[:, 4] = old.factor, 1.0
    longer = replace(old, points=points, factor=factor)
    moved = T @ np.asarray(held.scatter) @ T.T

    def never(n: int) -> np.ndarray | None:
        raise AssertionError

    found = rebased(held, ledger, longer, moved, T, 0.0, never)
    total = np.append(w @ Z, 0.0)
    expected = ledger.grow(w.sum(), float(np.trace(moved)), total, moved)
    for name, value in vars(expected).items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-12, err_msg=name)
    assert rebased(held, ledger, old, held.scatter, np.eye(4), 0.0, never) is ledger  # no new rank
    assert observer.is_extension(old, longer) and not observer.is_extension(longer, old)
    for changed in (
        replace(longer, points=points[::-1]),
        replace(longer, factor=2 * factor),
        replace(longer, factor=factor + np.eye(5)[:, ::-1] * (np.arange(5) == 0)[None, :]),
    ):
        assert not observer.is_extension(old, changed)
    assert observer.is_padding(T) and not observer.is_padding(2 * T)


def test_energy_that_nobody_measured() -> None:
    held, ledger, new, _, _ = change_of()
    T = np.eye(3, 4)
    for unknown in (rebased(held, ledger, new, None, T, None, lambda n: None),):
        assert unknown.stale_trace == np.inf and unknown.rounding == 0.0
        assert unknown.stale_weight == held.moments.weight
    assert not rebased(held, ledger, new, None, T, None, lambda n: None).complete
    assert replace(held, scatter=None).trace == np.inf
    assert held.trace == pytest.approx(float(np.trace(np.asarray(held.scatter))))


def test_sums_of_weighted_rows() -> None:
    values, w = np.array([1.0, 2.0, 4.0]), np.array([3.0, 0.5, 0.25])
    assert weighted_total(values[:2], None) == 3.0
    assert weighted_total(values[1:], w[1:]) == 2.0
    small = np.full(3, 0.1, dtype=np.float32)
    assert weighted_total(small, None) == 3 * float(np.float32(0.1))


@pytest.mark.parametrize("sparse", [False, True])
def test_sums_of_measured_blocks_are_entered_as_the_blocks_are(sparse: bool) -> None:
    kernel = kernels.RBF(0.1)
    points = np.array([[50.0, 0.0], [60.0, 0.0]])
    span = factorise(kernel, points)
    held = accumulated(span, np.zeros((0, 2)), np.zeros(0), kernel=kernel)
    ledger = blank_ledger("auto", 3)
    blocks, one = [], ledger
    for n in (3, 5, 2):
        X = points[0] + np.random.default_rng(n).normal(size=(n, 2))
        rows = scipy.sparse.csr_matrix(X) if sparse else X
        Z = span.coordinates(kernel, X)
        block = Projection(Z, np.ones(n), 1.0 - np.sum(Z**2, axis=1))
        blocks.append(Measured.of(rows, None, None, Clock(0, 0), block, scatter=True))
        one = entered(held, one, rows, block)
    together = CertificateObserver(ledger).on_blocks(held, blocks).ledger
    assert together.extent == kernel.rounding.extent(points, not sparse) == one.extent
    assert (together.blocks, together.longest) == (3, 5) == (one.blocks, one.longest)
    assert together.energy == one.energy == 10.0
    assert together.fresh == pytest.approx(one.fresh, rel=1e-12) and together.fresh > 0.0
