"""Queries of the monitor: anomaly scores, predictions, contributions, limits, drift, events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from kernelstream.anomaly.monitor.contributions import Contributions, slopes
from kernelstream.anomaly.monitor.decisions import Rule, Thresholds, thresholds
from kernelstream.anomaly.monitor.drift import Drift
from kernelstream.anomaly.monitor.parameters import Parameters, check_following, share_of_alarms
from kernelstream.anomaly.monitor.records import Event
from kernelstream.anomaly.monitor.sensors import SensorEvent
from kernelstream.anomaly.monitor.state import MonitorState, Plan
from kernelstream.estimators import StoredEstimator, at_one_moment, require_summable


class MonitorQueries(Parameters, StoredEstimator):
    """The verbs of a monitor that change nothing, and its fitted attributes."""

    _unfitted = "This %(name)s does not know normal operation yet: call fit first."

    _state: MonitorState

    # -- novelty and causes

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
            scores = state.rehearse(self._plan(), rows, self._standardise(rows))
        return -(scores + state.excess)

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
        state = self._fitted_state()
        R = self._lagged_query(X)
        each = slopes(state.normal, state.curvature, R, state.n_features, np.matmul)
        if not average:
            return state.explain(list(each), self._names())
        if len(R) > state.lags:
            each = each[state.lags :]  # the first rows have no past of their own
        return state.explain([each.mean(axis=0)], self._names())[0]

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
        return self._fitted_state().explain([event.mean_slope], self._names())[0]

    @at_one_moment
    def component_scores(self, X: Any) -> np.ndarray:
        """Scores on the principal components of normal operation, for a score plot.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            The rows; with lags one consecutive run.
        """
        state = self._fitted_state()
        index = state.normal.index
        U = state.normal.scaling.apply(self._lagged_query(X), np.matmul)
        Z = index.coordinates(U, np.matmul)
        _, vectors = np.linalg.eigh(state.normal.coordinates.covariance)
        return (Z - index.mean) @ vectors[:, ::-1]

    # -- fitted attributes

    @property
    def alpha_(self) -> float:
        """Share of normal rows that may raise an alarm."""
        return share_of_alarms(self, self._fitted_state().limits)

    @property
    def offset_(self) -> float:
        """The limit of ``score_samples``: ``decision_function(X) = score_samples(X) - offset_``."""
        state = self._fitted_state()
        limits = thresholds(state.watch, state.limits, self._rule(self.alpha_))
        limit = limits.index if self.smooth is None else limits.smoothed
        return -(limit + state.excess)

    @property
    def lags_(self) -> int:
        """Earlier rows that are joined to each row."""
        return self._fitted_state().lags

    @property
    def mean_(self) -> np.ndarray:
        """Mean of each variable in the normal operation that was fitted."""
        return self._fitted_state().standard.mean

    @property
    def scale_(self) -> np.ndarray:
        """Deviation of each variable in the normal operation that was fitted."""
        return self._fitted_state().standard.deviation

    @property
    def width_(self) -> float:
        """Width c of the kernel ``exp(−|u − v|²/(c·D))`` on whitened rows."""
        return self._fitted_state().normal.setting.width

    @property
    def ridge_(self) -> float:
        """Share e of the variance that is taken for noise, ``ε = e · tr S / D``."""
        return self._fitted_state().normal.setting.ridge

    @property
    def whiten_(self) -> bool:
        """Whether rows are whitened."""
        return self._fitted_state().normal.setting.whiten

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
        now: dict[float, Thresholds] = {
            a: thresholds(state.watch, state.limits, self._rule(a))
            for a in sorted({self.alpha_, 0.05, 0.01})
        }
        return {
            "index": {a: float(np.exp(x.index + state.excess)) for a, x in now.items()},
            "smoothed": {a: float(np.exp(x.smoothed + state.excess)) for a, x in now.items()},
            "lasting": {a: x.lasting**3 for a, x in now.items()},
            "t2": {a: float(np.exp(state.limits.t2.limit(a))) for a in now},
            "spe": {a: float(np.exp(state.limits.spe.limit(a))) for a in now},
            "event": float(np.exp(now[self.alpha_].event + state.excess)),
        }

    @property
    def drift_(self) -> Drift:
        """Where normal operation is now, seen from the model that was fitted."""
        return self._fitted_state().drift

    @property
    def event_(self) -> Event | None:
        """The event that is going on."""
        return self._fitted_state().present

    @property
    def events_(self) -> tuple[Event, ...]:
        """Events that are over, the last hundred."""
        return self._fitted_state().events

    @property
    def sensor_events_(self) -> tuple[SensorEvent, ...]:
        """Sensors that are or were dead or silent, the last hundred, the latest last."""
        return self._fitted_state().sensor_events

    @property
    def n_samples_seen_(self) -> int:
        """Rows of the stream that were judged."""
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

    def _rule(self, alpha: float) -> Rule:
        return Rule.of(
            self._state.limits,
            alpha=alpha,
            smoothed=self.smooth is not None,
            adapts=self.adapt == "event",
            patience=int(self.quarantine),
        )

    def _plan(self) -> Plan:
        check_following(self)
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
        Z = self._fitted_state().standard.apply(X)
        require_summable(np.nan_to_num(Z, posinf=np.inf, neginf=-np.inf))
        return Z

    def _lagged_query(self, X: Any) -> np.ndarray:
        """Lagged rows of a query, which has no past: the first row stands in for it."""
        state = self._fitted_state()
        Z = self._standardise(self._checked_rows(X))
        return replace(state, history=state.history[:0]).complete(Z)[0]
