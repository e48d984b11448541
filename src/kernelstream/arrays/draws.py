"""Choice of rows by index: evenly spaced, by weight; reproducible random numbers of a row.

Philox is a counter: any position of its sequence can be had at once. So the random number of the
i-th row of a stream is the same however the rows were cut into calls, and a saved model goes on
exactly as it would have.
"""

from __future__ import annotations

import zlib

import numpy as np


def _philox(seed: int, purpose: str, index: int) -> np.random.Philox:
    key = np.array([seed, zlib.crc32(purpose.encode())], dtype=np.uint64)
    return np.random.Philox(key=key, counter=np.array([0, 0, index, 0], dtype=np.uint64))


def generator(seed: int, purpose: str, index: int = 0) -> np.random.Generator:
    """A generator of its own for one purpose at one position of the stream.

    Parameters
    ----------
    seed : int
        Random seed.
    purpose : str
        Name of the purpose; different names give independent generators.
    index : int, default=0
        Position in the stream.

    Returns
    -------
    numpy.random.Generator
        The generator.

    Examples
    --------
    >>> bool(generator(1, "start").random() == generator(1, "start").random())
    True
    """
    return np.random.Generator(_philox(seed, purpose, index))


def uniforms(seed: int, purpose: str, first: int, count: int) -> np.ndarray:
    """The numbers in (0, 1) that belong to the rows ``first`` … ``first + count − 1``.

    Parameters
    ----------
    seed : int
        Random seed.
    purpose : str
        Name of the purpose; different names give independent numbers.
    first : int
        Index of the first row.
    count : int
        Number of rows.

    Returns
    -------
    array of shape (count,)
        The random numbers.

    Examples
    --------
    >>> whole = uniforms(7, "reservoir", 0, 10)
    >>> bool((uniforms(7, "reservoir", 3, 4) == whole[3:7]).all())
    True
    """
    bits = _philox(seed, purpose, 0)
    steps, skipped = divmod(first, 4)  # a step of Philox's counter makes four 64-bit numbers
    bits.advance(steps)
    draws = np.random.Generator(bits).random(skipped + count)[skipped:]
    return np.maximum(draws, np.finfo(float).tiny, out=draws)  # so that logarithms are finite


def evenly_spaced(n: int, most: int, *, nearest: bool = False) -> np.ndarray:
    """Indices of at most ``most`` of n rows at equal distances, the first and the last among them.

    Parameters
    ----------
    n : int
        Number of rows.
    most : int
        Number of indices, if there are as many rows.
    nearest : bool, default=False
        Round each place to the nearest index, not down.

    Examples
    --------
    >>> evenly_spaced(101, 3), evenly_spaced(3, 9)
    (array([  0,  50, 100]), array([0, 1, 2]))
    """
    places = np.linspace(0, n - 1, min(n, most))
    return (places.round() if nearest else places).astype(np.intp)


def pick(rng: np.random.Generator, weights: np.ndarray, count: int) -> np.ndarray:
    """At most ``count`` different indices, drawn in proportion to ``weights`` (all at once).

    The largest of ``log w + Gumbel`` noise are a sample without replacement. Indices of weight
    zero are never drawn, so fewer than ``count`` may come back.

    Examples
    --------
    >>> pick(np.random.default_rng(0), np.array([0.0, 1.0, 0.0]), 2)
    array([1])
    """
    possible = np.flatnonzero(weights > 0)
    if count == 0 or len(possible) <= count:
        return possible[:count]
    # Noise for every index, drawn or not: a weight that is zero only up to rounding must not shift
    # the numbers of all the others.
    keys = np.log(weights[possible]) + rng.gumbel(size=len(weights))[possible]
    return possible[np.sort(np.argpartition(keys, -count)[-count:])]
