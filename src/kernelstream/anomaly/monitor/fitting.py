"""Fit of normal operation: lags, bandwidth, whitening and ridge selected on pseudo-faults.

Whitening, width and ridge are chosen without faults, by how well made-up faults are found.
Pseudo-faults are made from held-out normal rows: variables exchanged between rows (each normal by
itself, their agreement broken), rows halfway between two others, and one variable stepped by one
and by two deviations. The setting that finds most of them at a limit of 5 % wins.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kernelstream import landmarks
from kernelstream.anomaly.monitor.contributions import mean_curvature
from kernelstream.anomaly.monitor.limits import FEW_FOLDS, OFTEN, Reference, calibrate, folds_of
from kernelstream.anomaly.monitor.models import NormalModels
from kernelstream.anomaly.monitor.normal import (
    NEGLIGIBLE,
    Index,
    Normal,
    RowMoments,
    Setting,
    lag_rows,
    learn_normal,
)
from kernelstream.anomaly.monitor.sensors import Sensors, glitches
from kernelstream.anomaly.monitor.state import MonitorState
from kernelstream.arrays import generator
from kernelstream.estimators import require_summable
from kernelstream.stream import Rows, Standardisation

LEAST_ROWS = 8  # of normal operation
MOST_LAGS = 9
ROWS_A_COLUMN = 3  # rows of normal operation for each column of a lagged row, where lags="auto"
WORTH_A_LAG = 0.01  # of the variance that is unexpected: more lags must lower it by more
WIDER = 3.0  # factor by which a width that saturates is widened …
WIDEST = 1e5  # … up to here
WIDTHS = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3)  # the widest first: of equals it saturates latest
RIDGES = (0.1, 0.01, 1e-3, 1e-4)  # the smallest sees curvature; below it causes blur
MOST_ROWS = 3000  # that take part in a choice, the latest
CLEAR = 5.0  # M far away must be this many times its limit, else the index saturates


def fit_state(
    X: np.ndarray,
    run: np.ndarray | None,
    settings: list[Setting],
    lags: int | None,
    smoothing: float,
    alpha: float,
) -> MonitorState:
    """Learn normal operation from X by the best of ``settings``.

    The limits come from ``run``, or from folds of X; a width that saturates is widened, or reported
    where the user gave it. ``lags`` are as many as the rows allow where they are None.
    """
    n, d = X.shape
    whole = X[~np.isnan(X).any(axis=1)]
    if len(whole) < LEAST_ROWS:
        raise ValueError(
            f"Only {len(whole)} rows have no missing values (n_samples = {n}): at least "
            f"{LEAST_ROWS} are needed to learn normal operation."
        )
    standard = Standardisation.of(Rows(whole))
    Z = standard.apply(X)
    if lags is None:
        # of a single column, too, the rows beside a fold must be more than its lags
        lags = choose_lags(Z, max(0, min(MOST_LAGS, n // (ROWS_A_COLUMN * max(d, 2)) - 1)))
    R = lagged_rows_to_learn(Z, lags)
    setting = choose(R, [replace(setting, lags=lags) for setting in settings])
    calibration = None if run is None else calibration_rows(standard.apply(run), lags)
    may_widen = len({setting.width for setting in settings}) > 1
    while True:
        normal = learn_normal(R, setting)
        limits = calibrate(R, normal, calibration, smoothing)
        if setting.width > WIDEST or not saturates(normal, limits.index.limit(alpha)):
            break
        if not may_widen:
            warnings.warn(
                f"width={setting.width:g} is so narrow that the index far away, "
                f"{normal.index.far_away:.3g}, is less than five times its limit: large faults "
                "look like small ones. Use a larger width or 'auto', or more points in the basis.",
                stacklevel=3,
            )
            break
        setting = replace(setting, width=WIDER * setting.width)
    curvature = mean_curvature(normal, R if calibration is None else calibration)
    sensors = Sensors.of(X, constant=np.ptp(whole, axis=0) == 0)
    return MonitorState.begin(NormalModels.of(standard, normal, limits, curvature), sensors)


def lagged_rows_to_learn(Z: np.ndarray, lags: int) -> np.ndarray:
    """Complete lagged rows of normal operation, if there are enough to learn from without a fold.

    Rows that share the past of a fold are not learned with the others.
    """
    # checked before rows are laid side by side: one row with its past may fill the memory
    R = usable_rows(Z, lags) if lags < len(Z) else Z[:0]
    left = min(len(others) for others, _ in folds_of(len(R), lags, FEW_FOLDS))
    if len(R) < LEAST_ROWS or left < LEAST_ROWS // 2:
        raise ValueError(
            f"With lags={lags} only {len(R)} of {len(Z)} rows are complete, and without a fold of "
            f"them {left} are left: too few to learn normal operation. Give more rows, or fewer "
            "lags."
        )
    return require_summable(R)


def warn_of_glitches(X: np.ndarray, names: tuple[str, ...]) -> None:
    """Say which sensors have a spread that is made by a handful of rows."""
    whole = X[~np.isnan(X).any(axis=1)]
    for name, column in zip(names, whole.T, strict=True):
        few = glitches(column) if len(column) else 0
        if few:
            warnings.warn(
                f"Nine tenths of the deviation of {name} comes from {few} of {len(X)} rows: if "
                "these are glitches, faults of this sensor will stay unseen. Leave the rows out, "
                "or set the values to NaN.",
                stacklevel=3,
            )


def usable_rows(Z: np.ndarray, lags: int, padded: bool = False) -> np.ndarray:
    """Lagged rows without missing values.

    The first rows of a run have no past of their own. For learning they are left out; where the
    run is ``padded``, as streams are, the first row stands in.
    """
    R = lag_rows(Z[:0], Z, lags)
    R = R if padded else R[lags:]
    return R[~np.isnan(R).any(axis=1)]


def calibration_rows(Z: np.ndarray, lags: int) -> np.ndarray:
    """Lagged rows of a calibration run, if there are enough for limits."""
    R = usable_rows(Z, lags, padded=True)
    if len(R) < LEAST_ROWS:
        raise ValueError(
            f"The calibration run has {len(R)} rows without missing values: at least {LEAST_ROWS} "
            "are needed for limits, and many more for good ones."
        )
    try:
        return require_summable(R)
    except ValueError as problem:
        raise ValueError(f"The calibration run cannot be used: {problem}") from problem


# -- the choice of a setting


def choose_lags(Z: np.ndarray, most: int) -> int:
    """The fewest lags that tell as much about the next row as any number up to ``most``.

    What they tell is what a linear prediction from them leaves unexpected in rows that it has not
    seen. Lags that tell nothing only hide faults among noise: rows that are independent get none.

    Examples
    --------
    >>> import numpy as np
    >>> noise = np.random.default_rng(0).normal(size=(400, 2))
    >>> choose_lags(noise, 9), choose_lags(noise.cumsum(axis=0), 9) > 0
    (0, True)
    """
    R = usable_rows(Z, most)[-MOST_ROWS:]
    if most == 0 or len(R) < LEAST_ROWS:
        return 0
    d = Z.shape[1]
    left = np.zeros(most + 1)  # mean log of the share of a variable's variance that is unexpected
    for others, held_out in folds_of(len(R), most, FEW_FOLDS):
        rows = RowMoments.of(R[others])
        C, new = rows.covariance, R[held_out] - rows.mean
        for lags in range(most + 1):
            past = slice(d, d * (lags + 1))
            # a tenth of the variance: correlations of the past are estimated from few rows
            ridge = np.diag(0.1 * np.diag(C)[past] + NEGLIGIBLE)
            expected = new[:, past] @ np.linalg.solve(C[past, past] + ridge, C[past, :d])
            apart = np.mean((new[:, :d] - expected) ** 2, axis=0)
            left[lags] += np.mean(np.log(apart + NEGLIGIBLE)) / FEW_FOLDS
    return int(np.argmax(left < left.min() + WORTH_A_LAG))


def choose(R: np.ndarray, settings: list[Setting]) -> Setting:
    """The setting that finds most pseudo-faults; the first of those that find as many."""
    if len(settings) == 1:
        return settings[0]
    R, lags, seed = R[-MOST_ROWS:], settings[0].lags, settings[0].seed
    rates = np.zeros((FEW_FOLDS, len(settings)))
    for fold, (others, held_out) in enumerate(folds_of(len(R), lags, FEW_FOLDS)):
        faults = pseudo_faults(R[held_out], lags, seed + fold)
        for which, normal in enumerate(learn_each(R[others], settings)):
            rates[fold, which] = detection_rate(normal, R[held_out], faults)
    # A setting that saturates in one fold is not safe, whatever it finds in the others.
    rates[:, rates.min(axis=0) == 0.0] = 0.0
    return settings[int(np.argmax(rates.mean(axis=0)))]


def learn_each(R: np.ndarray, settings: list[Setting]) -> Iterator[Normal]:
    """One model for each setting. Landmarks are learned once for each whitening, then shared."""
    last: Normal | None = None
    for setting in settings:
        if last is None or last.setting.whiten != setting.whiten:
            last = learn_normal(R, setting)
        elif last.setting.width != setting.width:
            shared = replace(setting, basis=landmarks.Landmarks(last.index.span.points))
            last = replace(learn_normal(R, shared, like=last), setting=setting)
        else:
            index = Index.of(last.index.kernel, last.index.span, last.coordinates, setting.ridge)
            last = replace(last, setting=setting, index=index)
        yield last


def pseudo_faults(R: np.ndarray, lags: int, seed: int) -> list[np.ndarray]:
    """Normal rows with their variables exchanged, halfway to another, and with a variable stepped.

    Halfway between two rows is normal where rows fill an ellipsoid, and then no setting finds it;
    where they are curved, or in several modes, it is a place where no row ever is.
    """
    rng = generator(seed, "pseudo-faults")
    n, width = R.shape
    d = width // (lags + 1)
    exchanged = np.empty_like(R)
    for j in range(d):
        columns = j + d * np.arange(lags + 1)  # a variable keeps its own past
        exchanged[:, columns] = R[rng.permutation(n)][:, columns]
    between = (R + R[rng.permutation(n)]) / 2
    faults = [exchanged, between]
    for step in (1.0, 2.0):  # standard deviations
        stepped = R.copy()
        variable, signed = rng.integers(d, size=n), rng.choice([-step, step], size=n)
        for lag in range(lags + 1):
            stepped[np.arange(n), variable + d * lag] += signed
        faults.append(stepped)
    return faults


def detection_rate(normal: Normal, held_out: np.ndarray, faults: list[np.ndarray]) -> float:
    """Mean share of pseudo-faults over the 5 % limit; zero where the index saturates."""
    limit = Reference.of(normal.score(held_out, np.matmul).log_index).limit(OFTEN)
    if saturates(normal, limit):
        return 0.0
    scores = [normal.score(rows, np.matmul).log_index for rows in faults]
    return float(np.mean(np.array(scores) > limit))


def saturates(normal: Normal, log_limit: float) -> bool:
    """Whether M far away is too near its limit to tell a large fault from a small one."""
    return bool(np.log(normal.index.far_away) < np.log(CLEAR) + log_limit)
