"""Whitening, width and ridge without faults: by how well made-up faults are found.

Pseudo-faults are made from held-out normal rows: variables exchanged between rows (each normal by
itself, their agreement broken), and one variable stepped by one and by two deviations. The setting
that finds most of them at a limit of 5 % wins; near the best that knowledge of the faults would
choose on the Tennessee Eastman process, less near on data that are curved.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from kernelstream.backends.draws import generator
from kernelstream.bases import Landmarks
from kernelstream.monitor.index import Index
from kernelstream.monitor.limits import Reference, folds_of
from kernelstream.monitor.normal import Normal, Setting, Whitened, learn_whitened

WIDTHS = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3)  # the widest first: of equals it saturates latest
RIDGES = (0.1, 0.01, 0.001)
PSEUDO_ALPHA = 0.05
STEPS = (1.0, 2.0)  # deviations
FOLDS = 3
MOST_ROWS = 3000  # that take part in a choice, the latest
CLEAR = 5.0  # M far away must be this many times its limit, else the index saturates


def choose(
    R: np.ndarray,
    lags: int,
    default: Setting,
    whitens: tuple[bool, ...],
    widths: tuple[float, ...],
    ridges: tuple[float, ...],
) -> Setting:
    """The setting that finds most pseudo-faults; the first of those that find as many."""
    settings = [
        replace(default, whiten=whiten, width=width, ridge=ridge)
        for whiten, width, ridge in product(whitens, widths, ridges)
    ]
    if len(settings) == 1:
        return settings[0]
    R = R[-MOST_ROWS:]
    found = np.zeros((FOLDS, len(settings)))
    for fold, (others, held_out) in enumerate(folds_of(len(R), lags, FOLDS)):
        normal_rows, faults = R[held_out], pseudo_faults(R[held_out], lags, default.seed + fold)
        for which, normal in enumerate(learned_by(R[others], settings)):
            found[fold, which] = detected(normal, normal_rows, faults)
    # A setting that saturates in one fold is not safe, whatever it finds in the others.
    found[:, found.min(axis=0) == 0.0] = 0.0
    return settings[int(np.argmax(found.mean(axis=0)))]


def learned_by(R: np.ndarray, settings: list[Setting]) -> list[Normal]:
    """One model for each setting. Points are learned once for each whitening, then shared."""
    models: list[Normal] = []
    whitened: Whitened | None = None
    for setting in settings:
        last = models[-1] if models else None
        if last is None or whitened is None or last.setting.whiten != setting.whiten:
            whitened = Whitened.of(R, setting.whiten, setting.floor)
            models.append(learn_whitened(whitened, setting))
        elif last.setting.width != setting.width:
            shared = replace(setting, basis=Landmarks(last.index.span.points))
            models.append(replace(learn_whitened(whitened, shared), setting=setting))
        else:
            index = Index.of(last.index.kernel, last.index.span, last.coordinates, setting.ridge)
            models.append(replace(last, setting=setting, index=index))
    return models


def pseudo_faults(R: np.ndarray, lags: int, seed: int) -> list[np.ndarray]:
    """Normal rows with their variables exchanged, and with one variable stepped up or down."""
    rng = generator(seed, "pseudo-faults")
    n, width = R.shape
    d = width // (lags + 1)
    exchanged = np.empty_like(R)
    for j in range(d):
        columns = j + d * np.arange(lags + 1)  # a variable keeps its own past
        exchanged[:, columns] = R[rng.permutation(n)][:, columns]
    faults = [exchanged]
    for step in STEPS:
        stepped = R.copy()
        variable, signed = rng.integers(d, size=n), rng.choice([-step, step], size=n)
        for lag in range(lags + 1):
            stepped[np.arange(n), variable + d * lag] += signed
        faults.append(stepped)
    return faults


def detected(normal: Normal, held_out: np.ndarray, faults: list[np.ndarray]) -> float:
    """Mean share of pseudo-faults over the 5 % limit; zero where the index saturates."""
    limit = Reference.of(normal.score(held_out, np.matmul).log_index).limit(PSEUDO_ALPHA)
    if saturates(normal, limit):
        return 0.0
    found = [np.mean(normal.score(rows, np.matmul).log_index > limit) for rows in faults]
    return float(np.mean(found))


def saturates(normal: Normal, log_limit: float) -> bool:
    """Whether M far away is too near its limit to tell a large fault from a small one."""
    return bool(np.log(normal.index.far_away) < np.log(CLEAR) + log_limit)
