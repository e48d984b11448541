"""Every statement of the certificate is the one that docs/proofs.md proves, number by number."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from kernelstream.certificates import bounds
from kernelstream.certificates.bounds import Evidence, Shown
from kernelstream.certificates.ledger import Ledger
from tests.naive import certificate as naive


def evidence(
    seed: int,
    stale: float = 0.3,
    missed: float = 0.05,
    center: bool = True,
    tight: bool = True,
    slack: float = 1e-3,
    m: int = 5,
) -> Evidence:
    """Rows that are held, some of them stale, and numbers for what is missed of them."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(40, m)) * 0.5 ** np.arange(m) + 0.3
    w = rng.uniform(0.5, 2.0, size=40)
    early = rng.random(40) < stale
    W, S = w.sum(), (Z * w[:, None]).T @ Z
    parts = rng.uniform(0.5, 1.0, size=(2, 4)) * [1.0, 0.5, 0.2, 0.1] * missed
    scatter = (Z[early] * w[early, None]).T @ Z[early] if tight else np.zeros(0)
    size = 1.0 if early.any() else 0.0
    ledger = Ledger(
        energy=float(np.trace(S) + parts.sum() * W),
        fresh=float(parts[0].sum() * W),
        stale=float(size * parts[1].sum() * W),
        fresh_orders=np.cumsum(parts[0])[:3] * W if tight else np.zeros(0),
        stale_orders=size * np.cumsum(parts[1])[:3] * W if tight else np.zeros(0),
        stale_weight=float(w[early].sum()),
        stale_trace=float(np.sum(w[early, None] * Z[early] ** 2)),
        stale_sum=w[early] @ Z[early],
        stale_scatter=scatter,
        loose=float(0.2 * np.trace(S)),
    )
    mean = w @ Z / W if center else np.zeros(m)
    values, vectors = np.linalg.eigh(S / W - np.outer(mean, mean))
    return Evidence(
        ledger,
        W,
        center,
        S / W,
        mean,
        values[::-1].clip(0),
        vectors[:, ::-1],
        slack * np.trace(S / W),
    )


def twin(known: Evidence) -> naive.Known:
    ledger, W = known.ledger, known.weight
    hidden = known.slack * ledger.loose / ledger.energy

    def order(k: int | None, orders: np.ndarray, total: float) -> float:
        return total if k is None or not 1 <= k <= len(orders) else orders[k - 1]

    def q(c: np.ndarray, k: int | None) -> float:
        if not math.isfinite(ledger.stale_trace):
            return math.inf
        crossed = np.outer(ledger.stale_sum, c)
        share = ledger.stale_weight * np.outer(c, c)
        if k is not None and ledger.stale_scatter.size:
            about = ledger.stale_scatter - crossed - crossed.T + share
            return naive.kappa(about / W, k) + 4 * known.slack
        about = ledger.stale_trace - 2 * np.trace(crossed) + np.trace(share)
        return max(0.0, about / W) + 4 * known.slack

    return naive.Known(
        s=lambda k: order(k, ledger.stale_orders, ledger.stale) / W + hidden,
        f=lambda k: order(k, ledger.fresh_orders, ledger.fresh) / W + known.slack,
        q=q,
        p=ledger.stale_weight / W,
        tau=ledger.energy / W,
        center=known.center,
        moment=known.moment,
        mean=known.mean,
        values=list(known.values),
        vectors=known.vectors,
        slack=known.slack,
    )


def shown(known: Evidence, seed: int, r: int, same: bool) -> Shown:
    """Components near the held ones: in the same span, or in another."""
    rng = np.random.default_rng([seed, 1])
    m = len(known.mean)
    V = np.linalg.qr(known.vectors[:, :r] + 0.02 * rng.normal(size=(m, r)))[0]
    mu = known.mean + 0.02 * rng.normal(size=m) * known.center
    if same:
        return Shown(V, mu, np.eye(m), 0.0, True)
    T = 0.98 * np.linalg.qr(np.eye(m) + 0.1 * rng.normal(size=(m, m)))[0].T[:-1]
    V = np.linalg.qr(T @ V + 0.02 * rng.normal(size=(m - 1, r)))[0]
    return Shown(V, T @ mu, T, 1e-4, False)


