"""Streams as values: what is computed of one is computed once, and goes with it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, StreamingKernelRidge
from kernelstream.stream.stream import Stream


@pytest.fixture
def no_search_for_circles() -> Iterator[None]:
    """Let only what nothing refers to be freed."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def rows(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 3))


def model() -> StreamingKernelPCA:
    return StreamingKernelPCA(2, gamma=0.3, basis=12, batch_size=64, random_state=0)


def ask(fitted: StreamingKernelPCA) -> None:
    fitted.transform(rows(3))
    fitted.transform_one(rows(1)[0])
    assert fitted.certificate_.eigenvalue_intervals.shape == (2, 2)
    assert fitted.eigenvalues_.shape == (2,)


@pytest.mark.parametrize("n", [640, 700, 40], ids=["block's end", "rows wait", "before the start"])
@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_a_stream_goes_when_it_is_no_longer_held(
    n: int, verb: str, no_search_for_circles: None
) -> None:
    """Its matrices would otherwise wait for Python's search for circles."""
    fitted = getattr(model(), verb)(rows(n))
    ask(fitted)
    old = weakref.ref(fitted.stream_)
    fitted.partial_fit(rows(70))
    assert old() is None
    ask(fitted)
    last = weakref.ref(fitted.stream_)
    del fitted
    assert last() is None


def test_so_does_that_of_a_regression(no_search_for_circles: None) -> None:
    X = rows(700)
    fitted = StreamingKernelRidge(gamma=0.3, basis=12, random_state=0).fit(X, X[:, 0])
    fitted.predict(X[:3])
    last = weakref.ref(fitted.stream_)
    del fitted
    assert last() is None


def computed(stream: Stream) -> tuple[Stream, object]:
    return stream.caught_up, stream.components


@pytest.mark.parametrize("n", [640, 700, 40])
def test_what_queries_see_is_computed_once(n: int) -> None:
    stream = model().partial_fit(rows(n)).stream_
    assert all(a is b for a, b in zip(computed(stream), computed(stream), strict=True))
    assert stream.caught_up.n_rows == stream.settled.n_rows == n
    assert not stream.caught_up.waiting


def test_components_of_finished_blocks_outlive_rows_that_wait() -> None:
    fitted = model().partial_fit(rows(640))
    shown = fitted.stream_.learned.components
    fitted.partial_fit(rows(7)).learn_one(rows(1)[0])
    assert fitted.stream_.learned.components is shown
    fitted.partial_fit(rows(64))
    assert fitted.stream_.learned.components is not shown
