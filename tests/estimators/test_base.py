"""One thread learns while others ask: they see the model before or after a call, never between.

Python says when it calls a function, so that "between" can be looked at without luck: at every call
inside a verb the estimator is compared, another one is put into its place, or Ctrl-C is pressed.
"""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from kernelstream import (
    KernelMonitor,
    StreamingKernelClassifier,
    StreamingKernelPCA,
    StreamingKernelRidge,
    landmarks,
)
from kernelstream.images import Denoiser, SuperResolver
from kernelstream.integrations.river import KernelComponents
from kernelstream.papers import KernelHebbianPCA, OnlineKernelPCA

RNG = np.random.default_rng(0)
X = RNG.normal(size=(70, 3))
BAD = np.full((2, 3), np.nan)
LABELS = np.arange(70) % 2
IMAGE = 0.5 + 0.4 * np.sin(np.arange(24 * 24).reshape(24, 24) ** 1.3)
NOISY = RNG.normal(size=(40, 9))
FOUR_POINTS = landmarks.Landmarks(X[:4])


@dataclass(frozen=True)
class Kind:
    """An estimator, rows that it takes, rows that it refuses, and a question."""

    new: Callable[[], Any]
    learn: Callable[[Any], Any]
    refuse: Callable[[Any], Any]
    ask: Callable[[Any], Any]


def pca() -> StreamingKernelPCA:
    return StreamingKernelPCA(2, gamma=0.3, basis=FOUR_POINTS, batch_size=16, random_state=0)


def resolver() -> SuperResolver:
    return SuperResolver(2, basis=3, patches_per_image=60, refinements=0, random_state=0)


def dictionaries() -> KernelComponents:
    return KernelComponents(pca())


def dictionary(x: np.ndarray) -> dict[str, float]:
    return dict(zip("abc", x.tolist(), strict=True))


def frame(rows: np.ndarray) -> Any:
    import pandas

    return pandas.DataFrame(rows, columns=list("abc"))


