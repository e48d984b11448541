"""Steps downhill: those of SciPy's L-BFGS-B."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.optimize

from kernelstream.landmarks.optimized.lbfgs import minimise

Values = tuple[float, np.ndarray]


def valley(x: np.ndarray) -> Values:
    return scipy.optimize.rosen(x), scipy.optimize.rosen_der(x)


def waves(x: np.ndarray) -> Values:
    value = float(np.log1p(x**2).sum() + 0.1 * np.sin(3 * x).sum())
    return value, 2 * x / (1 + x**2) + 0.3 * np.cos(3 * x)


def bowl(x: np.ndarray) -> Values:
    steep = np.geomspace(1, 1e4, len(x))
    return float(0.5 * x @ (steep * x)), steep * x


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("function", [valley, waves, bowl])
def test_the_steps_are_those_of_scipy(function: Callable[..., Values], seed: int) -> None:
    start = 3 * np.random.default_rng(seed).normal(size=12)
    for evaluations in (1, 2, 5, 12, 25):
        options = {"maxfun": evaluations, "ftol": 1e-6, "maxcor": 5}
        theirs = scipy.optimize.minimize(
            function, start, jac=True, method="L-BFGS-B", options=options
        )
        asked: list[np.ndarray] = []

        def counted(x: np.ndarray, asked: list[np.ndarray] = asked) -> Values:
            asked.append(x)
            return function(x)

        x, value = minimise(counted, start, evaluations, 1e-6, 5)
        assert len(asked) == theirs.nfev
        assert value == pytest.approx(theirs.fun, rel=1e-6)
        np.testing.assert_allclose(x, theirs.x, atol=1e-6)


def test_where_it_is_flat_nothing_is_tried() -> None:
    asked: list[int] = []

    def function(x: np.ndarray) -> Values:
        asked.append(1)
        return 1.0, 1e-6 * x

    x, value = minimise(function, np.ones(3), 10, 1e-6, 5)
    assert x.tolist() == [1.0, 1.0, 1.0] and value == 1.0 and len(asked) == 1


def test_a_step_that_leads_nowhere_ends_it() -> None:
    """The gradient says down, and the values go up: a mistake, and no reason to go on for ever."""

    def wrong(x: np.ndarray) -> Values:
        return float(x @ x), -x

    x, value = minimise(wrong, np.ones(3), 100, 1e-6, 5)
    assert x.tolist() == [1.0, 1.0, 1.0] and value == 3.0


def test_steps_that_promise_nothing_are_not_tried() -> None:
    """At the end of the way values are rounded: twenty steps would be tried, and none go down."""
    asked: list[float] = []

    def rounded(x: np.ndarray) -> Values:
        asked.append(float(x[0]))
        return 1.0 + 1e-6 * (x[0] != 1.0), 1e-4 * np.ones(2)

    x, value = minimise(rounded, np.ones(2), 100, 1e-5, 5)
    assert x.tolist() == [1.0, 1.0] and value == 1.0
    steps = 1.0 - np.array(asked[1:])  # along (1, 1)/√2, whose slope is √2·1e-4
    assert len(steps) < 8 and np.all(2e-4 * steps >= 1e-6)  # a tenth of what has to be gained


def test_slopes_that_do_not_change_are_followed() -> None:
    """No parabola and no secant: four times as far again, each time, and then an end."""
    x, value = minimise(lambda x: (float(-x.sum()), -np.ones(3)), np.zeros(3), 5, 1e-6, 5)
    assert value == -x.sum() < -1e6


def test_a_step_to_where_there_is_no_number_is_made_shorter() -> None:
    def walled(x: np.ndarray) -> Values:
        if np.abs(x).max() > 1.5:
            return 0.0, 0.0 * x  # as points are moved that lead out of the numbers
        return float(x @ x) - 10.0, 2.0 * x

    x, value = minimise(walled, np.array([1.4, 0.0]), 20, 1e-9, 5)
    assert value == pytest.approx(-10.0) and np.abs(x).max() < 1e-3
