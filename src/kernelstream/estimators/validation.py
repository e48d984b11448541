"""Checks of what users give, in words: rows, weights, numbers, choices."""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import assert_all_finite, check_random_state

from kernelstream.backends.arrays import (
    Array,
    all_finite,
    is_foreign,
    on_accelerator,
    row_norms_squared,
    to_host,
)
from kernelstream.trackers import Tracker

NO_WEIGHT = "All rows have weight zero: there is nothing to learn from."
NOT_FINITE = "Input X contains NaN or infinity; give finite numbers."


def checked_n_components(n_components: Any, tracker: Tracker) -> int | float | None:
    """The number of components as an int, a share as a float, or None; else an error in words."""
    if isinstance(n_components, numbers.Integral) and not isinstance(n_components, bool):
        if int(n_components) >= 1:
            return int(n_components)
    elif tracker.sequential:
        raise ValueError(
            f"The tracker {tracker} learns a fixed number of components from the first row on: "
            f"give n_components as an integer, got {n_components!r}."
        )
    elif n_components is None:
        return None
    elif isinstance(n_components, numbers.Real) and 0 < float(n_components) < 1:
        return float(n_components)
    raise ValueError(
        "n_components must be an integer of at least 1, a share of the variance between 0 and 1, "
        f"or None for all components; got {n_components!r}."
    )


def checked_batch_size(batch_size: Any) -> int | None:
    """The number of rows in a block, None for "auto", or an error in words."""
    if isinstance(batch_size, str) and batch_size == "auto":
        return None
    is_whole = isinstance(batch_size, numbers.Integral) and not isinstance(batch_size, bool)
    if is_whole and int(batch_size) >= 1:
        return int(batch_size)
    raise ValueError(f"batch_size must be a positive integer or 'auto', got {batch_size!r}.")


def checked_seed(random_state: Any) -> int:
    """The seed of all draws: an integer as it is, anything else draws one."""
    if isinstance(random_state, numbers.Integral):
        if not 0 <= int(random_state) < 2**32:
            raise ValueError(
                f"random_state must be an integer from 0 to 2**32 - 1, a RandomState or None; got "
                f"{int(random_state)}."
            )
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def real_numbers(x: Any) -> np.ndarray:
    """The argument as an array, refused where a conversion would drop the imaginary part."""
    x = np.asarray(x)
    if x.dtype.kind == "c":
        raise ValueError("Complex data not supported: give real numbers.")
    return x


def checked_weights(weights: Any, n: int) -> np.ndarray:
    """Weights of n rows as float64; one number stands for all."""
    w = real_numbers(to_host(weights) if is_foreign(weights) else weights).astype(np.float64)
    w = np.full(n, float(w)) if w.ndim == 0 else w
    if w.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {w.shape}: expected ({n},), one number for each row."
        )
    if not all_finite(w):
        raise ValueError("sample_weight contains NaN or infinity; give finite numbers.")
    if np.any(w < 0):
        raise ValueError("sample_weight has negative numbers; a weight is zero or more.")
    return w


def summable(X: Array) -> Array:
    """Rows whose squared distances are finite numbers in their type, or an error.

    A row may wait for its block to be complete: what no kernel could take must be refused now,
    while the caller knows it, and not when the block is folded.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(X, np.ndarray) and X.flags.c_contiguous:
            # The sum of all squares is above that of every row, and is a product of BLAS.
            fine = bool(np.isfinite(4.0 * np.vdot(X, X))) or all_finite(4.0 * row_norms_squared(X))
        else:
            fine = all_finite(4.0 * row_norms_squared(X))
    if not fine:
        if not is_foreign(X):
            assert_all_finite(X, input_name="X")
        elif not all_finite(X):
            raise ValueError(NOT_FINITE)
        raise ValueError(
            f"X has rows so large that their squared norm overflows {X.dtype}: scale the data"
            " (to unit variance, say), or leave these rows out."
        )
    return X


@contextlib.contextmanager
def explained(X: Array) -> Iterator[None]:
    """Say what is wrong with the rows themselves where they were not looked at before."""
    try:
        yield
    except ValueError:
        if on_accelerator(X):
            summable(X)
        raise


def checked_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if not any(value is c or (isinstance(c, str) and value == c) for c in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")
