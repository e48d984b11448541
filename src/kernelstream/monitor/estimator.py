"""KernelMonitor: parameters, validation, scikit-learn's manners. The stream itself: follow.py."""

from __future__ import annotations

import numbers
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin

from kernelstream import files as storage
from kernelstream.estimators.validation import real_numbers, summable
from kernelstream.monitor.fitting import (
    LEAST_ROWS,
    Options,
    check_following,
    fitted,
    warn_of_glitches,
)
from kernelstream.monitor.follow import MonitorState, Plan, accepted, follow
from kernelstream.monitor.queries import MonitorQueries
from kernelstream.monitor.records import Event, Record, Records
from kernelstream.monitor.watch import Rule


class KernelMonitor(MonitorQueries, OutlierMixin, BaseEstimator):
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
        ``"event"`` learns from the stream, except during events and from single rows that are
        farther out than any normal row; ``"off"`` never learns.
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
    n_samples_seen_ : int
        Rows of the stream that were judged.

    Notes
    -----
    ``score_samples`` is minus the logarithm of the index M, higher for more normal rows. With
    ``lags`` the rows of a query are taken as one consecutive run, the first row repeated before
    it. T² alone raises no alarm: far from the data it may fall below its limit (see ``t2_blind`` of
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
        options = Options.of(self)
        before = dict(self.__dict__)
        try:
            X = self._validated(X, reset=True, least=LEAST_ROWS)
            run = None if calibration is None else self._validated(calibration, reset=False)
            warn_of_glitches(X, self._names())
            with np.errstate(over="ignore", under="ignore"):
                self._state = fitted(X, run, options)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
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
            row = np.asarray(real_numbers(x), dtype=np.float64)
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
            A list of :class:`~kernelstream.monitor.Record` that can become a DataFrame.
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
        """Declare the present event the new normal: learn its rows and end it.

        The centre of normal operation moves to the latest rows of the event at once; ``drift_``
        goes on to show the distance from the model that was fitted.
        """
        state = self._known()
        event = self._present()
        with np.errstate(over="ignore", under="ignore"):
            self._state = accepted(state, self._plan(state))
        return replace(event, accepted=True)

    # -- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write monitor and adaptive state to a file: a loaded one goes on bit for bit.

        Parameters
        ----------
        path : path-like
            The file.

        Examples
        --------
        >>> import numpy as np, os, tempfile
        >>> from kernelstream import KernelMonitor
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> monitor = KernelMonitor(basis=30, random_state=0).fit(X[:100])
        >>> path = os.path.join(tempfile.mkdtemp(), "monitor.safetensors")
        >>> monitor.save(path)
        >>> again = KernelMonitor.load(path)
        >>> again.update(X[100]).index == monitor.update(X[100]).index
        True
        """
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
        """Read a monitor that was saved by :meth:`save`.

        Parameters
        ----------
        path : path-like
            The file.
        """
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

    # -- inside

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _present(self) -> Event:
        event = self._known().present
        if event is None:
            raise ValueError("There is no event going on: nothing to acknowledge or accept.")
        return event

    def _plan(self, state: MonitorState) -> Plan:
        check_following(self)
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


storage.READERS[KernelMonitor.__name__] = KernelMonitor._restored
