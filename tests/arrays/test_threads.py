"""One thread for BLAS, whoever asks."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from kernelstream.arrays.threads import one_blas_thread


def numbers() -> set[int]:
    return {lib["num_threads"] for lib in ThreadpoolController().select(user_api="blas").info()}


@pytest.fixture(autouse=True)
def three_threads():
    """As many as a machine of several cores has; OpenBLAS takes more than there are cores."""
    with threadpool_limits(3, user_api="blas"):
        before = numbers()
    if before != {3}:
        pytest.skip("this BLAS does not take three threads here")


def test_one_thread_inside_and_all_outside() -> None:
    before = numbers()
    with one_blas_thread(), one_blas_thread():
        assert numbers() == {1}
    for _ in range(100):  # the thread that holds the number gives it back in its own time
        if numbers() == before:
            break
        threading.Event().wait(0.01)
    assert numbers() == before


def test_threads_that_overlap_have_one_each() -> None:
    """The first that leaves must not take it from the others."""
    second_is_in, first_is_out = threading.Event(), threading.Event()

    def first() -> None:
        with one_blas_thread():
            second_is_in.wait(10)
        first_is_out.set()

    def second() -> set[int]:
        with one_blas_thread():
            second_is_in.set()
            first_is_out.wait(10)
            return numbers()

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.submit(first), pool.submit(second)
        one.result(20)
        assert two.result(20) == {1}


def test_products_have_the_bits_of_one_thread() -> None:
    """In a process that has several, beside one that was started with one."""
    program = """
import hashlib
import numpy as np
from concurrent.futures import ThreadPoolExecutor
from kernelstream.arrays.threads import one_blas_thread

A = np.random.default_rng(0).normal(size=(6, 1024, 100))

def bits(X):
    with one_blas_thread():
        S = X.T @ X
        return hashlib.sha256(S).hexdigest() + hashlib.sha256(np.linalg.inv(S)).hexdigest()

with ThreadPoolExecutor(3) as pool:
    print(list(pool.map(bits, A)))
"""

    def output(threads: str) -> str:
        chosen = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
        run = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | chosen,
            capture_output=True,
            text=True,
            check=True,
        )
        return run.stdout

    assert output("3") == output("1")


def test_a_child_begins_anew() -> None:
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("there is no fork here")
    with one_blas_thread():
        child = multiprocessing.get_context("fork").Process(target=_product)
        child.start()
        child.join(20)
    assert child.exitcode == 0


def _product() -> None:
    with one_blas_thread():
        assert numbers() == {1}
        assert float((np.eye(50) @ np.eye(50)).sum()) == 50.0
