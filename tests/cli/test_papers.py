"""``paper``: the methods of the papers by name, with the parameters of their estimators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelstream.cli.failures import USAGE
from kernelstream.papers import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    OnlineKernelPCA,
    schedules,
)
from tests.cli.conftest import learned, outcome, run, said

OPTIONS = ["x.parquet", "-o", "m.safetensors", "--components", "2", "--gamma", "0.2"]
CASES: dict[str, tuple[list[Any], Any]] = {
    "online": (
        ["online", "--nu", 0.4, "--eta0", 0.3, "--tau", 50, "--max-points", 40],
        OnlineKernelPCA(2, gamma=0.2, nu=0.4, eta0=0.3, tau=50, max_points=40),
    ),
    "rls": (
        ["adaptive", "--delta", 0.6, "--beta", 0.97],
        AdaptiveKernelPCA(2, gamma=0.2, delta=0.6, beta=0.97),
    ),
    "lms": (
        ["adaptive", "--method", "lms", "--delta", 0.5, "--eta", 0.002],
        AdaptiveKernelPCA(2, gamma=0.2, delta=0.5, method="lms", eta=0.002),
    ),
    "subkha": (
        ["adaptive", "--method", "subkha", "--eta", "search_then_converge(eta0=0.1, tau=100)"],
        AdaptiveKernelPCA(
            2, gamma=0.2, method="subkha", eta=schedules.SearchThenConverge(0.1, 100)
        ),
    ),
    "paper-exact": (
        ["adaptive", "--guard", "false", "--coherence", "paper"],
        AdaptiveKernelPCA(2, gamma=0.2, guard=False, coherence="paper"),
    ),
    "incremental": (
        ["incremental", "--n-points", 12, "--batch-size", 50],
        IncrementalKernelPCA(2, gamma=0.2, n_points=12, batch_size=50),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_paper_of_a_stream_is_the_estimator_in_python(name: str, data: Path, X: np.ndarray) -> None:
    words, model = CASES[name]
    facts = outcome("paper", *words, *OPTIONS)
    assert facts["rows"] == 1500 and facts["components"] == 2
    found = learned("m.safetensors")
    assert type(found) is type(model)
    model.set_params(random_state=0).partial_fit(X)
    np.testing.assert_array_equal(found.dual_coef_, model.dual_coef_)
    np.testing.assert_array_equal(found.intercept_, model.intercept_)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["adaptive", "--nu", 0.1], "No such option"),
        (["online", "--basis", 30], "No such option"),
        (["online", "--nu", -1], "--nu must be a number above 0"),
        (["adaptive", "--method", "lms", "--eta", "sometimes"], "--eta must be one of auto"),
        (["online", "--components", "none"], "--components as an integer"),
        (["nobody"], "No such command"),
    ],
)
def test_paper_with_wrong_options_is_refused_before_any_row_is_read(
    words: list[Any], message: str, data: Path
) -> None:
    result = run("paper", words[0], *OPTIONS, *words[1:], code=USAGE)
    assert message in said(result)
    assert not Path("m.safetensors").exists()


def test_help_of_a_paper_lists_the_parameters_of_its_estimator() -> None:
    text = run("paper", "online", "--help").stdout
    for option in ("--nu", "--eta0", "--tau", "--max-points", "--guard", "--seed"):
        assert option in text
    assert "reduced-order model" in text


def test_info_names_paper_and_equations(data: Path) -> None:
    run("paper", "online", *OPTIONS, "--limit", 200)
    facts = outcome("info", "m.safetensors")
    assert "Honeine 2012" in facts["paper"] and "(17)-(19)" in facts["equations"]
    assert "Honeine 2012" in run("info", "m.safetensors").stdout
    run("fit", "x.parquet", "-o", "m.safetensors", "--limit", 200, "--force")
    assert outcome("info", "m.safetensors")["paper"] is None


def test_fit_without_centring(data: Path) -> None:
    run("fit", "x.parquet", "-o", "m.safetensors", "--set", "center=false", "--limit", 300)
    assert learned("m.safetensors").stream_.chain.center is False
