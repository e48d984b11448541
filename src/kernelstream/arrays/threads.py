"""Threads: one BLAS thread per block for bitwise reproducible results, thread pool, row tiles.

Products, Cholesky factors and eigenvectors are rounded differently with 1 and 2 threads of BLAS. So
what enters a model is computed with one, and where there are more, blocks of rows are worked on at
the same time, each by one thread of a pool, which changes nothing about the numbers of a block.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from kernelstream.arrays.namespaces import Array, concatenate_rows, is_foreign, to_float64

T = TypeVar("T")
R = TypeVar("R")

LEAST_ROWS, TILE_NUMBERS = 256, 2**17  # of a tile
SUM_ROWS = 64  # of a tile of a sum of matrices, at least: it stays in the cache of a core

_lock = threading.Lock()
_inside = 0  # callers that want one thread now
_found: dict[str, int] = {}  # what the first of them found, by library
_here = threading.local()  # .n: blocks that this thread may work on at a time
_known: tuple[int, ThreadpoolController] | None = None
_pool: tuple[int, ThreadPoolExecutor] | None = None


def _controller() -> ThreadpoolController:
    """The libraries of the process; looked for again when modules came, which may bring others."""
    global _known
    if _known is None or _known[0] != len(sys.modules):
        _known = len(sys.modules), ThreadpoolController()
    return _known[1]


def _blas() -> list[Any]:
    return [lib for lib in _controller().lib_controllers if lib.user_api == "blas"]


@contextlib.contextmanager
def cores(most: int | None = None) -> Iterator[int]:
    """One thread for BLAS inside, and how many blocks to work on at a time: as many as it had.

    Or ``most``, if that is fewer.

    So whatever limits BLAS limits us: environment variables, threadpoolctl, a worker of joblib, a
    Dask task. And so does ``joblib.parallel_config(n_jobs=…)``, as it does for scikit-learn's
    estimators: what n_jobs is there, with the difference that None means all of BLAS's.

    Parameters
    ----------
    most : int, optional
        Upper limit on the number of blocks; None sets no limit.

    Yields
    ------
    int
        Number of blocks to process at the same time.

    Examples
    --------
    >>> from threadpoolctl import threadpool_limits
    >>> from kernelstream.arrays.threads import cores
    >>> with threadpool_limits(1), cores() as n:
    ...     n
    1
    """
    if getattr(_here, "n", 0):
        yield _here.n
        return
    n = max((lib.get_num_threads() or 1 for lib in _blas()), default=1)
    alone = n == 1 and _inside == 0
    n = min(n, _jobs() or n, most or n)
    _here.n = n
    try:
        with contextlib.nullcontext() if alone else one_blas_thread():
            yield n
    finally:
        _here.n = 0


def _jobs() -> int | None:
    """What joblib was told in this thread; None where it was told nothing."""
    joblib = sys.modules.get("joblib.parallel")
    if joblib is None:
        return None
    backend, n_jobs = joblib.get_active_backend()
    return None if n_jobs is None else int(backend.effective_n_jobs(n_jobs))


def in_threads(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``[function(item) for item in items]``, as many at a time as :func:`cores` around it allows.

    One after the other outside of it, and in a thread of the pool.

    Parameters
    ----------
    function : callable
        Function of one item.
    items : sequence
        Arguments of the calls.

    Returns
    -------
    list
        Results in the order of the items.

    Examples
    --------
    >>> from kernelstream.arrays.threads import cores, in_threads
    >>> with cores():
    ...     in_threads(abs, [-3, 2, -1])
    [3, 2, 1]
    """
    n = min(getattr(_here, "n", 0) or 1, len(items))
    if n < 2:
        return [function(item) for item in items]
    todo, found, failed = deque(range(len(items))), {}, {}
    settings = np.geterr()  # of this thread; those of the pool have their own

    def work() -> None:
        with np.errstate(**settings), contextlib.suppress(IndexError):
            while True:
                i = todo.popleft()
                try:
                    found[i] = function(items[i])
                except BaseException as problem:  # of a thread, and an interrupt of this one
                    failed[i] = problem
                    todo.clear()

    pool, before = _threads(_here.n), _here.n
    others = [pool.submit(work) for _ in range(n - 1)]
    _here.n = 1  # this thread works as the others do
    try:
        work()
    finally:
        _here.n = before
        for other in others:
            if not other.cancel():  # what has not begun would find nothing to do
                other.result()
    if failed:
        raise failed[min(failed)]
    return [found[i] for i in range(len(items))]


