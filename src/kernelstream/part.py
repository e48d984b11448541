"""What kernels, bases, trackers, schedules and pre-images have in common."""

from __future__ import annotations

from sklearn.base import BaseEstimator


class Part(BaseEstimator):
    """A piece of the chain: immutable numbers in, no state inside.

    Parts have ``get_params`` and ``set_params`` like estimators, so that grid search reaches
    them (``tracker__forgetting``). What they learn is returned as a value, never kept in them.
    Parameters are checked by ``check``, which is called before the first row is read.
    """

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