KINDS: dict[str, Kind] = {
    "pca": Kind(
        lambda: pca().partial_fit(X),
        lambda m: m.partial_fit(X[:20]),
        lambda m: m.partial_fit(BAD),
        lambda m: m.transform(X[:3]),
    ),
    "pca, fit": Kind(
        lambda: pca().fit(X),
        lambda m: m.fit(X[:30]),
        lambda m: m.fit(BAD),
        lambda m: m.inverse_transform(m.transform(X[:3])),
    ),
    "pca, row by row": Kind(
        lambda: pca().partial_fit(X[:62]).learn_one(X[0]),
        lambda m: m.learn_one([1, 2, 3]).learn_one(X[5]),
        lambda m: m.learn_one(BAD[0]),
        lambda m: m.transform_one(X[0]),
    ),
    "online": Kind(
        lambda: OnlineKernelPCA(2, gamma=0.3).partial_fit(X),
        lambda m: m.partial_fit(X[:20]),
        lambda m: m.partial_fit(BAD),
        lambda m: m.reconstruction_error(X[:3]),
    ),
    "kernel Hebbian": Kind(
        lambda: KernelHebbianPCA(2, gamma=0.3, n_epochs=2, random_state=0).fit(X[:20]),
        lambda m: m.partial_fit(X[:5]),
        lambda m: m.learn_one(BAD[0]),
        lambda m: m.transform(X[:3]),
    ),
    "ridge": Kind(
        lambda: StreamingKernelRidge(gamma=0.3, basis=FOUR_POINTS).partial_fit(X, X[:, 0]),
        lambda m: m.partial_fit(X, np.stack([LABELS], axis=1)),
        lambda m: m.partial_fit(X, np.full(70, np.inf)),
        lambda m: m.predict(X[:3]),
    ),
    "classifier": Kind(
        lambda: StreamingKernelClassifier(gamma=0.3, basis=FOUR_POINTS).fit(X, LABELS),
        lambda m: m.fit(X, np.where(LABELS > 0, "yes", "no")),
        lambda m: m.fit(BAD, ["a", "b"]),
        lambda m: m.predict(X[:3]),
    ),
    "denoiser": Kind(
        lambda: Denoiser(0.1, basis=4, width=1.0, n_directions=3, random_state=0).fit(NOISY),
        lambda m: m.partial_fit(NOISY[:9]),
        lambda m: m.partial_fit(np.full((2, 9), np.nan)),
        lambda m: m.transform(NOISY[:3]),
    ),
    "resolver": Kind(
        lambda: resolver().fit([IMAGE]),
        lambda m: m.partial_fit(IMAGE[::-1].copy()),
        lambda m: m.partial_fit(IMAGE[:3, :3]),
        lambda m: m.predict(IMAGE[:8, :8]),
    ),
    "monitor": Kind(
        lambda: KernelMonitor(basis=5, width=300.0, ridge=0.1, whiten=False, random_state=0).fit(X),
        lambda m: m.partial_fit(X[:30]),
        lambda m: m.update_many(np.full((2, 3), np.inf)),
        lambda m: m.decision_function(X[:3]),
    ),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def at_every_call(action: Callable[[int], Any], verb: Callable[[], Any]) -> Any:
    """Run a verb; whenever a function of the library is called, act, with the call's number."""
    count = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        # Nobody hears what is raised while a generator that is not used up is closed.
        if frame.f_code.co_flags & inspect.CO_GENERATOR:
            return
        if event == "call" and frame.f_globals.get("__name__", "").startswith("kernelstream"):
            count += 1
            action(count)

    sys.setprofile(called)
    try:
        return verb()
    finally:
        sys.setprofile(None)


def number_of_calls(verb: Callable[[], Any]) -> int:
    numbers = [0]
    at_every_call(numbers.append, verb)
    return numbers[-1]


def places(n: int) -> list[int]:
    """Some of n calls, the first and the last ones among them."""
    some = {*range(1, 4), *range(n - 40, n + 1, 4), *np.linspace(1, n, 12).astype(int).tolist()}
    return sorted(place for place in some if 1 <= place <= n)


def held(estimator: Any) -> dict[str, int]:
    """What a reader can see. (The model that a part for river learns with waits for its turn.)"""
    return {name: id(value) for name, value in vars(estimator).items() if name != "_learning"}


def test_nobody_sees_a_model_between(kind: Kind) -> None:
    model = kind.new()
    kept = [dict(vars(model))]  # what is held has an id of its own
    seen: list[dict[str, int]] = [held(model)]

    def look(_: int) -> None:
        if held(model) != seen[-1]:
            kept.append(dict(vars(model)))
            seen.append(held(model))

    at_every_call(look, lambda: kind.learn(model))
    calls = 2 if kind is KINDS["pca, row by row"] else 1
    look(0)
    assert 2 <= len(seen) <= 1 + calls


def test_a_rejected_call_is_never_seen(kind: Kind) -> None:
    model = kind.new()
    before = kind.ask(model)
    changes = []

    def refused() -> None:
        with pytest.raises(ValueError):
            kind.refuse(model)

    was = held(model)
    at_every_call(lambda _: changes.append(held(model) != was), refused)
    assert changes and not any(changes)
    np.testing.assert_array_equal(kind.ask(model), before)


def test_an_interrupt_leaves_the_model_before_or_after(kind: Kind) -> None:
    before, after = kind.ask(kind.new()), kind.new()
    kind.learn(after)
    answers = [np.asarray(before), np.asarray(kind.ask(after))]
    fresh = kind.new()
    for place in places(number_of_calls(lambda: kind.learn(fresh))):
        model = kind.new()

        def press(number: int, place: int = place) -> None:
            if number == place:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            at_every_call(press, lambda model=model: kind.learn(model))  # type: ignore[misc]
        found = np.asarray(kind.ask(model))
        if kind is not KINDS["pca, row by row"]:  # of its two rows one may have been learned
            assert any(np.array_equal(found, answer) for answer in answers)


def test_a_query_sees_one_model(kind: Kind) -> None:
    """Another thread puts another model into the place at any moment of the query."""
    first, second = kind.new(), kind.new()
    kind.learn(second)
    answers = [np.asarray(kind.ask(model)) for model in (first, second)]
    for place in places(number_of_calls(lambda: kind.ask(first))):
        model = copy.copy(first)

        def learn(number: int, place: int = place, model: Any = model) -> None:
            if number == place:
                model.__dict__ = dict(vars(second))

        found = np.asarray(at_every_call(learn, lambda model=model: kind.ask(model)))  # type: ignore[misc]
        if kind is KINDS["pca, fit"]:  # two queries: of the second, the scores of the first
            continue
        assert any(np.array_equal(found, answer) for answer in answers)


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Threads take turns as often as Python allows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def all_at_once(*actions: Callable[[], Any]) -> None:
    errors: list[BaseException] = []

    def careful(action: Callable[[], Any]) -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=careful, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_threads_that_learn_take_turns_while_others_ask(busy_threads: None) -> None:
    model = pca().partial_fit(X)

    def one_by_one() -> None:
        for x in X:
            model.learn_one(x)

    def in_blocks() -> None:
        for start in range(0, 70, 7):
            model.partial_fit(X[start : start + 7])
            with pytest.raises(ValueError):
                model.partial_fit(BAD)

    def ask() -> None:
        seen = 0
        for _ in range(15):
            assert np.isfinite(model.transform(X[:2])).all()
            assert seen <= (seen := model.n_samples_seen_)

    all_at_once(one_by_one, one_by_one, in_blocks, ask, ask)
    assert model.n_samples_seen_ == 4 * 70


def test_a_row_that_comes_while_a_block_is_learned_is_not_lost() -> None:
    """It must not be written beside the stream that the block takes the place of."""

    def new() -> StreamingKernelPCA:
        return pca().partial_fit(X[:66]).learn_one(X[0])

    fresh = new()
    n_calls = number_of_calls(lambda: fresh.partial_fit(X[:20]))
    for place in (2, n_calls // 2, n_calls - 2):
        model = new()
        other = threading.Thread(target=model.learn_one, args=(X[1],))

        def begin(number: int, place: int = place, other: threading.Thread = other) -> None:
            if number == place:
                other.start()
                other.join(0.2)  # it may have to wait for its turn, which comes after this call

        at_every_call(begin, lambda model=model: model.partial_fit(X[:20]))  # type: ignore[misc]
        other.join()
        assert model.n_samples_seen_ == 67 + 20 + 1


def test_threads_take_turns_with_a_monitor_and_with_dictionaries(busy_threads: None) -> None:
    monitor, part = KINDS["monitor"].new(), dictionaries()

    def watch() -> None:
        for x in X[:30]:
            assert monitor.update(x).time < 60
            monitor.decision_function(X[:2])

    def learn() -> None:
        for x in X[:30]:
            part.learn_one(dictionary(x))
            part.transform_one(dictionary(x))

    all_at_once(watch, watch, learn, learn)
    assert monitor.n_samples_seen_ == 60
    assert part.estimator.n_samples_seen_ == 60


def test_regressions_are_solved_by_several_threads(busy_threads: None) -> None:
    model = KINDS["ridge"].new()

    def ask() -> None:
        for row in range(20):
            model.predict(X[:2])
            model.partial_fit(X[row : row + 1], X[row : row + 1, 0])

    all_at_once(ask, ask, ask)


def test_parameters_that_are_set_while_rows_are_learned_stay() -> None:
    def k(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        model.set_params(verbose=True)
        return A @ B.T

    model = StreamingKernelPCA(1, kernel=k, basis="everything")
    model.partial_fit(X[:5])
    assert model.verbose and model.n_samples_seen_ == 5


def duplicates(model: Any) -> list[Any]:
    return [
        copy.copy(model),
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        clone(model).fit(X),
    ]


def test_a_model_can_be_copied_while_another_thread_has_its_turn() -> None:
    model = pca().partial_fit(X).learn_one(X[0])
    with model._turn():
        others = duplicates(model)
        all_at_once(*(lambda other=other: other.partial_fit(X) for other in others))
    assert [other.n_samples_seen_ for other in others] == [141, 141, 141, 140]
    assert model.n_samples_seen_ == 71


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_process_does_not_wait_for_a_thread_that_is_gone() -> None:
    model, begun, done = pca().partial_fit(X), threading.Event(), threading.Event()

    def hold() -> None:
        with model._turn():
            begun.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of a fork beside threads: it is meant
        child = os.fork()
    if child == 0:
        threading.Timer(20.0, os._exit, [2]).start()
        model.partial_fit(X)
        os._exit(0 if model.n_samples_seen_ == 140 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    done.set()
    thread.join()
