"""``fit``: what goes in, what comes out, and what is said when something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

from benchmarks import tables
from kernelstream import StreamingKernelPCA, load
from kernelstream.cli.failures import DATA, USAGE
from kernelstream.cli.parsing import parse_part
from tests.cli.conftest import BAD, NAMES, OPTIONS, fitted, learned, outcome, run, said


def test_fit_in_one_pass_is_partial_fit(data: Path, X: np.ndarray) -> None:
    facts = outcome("fit", "x.parquet", "-o", "m.safetensors", *OPTIONS, "--passes", 1)
    assert (facts["rows"], facts["passes"], facts["points"], facts["features"]) == (1500, 1, 30, 3)
    assert list(load("m.safetensors").feature_names_in_) == NAMES
    found = learned("m.safetensors")
    python = StreamingKernelPCA(3, gamma=0.2, basis=30, random_state=0).partial_fit(X)
    assert np.array_equal(found.dual_coef_, python.dual_coef_)


def test_a_second_pass_leaves_nothing_stale(data: Path) -> None:
    assert outcome("fit", "x.parquet", "-o", "two.safetensors", *OPTIONS)["passes"] == 2
    fitted("--passes", 1, output="one.safetensors")
    one, two = learned("one.safetensors"), learned("two.safetensors")
    assert two.n_samples_seen_ == one.n_samples_seen_ == 1500
    assert two.stream_.state.moments.weight == 1500
    assert two.certificate_.details.excess_bound <= one.certificate_.details.excess_bound


def test_options_reach_the_model(data: Path) -> None:
    fitted(
        "--set",
        "tracker=rls(forgetting=0.97)",
        "--basis",
        "distance(nu=0.3)",
        "--standardize",
        "--kernel",
        "laplacian",
        "--columns",
        "a,b",
        "--seed",
        7,
        "--set",
        "certify=false",
    )
    model = learned("m.safetensors")
    assert str(model.stream_.chain.tracker).startswith("RLS(forgetting=0.97")
    assert str(model.stream_.chain.basis) == "Distance(nu=0.3)"
    assert model.stream_.scaling is not None and model.stream_.chain.seed == 7
    assert list(load("m.safetensors").feature_names_in_) == ["a", "b"]
    assert model.stream_.chain.certify is False
    fitted("--forgetting", 0.99)
    assert learned("m.safetensors").stream_.chain.tracker.forgetting == 0.99


def test_weights_count(data: Path, X: np.ndarray) -> None:
    pd.DataFrame(X, columns=NAMES).assign(w=2.0).to_parquet("w.parquet")
    fitted("--weight-column", "w", source="w.parquet")
    assert learned("m.safetensors").stream_.state.moments.weight == 3000
    assert outcome("info", "m.safetensors")["weight"] == 3000


def test_standard_input_and_limit(data: Path, X: np.ndarray) -> None:
    text = pd.DataFrame(X, columns=NAMES).to_csv(index=False).encode()
    facts = outcome("fit", "-", "-o", "m.safetensors", *OPTIONS, "--limit", 700, stdin=text)
    assert (facts["rows"], facts["passes"]) == (700, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kernel", "wrong"], "--kernel must be one of"),
        (["--kernel", "poly(degree=__import__('os'))"], "--kernel must be one of"),
        (["--basis", "distance(mu=1)"], "the parameters of distance are"),
        (["--basis", "distance(nu=-1)"], "nu must be a number above 0"),
        (["--components", "many"], "write a number, a fraction"),
        (
            ["--set", "tracker=hebbian", "--components", "0.9"],
            "give --components as an integer",
        ),
        (["--checkpoint-every", "soon"], "write 60s, 5m or 1h"),
        (["--kernel", "linear", "--gamma", "1"], "needs the name of a kernel that has a gamma"),
        (["--detector", "monitor", "--resume", "--gamma", "1"], "--gamma, --resume cannot be used"),
    ],
)
def test_wrong_usage_is_told_before_anything_happens(
    data: Path, words: list[str], message: str
) -> None:
    result = run("fit", "x.parquet", "-o", "m.safetensors", *words, code=2)
    assert message in said(result)
    assert sorted(p.name for p in data.iterdir()) == ["x.parquet"]


DIGITS = "1" * 5000  # more than Python reads


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--basis", DIGITS], "write a whole number, a name"),
        (["--components", DIGITS], "write a number, a fraction"),
        (["--detector", "monitor", "--basis", DIGITS], "A monitor takes a number as --basis"),
        (["--detector", "monitor", "--basis", "20", "--set", f"lags={DIGITS}"], "lags must be"),
        (["--basis", "9" * 30], "n_points must be at most"),
        (["--detector", "monitor", "--basis", "9" * 30], "--basis must be at most"),
        (
            ["--detector", "monitor", "--basis", "20", "--set", "lags=" + "9" * 30],
            "lags must be at most",
        ),
        (
            ["--detector", "monitor", "--basis", "20", "--alpha", "7"],
            "alpha must be a number between 1e-12",
        ),
        (["--basis", "²"], "write a whole number, a name"),
        (["--detector", "monitor", "--basis", "20", "--set", "lags=²"], "lags must be"),
    ],
    ids=lambda given: given if isinstance(given, str) else " ".join(given)[:30],
)
def test_numbers_that_make_no_sense_are_wrong_usage(
    data: Path, words: list[str], message: str
) -> None:
    told = said(run("fit", "x.parquet", "-o", "m.safetensors", *words, code=2))
    assert message in told and not Path("m.safetensors").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--alpha", "0.001"],
        ["--detector", "monitor", "--components", "5"],
        ["--target", "a", "--set", "certify=tight"],
        ["--detector", "monitor", "--set", "preimage=ridge"],
    ],
    ids=" ".join,
)
def test_options_that_would_change_nothing_are_refused(data: Path, words: list[str]) -> None:
    option = words[0] if len(words) == 2 else words[2]
    told = said(run("fit", "x.parquet", "-o", "m.safetensors", "--basis", "20", *words, code=2))
    assert option in told and not Path("m.safetensors").exists()


def test_a_bad_row_is_named_and_the_old_model_stays(data: Path) -> None:
    fitted()
    before = Path("m.safetensors").read_bytes()
    Path("bad.csv").write_text(BAD)
    words = ["fit", "bad.csv", "-o", "m.safetensors", *OPTIONS, "--force"]
    result = run(*words, "--missing", "bad", code=DATA)
    assert "bad.csv, row 601, column 'b': the value is missing" in said(result)
    assert Path("m.safetensors").read_bytes() == before


def test_bad_rows_are_passed_over_and_listed(data: Path) -> None:
    Path("bad.csv").write_text(BAD)
    facts = outcome(
        "fit",
        "bad.csv",
        "-o",
        "m.safetensors",
        "--on-bad-rows",
        "skip",
        "--missing",
        "bad",
        "--rejects",
        "rejects.ndjson",
        "--basis",
        "10",
        "--gamma",
        "0.1",
        "--components",
        2,
    )
    assert (facts["rows"], facts["bad_rows"], facts["passes"]) == (610, 2, 2)
    listed = [json.loads(line) for line in Path("rejects.ndjson").read_text().splitlines()]
    assert [(row["row"], row["column"]) for row in listed] == [(601, "b"), (602, "b")]
    assert listed[1]["reason"] == "'x' is not a number" and listed[1]["file"] == "bad.csv"
    assert "2 bad rows passed over" in run("info", "m.safetensors").stdout


def test_parts_are_never_evaluated() -> None:
    with pytest.raises(Exception, match="write a name"):
        parse_part("(lambda: 1)()", {}, "kernel")


def test_landmarks_may_be_given(data: Path) -> None:
    points = "landmarks(points=[[0.0, 1.0, 0.5], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])"
    run("fit", "x.parquet", "-o", "m.safetensors", "--basis", points, "--components", "2")
    assert learned("m.safetensors").basis_points_.shape == (3, 3)
    wide = "landmarks(points=[[0.0, 1.0]])"
    told = run("fit", "x.parquet", "-o", "n.safetensors", "--basis", wide, code=DATA)
    assert "the points have 2 features, the rows have 3" in said(told)
    ragged = "landmarks(points=[[0.0, 1.0], [1.0]])"
    run("fit", "x.parquet", "-o", "m.safetensors", "--basis", ragged, code=USAGE)


def test_as_many_components_as_have_most_of_the_variance(data: Path) -> None:
    """Ten were too few for a linear probe of digits or of a process (docs/tables.md)."""
    run("fit", "x.parquet", "-o", "m.safetensors")
    shares = learned("m.safetensors").explained_variance_ratio_
    assert len(shares) != 10 and shares.sum() >= 0.95 > shares[:-1].sum()
    for words in (["--set", "robust=true"], ["--set", "tracker=hebbian"]):
        run("fit", "x.parquet", "-o", "m.safetensors", *words, "--force")
        assert learned("m.safetensors").n_components_ == 10  # must be known before the first row


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wine", "breast_cancer", "iris", "digits"])
def test_a_linear_probe_is_not_a_point_below_the_features_of_scikit_learn(name: str) -> None:
    """The other tables of docs/tables.md need data of their own: python -m benchmarks.tables."""
    loaded = getattr(datasets, f"load_{name}")(as_frame=True)
    methods: dict[str, tables.Method] = {
        "theirs": tables.of_scikit_learn,
        "python": tables.of_python,
        "ours": tables.of_command_line(),
    }
    mean = {
        title: np.mean(
            [tables.probe(m, loaded.data, loaded.target.to_numpy(), seed)[0] for seed in range(5)]
        )
        for title, m in methods.items()
    }
    assert min(mean["ours"], mean["python"]) >= mean["theirs"] - 0.01
