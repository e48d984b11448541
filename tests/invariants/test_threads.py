"""The law of threads: a model does not know how many there were, bit for bit."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from kernelstream import (
    StreamingKernelPCA,
    StreamingKernelRidge,
    images,
    landmarks,
    papers,
    trackers,
)
from kernelstream.arrays.threads import cores, in_threads
from kernelstream.papers import KernelHebbianPCA
from tests import samples

X = np.random.default_rng(0).normal(size=(5000, 40)).astype(np.float32)
X[3500:] += 2.0  # the stream moves
BASES: dict[str, Callable[[], Any]] = {
    "centroids": lambda: landmarks.Centroids(60),
    "landmarks": lambda: landmarks.Landmarks(60),
    "pivoted cholesky": lambda: landmarks.PivotedCholesky(60),
    "distance": lambda: landmarks.Distance(nu=0.3, max_points=60),
    "coherence": lambda: landmarks.Coherence(delta=0.6, max_points=60),
}
TRACKERS: dict[str, Callable[[], Any]] = {
    "covariance": trackers.Covariance,
    "forgetting": lambda: trackers.Covariance(0.999),
    "hebbian": papers.Hebbian,
    "incremental_svd": trackers.IncrementalSVD,
}


def many_threads() -> bool:
    with threadpool_limits(2):
        return any(lib.get_num_threads() == 2 for lib in ThreadpoolController().lib_controllers)


pytestmark = pytest.mark.skipif(not many_threads(), reason="a BLAS that has one thread only")


def learned(model: Any, n: int, how: str, path: Path) -> tuple[bytes, bytes]:
    """The file and the scores of a model that was made with n threads."""
    with threadpool_limits(n):
        if how == "fit":
            model.fit(X)
        else:
            for start in range(0, len(X), 1300):
                model.partial_fit(X[start : start + 1300])
        scores = model.transform(X[:4500])
        model.save(path)
    return path.read_bytes(), scores.tobytes()


@samples.grid("how, tracker, basis", ["fit", "partial_fit"], TRACKERS, BASES)
def test_any_number_of_threads(basis: str, tracker: str, how: str, tmp_path: Path) -> None:
    def model() -> StreamingKernelPCA:
        return StreamingKernelPCA(
            5, gamma=0.02, basis=BASES[basis](), tracker=TRACKERS[tracker](), random_state=0
        )

    file, scores = learned(model(), 1, how, tmp_path / "one")
    for n in (2, 3, 7):
        again = learned(model(), n, how, tmp_path / "more")
        assert again == (file, scores), n


def of_many_threads(learn: Callable[[], tuple[np.ndarray, ...]]) -> None:
    """What is learned and answered is the same with any number of threads."""
    found = []
    for n in (1, 2, 3, 7):
        with threadpool_limits(n):
            found.append([part.tobytes() for part in learn()])
    assert found[1:] == found[:1] * 3


@pytest.mark.parametrize("cache_bytes", [0, 2**30])
def test_the_kernel_hebbian_algorithm(cache_bytes: int) -> None:
    def learn() -> tuple[np.ndarray, ...]:
        model = KernelHebbianPCA(
            3,
            gamma=0.02,
            n_epochs=6,
            tol=0.0,
            cache_bytes=cache_bytes,
            random_state=0,
        ).fit(X[:1500])
        return model.dual_coef_, model.eigenvalues_, model.transform(X[:2500])

    of_many_threads(learn)


def test_answers_for_many_rows() -> None:
    """Queries of more rows than one thread takes, through scaling, errors and pre-images."""
    y = X[:, :2] @ np.array([1.0, -1.0])

    def learn() -> tuple[np.ndarray, ...]:
        model = StreamingKernelPCA(3, gamma=0.02, basis=40, scale="standard", random_state=0)
        scores = model.fit(X[:3000]).transform(X)
        ridge = StreamingKernelRidge(gamma=0.02, basis=40, random_state=0).fit(X, y)
        return (
            scores,
            model.reconstruction_error(X),
            model.inverse_transform(scores[:2100]),
            np.array(model.score(X[:2100])),
            ridge.predict(X),
        )

    of_many_threads(learn)


@pytest.mark.parametrize("method", ["stein", "project"])
def test_the_denoiser(method: str) -> None:
    def learn() -> tuple[np.ndarray, ...]:
        model = images.Denoiser(0.5, method=method, basis=40, n_components=5, random_state=0)
        return (model.fit(X[:2500]).transform(X[:2500]),)

    of_many_threads(learn)


def test_placing_many_points() -> None:
    """More sampled rows, points and directions than one tile has."""
    rows = np.random.default_rng(1).normal(size=(1200, 140)) * np.geomspace(3, 0.1, 140)
    rows = rows.astype(np.float32)

    def learn() -> tuple[np.ndarray, ...]:
        model = StreamingKernelPCA(8, gamma=0.01, basis=260, random_state=0).fit(rows)
        return model.basis_points_, model.dual_coef_

    of_many_threads(learn)


def test_regressions_and_certificates() -> None:
    y = X[:, :2] @ np.array([1.0, -1.0])
    found = []
    for n in (1, 2, 7):
        with threadpool_limits(n):
            model = StreamingKernelRidge(gamma=0.02, basis=50, random_state=0).fit(X, y)
            shown = StreamingKernelPCA(3, gamma=0.02, basis=50, random_state=0).fit(X)
            certificate = shown.certificate_
        found.append((model.predict(X[:50]).tobytes(), repr(astuple(certificate))))
    assert found[1:] == found[:1] * 2


def test_as_many_as_blas_had_and_one_for_blas() -> None:
    blas = [lib for lib in ThreadpoolController().lib_controllers if lib.user_api == "blas"]
    with threadpool_limits(3):
        with cores() as n:
            assert n == 3
            assert {lib.get_num_threads() for lib in blas} == {1}
            with cores() as inner:  # as many as the outer one may use
                assert inner == 3
            inside = in_threads(lambda _: {lib.get_num_threads() for lib in blas}, range(6))
            assert inside == [{1}] * 6
        assert {lib.get_num_threads() for lib in blas} == {3}
    with threadpool_limits(1), cores() as n:
        assert n == 1


def test_jobs_of_joblib() -> None:
    """As scikit-learn's estimators take it: a limit for those who give none themselves."""
    with threadpool_limits(4):
        with joblib.parallel_config(n_jobs=3), cores() as n:
            assert n == 3
        with joblib.parallel_config(n_jobs=-1), cores() as n:
            assert n == min(4, joblib.cpu_count())
        with joblib.parallel_config(n_jobs=16), cores() as n:
            assert n == 4  # BLAS may have no more
        with joblib.parallel_config(backend="threading"), cores() as n:
            assert n == 4  # of jobs nothing was said
    with threadpool_limits(1), joblib.parallel_config(n_jobs=3), cores() as n:
        assert n == 1


