"""KernelMonitor: parameters, validation, scikit-learn's manners. The stream itself: follow.py."""

from __future__ import annotations

import numbers
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_random_state, validate_data

from kernelstream import storage
from kernelstream.bases import Basis
from kernelstream.bases import resolve as resolve_basis
from kernelstream.blocks import measure
from kernelstream.checks import check_count, check_number
from kernelstream.estimator import checked_choice, summable
from kernelstream.model import Rows
from kernelstream.monitor.contributions import (
    Contributions,
    contributions,
    mean_curvature,
    slopes,
)
from kernelstream.monitor.drift import Drift, no_drift
from kernelstream.monitor.follow import MonitorState, Plan, accepted, complete_rows, follow
from kernelstream.monitor.index import Scores
from kernelstream.monitor.limits import Limits, Reference, calibrated, n_folds
from kernelstream.monitor.normal import Normal, Setting, learn_normal
from kernelstream.monitor.records import Event, Record, Records
from kernelstream.monitor.scaling import lagged
from kernelstream.monitor.selection import RIDGES, WIDTHS, choose, saturates
from kernelstream.monitor.sensors import Sensors
from kernelstream.monitor.watch import Rule, Watch

LEAST_ROWS = 8  # of normal operation
MOST_LAGS = 9
ROWS_A_COLUMN = 3  # rows of normal operation for each column of a lagged row, where lags="auto"
SMOOTHING = 0.2  # of the event rule where the alarm itself is not smoothed
WIDEST = 1e5


