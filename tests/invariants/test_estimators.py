"""The first law for every estimator: the same rows, however they are cut, give the same model.

``test_stream.py`` has every pair of parts; here are the estimators around them, with what they hold
beside the stream: targets, images, the state of a monitor, the looks of a part for river. Between
the calls they are asked, written to a file and read again, and given nothing. The bytes of model
files are compared.
"""

from __future__ import annotations

import functools
import os
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelstream import (
    KernelMonitor,
    StreamingKernelClassifier,
    StreamingKernelPCA,
    StreamingKernelRidge,
    landmarks,
    load,
    serialization,
)
from kernelstream.images import Denoiser, SuperResolver
from kernelstream.integrations.river import KernelComponents, NoveltyDetector
from kernelstream.papers import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    KernelHebbianPCA,
    OnlineKernelPCA,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(640, 3)) * [1.0, 0.5, 0.2]
X[300:] += [2.0, -1.0, 0.0]
Y = np.stack([X[:, 0] ** 2, X[:, 1]], axis=1)
LABELS = np.array(["a", "b", "c"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0)]
WEIGHTS = RNG.uniform(0.3, 2.0, size=640)
WEIGHTS[3::7] = 0.0  # not the first: a model of no weight cannot be queried
PIXELS = RNG.random(size=(1100, 9))
IMAGES = [RNG.random(size=(16, 16)) for _ in range(9)]
FAULTY = X.copy()
FAULTY[200:230, 1] += 9.0  # an event
FAULTY[50, 2] = np.nan
FOUR = landmarks.Landmarks(X[:4])


@dataclass(frozen=True)
class Stream:
    """How an estimator is made, brought rows from one index to another, and asked.

    ``marks`` are numbers of rows at which something is decided: calls like to end near them.
    """

    new: Callable[[], Any]
    bring: Callable[[Any, slice], Any]
    ask: Callable[[Any], Any]
    n: int
    marks: tuple[int, ...]
    nothing: Callable[[Any], Any] = lambda model: None
    keep: Callable[[Any], bytes] = lambda model: serialization.to_bytes(model._content())


def without_weight(model: Any) -> None:
    model.partial_fit(X[:3], sample_weight=np.zeros(3))


def plain(new: Callable[[], Any], *marks: int, n: int = 640) -> Stream:
    return Stream(
        new,
        lambda model, some: model.partial_fit(X[some]),
        lambda model: model.transform(X[:2]),
        n,
        marks,
        without_weight,
    )


def labelled(model: Any, some: slice) -> None:
    model.partial_fit(X[some], LABELS[some], classes=list("abc"), sample_weight=WEIGHTS[some])


def ridge(**options: Any) -> StreamingKernelRidge:
    return StreamingKernelRidge(gamma=0.4, batch_size=64, random_state=0, **options)


def images(model: Any, some: slice) -> None:
    for image in IMAGES[some]:
        model.partial_fit(image)


def followed(model: KernelMonitor, some: slice) -> None:
    """One by one or all together; records are part of the answer."""
    if some.stop - some.start < 4:
        records = [model.update(x) for x in FAULTY[some]]
    else:
        records = list(model.update_many(FAULTY[some]))
    for record, row in zip(records, range(some.start, some.stop), strict=True):
        expected = judged()[row]
        assert (record.time, record.alarm, record.event) == (row, expected.alarm, expected.event)
        assert record.index == expected.index and record.learned == expected.learned


@functools.cache
def fitted_monitor() -> bytes:
    monitor = KernelMonitor(basis=20, width=30.0, ridge=0.1, whiten=True, memory=80, random_state=0)
    return pickle.dumps(monitor.fit(X[:300]))


@functools.cache
def judged() -> list[Any]:
    return list(pickle.loads(fitted_monitor()).update_many(FAULTY))


def vouched(model: KernelMonitor, some: slice) -> None:
    model.partial_fit(X[some])


def frames(part: Any, some: slice) -> None:
    rows = pd.DataFrame(X[some], columns=list("abc"))
    for x in rows.to_dict("records"):
        part.learn_one(x)


def part_bytes(part: Any) -> bytes:
    looked = serialization.to_bytes(part._looked._content())
    return (
        looked + serialization.to_bytes(part.estimator._content()) + bytes([part._next_look % 256])
    )


def small() -> StreamingKernelPCA:
    return StreamingKernelPCA(2, gamma=0.4, basis=FOUR, batch_size=64, random_state=0)


