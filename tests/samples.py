"""Samples of parts: each part that can be given by name, with parameters for a few hundred rows.

Tests that hold for every part run over these tables, so a part that gets a name is tested by them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

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


def rows(n: int, d: int = 4, seed: int = 0) -> np.ndarray:
    """Normal rows of equal variance in every column."""
    return np.random.default_rng(seed).normal(size=(n, d))


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


def grid(names: str, *tables: Iterable[Any], together: int = 2) -> pytest.MarkDecorator:
    """Parametrize a test over all combinations of the values of some tables.

    ``make test`` runs a few of them, in which each value of a table meets each value of each other
    table (of each two others with ``together=3``; with 1, each value is there). The rest runs in
    ``make test-all``.
    """
    values = [tuple(map(parameter, table)) for table in tables]
    combinations = list(itertools.product(*(range(len(table)) for table in values)))
    meetings = {
        each: set(itertools.combinations(enumerate(each), together)) for each in combinations
    }
    missing, few = set().union(*meetings.values()), set()
    while missing:
        best = max(combinations, key=lambda each: len(meetings[each] & missing))
        few.add(best)
        missing -= meetings[best]
    parameters = []
    for each in combinations:
        chosen = [table[i] for table, i in zip(values, each, strict=True)]
        plain = [value.values[0] for value in chosen]
        marks = [mark for value in chosen for mark in value.marks]
        marks += [] if each in few else [pytest.mark.slow]
        parameters.append(pytest.param(*plain, marks=marks, id="-".join(map(title, plain))))
    return pytest.mark.parametrize(names, parameters)


def parameter(value: Any) -> Any:
    """A value as ``pytest.param`` makes it, unless it is one already."""
    return value if hasattr(value, "marks") and hasattr(value, "values") else pytest.param(value)


def title(value: Any) -> str:
    """A value in the name of a test."""
    return getattr(value, "__name__", str(value))


def checks(estimators: list[Any], **options: Any) -> pytest.MarkDecorator:
    """scikit-learn's checks: all of the first estimator of each class.

    Of the further estimators of a class each runs a part of them in ``make test``, so that every
    check has another estimator once; the rest runs in ``make test-all``.
    """
    mark = parametrize_with_checks(estimators, **options)
    others: dict[type, list[str]] = {}
    for estimator in estimators:
        others.setdefault(type(estimator), []).append(repr(estimator))
    parameters, position = [], dict.fromkeys(map(repr, estimators), 0)
    for given in map(parameter, mark.args[1]):
        estimator, check = given.values if len(given.values) == 2 else given.values[0]
        first, *rest = others[type(estimator)]
        name = repr(estimator)
        position[name] += 1
        is_slow = name != first and position[name] % max(2, len(rest)) != rest.index(name)
        marks = [*given.marks, *([pytest.mark.slow] if is_slow else [])]
        parameters.append(pytest.param(estimator, check, marks=marks, id=given.id))
    return pytest.mark.parametrize(mark.args[0], parameters, **mark.kwargs)
