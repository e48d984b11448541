"""Process monitor estimator: parameters, fit, update, acknowledge and accept events, save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_array, validate_data

from kernelstream.anomaly.monitor.contributions import Contributions, slopes
from kernelstream.anomaly.monitor.decisions import AlarmRule
from kernelstream.anomaly.monitor.fitting import LEAST_ROWS, fit_state, warn_of_glitches
from kernelstream.anomaly.monitor.models import Drift
from kernelstream.anomaly.monitor.parameters import (
    alarm_rate,
    check_stream_parameters,
    settings_of,
    warn_of_few_rows,
)
from kernelstream.anomaly.monitor.records import Event, Record, Records
from kernelstream.anomaly.monitor.sensors import SensorEvent
from kernelstream.anomaly.monitor.state import MonitorState, Plan
from kernelstream.estimators import StoredEstimator, at_one_moment, require_summable
from kernelstream.serialization import stored


@stored
class KernelMonitor(OutlierMixin, StoredEstimator):
    """Monitor a process: control charts, anomaly scores, drift and contributions of a live stream.

    ``fit`` learns normal operation; ``update`` and ``update_many`` then score each row of the
    stream *before* they learn from it and return records. The model adapts to slow drift; events
    are not learned. scikit-learn's methods for novelty detection score rows by the same index and
    learn nothing.

    Parameters
    ----------
    alpha : float
        Share of normal rows that may raise an alarm.
    false_events_per_day : float or None
        In the place of ``alpha``: how many events a day may be false, with ``interval`` the seconds
        between rows. ``alpha_`` is then the share that leads to it.
    interval : float or None
        Seconds from row to row, for ``false_events_per_day``.
    lags : int or "auto"
        Earlier rows that are joined to each row; ``"auto"`` takes the fewest that tell as much
        about the next row as more would, up to 9 and as long as there are three rows a column.
        Rows that are independent get none.
    width : float or "auto"
        c of the kernel ``exp(−|u − v|²/(c·D))`` on whitened rows of D columns. ``"auto"`` chooses
        it by how many made-up faults are found.
    basis : int or LandmarkStrategy
        Points that span the model.
    ridge : float or "auto"
        e in ``ε = e · tr S / D``, the variance that is taken for noise.
    whiten : bool or "auto"
        Whether rows are whitened (ZCA) or only standardised.
    smooth : float or None
        Weight of the newest row in the moving average of the log index; 0.7 of it in that of what
        was unexpected in the rows, with its sign, which sees small faults that last. Either of them
        or the index of a single row raises the alarm, with limits that are set together; with None
        the index alone does.
    adapt : "event" or "off"
        ``"event"`` learns from the stream, except during events and from single rows that are
        farther out than any normal row; ``"off"`` never learns.
    memory : int
        Rows that normal operation is an average of, once it adapts. What ``fit`` knew is not
        forgotten: a row that the fitted model finds normal is normal.
    random_state : int, RandomState or None
        Seed of the points and of the made-up faults.

    Attributes
    ----------
    alpha_ : float
        Share of normal rows that may raise an alarm: ``alpha``, or what follows from
        ``false_events_per_day``.
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
    sensor_events_ : tuple of SensorEvent
        Sensors that are dead or silent, or were: events of their own.
    n_samples_seen_ : int
        Rows of the stream that were scored.

    Notes
    -----
    The rows of a query are taken as one consecutive run, the first row repeated before it where
    there are lags. T² alone raises no alarm: far from the data it may fall below its limit. A slow
    fault looks like drift: see the drift chart.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelMonitor
    >>> rng = np.random.default_rng(0)
    >>> def process(n):
    ...     t = rng.uniform(0, 2, size=n)
    ...     rows = np.stack([t, t**2 - 3 * t, 3 * t**2 - t**3], axis=1)
    ...     return rows + 0.05 * rng.normal(size=(n, 3))
    >>> monitor = KernelMonitor(basis=50, width=3.0, random_state=0).fit(process(400))
    >>> records = monitor.update_many(process(50))
    >>> sum(record.alarm for record in records) <= 3
    True
    >>> broken = process(10) + [0.0, 1.5, 0.0]
    >>> record = monitor.update_many(broken)[-1]
    >>> record.alarm, record.event, record.contributions.ranking()[0][0]
    (True, 1, 'x1')
    """

    _unfitted = "This %(name)s does not know normal operation yet: call fit first."

    _state: MonitorState

    def __init__(
        self,
        alpha: float = 0.01,
        *,
        false_events_per_day: float | None = None,
        interval: float | None = None,
        lags: int | str = "auto",
        width: float | str = "auto",
        basis: Any = 200,
        ridge: float | str = "auto",
        whiten: bool | str = "auto",
        smooth: float | None = 0.1,
        adapt: str = "event",
        memory: int = 1000,
        random_state: Any = None,
    ):
        self.alpha = alpha
        self.false_events_per_day = false_events_per_day
        self.interval = interval
        self.lags = lags
        self.width = width
        self.basis = basis
        self.ridge = ridge
        self.whiten = whiten
        self.smooth = smooth
        self.adapt = adapt
        self.memory = memory
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
        settings = settings_of(self, self._seed())
        with self.transaction() as draft:
            X = draft._checked_rows(X, reset=True, least=LEAST_ROWS)
            run = None if calibration is None else draft._checked_rows(calibration)
            warn_of_glitches(X, draft._names())
            with np.errstate(over="ignore", under="ignore"):
                draft._state = fit_state(
                    X,
                    run,
                    settings,
                    lags=None if self.lags == "auto" else int(self.lags),
                    smoothing=0.1 if self.smooth is None else float(self.smooth),
                    alpha=float(self.alpha),
                )
            warn_of_few_rows(self, draft._state.models.limits)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn more rows that are known to be normal operation.

        The first call is ``fit``. Later rows are learned whatever their score: no event, no
        quarantine. Use ``update_many`` for rows that may be faulty.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            The rows.
        y : ignored
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X)
        with self.transaction() as draft:
            rows = draft._checked_rows(X)
            draft._update(rows, draft._times(X, None, len(rows)), trusted=True)
        return self

    # -- the stream

    def update(self, x: Any, time: Any = None) -> Record:
        """Score the next row of the stream, then learn from it.

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
        state = self._fitted_state()
        names = getattr(self, "feature_names_in_", None)
        if hasattr(x, "iloc"):
            if names is not None and list(map(str, x.index)) != list(names):
                raise ValueError(
                    f"The row has the variables {list(x.index)}, expected {list(names)}: "
                    "put them into the order of fit."
                )
            time = x.name if time is None else time
        x = np.asarray(x)
        if x.shape != (state.n_features,):
            raise ValueError(
                f"Expected one row of {state.n_features} features, got an array of shape "
                f"{x.shape}; for several rows use update_many."
            )
        row = check_array(x[None, :], dtype=np.float64, ensure_all_finite="allow-nan")
        with self.transaction() as draft:
            return draft._update(row, [draft.n_samples_seen_ if time is None else time])[0]

    def update_many(self, X: Any, time: Sequence[Any] | None = None) -> Records:
        """Score and learn rows, one after the other: the same as ``update`` for each, and faster.

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
            A list of :class:`~kernelstream.anomaly.Record`, of which pandas makes a DataFrame.
        """
        with self.transaction() as draft:
            rows = draft._checked_rows(X)
            return draft._update(rows, draft._times(X, time, len(rows)))

    def interrupt(self) -> Self:
        """Begin a new run: the next row has no past, so the first of it stands in for its lags."""
        with self.transaction() as draft:
            draft._state = draft._fitted_state().interrupt()
        return self

    def acknowledge(self) -> Event:
        """Say that the present event was seen. It goes on; records show that it is known."""
        with self.transaction() as draft:
            event = replace(draft._present_event(), acknowledged=True)
            draft._state = replace(draft._state, log=replace(draft._state.log, present=event))
        return event

    def accept(self, instead: bool = False) -> Event:
        """Declare the present event normal: learn its rows and end it.

        The centre of normal operation moves to the latest rows of the event at once; ``drift_``
        goes on to show the distance from the model that was fitted.

        Parameters
        ----------
        instead : bool
            Whether the event takes the place of all that was normal before, also of what ``fit``
            knew: a machine that was rebuilt. Else it is normal *as well*, and a return to what was
            normal before raises no alarm: another product, another load.
        """
        with self.transaction() as draft:
            event = draft._present_event()
            with np.errstate(over="ignore", under="ignore"):
                draft._state = draft._state.accept(draft._plan(), instead)
        return replace(event, accepted=True)

    # -- scores and contributions

    @at_one_moment
    def score_samples(self, X: Any) -> np.ndarray:
        """Minus the logarithm of the score that raises alarms: higher is more normal.

        That is the highest of index, smoothed index and lasting, on the scale of the second, along
        ``X`` as one consecutive run that begins with it. With ``smooth=None`` it is the index of
        each row.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Rows in the order of time.

        Returns
        -------
        array of shape (n,)
            Not a number for a row of which every value is missing.
        """
        state, rows = self._fitted_state(), self._checked_rows(X)
        with np.errstate(over="ignore", under="ignore"):
            scores = state.score(self._plan(), rows, self._standardise(rows))
        return -(scores + state.models.excess)

    @at_one_moment
    def decision_function(self, X: Any) -> np.ndarray:
        """Score above the limit: negative for rows that raise an alarm.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Rows in the order of time.
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """−1 for rows that raise an alarm, 1 for the others: what ``update`` says, not followed.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Rows in the order of time: one consecutive run that begins with ``X``. For rows without
            an order use ``smooth=None``.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import KernelMonitor
        >>> X = np.random.default_rng(0).normal(size=(700, 3))
        >>> X[600:, 1] += 1.5  # small, and it lasts
        >>> monitor = KernelMonitor(basis=30, adapt="off", random_state=0).fit(X[:500])
        >>> found = monitor.predict(X[500:]) == -1
        >>> bool(found[:100].mean() < 0.05 < 0.5 < found[120:].mean())
        True
        >>> bool(np.all(found == monitor.update_many(X[500:]).column("alarm")))
        True
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    @at_one_moment
    def contributions(self, X: Any, average: bool = True) -> Any:
        """The variables behind a high index, with sign and size in the units of the data.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Rows of one event, consecutive where there are lags.
        average : bool
            Average over the rows (sharper: noise cancels), or one result a row. With lags the
            average leaves out the first rows, which have no past, where there are others.

        Returns
        -------
        Contributions, or a list of them

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import KernelMonitor
        >>> X = np.random.default_rng(0).normal(size=(300, 3)) @ [[1, 2, 0], [0, 1, 1], [0, 0, 1]]
        >>> monitor = KernelMonitor(basis=50, random_state=0).fit(X)
        >>> name, value, size = monitor.contributions(X[:5] + [0, 4, 0]).ranking()[0]
        >>> name, bool(3 < size < 6)
        ('x1', True)
        """
        state, names = self._fitted_state(), self._names()
        R = self._lagged_query(X)
        each = slopes(state.models.present, state.models.curvature, R, np.matmul)
        if not average:
            return [state.models.explain(slope, names) for slope in each]
        if len(R) > state.lags:
            each = each[state.lags :]  # the first rows have no past of their own
        return state.models.explain(each.mean(axis=0), names)

    @at_one_moment
    def event_contributions(self, event: Event) -> Contributions:
        """The variables behind an event of ``events_`` or ``event_``, averaged over its rows.

        Parameters
        ----------
        event : Event
            One of this monitor's.
        """
        if event.values is not None and event.sizes is not None:
            return Contributions(self._names(), event.values, event.sizes)
        return self._fitted_state().models.explain(event.mean_slope, self._names())

    @at_one_moment
    def component_scores(self, X: Any) -> np.ndarray:
        """Scores on the principal components of normal operation, for a score plot.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            The rows; with lags one consecutive run.
        """
        normal = self._fitted_state().models.present
        index = normal.index
        U = normal.whitening.apply(self._lagged_query(X), np.matmul)
        Z = index.coordinates(U, np.matmul)
        _, vectors = np.linalg.eigh(normal.coordinates.covariance)
        return (Z - index.mean) @ vectors[:, ::-1]

    # -- fitted attributes

    @property
    def alpha_(self) -> float:
        """Share of normal rows that may raise an alarm."""
        return alarm_rate(self, self._fitted_state().models.limits)

    @property
    def offset_(self) -> float:
        """The limit of ``score_samples``: ``decision_function(X) = score_samples(X) - offset_``."""
        state = self._fitted_state()
        limits = self._rule(self.alpha_).thresholds(state.alarms.shift)
        limit = limits.index if self.smooth is None else limits.smoothed
        return -(limit + state.models.excess)

    @property
    def lags_(self) -> int:
        """Earlier rows that are joined to each row."""
        return self._fitted_state().lags

    @property
    def mean_(self) -> np.ndarray:
        """Mean of each variable in the normal operation that was fitted."""
        return self._fitted_state().models.standard.mean

    @property
    def scale_(self) -> np.ndarray:
        """Deviation of each variable in the normal operation that was fitted."""
        return self._fitted_state().models.standard.deviation

    @property
    def width_(self) -> float:
        """Width c of the kernel ``exp(−|u − v|²/(c·D))`` on whitened rows."""
        return self._fitted_state().models.present.setting.width

    @property
    def ridge_(self) -> float:
        """Share e of the variance that is taken for noise, ``ε = e · tr S / D``."""
        return self._fitted_state().models.present.setting.ridge

    @property
    def whiten_(self) -> bool:
        """Whether rows are whitened."""
        return self._fitted_state().models.present.setting.whiten

    @property
    @at_one_moment
    def constant_features_(self) -> tuple[str, ...]:
        """Variables that did not move in normal operation."""
        constant = self._fitted_state().sensors.longest == 0
        return tuple(name for name, c in zip(self._names(), constant, strict=True) if c)

    @property
    def limits_(self) -> dict[str, dict[float, float] | float]:
        """Limits of all scores at ``alpha``, 5 % and 1 %, and that of events at ``alpha``.

        As they are now, with the shifts of adaptation. Where the index is smoothed, those of index,
        smoothed index and lasting are set together: any of them raises the alarm.
        """
        state = self._fitted_state()
        now = {
            a: self._rule(a).thresholds(state.alarms.shift)
            for a in sorted({self.alpha_, 0.05, 0.01})
        }
        limits, excess = state.models.limits, state.models.excess
        return {
            "index": {a: float(np.exp(x.index + excess)) for a, x in now.items()},
            "smoothed": {a: float(np.exp(x.smoothed + excess)) for a, x in now.items()},
            "lasting": {a: x.lasting**3 for a, x in now.items()},
            "t2": {a: float(np.exp(limits.t2.limit(a))) for a in now},
            "spe": {a: float(np.exp(limits.spe.limit(a))) for a in now},
            "event": float(np.exp(now[self.alpha_].event + excess)),
        }

    @property
    def drift_(self) -> Drift:
        """Where normal operation is now, seen from the model that was fitted."""
        return self._fitted_state().models.drift

    @property
    def event_(self) -> Event | None:
        """The event that is going on."""
        return self._fitted_state().log.present

    @property
    def events_(self) -> tuple[Event, ...]:
        """Events that are over, the last hundred."""
        return self._fitted_state().log.past

    @property
    def sensor_events_(self) -> tuple[SensorEvent, ...]:
        """Sensors that are or were dead or silent, the last hundred, the latest last."""
        return self._fitted_state().log.sensors

    @property
    def n_samples_seen_(self) -> int:
        """Rows of the stream that were scored."""
        return self._fitted_state().n_rows

    # -- inside

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")

    def _fitted_state(self) -> MonitorState:
        self._require_fitted()
        return self._state

    def _names(self) -> tuple[str, ...]:
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return tuple(f"x{j}" for j in range(self.n_features_in_))
        return tuple(map(str, names))

    def _rule(self, alpha: float) -> AlarmRule:
        return AlarmRule(
            self._state.models.limits,
            alpha=alpha,
            smoothed=self.smooth is not None,
            adapts=self.adapt == "event",
        )

    def _plan(self) -> Plan:
        check_stream_parameters(self)
        return Plan(self._rule(self.alpha_), int(self.memory), self._names())

    def _checked_rows(self, X: Any, reset: bool = False, least: int = 1) -> np.ndarray:
        if not reset and not hasattr(self, "n_features_in_"):
            self._fitted_state()
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            ensure_min_samples=least,
            order="C",
        )

    def _standardise(self, X: np.ndarray) -> np.ndarray:
        """Rows in units of the reference; those that no kernel could take are refused."""
        Z = self._fitted_state().models.standard.apply(X)
        require_summable(np.nan_to_num(Z, posinf=np.inf, neginf=-np.inf))
        return Z

    def _lagged_query(self, X: Any) -> np.ndarray:
        """Lagged rows of a query, which has no past: the first row stands in for it."""
        state = self._fitted_state()
        Z = self._standardise(self._checked_rows(X))
        return state.interrupt().complete(Z)[0]

    def _learned_content(self) -> dict[str, Any]:
        return {"model": self._fitted_state()}

    def _restore(self, content: dict[str, Any], device: Any) -> None:
        if not isinstance(content["model"], MonitorState):
            raise ValueError(f"the state of a {type(content['model']).__name__}")
        self._state = content["model"]
        self.n_features_in_ = self._fitted_state().n_features

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _present_event(self) -> Event:
        event = self._fitted_state().log.present
        if event is None:
            raise ValueError("There is no event going on: nothing to acknowledge or accept.")
        return event

    def _update(self, X: np.ndarray, times: Sequence[Any], trusted: bool = False) -> Records:
        Z = self._standardise(X)
        with np.errstate(over="ignore", under="ignore"):
            self._state, records = self._fitted_state().update(self._plan(), X, Z, times, trusted)
        return records

    def _times(self, X: Any, time: Sequence[Any] | None, n: int) -> Sequence[Any]:
        """Time stamps: as given, the index of a DataFrame, or row numbers."""
        if time is None and hasattr(X, "iloc"):
            time = X.index
        if time is None:
            first = self._fitted_state().n_rows
            return range(first, first + n)
        stamps = list(time)
        if len(stamps) != n:
            raise ValueError(f"There are {len(stamps)} time stamps for {n} rows.")
        return stamps
