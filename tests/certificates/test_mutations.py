"""The suite has teeth: every rule of the certificate, broken once, is found out.

A rule is broken by replacing a piece of its source. Searches are directed at streams where the
rule matters, so that each mutant is found in seconds; unbroken, the same searches find nothing.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from kernelstream.certificates import bounds, certificate, observer
from kernelstream.certificates.bounds import Evidence
from kernelstream.certificates.ledger import Ledger
from tests.certificates.reference import random_case, violations
from tests.certificates.test_never_wrong import (
    lost_too_little,
    missed_too_little,
    shown_is_wrong,
)

MOST = 400  # cases a search may look at


@dataclass(frozen=True)
class Mutant:
    """A function of a class or module, a piece of its source, and what stands there instead."""

    name: str
    home: Any
    function: str
    old: str
    new: str
    where: dict[str, Any] = field(default_factory=dict)  # cases in which the rule matters

    def __repr__(self) -> str:
        return self.name

    def planted(self, patch: pytest.MonkeyPatch) -> None:
        """Replace the function by its broken twin."""
        module = inspect.getmodule(self.home) if inspect.isclass(self.home) else self.home
        source = textwrap.dedent(inspect.getsource(getattr(self.home, self.function)))
        assert source.count(self.old) == 1, f"{self.name}: the source has changed"
        scope: dict[str, Any] = {}
        exec(
            "from __future__ import annotations\n" + source.replace(self.old, self.new),
            module.__dict__,
            scope,
        )
        patch.setattr(self.home, self.function, scope[self.function])


PLAIN: dict[str, Any] = dict(scale=1.0, weights="none", forgetting=1.0, dtype="float64")
GROWING = {**PLAIN, "basis": "distance full", "mode": "stream", "shape": "sign flip", "n": 30}
MOVING = {**PLAIN, "basis": "centroids", "mode": "stream", "n": 60, "m": 3, "batch": 5, "d": 2}
ENERGIES = {**MOVING, "certify": "auto", "shape": "clusters", "kernel": "narrow"}
FIXED = {**PLAIN, "basis": "landmarks", "mode": "stream"}
SPECTRAL = {**FIXED, "certify": "tight", "batch": 16, "n": 10}
ALL_STALE = """stale=self.stale + self.fresh,
        stale_orders=self.stale_orders + self.fresh_orders,
        fresh=0.0,
        fresh_orders=0.0 * self.fresh_orders,
"""

MUTANTS = [
    # the account
    Mutant("append not marked stale", Ledger, "grow", ALL_STALE, "", GROWING),
    Mutant(
        "rebase treated as drop",
        Ledger,
        "rebase",
        "self.grow(weight, trace, total, scatter)",
        "self",
        MOVING,
    ),
    Mutant("rebase loss ignored", Ledger, "rebase", "max(loss, 0.0)", "0.0", ENERGIES),
    Mutant(
        "stale part of a merged model lost",
        Ledger,
        "merge",
        "self.stale + other.stale,",
        "self.stale,",
        {**GROWING, "mode": "merge", "certify": "auto"},
    ),
    Mutant(
        "block norms 10 % small",
        observer,
        "spectrum",
        "return orders",
        "return 0.9 * orders",
        SPECTRAL,
    ),
    # the statements
    Mutant(
        "rounding of far rows ignored",
        observer,
        "spectrum",
        "orders += roots_of_k",
        "orders += 0.0 * roots_of_k",
        {**FIXED, "certify": "tight", "shape": "far groups", "basis": "origin", "d": 1},
    ),
    Mutant(
        "r instead of r + 1 in T5",
        bounds,
        "best_error",
        "k = r + 1 if known.center else r",
        "k = r",
        {**SPECTRAL, "center": True, "r": 1},
    ),
    Mutant(
        "mean residual ignored", bounds, "total_variance", "+ s + f", "", {**FIXED, "center": True}
    ),
    Mutant("outside part of T6 ignored", bounds, "angle", "outside + turned", "turned", FIXED),
    Mutant(
        "stale norm halved",
        Evidence,
        "missed",
        "return s / self.weight",
        "return 0.25 * s / self.weight",
        GROWING,
    ),
    Mutant(
        "stale rows taken for fewer",
        Evidence,
        "stale_held",
        "return found + allowance",
        "return 0.05 * found",
        {**GROWING, "certify": "tight"},
    ),
    Mutant(
        "missed part of T7 halved",
        bounds,
        "outside",
        "missed = sum(known.missed(1))",
        "missed = 0.5 * sum(known.missed(1))",
        SPECTRAL,
    ),
    # rounding
    Mutant(
        "slack left out",
        certificate,
        "evidence",
        "slack=slack * ledger.energy / W",
        "slack=0.0",
        {**PLAIN, "basis": "everything"},
    ),
]


def cases(mutant: Mutant) -> Iterator[Any]:
    for seed in range(MOST):
        yield random_case(seed, **mutant.where)


@pytest.mark.parametrize("mutant", MUTANTS, ids=repr)
def test_a_broken_rule_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch):
    mutant.planted(monkeypatch)
    with np.errstate(all="ignore"):
        assert any(violations(case) for case in cases(mutant))


@pytest.mark.parametrize(
    ("function", "old", "new"),
    [
        ("own_error", "off = math.sqrt(", "off = 0.0 * math.sqrt("),
        ("own_error", "outside = math.sqrt(", "outside = 0.0 * math.sqrt("),
        ("angle", "r - float(np.sum(cosines**2))", "0.0"),
    ],
)
def test_components_that_are_not_the_held_ones_are_found(
    function: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch
):
    Mutant("shown", bounds, function, old, new).planted(monkeypatch)
    assert any(map(shown_is_wrong, range(200)))


def test_a_block_spectrum_of_one_span_only_is_found(monkeypatch: pytest.MonkeyPatch):
    old = "early = bool(block.block.admitted) and rows.start < block.block.fresh_from"
    Mutant("one span", observer, "spectrum", old, "early = False").planted(monkeypatch)
    assert any(map(missed_too_little, range(300)))


@pytest.mark.parametrize("old", [" + cross,", " + crosses,"])
def test_a_cross_term_left_out_is_found(old: str, monkeypatch: pytest.MonkeyPatch):
    """In streams it hardly shows, since other bounds are wide."""
    Mutant("cross term", Ledger, "rebase", old, ",").planted(monkeypatch)
    assert any(map(lost_too_little, range(20)))


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=repr)
def test_the_same_searches_find_nothing_when_nothing_is_broken(mutant: Mutant):
    assert not any(violations(case) for case in cases(mutant))
