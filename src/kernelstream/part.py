"""What kernels, bases, trackers, schedules and pre-images have in common."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator


class Part(BaseEstimator):
    """A piece of the chain: immutable numbers in, no state inside.

    Parts have ``get_params`` and ``set_params`` like estimators, so that grid search reaches
    them (``tracker__forgetting``). What they learn is returned as a value, never kept in them.
    Parameters are checked by ``check``, which is called before the first row is read.
    """

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""

    def copied(self) -> Self:
        """The same part with parameters of its own, those of parts inside it included.

        A stream learns with the parameters it began with. The object that the user holds may get
        others (``set_params(kernel__gamma=…)`` for the next ``fit``), or serve another estimator.
        """
        return type(self)(
            **{name: _copied(value) for name, value in self.get_params(deep=False).items()}
        )


def _copied(value: Any) -> Any:
    if isinstance(value, Part):
        return value.copied()
    return value.copy() if isinstance(value, np.ndarray | list) else value
