"""Fitted values that several tests share; they are never changed."""

from __future__ import annotations

import pytest

from kernelstream import KernelMonitor
from kernelstream.anomaly.monitor.normal import Normal, learn_normal
from tests.anomaly.monitor.processes import SETTING, correlated, process, small


@pytest.fixture(scope="module")
def fitted() -> KernelMonitor:
    """With lags, so that the past is part of the state. Tests take copies: the state is a value."""
    return small(lags=2, memory=200).fit(process(300))


@pytest.fixture(scope="module")
def normal() -> Normal:
    return learn_normal(correlated(200), SETTING)
