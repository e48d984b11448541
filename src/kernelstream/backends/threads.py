"""One thread for BLAS, where results must not depend on how many there are.

Products, Cholesky factors and eigenvectors are rounded differently with 1 and 2 threads of BLAS.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside = 0  # callers that want one thread now
_over = threading.Event()  # that the last one of them has left


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS work with one thread; several threads of Python may want that at once.

    Some libraries have one number for each thread of Python, others one for the whole process, and
    only the thread that changed that one may change it back. So every caller sets its own, and a
    thread beside them holds that of the process from the first caller to the last.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.backends.threads import one_blas_thread
    >>> with one_blas_thread():
    ...     float((np.eye(3) @ np.eye(3)).sum())
    3.0
    """
    global _inside, _over
    with _lock:
        if _inside == 0:
            _over, held = threading.Event(), threading.Event()
            threading.Thread(target=_hold, args=(held, _over), daemon=True).start()
            held.wait()
        _inside += 1
    try:
        with ThreadpoolController().limit(limits=1, user_api="blas"):
            yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _over.set()


def _hold(held: threading.Event, over: threading.Event) -> None:
    """Hold the number of the process."""
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        held.set()
        over.wait()


def _begin_anew() -> None:
    """A child process has none of the threads that were inside."""
    global _lock, _inside
    _lock, _inside = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