ESTIMATORS: dict[str, Stream] = {
    "online": plain(lambda: OnlineKernelPCA(2, random_state=0), 500, 512, 256),
    "adaptive": plain(lambda: AdaptiveKernelPCA(2, gamma=0.4, random_state=0), 256, 512),
    "adaptive lms": plain(
        lambda: AdaptiveKernelPCA(2, gamma=0.4, method="lms", random_state=0), 256, n=300
    ),
    "incremental": plain(
        lambda: IncrementalKernelPCA(2, gamma=0.4, n_points=12, random_state=0), 30, 60, n=200
    ),
    "kernel Hebbian": plain(
        lambda: KernelHebbianPCA(2, gamma=0.4, batch_size=64, random_state=0), 64, 128, n=200
    ),
    "kernel Hebbian after fit": plain(
        lambda: KernelHebbianPCA(2, gamma=0.4, n_epochs=2, random_state=0).fit(X[:40]), 256, n=150
    ),
    "ridge": Stream(
        lambda: ridge(basis=8),
        lambda m, some: m.partial_fit(X[some], Y[some]),
        lambda m: m.predict(X[:2]),
        640,
        (500, 512, 576),
    ),
    "ridge, decided by the start": Stream(
        lambda: ridge(basis=FOUR, scale="standard", forgetting=0.99).set_params(gamma=None),
        lambda m, some: m.partial_fit(X[some], Y[some, 0], sample_weight=WEIGHTS[some]),
        lambda m: m.predict(X[:2]),
        640,
        (500, 512, 576),
        lambda m: m.partial_fit(X[:2], Y[:2, 0], sample_weight=[0.0, 0.0]),
    ),
    "classifier": Stream(
        lambda: StreamingKernelClassifier(gamma=0.4, basis=8, batch_size=64, random_state=0),
        labelled,
        lambda m: m.predict(X[:2]),
        640,
        (500, 512, 583),
    ),
    "denoiser": Stream(
        lambda: Denoiser(0.05, basis=6, n_directions=4, random_state=0),
        lambda m, some: m.partial_fit(PIXELS[some]),
        lambda m: m.transform(PIXELS[:2]),
        1100,
        (500, 1024),
    ),
    "denoiser by projection": Stream(
        lambda: Denoiser(basis=6, method="project", n_components=3, random_state=0),
        lambda m, some: m.partial_fit(PIXELS[some]),
        lambda m: m.transform(PIXELS[:2]),
        1100,
        (500, 1024),
    ),
    "resolver": Stream(
        lambda: SuperResolver(2, basis=3, patches_per_image=150, random_state=0),
        images,
        lambda m: m.predict(IMAGES[0][:8, :8]),
        9,
        (4, 7),
    ),
    "monitor": Stream(
        lambda: pickle.loads(fitted_monitor()),
        followed,
        lambda m: (m.decision_function(X[:2]), m.drift_, m.limits_),
        640,
        (64, 200, 230),
    ),
    "monitor, vouched for": Stream(
        lambda: pickle.loads(fitted_monitor()),
        vouched,
        lambda m: (m.contributions(X[:2]), m.events_),
        400,
        (64, 80, 160),
    ),
    "river": Stream(
        lambda: KernelComponents(small(), refresh=100),
        frames,
        lambda m: m.transform_one({"a": 0.0, "b": 1.0, "c": 0.0}),
        400,
        (64, 125, 156),
        keep=part_bytes,
    ),
    "river, novelty": Stream(
        lambda: NoveltyDetector(small(), refresh=100),
        frames,
        lambda m: m.score_one({"a": 0.0, "b": 1.0, "c": 0.0}),
        200,
        (64, 125, 156),
        keep=part_bytes,
    ),
}


@st.composite
def cuttings(draw: Any, stream: Stream) -> list[tuple[int, str]]:
    """Ends of calls, each with what happens after it."""
    size = st.one_of(st.integers(1, 3), st.integers(1, 90), st.integers(1, stream.n))
    near = st.sampled_from([mark + by for mark in stream.marks for by in (-1, 0, 1, 5)])
    after = st.sampled_from(["", "ask", "reload", "nothing"])
    calls: list[tuple[int, str]] = []
    start = 0
    while start < stream.n:
        stop = draw(near) if draw(st.booleans()) else start + draw(size)
        stop = min(max(stop, start + 1), stream.n) if len(calls) < 9 else stream.n
        calls.append((stop, draw(after)))
        start = stop
    return calls


def reloaded(model: Any) -> Any:
    if not hasattr(model, "save"):
        return pickle.loads(pickle.dumps(model))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        model.save(path)
        return load(path)


@functools.cache
def in_one_call(name: str) -> bytes:
    stream = ESTIMATORS[name]
    model = stream.new()
    stream.bring(model, slice(0, stream.n))
    return stream.keep(model)


@pytest.mark.filterwarnings("ignore:.*the step was too long:RuntimeWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
@given(data=st.data())
def test_any_cutting_gives_the_same_bytes(name: str, data: st.DataObject) -> None:
    stream = ESTIMATORS[name]
    model, start = stream.new(), 0
    if data.draw(st.booleans()):
        stream.nothing(model)
    for stop, then in data.draw(cuttings(stream)):
        stream.bring(model, slice(start, stop))
        start = stop
        if then == "ask":
            stream.ask(model)
        elif then == "reload":
            model = reloaded(model)
        elif then == "nothing":
            stream.nothing(model)
    assert stream.keep(model) == in_one_call(name)