def test_workers_of_joblib_share_one_pool() -> None:
    """Models that are learned at the same time never run on more threads than there are for one."""
    running, most, lock = 0, 0, threading.Lock()

    def work(_: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1

    def learn(_: int) -> None:
        with cores():
            in_threads(work, range(12))

    with threadpool_limits(3):
        joblib.Parallel(n_jobs=4, backend="threading")(joblib.delayed(learn)(i) for i in range(4))
        assert {lib.get_num_threads() for lib in ThreadpoolController().lib_controllers} == {3}
    # those of the pool, and each worker that found BLAS at one thread works by itself
    assert 2 <= most <= 3 + 4


def test_results_come_in_order_and_errors_come_through() -> None:
    with threadpool_limits(4), cores():
        names = in_threads(lambda i: (i * i, threading.current_thread().name), range(50))
        assert [square for square, _ in names] == [i * i for i in range(50)]
        here = threading.current_thread().name  # takes part
        assert all(name.startswith("kernelstream") or name == here for _, name in names)
        with pytest.raises(ZeroDivisionError):
            in_threads(lambda i: 1 // (i - 3), range(8))
        with np.errstate(divide="ignore"):  # as it is for the caller
            assert in_threads(lambda i: float(np.float64(1.0) / i), [0, 0]) == [np.inf] * 2


def in_a_child(path: str) -> None:
    with threadpool_limits(2):
        StreamingKernelPCA(3, gamma=0.02, basis=30, random_state=0).fit(X).save(path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_a_process_with_a_pool(tmp_path: Path) -> None:
    in_a_child(str(tmp_path / "here"))
    child = multiprocessing.get_context("fork").Process(
        target=in_a_child, args=(str(tmp_path / "there"),)
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()
