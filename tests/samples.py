"""Samples of parts: each part that can be given by name, with parameters for a few hundred rows.

Tests that hold for every part run over these tables, so a part that gets a name is tested by them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from kernelstream import kernels, landmarks, papers, trackers
from kernelstream.papers import schedules

# Landmarks on a few hundred rows; the other strategies take a number of landmarks.
DENSITIES: dict[str, dict[str, float]] = {"distance": {"nu": 0.05}, "coherence": {"delta": 0.9}}
STEP = schedules.SearchThenConverge(0.05, 100.0)
# A degree of 3 gives squared norms for which the step of the sequential trackers is too long.
KERNELS: dict[str, dict[str, Any]] = {"poly": {"degree": 2}}
SEQUENTIAL: dict[str, dict[str, Any]] = {
    "hebbian": {"schedule": STEP},
    "recentred_hebbian": {"schedule": STEP},
}


def kernels_of_numbers() -> dict[str, kernels.Kernel]:
    """The named positive semidefinite kernels of numbers; the data decide their parameters."""
    samples: dict[str, kernels.Kernel] = {}
    for name, cls in kernels.NAMES.items():
        kernel = cls(**KERNELS.get(name, {}))
        is_new = not any(type(sample) is cls for sample in samples.values())
        if is_new and kernel.psd and kernel.takes_means:
            samples[name] = kernel
    return samples


def landmark_strategies(m: int) -> dict[str, landmarks.LandmarkStrategy]:
    """The named landmark strategies, with m landmarks where they take a number."""
    return {name: strategy(name, cls, m) for name, cls in landmarks.NAMES.items()}


def strategy(name: str, cls: Any, m: int) -> landmarks.LandmarkStrategy:
    """A small landmark strategy of a class."""
    numbers = [key for key, value in cls().get_params().items() if value == 256]  # the default
    return cls(**dict.fromkeys(numbers, m), **DENSITIES.get(name, {}))


def named_trackers() -> dict[str, trackers.Tracker]:
    """The named trackers, those of the papers included."""
    named = trackers.NAMES | papers.TRACKERS
    return {name: cls(**SEQUENTIAL.get(name, {})) for name, cls in named.items()}


def pairs(one: Iterable[str], other: Iterable[str]) -> list[Any]:
    """All pairs of two tables; those without the first of either table run in `make test-all`."""
    (first, *_), (second, *_) = one, other
    return [
        pytest.param(a, b, marks=() if a == first or b == second else pytest.mark.slow)
        for a, b in itertools.product(one, other)
    ]
