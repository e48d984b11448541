"""``fit --method``: the papers' methods by name, with the papers' parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelstream.cli.failures import USAGE
from kernelstream.papers import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    KernelHebbianPCA,
    OnlineKernelPCA,
    schedules,
)
from tests.cli.conftest import learned, outcome, run, said

FIT = ["fit", "x.parquet", "-o", "m.safetensors", "--components", "2", "--gamma", "0.2"]
CASES: dict[str, tuple[list[Any], Any]] = {
    "online": (
        ["--method", "online", "--nu", 0.4, "--eta0", 0.3, "--tau", 50, "--max-points", 40],
        OnlineKernelPCA(2, gamma=0.2, nu=0.4, eta0=0.3, tau=50, max_points=40),
    ),
    "rls": (
        ["--method", "rls", "--delta", 0.6, "--beta", 0.97],
        AdaptiveKernelPCA(2, gamma=0.2, delta=0.6, beta=0.97),
    ),
    "lms": (
        ["--method", "lms", "--delta", 0.5, "--eta", 0.002],
        AdaptiveKernelPCA(2, gamma=0.2, delta=0.5, method="lms", eta=0.002),
    ),
    "subkha": (
        ["--method", "subkha", "--schedule", "search_then_converge(eta0=0.1, tau=100)"],
        AdaptiveKernelPCA(
            2, gamma=0.2, method="subkha", eta=schedules.SearchThenConverge(0.1, 100)
        ),
    ),
    "incremental": (
        ["--method", "incremental", "--n-points", 12, "--block", 50],
        IncrementalKernelPCA(2, gamma=0.2, n_points=12, batch_size=50),
    ),
    "kha, stream": (
        ["--method", "kha", "--epochs", 0, "--no-center"],
        KernelHebbianPCA(2, gamma=0.2, center=False),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_method_is_the_estimator_in_python(name: str, data: Path, X: np.ndarray) -> None:
    words, model = CASES[name]
    facts = outcome(*FIT, *words)
    assert facts["rows"] == 1500 and facts["components"] == 2
    found = learned("m.safetensors")
    assert type(found) is type(model)
    model.set_params(random_state=0).partial_fit(X)
    np.testing.assert_array_equal(found.dual_coef_, model.dual_coef_)
    np.testing.assert_array_equal(found.intercept_, model.intercept_)


def test_kha_makes_epochs_in_memory(data: Path, X: np.ndarray) -> None:
    facts = outcome(*FIT, "--method", "kha", "--epochs", 60, "--limit", 300)
    assert facts["converged"] and 1 < facts["epochs"] <= 60 and facts["points"] == 300
    model = KernelHebbianPCA(2, gamma=0.2, n_epochs=60, random_state=0).fit(X[:300])
    np.testing.assert_array_equal(learned("m.safetensors").dual_coef_, model.dual_coef_)
    text = run(*FIT, "--method", "kha", "--limit", 200, "--force").stdout
    assert "epochs" in text and "converged" in text


def test_oja_is_the_first_principal_component(data: Path, X: np.ndarray) -> None:
    run("fit", "x.parquet", "-o", "m.safetensors", "--method", "oja")
    model = learned("m.safetensors")
    scores = X @ model.basis_points_.T @ model.dual_coef_
    assert scores.shape == (1500, 1)
    exact = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][0]
    assert abs(np.corrcoef(scores[:, 0], X @ exact)[0, 1]) > 0.999


@pytest.mark.parametrize(
    ("words", "guard", "more"),
    [
        (["--method", "online"], False, {"center": "paper"}),
        (["--method", "rls"], False, {"coherence": "paper"}),
        (["--method", "incremental"], None, {"n_preimages": 3}),
        (
            ["--method", "kha", "--epochs", 0, "--schedule", 0.05],
            False,
            {"center": "paper", "ritz": False},
        ),
    ],
)
def test_literal_is_the_papers_rule(
    words: list[Any], guard: bool | None, more: dict[str, Any], data: Path
) -> None:
    run(*FIT, *words, "--literal", "--limit", 200)
    given = learned("m.safetensors").get_params()
    assert given.get("guard") is guard
    assert {name: given[name] for name in more} == more


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nu", 0.1], "--nu belongs to the papers' methods: choose one with --method"),
        (["--literal"], "--literal belongs to the papers' methods"),
        (["--method", "rls", "--nu", 0.1], "--method rls has no --nu; it is of online."),
        (["--method", "lms", "--eta", 0.1, "--schedule", 0.1], "--eta is a constant step"),
        (["--method", "online", "--basis", 30], "brings its own parts: leave out --basis"),
        (["--method", "online", "--nu", -1], "--nu must be a number above 0"),
        (["--method", "kha", "--literal"], "give the paper's, --schedule 0.05"),
        (["--method", "oja", "--literal"], "give the paper's, --schedule 0.05"),
        (["--method", "lms", "--literal", "--schedule", "auto"], "--schedule 0.05"),
        (["--method", "kha", "--schedule", "sometimes"], "--schedule must be one of auto"),
        (["--method", "kha", "--resume"], "learns in memory: leave out --resume"),
        (["--method", "online", "--components", "all"], "give --components as a whole number"),
        (["--monitor", "--method", "online"], "leave out --method"),
    ],
)
def test_what_is_wrong_is_said_before_any_row_is_read(
    words: list[Any], message: str, data: Path
) -> None:
    result = run("fit", "x.parquet", "-o", "m.safetensors", *words, code=USAGE)
    assert message in said(result)
    assert not Path("m.safetensors").exists()


def test_info_names_paper_and_equations(data: Path) -> None:
    run(*FIT, "--method", "online", "--limit", 200)
    facts = outcome("info", "m.safetensors")
    assert "Honeine 2012" in facts["paper"] and "(17)-(19)" in facts["equations"]
    assert "Honeine 2012" in run("info", "m.safetensors").stdout
    run(*FIT, "--limit", 200, "--force")
    assert outcome("info", "m.safetensors")["paper"] is None
    run("fit", "x.parquet", "-o", "m.safetensors", "--method", "oja", "--limit", 200, "--force")
    facts = outcome("info", "m.safetensors")
    assert "Oja 1982" in facts["paper"] and "y (x - y w)" in facts["equations"]


def test_without_centring(data: Path) -> None:
    run(*FIT, "--no-center", "--limit", 300)
    assert learned("m.safetensors").stream_.chain.center is False
