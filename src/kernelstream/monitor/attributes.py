"""What a fitted monitor shows of itself."""

from __future__ import annotations

import numpy as np
from sklearn.exceptions import NotFittedError

from kernelstream.monitor.drift import Drift
from kernelstream.monitor.follow import MonitorState
from kernelstream.monitor.limits import Reference
from kernelstream.monitor.records import Event


class MonitorAttributes:
    """Read-only attributes, computed from the state."""

    alpha: float
    n_features_in_: int
    _state: MonitorState

    @property
    def offset_(self) -> float:
        """The limit of ``score_samples``: ``decision_function(X) = score_samples(X) - offset_``."""
        state = self._known()
        return -(state.limits.index.limit(self.alpha) + state.watch.shift[0] + state.excess)

    @property
    def lags_(self) -> int:
        """Earlier rows that are joined to each row."""
        return self._known().lags

    @property
    def width_(self) -> float:
        """Width c of the kernel ``exp(−|u − v|²/(c·D))`` on whitened rows."""
        return self._known().normal.setting.width

    @property
    def ridge_(self) -> float:
        """Share e of the variance that is taken for noise, ``ε = e · tr S / D``."""
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
        """Limits of index, smoothed index, T² and SPE at ``alpha``, 5 % and 1 %, and of events.

        As they are now, with the shifts of adaptation.
        """
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
        """Events that are over, the last hundred."""
        return self._known().events

    @property
    def n_samples_seen_(self) -> int:
        """Rows of the stream that were judged."""
        return self._known().n_rows

    # -- inside

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "_state", None) is not None

    def _known(self) -> MonitorState:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} does not know normal operation yet: call fit first."
            )
        return self._state

    def _names(self) -> tuple[str, ...]:
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return tuple(f"x{j}" for j in range(self.n_features_in_))
        return tuple(map(str, names))