CASES = {
    "plain": {},
    "fresh": dict(stale=0.0),
    "mostly stale": dict(stale=0.9),
    "hardly stale": dict(stale=0.03, missed=1e-3, slack=1e-7),
    "no useful q": dict(stale=0.9, missed=1e-4, slack=1e-9),
    "little missed": dict(missed=1e-4, slack=1e-6),
    "much missed": dict(missed=2.0),
    "nothing missed": dict(missed=0.0, slack=0.0),
    "not centred": dict(center=False),
    "traces only": dict(tight=False),
    "traces only, not centred": dict(tight=False, center=False, missed=1e-3),
    "no slack": dict(slack=0.0),
    "much slack": dict(slack=0.05, missed=1e-3),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", CASES)
def test_every_statement_is_that_of_the_page(case: str, seed: int) -> None:
    known = evidence(seed, **CASES[case])  # type: ignore[arg-type]
    if case == "fresh":
        known = replace(known, ledger=replace(known.ledger, loose=0.0))
    plain = twin(known)
    for r in (0, 1, 2, 4, 5, 7):
        held = bounds.eigenvalues(known, r)
        np.testing.assert_allclose(
            held, np.reshape(naive.eigenvalues(plain, r), (r, 2)), 1e-9, 1e-12
        )
        np.testing.assert_allclose(
            bounds.leading_sum(known, r), naive.leading_sum(plain, r), 1e-9, 1e-12
        )
        np.testing.assert_allclose(
            bounds.best_error(known, r), naive.best_error(plain, r), 1e-9, 1e-12
        )
        for same in (True, False):
            seen = shown(known, seed, min(r, 3), same)
            parts = seen.V, seen.mean, seen.T, seen.error, same
            np.testing.assert_allclose(
                bounds.own_error(known, seen), naive.own_error(plain, *parts), 1e-9, 1e-12
            )
            lows = held[:, 0]
            np.testing.assert_allclose(
                bounds.outside(known, seen, held),
                naive.outside(plain, seen.T, seen.error, same, list(lows)),
                1e-9,
                1e-12,
            )
            angle = bounds.angle(known, seen, r) if r else None
            sine = naive.sine(plain, seen.V, seen.T, seen.error, r) if 0 < r <= 3 else math.inf
            assert (angle is None) == (not sine < 1.0)
            if angle is not None:
                assert math.sin(angle) == pytest.approx(sine, rel=1e-9)
    np.testing.assert_allclose(
        bounds.total_variance(known), naive.total_variance(plain), 1e-9, 1e-12
    )


def test_the_cases_take_every_branch() -> None:
    """An angle is certain in some of the cases, with stale rows too, and not in others."""
    found = {}
    for case, numbers in CASES.items():
        known = evidence(0, **numbers)  # type: ignore[arg-type]
        found[case] = bounds.angle(known, shown(known, 0, 1, True), 1)
    assert found["little missed"] is not None and found["much missed"] is None
    assert len([case for case in found if found[case] is not None]) >= 5


def test_what_is_held_of_stale_rows_is_not_known_after_a_change_without_moments() -> None:
    known = evidence(1, stale=0.5, missed=1e-4)
    unknown = replace(known, ledger=replace(known.ledger, stale_trace=math.inf))
    assert unknown.stale_held(known.mean, 1) == math.inf
    assert bounds.stale_angle(np.array([1.0, 0.0]), 0.01, 0.02, math.inf, 0.1, 1) < 1.0
    np.testing.assert_allclose(
        bounds.eigenvalues(unknown, 3), naive.eigenvalues(twin(unknown), 3), rtol=1e-9
    )
    assert math.isfinite(bounds.own_error(unknown, shown(unknown, 0, 2, True)))


def test_shares_and_counts_have_their_ends() -> None:
    known = evidence(2)
    heavy = replace(known, ledger=replace(known.ledger, stale_weight=2 * known.weight))
    assert heavy.stale_share == 1.0 and 0 < known.stale_share < 1
    np.testing.assert_array_equal(known.held(7), [*known.values, 0.0, 0.0])
    np.testing.assert_array_equal(known.held(2), known.values[:2])
    loose = replace(known, ledger=replace(known.ledger, loose=2 * known.ledger.energy))
    hidden = loose.missed(1)[0] - loose.ledger.stale_orders[0] / loose.weight
    assert hidden == pytest.approx(loose.slack)
    empty = replace(known, ledger=Ledger())
    assert empty.missed() == (0.0, known.slack)
    assert bounds.cross(math.inf, 0.0) == 0.0 and bounds.cross(4.0, 9.0) == 12.0
    assert bounds.below(4.0, 9.0) == 0.0 and bounds.below(9.0, 4.0) == pytest.approx(1.0)
    assert bounds.below(-1e-17, 0.0) == 0.0 and bounds.above(-1e-17, 4.0) == 4.0
    assert bounds.above(9.0, 4.0) == pytest.approx(25.0)


def test_an_angle_wants_as_many_components_as_it_is_of() -> None:
    known = evidence(3, stale=0.0, missed=1e-6, slack=0.0)
    seen = shown(known, 3, 2, True)
    assert bounds.angle(known, seen, 2) is not None
    assert bounds.angle(known, seen, 3) is None  # two are shown
    assert bounds.angle(replace(known, vectors=known.vectors[:, :1]), seen, 2) is None
