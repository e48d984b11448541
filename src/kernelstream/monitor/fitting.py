"""From rows of normal operation to the state at the start of a stream."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelstream.bases import Basis
from kernelstream.bases import resolve as resolve_basis
from kernelstream.estimators.validation import checked_choice, checked_seed, summable
from kernelstream.monitor.contributions import mean_curvature
from kernelstream.monitor.drift import no_drift
from kernelstream.monitor.follow import MonitorState
from kernelstream.monitor.limits import Limits, calibrated, n_folds
from kernelstream.monitor.normal import Normal, Setting, learn_normal
from kernelstream.monitor.scaling import lagged
from kernelstream.monitor.selection import RIDGES, WIDTHS, choose, saturates
from kernelstream.monitor.sensors import Sensors, glitches
from kernelstream.monitor.watch import Watch
from kernelstream.part import check_count, check_number
from kernelstream.stream.state import Rows
from kernelstream.stream.stream import measure

LEAST_ROWS = 8  # of normal operation
LEAST_MEMORY = 10
MOST_LAGS = 9
ROWS_A_COLUMN = 3  # rows of normal operation for each column of a lagged row, where lags="auto"
SMOOTHING = 0.2  # of the event rule where the alarm itself is not smoothed
WIDER = 3.0  # factor by which a width that saturates is widened …
WIDEST = 1e5  # … up to here


@dataclass(frozen=True)
class Options:
    """The parameters that decide what ``fit`` learns, checked."""

    alpha: float
    lags: int | None  # None: as many as the rows allow
    whitens: tuple[bool, ...]
    widths: tuple[float, ...]
    ridges: tuple[float, ...]
    floor: float
    smoothing: float
    folds: int | str
    basis: Basis
    seed: int

    @classmethod
    def of(cls, monitor: Any) -> Options:
        """Raise in words when a parameter makes no sense."""
        name = type(monitor).__name__
        check_following(monitor)
        check_number(name, "floor", monitor.floor, 0, 1)
        if monitor.smooth is not None and monitor.smooth != 1:
            check_number(name, "smooth", monitor.smooth, 0, 1)
        for parameter in ("width", "ridge"):
            if not is_auto(getattr(monitor, parameter)):
                check_number(name, parameter, getattr(monitor, parameter))
        if not is_auto(monitor.folds):
            check_count(name, "folds", monitor.folds, none_allowed=False)
        if not is_auto(monitor.lags) and monitor.lags != 0:
            check_count(name, "lags", monitor.lags, none_allowed=False)
        checked_choice("whiten", monitor.whiten, ("auto", True, False))
        basis = resolve_basis(monitor.basis)
        if not basis.has_points:
            raise ValueError(
                f"The monitor needs what the basis misses of a row, and {basis} has no points: "
                "use a basis of points such as bases.Centroids."
            )
        return cls(
            alpha=float(monitor.alpha),
            lags=None if is_auto(monitor.lags) else int(monitor.lags),
            whitens=(True, False) if is_auto(monitor.whiten) else (bool(monitor.whiten),),
            widths=WIDTHS if is_auto(monitor.width) else (float(monitor.width),),
            ridges=RIDGES if is_auto(monitor.ridge) else (float(monitor.ridge),),
            floor=float(monitor.floor),
            smoothing=SMOOTHING if monitor.smooth is None else float(monitor.smooth),
            folds=monitor.folds,
            basis=basis,
            seed=checked_seed(monitor.random_state),
        )


def check_following(monitor: Any) -> None:
    """Raise in words when a parameter that may change along the stream makes no sense."""
    name = type(monitor).__name__
    check_number(name, "alpha", monitor.alpha, 0, 0.5)
    check_count(name, "memory", monitor.memory, none_allowed=False)
    if monitor.memory < LEAST_MEMORY:
        raise ValueError(
            f"{name}: memory must be at least {LEAST_MEMORY} rows, got {monitor.memory!r}."
        )
    check_count(name, "quarantine", monitor.quarantine, none_allowed=False)
    checked_choice("adapt", monitor.adapt, ("event", "off"))


def is_auto(value: Any) -> bool:
    """Whether the choice is left to us."""
    return isinstance(value, str) and value == "auto"


def fitted(X: np.ndarray, run: np.ndarray | None, options: Options) -> MonitorState:
    """Learn normal operation from X; the limits come from ``run``, or from folds of X."""
    n, d = X.shape
    whole = ~np.isnan(X).any(axis=1)
    if int(whole.sum()) < LEAST_ROWS:
        raise ValueError(
            f"Only {int(whole.sum())} rows have no missing values (n_samples = {n}): at least "
            f"{LEAST_ROWS} are needed to learn normal operation."
        )
    standard = measure(Rows(X[whole], None))
    most = max(0, min(MOST_LAGS, n // (ROWS_A_COLUMN * d) - 1))
    lags = most if options.lags is None else options.lags
    R = summable(usable_rows(standard.apply(X), lags))
    if len(R) < LEAST_ROWS:
        raise ValueError(
            f"With lags={lags} only {len(R)} rows are complete: give more rows, fewer lags."
        )
    default = Setting(True, 1.0, 0.1, options.floor, options.basis, options.seed)
    setting = choose(R, lags, default, options.whitens, options.widths, options.ridges)
    calibration = None if run is None else calibration_rows(standard.apply(run), lags)
    normal, limits = with_limits(R, lags, setting, calibration, options)
    nothing = R[:0]
    return MonitorState(
        standard=standard,
        lags=lags,
        reference=normal,
        normal=normal,
        curvature=mean_curvature(normal, R if calibration is None else calibration),
        limits=limits,
        watch=Watch.begin(limits),
        sensors=Sensors.of(X, constant=np.ptp(X[whole], axis=0) == 0),
        history=np.empty((0, d)),
        quarantine=nothing,
        pending=nothing,
        suspects=nothing,
        drift=no_drift(d),
        present=None,
        events=(),
    )


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


def calibration_rows(Z: np.ndarray, lags: int) -> np.ndarray:
    """Lagged rows of a calibration run, if there are enough for limits."""
    R = usable_rows(Z, lags, padded=True)
    if len(R) < LEAST_ROWS:
        raise ValueError(
            f"The calibration run has {len(R)} rows without missing values: at least {LEAST_ROWS} "
            "are needed for limits, and many more for good ones."
        )
    try:
        return summable(R)
    except ValueError as problem:
        raise ValueError(f"The calibration run cannot be used: {problem}") from problem


def with_limits(
    R: np.ndarray, lags: int, setting: Setting, run: np.ndarray | None, options: Options
) -> tuple[Normal, Limits]:
    """Normal operation and its limits; a width that saturates is widened, or reported."""
    folds = n_folds(options.folds, len(R), R.shape[1])
    while True:
        normal = learn_normal(R, setting)
        limits = calibrated(R, lags, normal, run, folds, options.smoothing)
        if setting.width > WIDEST or not saturates(normal, limits.index.limit(options.alpha)):
            return normal, limits
        if len(options.widths) == 1:
            warnings.warn(
                f"width={setting.width:g} is so narrow that the index far away, "
                f"{normal.index.far_away:.3g}, is less than five times its limit: large faults "
                "look like small ones. Use a larger width or 'auto', or more points in the basis.",
                stacklevel=4,
            )
            return normal, limits
        setting = replace(setting, width=WIDER * setting.width)


def usable_rows(Z: np.ndarray, lags: int, padded: bool = False) -> np.ndarray:
    """Lagged rows without missing values.

    The first rows of a run have no past of their own. For learning they are left out; where the
    run is ``padded``, as streams are, the first row stands in.
    """
    R = lagged(Z[:0], Z, lags)
    R = R if padded else R[lags:]
    return R[~np.isnan(R).any(axis=1)]
