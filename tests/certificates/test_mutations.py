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

from kernelstream import accounting, bounds, certificate, ledger, rounding
from kernelstream.bounds import Evidence
from kernelstream.ledger import Ledger
from tests.certificates.reference import random_case, violations
from tests.certificates.test_never_wrong import missed_too_little

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
        exec("from __future__ import annotations\n" + source.replace(self.old, self.new),
             module.__dict__, scope)  # type: ignore[union-attr]
        patch.setattr(self.home, self.function, scope[self.function])


PLAIN: dict[str, Any] = dict(scale=1.0, weights="none", forgetting=1.0, dtype="float64")
GROWING = {**PLAIN, "basis": "distance full", "mode": "stream", "shape": "sign flip", "n": 30}
MOVING = {**PLAIN, "basis": "centroids", "mode": "stream", "n": 60, "m": 3, "batch": 5, "d": 2}
FIXED = {**PLAIN, "basis": "landmarks", "mode": "stream"}

MUTANTS = [
    Mutant("append not marked stale", Ledger, "grow",
           "stale=self.stale + self.fresh,\n        stale_orders=self.stale_orders + self.fresh_orders,\n        fresh=0.0,\n        fresh_orders=0.0 * self.fresh_orders,\n", "", GROWING),
    Mutant("rebase treated as drop", Ledger, "rebase",
           "grown = self.grow(weight, trace, total)", "grown = self", MOVING),
    Mutant("cross term left out", Ledger, "rebase", "+ loss + cross", "+ loss", MOVING),
    Mutant("rebase loss ignored", accounting, "after_change", "loss + lost,", "lost,", MOVING),
    Mutant("block norms 10 % small", accounting, "spectrum",
           "return orders, total", "return 0.9 * orders, total", {**FIXED, "certify": "tight", "n": 12, "batch": 16}),
    Mutant("r instead of r + 1 in T5", bounds, "best_error",
           "k = r + 1 if known.center else r", "k = r", {**FIXED, "certify": "tight", "center": True, "n": 8, "batch": 16, "m": 1, "r": 1}),
    Mutant("mean residual ignored", bounds, "total_variance", "+ s + f", "", {**FIXED, "center": True}),
    Mutant("outside part of T6 ignored", bounds, "angle", "outside + turned", "turned", FIXED),
    Mutant("stale norm halved", Evidence, "missed", "return s / self.weight", "return 0.25 * s / self.weight", GROWING),
    Mutant("slack left out", rounding, "slack", "return 2 * coordinates", "return 0.0 * coordinates",
           {**PLAIN, "basis": "everything"}),
]
