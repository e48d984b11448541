"""What a fitted monitor answers about rows. A query changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from kernelstream.estimators.validation import summable
from kernelstream.monitor.attributes import MonitorAttributes
from kernelstream.monitor.contributions import Contributions, slopes
from kernelstream.monitor.follow import complete_rows, explained
from kernelstream.monitor.index import Scores
from kernelstream.monitor.records import Event


class MonitorQueries(MonitorAttributes):
    """scikit-learn's novelty verbs, causes, and scores on components."""

    def score_samples(self, X: Any) -> np.ndarray:
        """Minus the logarithm of the index of each row: higher is more normal.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            With lags, one consecutive run.

        Returns
        -------
        array of shape (n,)
        """
        return -self._scores(X).log_index

    def decision_function(self, X: Any) -> np.ndarray:
        """Score above the limit: negative for rows that raise an alarm.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            The rows; with lags one consecutive run.
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """1 for normal rows, −1 for those over the limit of the index.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            The rows; with lags one consecutive run.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

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
        state = self._known()
        R = self._lagged_query(X)
        found = slopes(state.normal, state.curvature, R, state.n_features, np.matmul)
        if average and len(R) > state.lags:
            found = found[state.lags :]  # the first rows have no past of their own
        parts = explained(state, [found.mean(axis=0)] if average else list(found), self._names())
        return parts[0] if average else parts

    def event_contributions(self, event: Event) -> Contributions:
        """The variables behind an event of ``events_`` or ``event_``, averaged over its rows.

        Parameters
        ----------
        event : Event
            One of this monitor's.
        """
        if event.values is not None and event.sizes is not None:
            return Contributions(self._names(), event.values, event.sizes)
        return explained(self._known(), [event.mean_slope], self._names())[0]

    def component_scores(self, X: Any) -> np.ndarray:
        """Scores on the principal components of normal operation, for a score plot.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            The rows; with lags one consecutive run.
        """
        state = self._known()
        index = state.normal.index
        Z = index.coordinates(
            state.normal.scaling.apply(self._lagged_query(X), np.matmul), np.matmul
        )
        _, vectors = np.linalg.eigh(state.normal.coordinates.covariance)
        return (Z - index.mean) @ vectors[:, ::-1]

    # -- inside

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
        if not reset and not hasattr(self, "n_features_in_"):
            self._known()
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            ensure_min_samples=least,
            order="C",
        )
