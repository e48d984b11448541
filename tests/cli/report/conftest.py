"""Rows and a model to report on."""

from __future__ import annotations

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(3000, 16)) + np.repeat(
        [[0.0], [1.0], [3.0]], 1000, 0
    )


@pytest.fixture(scope="module")
def model(X: np.ndarray) -> StreamingKernelPCA:
    return StreamingKernelPCA(3, basis=40, gamma=0.03, random_state=0).fit(X)
