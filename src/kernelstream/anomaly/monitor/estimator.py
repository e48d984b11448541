"""Process monitor estimator: parameters, fit, update, acknowledge and accept events, save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin

from kernelstream.anomaly.monitor.fitting import LEAST_ROWS, fit_state, warn_of_glitches
from kernelstream.anomaly.monitor.parameters import is_auto, settings_of, warn_of_few_rows
from kernelstream.anomaly.monitor.queries import MonitorQueries
from kernelstream.anomaly.monitor.records import Event, Record, Records
from kernelstream.anomaly.monitor.state import MonitorState
from kernelstream.serialization import stored

SMOOTHING = 0.1  # of the event rule where the alarm itself is not smoothed


@stored
class KernelMonitor(OutlierMixin, MonitorQueries):
    """Watch a process: control charts, novelty, drift and causes on a live stream.

    ``fit`` learns normal operation; ``update`` and ``update_many`` then judge each row of the
    stream *before* they learn from it and return records. Slow drift is followed, events are not
    learned. scikit-learn's novelty verbs judge rows by the same index without following them.

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
    floor : float
        Eigenvalues of the correlations below this share of their mean are raised to it.
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
    folds : int or "auto"
        Contiguous folds from which limits come when there is no calibration run: 5, or 20 where
        there are fewer than ten rows a column.
    quarantine : int
        Rows that a row waits before it is learned; an event that begins meanwhile drops it.
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
        Rows of the stream that were judged.

    Notes
    -----
    The rows of a query are taken as one consecutive run, the first row repeated before it where
    there are lags. T² alone raises no alarm: far from the data it may fall below its limit (see
    ``t2_blind`` of the records). A slow fault cannot be told from drift: look at the drift chart.

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
        floor: float = 1e-3,
        smooth: float | None = 0.1,
        adapt: str = "event",
        memory: int = 1000,
        folds: int | str = "auto",
        quarantine: int = 20,
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
                    lags=None if is_auto(self.lags) else int(self.lags),
                    folds=self.folds,
                    smoothing=SMOOTHING if self.smooth is None else float(self.smooth),
                    alpha=float(self.alpha),
                )
            warn_of_few_rows(self, draft._state.limits)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn more rows of normal operation, which the caller vouches for.

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
            draft._follow(rows, draft._times(X, None, len(rows)), trusted=True)
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
        state = self._fitted_state()
        names = getattr(self, "feature_names_in_", None)
        if hasattr(x, "iloc"):
            if names is not None and list(map(str, x.index)) != list(names):
                raise ValueError(
                    f"The row has the variables {list(x.index)}, expected {list(names)}: "
                    "put them into the order of fit."
                )
            time = x.name if time is None else time
        try:
            row = np.asarray(x)
            if row.dtype.kind == "c":
                raise ValueError("Complex data not supported: give real numbers.")
            row = np.asarray(row, dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise ValueError(f"The row is not made of numbers: {problem}.") from problem
        if row.shape != (state.n_features,):
            raise ValueError(
                f"Expected one row of {state.n_features} features, got an array of shape "
                f"{row.shape}; for several rows use update_many."
            )
        if np.isinf(row).any():
            raise ValueError("The row contains infinity; give finite numbers, or NaN if missing.")
        with self.transaction() as draft:
            stamp = draft.n_samples_seen_ if time is None else time
            return draft._follow(row[None, :], [stamp])[0]

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
            A list of :class:`~kernelstream.anomaly.Record` that can become a DataFrame.
        """
        with self.transaction() as draft:
            draft._fitted_state()
            rows = draft._checked_rows(X)
            return draft._follow(rows, draft._times(X, time, len(rows)))

    def interrupt(self) -> Self:
        """Begin a new run: the next row has no past, so the first of it stands in for its lags."""
        with self.transaction() as draft:
            state = draft._fitted_state()
            draft._state = replace(state, history=state.history[:0], began_at=state.n_rows)
        return self

    def acknowledge(self) -> Event:
        """Say that the present event was seen. It goes on; records show that it is known."""
        with self.transaction() as draft:
            event = replace(draft._present_event(), acknowledged=True)
            draft._state = replace(draft._state, present=event)
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

    # -- inside

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
        event = self._fitted_state().present
        if event is None:
            raise ValueError("There is no event going on: nothing to acknowledge or accept.")
        return event

    def _follow(self, X: np.ndarray, times: Sequence[Any], trusted: bool = False) -> Records:
        Z = self._standardise(X)
        with np.errstate(over="ignore", under="ignore"):
            self._state, records = self._fitted_state().follow(self._plan(), X, Z, times, trusted)
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
