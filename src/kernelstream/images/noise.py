"""Noise clipping: expected value of noisy pixels clipped to [0, 1], and its inverse."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from kernelstream.serialization import as_number

# Variance of max(n, 0) over that of normal n: the noise that is left on a black pixel.
LEFT_ON_BLACK = 0.5 - 0.5 / math.pi
STEPS = 8192  # the mean of a clipped pixel is smooth: linear between these to 1e-8


def expected_clipped(clean: np.ndarray, noise_variance: float) -> np.ndarray:
    """E clip(c + n, 0, 1) for normal noise n.

    Noise lifts black and lowers white once it is clipped, and everything that is learned from
    such pixels learns that too.

    Parameters
    ----------
    clean : array
        Pixels c in [0, 1].
    noise_variance : float
        Variance of the noise before clipping.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.images.noise import expected_clipped
    >>> expected_clipped(np.array([0.0, 0.5, 1.0]), 0.1).round(3)
    array([0.126, 0.5  , 0.874])
    """
    if not 0 <= as_number(noise_variance) < math.inf:
        raise ValueError(f"noise_variance must be a number, 0 or more; got {noise_variance!r}.")
    s = max(math.sqrt(noise_variance), np.finfo(float).tiny)  # no noise is as good as hardly any
    low, high = -clean / s, (1.0 - clean) / s
    with np.errstate(over="ignore"):  # exp(−∞) is right
        density = (np.exp(-(low**2) / 2) - np.exp(-(high**2) / 2)) / math.sqrt(2 * math.pi)
    return clean * (ndtr(high) - ndtr(low)) + s * density + ndtr(-high)


def undo_clipping(mean: np.ndarray, noise_variance: float) -> np.ndarray:
    """The clean pixels in [0, 1] whose noisy, clipped versions have the given mean.

    Parameters
    ----------
    mean : array
        Expected noisy pixels; what lies outside the possible range becomes black or white, and NaN
        stays NaN.
    noise_variance : float
        Variance of the noise before clipping.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.images.noise import undo_clipping
    >>> undo_clipping(np.array([0.1, 0.126, 0.5, 0.874]), 0.1).round(2)
    array([0. , 0. , 0.5, 1. ])
    """
    clean = np.linspace(0.0, 1.0, STEPS + 1)
    expected = expected_clipped(clean, noise_variance)
    low, high = float(expected[0]), float(expected[-1])
    if not high > low:
        raise ValueError(
            f"With noise_variance={noise_variance!r} clipped pixels are the same whatever the "
            "clean ones are: nothing can be undone."
        )
    # The inverse in equal steps: a pixel finds its place by a product instead of a search.
    inverse = np.interp(np.linspace(low, high, STEPS + 1), expected, clean)
    mean = np.asarray(mean)
    kind = mean.dtype if mean.dtype.kind == "f" else np.dtype(float)
    place = np.clip((mean - kind.type(low)) * kind.type(STEPS / (high - low)), 0, STEPS)
    before = np.minimum(np.fmax(place, 0).astype(np.int32), STEPS - 1)  # that of NaN is 0
    place -= before
    place *= np.diff(inverse).astype(kind)[before]
    place += inverse.astype(kind)[before]
    return place