def tiles(n: int, width: int, least: int = LEAST_ROWS) -> list[slice]:
    """Rows 0 … n−1 in pieces for :func:`in_threads`, by their width and never by the threads.

    So what is added up over them is the same number whatever the machine. A piece has so many
    numbers that starting a thread for it is no matter, and at least 256 rows, or ``least``: sums
    of many short products would cost more than the products.

    Examples
    --------
    >>> from kernelstream.arrays.threads import tiles
    >>> tiles(1000, 500)
    [slice(0, 256, None), slice(256, 512, None), slice(512, 768, None), slice(768, 1000, None)]
    """
    size = max(least, 1 << (TILE_NUMBERS // max(1, width)).bit_length() - 1)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def cut(X: Array, width: int, least: int = LEAST_ROWS) -> list[slice]:
    """:func:`tiles` of the rows of X; rows on a device stay together: it has its own threads."""
    n = int(X.shape[0])
    return [slice(0, n)] if is_foreign(X) else tiles(n, width, least)


def by_rows(
    function: Callable[[Any], Array], X: Array, width: int, least: int = LEAST_ROWS
) -> Array:
    """``function(X)``, for a function of rows: of :func:`tiles` of X, by threads."""
    cuts = cut(X, width, least)
    if len(cuts) < 2:
        return function(X)
    return concatenate_rows(in_threads(lambda at: function(X[at, :]), cuts))


def in_turn(before: Array, terms: Sequence[Array], decays: Sequence[float] | None = None) -> Array:
    """``before + term + term …`` in float64, in this order, some rows of the sum by each thread.

    What is there may shrink, by a factor before each term.
    """
    after = to_float64(before) + 0.0  # a copy

    def add(at: slice) -> None:
        for i, term in enumerate(terms):
            if decays is not None and decays[i] != 1.0:
                after[at, ...] *= decays[i]
            after[at, ...] += term[at, ...]

    in_threads(add, cut(after, math.prod(after.shape[1:]), SUM_ROWS))
    return after


def _threads(n: int) -> ThreadPoolExecutor:
    """The pool; its threads never use more than one of BLAS."""
    global _pool
    with _lock:
        if _pool is None or _pool[0] != n:
            if _pool is not None:
                _pool[1].shutdown(wait=False)
            pool = ThreadPoolExecutor(n, "kernelstream", initializer=_one_of_blas)
            _pool = n, pool
        return _pool[1]


def _one_of_blas() -> None:
    for lib in _blas():
        if _of_each_thread(lib):
            _set(lib, 1)


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS work with one thread; several threads of Python may want that at once.

    Some libraries have one number for each thread of Python: every caller sets its own. Others have
    one for the whole process: the last caller to leave gives back what the first one found.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.arrays.threads import one_blas_thread
    >>> with one_blas_thread():
    ...     float((np.eye(3) @ np.eye(3)).sum())
    3.0
    """
    global _inside
    libraries = _blas()
    with _lock:
        own = [lib.get_num_threads() for lib in libraries]
        for lib, number in zip(libraries, own, strict=True):
            _found.setdefault(lib.filepath, number)
            _set(lib, 1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            for lib, number in zip(libraries, own, strict=True):
                if _of_each_thread(lib):
                    _set(lib, number)
                elif _inside == 0:
                    _set(lib, _found[lib.filepath])
            if _inside == 0:
                _found.clear()


def _of_each_thread(lib: Any) -> bool:
    """Whether a library has a number for each thread of Python."""
    return getattr(lib, "threading_layer", None) in ("openmp", "intel", "gnu")


def _set(lib: Any, number: int) -> None:
    # threadpoolctl lets only one thread of Python change OpenBLAS, from version 3.7 on: but here
    # the last one to leave may be another than the first.
    getattr(lib, "_real_set_num_threads", lib.set_num_threads)(number)


def _begin_anew() -> None:
    """A child process has none of the threads that were inside, and none of the pool."""
    global _lock, _inside, _pool, _here
    _lock, _inside, _pool, _here = threading.Lock(), 0, None, threading.local()
    _found.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
