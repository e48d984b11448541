"""Noise of pixels: its variance from a spectrum (Marchenko-Pastur), and clipping to [0, 1]."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from kernelstream.serialization import as_number

# Variance of max(n, 0) over that of normal n: the noise that is left on a black pixel.
LEFT_ON_BLACK = 0.5 - 0.5 / math.pi


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
    steps = 8192  # the mean of a clipped pixel is smooth: linear between these to 1e-8
    clean = np.linspace(0.0, 1.0, steps + 1)
    expected = expected_clipped(clean, noise_variance)
    low, high = float(expected[0]), float(expected[-1])
    if not high > low:
        raise ValueError(
            f"With noise_variance={noise_variance!r} clipped pixels are the same whatever the "
            "clean ones are: nothing can be undone."
        )
    # The inverse in equal steps: a pixel finds its place by a product instead of a search.
    inverse = np.interp(np.linspace(low, high, steps + 1), expected, clean)
    mean = np.asarray(mean)
    kind = mean.dtype if mean.dtype.kind == "f" else np.dtype(float)
    place = np.clip((mean - kind.type(low)) * kind.type(steps / (high - low)), 0, steps)
    before = np.minimum(np.fmax(place, 0).astype(np.int32), steps - 1)  # that of NaN is 0
    place -= before
    place *= np.diff(inverse).astype(kind)[before]
    place += inverse.astype(kind)[before]
    return place


def noise_level(spectrum: np.ndarray, n_rows: int) -> float:
    """Variance of white noise under the signal, from the spectrum of a sampled covariance.

    The lower half of the eigenvalues is taken for noise. Sampling spreads the eigenvalues of noise
    of variance v between ``v (1 − √q)²`` and ``v (1 + √q)²``, q features a degree of freedom
    (Marchenko and Pastur 1967), so that their lower half lies below v: with four rows a feature at
    0.58 v, with one at 0.21 v. Their mean is divided by that of the same eigenvalues of noise of
    variance one. Eigenvalues above the upper edge are signal: they are no part of the law, and each
    has taken a degree of freedom.

    Parameters
    ----------
    spectrum : array of shape (d,)
        Eigenvalues, descending, of the covariance of n rows (about their mean, divided by n).
    n_rows : int
        n, at least 2.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.images.noise import noise_level
    >>> X = 0.5 * np.random.default_rng(0).normal(size=(200, 100))
    >>> spectrum = np.linalg.eigvalsh(np.cov(X.T, ddof=0))[::-1]
    >>> float(spectrum[50:].mean().round(2)), round(noise_level(spectrum, 200), 2)
    (0.1, 0.25)
    """
    if n_rows < 2:
        raise ValueError("The noise cannot be measured from one row: give noise_variance.")
    there = min(n_rows - 1, len(spectrum))  # the others are zero whatever the noise
    if there == 0:  # nothing varies
        return 0.0
    low = spectrum[there // 2 : there]
    n_signal, found, settled = 0, 0.0, False
    while not settled:  # more signal means less noise, and that more signal: it ends
        features, freedom = len(spectrum) - n_signal, n_rows - 1 - n_signal
        q = features / freedom
        lowest = (np.arange(len(low)) + 0.5) / (there - n_signal)
        unit = freedom / n_rows  # of eigenvalues that were divided by n
        found = float(low.mean()) / (unit * float(marchenko_pastur(q, lowest).mean()))
        above = int(np.sum(spectrum > found * unit * (1.0 + math.sqrt(q)) ** 2))
        above = min(max(above, n_signal), there - len(low))
        n_signal, settled = above, above == n_signal
    return found


def marchenko_pastur(q: float, shares: np.ndarray) -> np.ndarray:
    """Quantiles of the eigenvalues (above zero) of noise of variance one."""
    # With x = 1 + q − 2√q cos t the density √((x₊ − x)(x − x₋))/x dx is that of sin² t/x dt.
    t = np.linspace(0.0, math.pi, 4001)
    x = 1.0 + q - 2.0 * math.sqrt(q) * np.cos(t)
    density = np.sin(t) ** 2 / np.maximum(x, np.finfo(float).tiny)
    below = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return np.interp(shares, below / below[-1], x)