class KernelMonitor(OutlierMixin, BaseEstimator):
    """Watch a process: control charts, novelty, drift and causes on a live stream.

    ``fit`` learns normal operation; ``update`` and ``update_many`` then judge each row of the
    stream *before* they learn from it and return records. Slow drift is followed, events are not
    learned. scikit-learn's novelty verbs judge rows by the same index without following them.

    Parameters
    ----------
    alpha : float
        Share of normal rows that may raise an alarm.
    lags : int or "auto"
        Earlier rows that are joined to each row; ``"auto"`` is the largest number up to 9 for which
        there are three rows a column.
    width : float or "auto"
        c of the kernel ``exp(−|u − v|²/(c·D))`` on whitened rows of D columns. ``"auto"`` chooses
        it by how many made-up faults are found.
    basis : int or Basis
        Points that span the model.
    ridge : float or "auto"
        e in ``ε = e · tr S / D``, the variance that is taken for noise.
    whiten : bool or "auto"
        Whether rows are whitened (ZCA) or only standardised.
    floor : float
        Eigenvalues of the correlations below this share of their mean are raised to it.
    smooth : float or None
        Weight of the newest row in the moving average of the log index. The smoothed index then
        raises the alarm; with None the index itself does.
    adapt : "event" or "off"
        ``"event"`` learns from the stream except during events; ``"off"`` never learns.
    memory : int
        Rows that normal operation is an average of, once it adapts.
    folds : int or "auto"
        Contiguous folds from which limits come when there is no calibration run: 5, or 20 where
        there are fewer than ten rows a column.
    quarantine : int
        Rows that a row waits before it is learned; an event that begins meanwhile drops it.
    random_state : int, RandomState or None
        Seed of the points and of the made-up faults.

    Attributes
    ----------
    offset_ : float
        ``decision_function(X) = score_samples(X) - offset_``.
    lags_, width_, ridge_, whiten_ : int, float, float, bool
        What was chosen.
    constant_features_ : tuple of str
        Variables that did not move in normal operation.
    limits_ : dict
        The limits of index, smoothed index, T² and SPE at ``alpha``, 5 % and 1 %, and of events.
    drift_ : Drift
        Where normal operation is now, seen from the model that was fitted.
    event_ : Event or None
        The event that is going on.
    events_ : tuple of Event
        Those that are over, the last hundred.

    Notes
    -----
    ``score_samples`` is minus the logarithm of the index M, higher for more normal rows. With
    ``lags`` the rows of a query are taken as one consecutive run, the first row repeated before
    it. T² alone raises no alarm: far from the data it falls below its limit (see ``t2_blind`` of
    the records). A slow fault cannot be told from drift: look at the drift chart.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelMonitor
    >>> rng = np.random.default_rng(0)
    >>> def process(n):
    ...     t = rng.uniform(0, 2, size=n)
    ...     rows = np.stack([t, t**2 - 3 * t, 3 * t**2 - t**3], axis=1)
    ...     return rows + 0.05 * rng.normal(size=(n, 3))
    >>> monitor = KernelMonitor(basis=50, width=1.0, random_state=0).fit(process(400))
    >>> records = monitor.update_many(process(50))
    >>> sum(record.alarm for record in records) <= 3
    True
    >>> broken = process(10) + [0.0, 1.5, 0.0]
    >>> record = monitor.update_many(broken)[-1]
    >>> record.alarm, record.event, record.contributions.ranking()[0][0]
    (True, 1, 'x1')
    """

    def __init__(
        self,
        alpha: float = 0.01,
        *,
        lags: int | str = 0,
        width: float | str = "auto",
        basis: Any = 200,
        ridge: float | str = "auto",
        whiten: bool | str = "auto",
        floor: float = 1e-3,
        smooth: float | None = 0.2,
        adapt: str = "event",
        memory: int = 1000,
        folds: int | str = "auto",
        quarantine: int = 20,
        random_state: Any = None,
    ):
        self.alpha = alpha
        self.lags = lags
        self.width = width
        self.basis = basis
        self.ridge = ridge
        self.whiten = whiten
        self.floor = floor
        self.smooth = smooth
        self.adapt = adapt
        self.memory = memory
        self.folds = folds
        self.quarantine = quarantine
        self.random_state = random_state

    # -- learning normal operation

    def fit(self, X: Any, y: Any = None, *, calibration: Any = None) -> Self:
        """Learn normal operation.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Rows of normal operation, in the order of time. Rows with missing values are left out.
        y : ignored
        calibration : array or DataFrame of shape (n', d), optional
            Another run of normal operation, from which the limits come. Without it they come from
            contiguous folds of ``X``.

        Returns
        -------
        self
        """
        basis = self._checked()
        before = dict(self.__dict__)
        try:
            X = self._validated(X, reset=True, least=LEAST_ROWS)
            run = None if calibration is None else self._validated(calibration, reset=False)
            with np.errstate(over="ignore", under="ignore"):
                self._state = self._fitted(X, run, basis)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn more rows of normal operation, which the caller vouches for.

        The first call is ``fit``. Later rows are learned whatever their score: no event, no
        quarantine. Use ``update_many`` for rows that may be faulty.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X)
        rows = self._validated(X, reset=False)
        self._follow(rows, self._times(X, None, len(rows)), trusted=True)
        return self

    # -- the stream

    def update(self, x: Any, time: Any = None) -> Record:
        """Judge the next row of the stream, then learn from it.

        Parameters
        ----------
        x : array or Series of shape (d,)
            The row; NaN where a value is missing.
        time : object, optional
            Its time stamp; the name of a Series, or the row number, where none is given.

        Returns
        -------
        Record
        """
        state = self._known()
        names = getattr(self, "feature_names_in_", None)
        if hasattr(x, "iloc"):
            if names is not None and list(map(str, x.index)) != list(names):
                raise ValueError(
                    f"The row has the variables {list(x.index)}, expected {list(names)}: "
                    "put them into the order of fit."
                )
            time = x.name if time is None else time
        try:
            row = np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise ValueError(f"The row is not made of numbers: {problem}.") from problem
        if row.shape != (state.n_features,):
            raise ValueError(
                f"Expected one row of {state.n_features} features, got an array of shape "
                f"{row.shape}; for several rows use update_many."
            )
        if np.isinf(row).any():
            raise ValueError("The row contains infinity; give finite numbers, or NaN if missing.")
        return self._follow(row[None, :], [state.n_rows if time is None else time])[0]

    def update_many(self, X: Any, time: Sequence[Any] | None = None) -> Records:
        """Judge and learn rows, one after the other: the same as ``update`` for each, and faster.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            The next rows of the stream; NaN where a value is missing. If one row is refused, none
            is learned.
        time : sequence of length n, optional
            Their time stamps; the index of a DataFrame, or row numbers, where none are given.

        Returns
        -------
        Records
            A list of :class:`Record` that can become a DataFrame.
        """
        self._known()
        rows = self._validated(X, reset=False)
        return self._follow(rows, self._times(X, time, len(rows)))

    def interrupt(self) -> Self:
        """Begin a new run: the next row has no past, so the first of it stands in for its lags."""
        state = self._known()
        self._state = replace(state, history=state.history[:0])
        return self

    def acknowledge(self) -> Event:
        """Say that the present event was seen. It goes on; records show that it is known."""
        state = self._known()
        event = replace(self._present(), acknowledged=True)
        self._state = replace(state, present=event)
        return event

    def accept(self) -> Event:
        """Declare the present event the new normal: learn its rows and end it."""
        state = self._known()
        event = self._present()
        with np.errstate(over="ignore", under="ignore"):
            self._state = accepted(state, self._plan(state))
        return replace(event, accepted=True)

    # -- queries

    def score_samples(self, X: Any) -> np.ndarray:
        """Minus the logarithm of the index of each row: higher is more normal."""
        return -np.log(self._scores(X).index)

    def decision_function(self, X: Any) -> np.ndarray:
        """Score above the limit: negative for rows that raise an alarm."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """1 for normal rows, −1 for those over the limit of the index."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def contributions(self, X: Any, average: bool = True) -> Any:
        """The variables behind a high index, with sign and size in the units of the data.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Rows of one event, consecutive where there are lags.
        average : bool
            Average over the rows (sharper: noise cancels), or one result a row.

        Returns
        -------
        Contributions, or a list of them
        """
        state = self._known()
        R = self._lagged_query(X)
        found = slopes(state.normal, R, state.n_features, np.matmul)
        parts = [
            contributions(
                state.normal, state.curvature, slope, state.standard.deviation, self._names()
            )
            for slope in ([found.mean(axis=0)] if average else found)
        ]
        return parts[0] if average else parts

    def event_contributions(self, event: Event) -> Contributions:
        """The variables behind an event of ``events_`` or ``event_``, averaged over its rows."""
        state = self._known()
        unit = state.standard.deviation
        return contributions(state.normal, state.curvature, event.mean_slope, unit, self._names())

    def transform(self, X: Any) -> np.ndarray:
        """Scores on the principal components of normal operation, for a score plot."""
        state = self._known()
        index = state.normal.index
        Z = index.coordinates(
            state.normal.scaling.apply(self._lagged_query(X), np.matmul), np.matmul
        )
        _, vectors = np.linalg.eigh(state.normal.coordinates.covariance)
        return (Z - index.mean) @ vectors[:, ::-1]

    # -- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write monitor and adaptive state to a file: a loaded one goes on bit for bit."""
        state = self._known()
        params = self.get_params(deep=False)
        if not isinstance(params["random_state"], numbers.Integral):
            params["random_state"] = None  # the seed that was drawn is part of the state
        names = getattr(self, "feature_names_in_", None)
        content = {
            "estimator": type(self).__name__,
            "parameters": tuple(params.items()),
            "feature_names": None if names is None else tuple(map(str, names)),
            "model": state,
        }
        storage.save(path, content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a monitor that was saved by :meth:`save`."""
        content = storage.load(path)
        if content.get("estimator") != cls.__name__:
            raise ValueError(f"{path} holds a {content.get('estimator')}, not a {cls.__name__}.")
        return cls._restored(content)

    @classmethod
    def _restored(cls, content: dict[str, Any]) -> Self:
        monitor = cls(**dict(content["parameters"]))
        monitor._state = content["model"]
        monitor.n_features_in_ = monitor._state.n_features
        if content["feature_names"] is not None:
            monitor.feature_names_in_ = np.array(content["feature_names"], dtype=object)
        return monitor

    # -- attributes

    @property
    def offset_(self) -> float:
        """The limit of ``score_samples``."""
        state = self._known()
        return -(state.limits.index.limit(self.alpha) + state.watch.shift[0] + state.excess)

    @property
    def lags_(self) -> int:
        """Earlier rows that are joined to each row."""
        return self._known().lags

    @property
    def width_(self) -> float:
        """Width of the kernel."""
        return self._known().normal.setting.width

    @property
    def ridge_(self) -> float:
        """Share of the variance that is taken for noise."""
        return self._known().normal.setting.ridge

    @property
    def whiten_(self) -> bool:
        """Whether rows are whitened."""
        return self._known().normal.setting.whiten

    @property
    def constant_features_(self) -> tuple[str, ...]:
        """Variables that did not move in normal operation."""
        constant = self._known().sensors.longest == 0
        return tuple(name for name, c in zip(self._names(), constant, strict=True) if c)

    @property
    def limits_(self) -> dict[str, dict[float, float] | float]:
        """Limits at ``alpha``, 5 % and 1 %, with the shifts of adaptation."""
        state = self._known()
        index, smoothed = state.watch.shift
        shifts = {"index": index + state.excess, "smoothed": smoothed + state.excess}
        found: dict[str, dict[float, float] | float] = {}
        for name in ("index", "smoothed", "t2", "spe"):
            reference: Reference = getattr(state.limits, name)
            found[name] = {
                a: float(np.exp(reference.limit(a) + shifts.get(name, 0.0)))
                for a in sorted({self.alpha, 0.05, 0.01})
            }
        found["event"] = float(np.exp(state.limits.event + max(smoothed, 0.0) + state.excess))
        return found

    @property
    def drift_(self) -> Drift:
        """Where normal operation is now, seen from the model that was fitted."""
        return self._known().drift

    @property
    def event_(self) -> Event | None:
        """The event that is going on."""
        return self._known().present

    @property
    def events_(self) -> tuple[Event, ...]:
        """Events that are over."""
        return self._known().events

    @property
    def n_samples_seen_(self) -> int:
        """Rows of the stream that were judged."""
        return self._known().n_rows

    # -- inside

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "_state", None) is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _known(self) -> MonitorState:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} does not know normal operation yet: call fit first."
            )
        return self._state

    def _present(self) -> Event:
        event = self._known().present
        if event is None:
            raise ValueError("There is no event going on: nothing to acknowledge or accept.")
        return event

    def _names(self) -> tuple[str, ...]:
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return tuple(f"x{j}" for j in range(self.n_features_in_))
        return tuple(map(str, names))

    def _checked(self) -> Basis:
        """Raise in words when a parameter makes no sense."""
        name = type(self).__name__
        check_number(name, "alpha", self.alpha, 0, 0.5)
        check_number(name, "floor", self.floor, 0, 1)
        check_count(name, "memory", self.memory, none_allowed=False)
        check_count(name, "quarantine", self.quarantine, none_allowed=False)
        if self.smooth is not None and self.smooth != 1:
            check_number(name, "smooth", self.smooth, 0, 1)
        for parameter in ("width", "ridge"):
            value = getattr(self, parameter)
            if not (isinstance(value, str) and value == "auto"):
                check_number(name, parameter, value)
        if not (isinstance(self.folds, str) and self.folds == "auto"):
            check_count(name, "folds", self.folds, none_allowed=False)
        if not (isinstance(self.lags, str) and self.lags == "auto") and self.lags != 0:
            check_count(name, "lags", self.lags, none_allowed=False)
        checked_choice("adapt", self.adapt, ("event", "off"))
        checked_choice("whiten", self.whiten, ("auto", True, False))
        basis = resolve_basis(self.basis)
        if not basis.has_points:
            raise ValueError(
                f"The monitor needs what the basis misses of a row, and {basis} has no points: "
                "use a basis of points such as bases.Centroids."
            )
        return basis

    def _fitted(self, X: np.ndarray, run: np.ndarray | None, basis: Basis) -> MonitorState:
        n, d = X.shape
        whole = ~np.isnan(X).any(axis=1)
        if int(whole.sum()) < LEAST_ROWS:
            raise ValueError(
                f"Only {int(whole.sum())} rows have no missing values (n_samples = {n}): at least "
                f"{LEAST_ROWS} are needed to learn normal operation."
            )
        standard = measure(Rows(X[whole], None))
        constant = np.ptp(X[whole], axis=0) == 0
        lags = self._n_lags(n, d)
        R = usable_rows(standard.apply(X), lags)
        if len(R) < LEAST_ROWS:
            raise ValueError(
                f"With lags={lags} only {len(R)} rows are complete: give more rows, fewer lags."
            )
        summable(R)
        setting = Setting(True, 1.0, 0.1, float(self.floor), basis, self._seed())
        setting = choose(
            R,
            lags,
            setting,
            (True, False) if self.whiten == "auto" else (bool(self.whiten),),
            WIDTHS if self.width == "auto" else (float(self.width),),
            RIDGES if self.ridge == "auto" else (float(self.ridge),),
        )
        calibration = None if run is None else usable_rows(standard.apply(run), lags, padded=True)
        normal, limits = self._with_limits(R, lags, setting, calibration)
        rows = R[:0]
        return MonitorState(
            standard=standard,
            lags=lags,
            reference=normal,
            normal=normal,
            curvature=mean_curvature(normal, R if calibration is None else calibration),
            limits=limits,
            watch=Watch.begin(limits),
            sensors=Sensors.of(X, constant),
            history=np.empty((0, d)),
            quarantine=rows,
            pending=rows,
            suspects=rows,
            drift=no_drift(d),
            present=None,
            events=(),
        )

    def _with_limits(
        self, R: np.ndarray, lags: int, setting: Setting, calibration: np.ndarray | None
    ) -> tuple[Normal, Limits]:
        """Normal operation and its limits; a width that saturates is widened, or reported."""
        smoothing = SMOOTHING if self.smooth is None else float(self.smooth)
        folds = n_folds(self.folds, len(R), R.shape[1])
        while True:
            normal = learn_normal(R, setting)
            limits = calibrated(R, lags, normal, calibration, folds, smoothing)
            if not saturates(normal, limits.index.limit(self.alpha)) or setting.width > WIDEST:
                return normal, limits
            if self.width != "auto":
                warnings.warn(
                    f"width={self.width!r} is so narrow that the index far away, "
                    f"{normal.index.far_away:.3g}, is less than five times its limit: large faults "
                    "look like small ones. Use a larger width, or 'auto'.",
                    stacklevel=4,
                )
                return normal, limits
            setting = replace(setting, width=3.0 * setting.width)

    def _n_lags(self, n: int, d: int) -> int:
        if self.lags != "auto":
            return int(self.lags)
        return max(0, min(MOST_LAGS, n // (ROWS_A_COLUMN * d) - 1))

    def _seed(self) -> int:
        if isinstance(self.random_state, numbers.Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _plan(self, state: MonitorState) -> Plan:
        adapts = self.adapt == "event"
        smoothed = self.smooth is not None
        rule = Rule.of(state.limits, float(self.alpha), smoothed, adapts, int(self.quarantine))
        return Plan(rule, adapts, int(self.memory), int(self.quarantine), self._names())

    def _follow(self, X: np.ndarray, times: Sequence[Any], trusted: bool = False) -> Records:
        state = self._known()
        summable(np.nan_to_num(state.standard.apply(X), posinf=np.inf, neginf=-np.inf))
        with np.errstate(over="ignore", under="ignore"):
            self._state, records = follow(state, self._plan(state), X, times, trusted)
        return records

    def _lagged_query(self, X: Any) -> np.ndarray:
        state = self._known()
        Z = state.standard.apply(self._validated(X, reset=False))
        summable(np.nan_to_num(Z, posinf=np.inf, neginf=-np.inf))
        return complete_rows(replace(state, history=state.history[:0]), Z)[0]

    def _scores(self, X: Any) -> Scores:
        R = self._lagged_query(X)
        with np.errstate(over="ignore", under="ignore"):
            return self._known().normal.score(R, np.matmul)

    def _validated(self, X: Any, reset: bool, least: int = 1) -> np.ndarray:
        self._known() if not reset and not hasattr(self, "n_features_in_") else None
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            ensure_min_samples=least,
            order="C",
        )

    def _times(self, X: Any, time: Sequence[Any] | None, n: int) -> Sequence[Any]:
        """Time stamps: as given, the index of a DataFrame, or row numbers."""
        if time is None and hasattr(X, "iloc"):
            time = X.index
        if time is None:
            first = self._known().n_rows
            return range(first, first + n)
        stamps = list(time)
        if len(stamps) != n:
            raise ValueError(f"There are {len(stamps)} time stamps for {n} rows.")
        return stamps


def usable_rows(Z: np.ndarray, lags: int, padded: bool = False) -> np.ndarray:
    """Lagged rows without missing values.

    The first rows of a run have no past of their own. For learning they are left out; where the
    run is ``padded``, as streams are, the first row stands in.
    """
    R = lagged(Z[:0], Z, lags)
    R = R if padded else R[lags:]
    return R[~np.isnan(R).any(axis=1)]


storage.READERS[KernelMonitor.__name__] = KernelMonitor._restored
