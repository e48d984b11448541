"""``fit --target`` and ``predict``: supervised from the shell, judged by held-out rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelstream import StreamingKernelRidge
from kernelstream.cli import prediction
from kernelstream.cli.failures import DATA, MODEL, USAGE
from kernelstream.stream import HeldBack
from tests.cli.conftest import learned, outcome, run, said

MODEL_FILE = "m.safetensors"
FIT = ["fit", "rows.csv", "-o", MODEL_FILE, "--basis", 60, "--exclude", "level,fine", "--target"]


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Numbers with gaps, a category, and three targets that hang on them."""
    rng, n = np.random.default_rng(0), 1200
    a, b = rng.normal(size=n), rng.uniform(-2.0, 2.0, n)
    colour = rng.choice(["red", "blue"], n)
    price = np.sin(2.0 * a) + b**2 + 2.0 * (colour == "red") + 0.05 * rng.normal(size=n)
    gaps = np.where(rng.random(n) < 0.02, np.nan, b)
    level = np.digitize(price, [1.0, 3.0])
    fine = np.where(price > 1.0, "fine", "poor")
    table = pd.DataFrame(
        dict(a=a, b=gaps, colour=colour, price=price, level=level, fine=fine, id=np.arange(n))
    )
    monkeypatch.chdir(tmp_path)
    table.to_csv("rows.csv", index=False)
    table.to_parquet("rows.parquet")
    return table


def test_a_number_is_predicted_and_the_score_is_that_of_rows_held_back(rows: pd.DataFrame) -> None:
    facts = outcome(*FIT, "price")
    assert (facts["rows"], facts["rows_seen"]) == (1200, 1200 - facts["rows_judged"])
    assert 230 < facts["rows_judged"] < 250 and facts["passes"] == 2
    run("predict", MODEL_FILE, "rows.csv", "-o", "p.parquet", "--keep", "id,price")
    table = pd.read_parquet("p.parquet")
    assert list(table) == ["id", "price", "price_predicted"] and len(table) == 1200
    held = held_back(1200)
    off = (table.price_predicted - rows.price)[held]
    spread = rows.price[held].var(ddof=0)
    assert facts["score"] == pytest.approx(1.0 - float(np.mean(off**2)) / spread)
    assert facts["error"] == pytest.approx(np.sqrt(np.mean(off**2)))
    trivial = rows.price[held] - rows.price[~held].mean()
    assert facts["error_of_mean"] == pytest.approx(np.sqrt(np.mean(trivial**2)))
    assert facts["score"] > 0.9


def test_the_points_come_from_all_rows_as_in_fit(rows: pd.DataFrame) -> None:
    """Rows in order: points of the first ones alone would know nothing of the others."""
    rows.sort_values("a").to_csv("rows.csv", index=False)
    assert outcome(*FIT, "price")["score"] > 0.9
    model = learned(MODEL_FILE)
    assert model.basis_points_[:, 0].max() > 1.5 and model.basis_points_[:, 0].min() < -1.5
    assert not model.stream_.chain.basis.follows  # and stay where they are from then on


def test_plain_numbers_are_the_ridge_of_the_library(rows: pd.DataFrame) -> None:
    X, y = rows[["a"]].to_numpy(), rows.price.to_numpy()
    words = ["--columns", "a", "--gamma", 0.5, "--no-standardize", "--hold-back", 0, "--passes", 1]
    facts = outcome("fit", "rows.parquet", "-o", MODEL_FILE, "--target", "price", *words)
    assert (facts["rows_judged"], facts["score"], facts["rows_seen"]) == (0, None, 1200)
    python = StreamingKernelRidge(gamma=0.5, basis=256, random_state=0).partial_fit(X, y)
    assert np.array_equal(learned(MODEL_FILE).predict(X), python.predict(X))


@pytest.mark.parametrize(
    ("target", "kind", "others"),
    [("level", "i", "price,fine"), ("fine", "O", "price,level")],
)
def test_classes_are_predicted_in_the_words_of_the_table(
    rows: pd.DataFrame, target: str, kind: str, others: str
) -> None:
    fit = ["fit", "rows.csv", "-o", MODEL_FILE, "--target", target, "--exclude", others]
    facts = outcome(*fit, "--basis", 60)
    assert facts["classes"] == sorted(set(rows[target])) and facts["measure"] == "accuracy"
    assert facts["score"] > facts["score_of_most_frequent"] + 0.1
    run("predict", MODEL_FILE, "rows.parquet", "-o", "p.csv", "--keep", target)
    table = pd.read_csv("p.csv")
    found = table[f"{target}_predicted"]
    assert found.dtype.kind == kind or kind == "O"
    held = held_back(1200)
    assert facts["score"] == pytest.approx(float(np.mean(found[held] == rows[target][held])))
    assert facts["most_frequent"] == str(rows[target][~held].mode()[0])


def test_what_people_see(rows: pd.DataFrame) -> None:
    shown = run(*FIT, "price", "--treat", "price=number").stdout
    assert "R²" in shown and "held-out rows" in shown and "for the mean alone" in shown
    about = run("info", MODEL_FILE).stdout
    assert "price, a number" in about and "R²" in about and "the target" in about
    assert outcome("info", MODEL_FILE)["target"]["judged"]["measure"] == "r2"
    fit = ["fit", "rows.csv", "-o", "c.safetensors", "--target", "level", "--basis", 60]
    result = run(*fit, "--exclude", "price,fine")
    assert "level, 3 classes (0, 1, 2)" in result.stdout
    assert "--treat 'level=number' would predict a number" in said(result)


def test_a_pipe_is_read_once_and_its_rows_held_back_wait(
    rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = rows.drop(columns=["level", "fine"]).to_csv(index=False).encode()
    fit = ["fit", "-", "-o", MODEL_FILE, "--target", "price", "--basis", 60]
    facts = outcome(*fit, stdin=text)
    assert facts["passes"] == 1 and facts["rows_judged"] > 230 and facts["score"] > 0.85
    monkeypatch.setattr(prediction, "MOST_BYTES", -1)
    facts = outcome(*fit, "--force", stdin=text)
    assert (facts["rows_judged"], facts["rows_seen"]) == (0, 1200)


def test_weights_count(rows: pd.DataFrame) -> None:
    rows.assign(w=np.where(rows.colour == "red", 0.0, 1.0)).to_csv("rows.csv", index=False)
    facts = outcome(*FIT, "price", "--weight-column", "w")
    assert facts["rows_seen"] == int((rows.colour[~held_back(1200)] == "blue").sum())


def held_back(n: int) -> np.ndarray:
    held = HeldBack.draws(0, 0, n) < 0.2
    held[0] = False
    return held


@pytest.mark.parametrize("stop", [2, 3, 5])
def test_a_run_that_was_stopped_ends_the_same(
    rows: pd.DataFrame, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelstream.tables.readers.MOST_ROWS", 300)
    fit = ["fit", "rows.parquet", "--target", "price", "--basis", 60, "--exclude", "level,fine"]
    run(*fit, "-o", "whole.safetensors")
    learn, calls = prediction.learn_block, iter(range(1000))

    def interrupted(*values: Any, **options: Any) -> None:
        if next(calls) == stop:
            raise KeyboardInterrupt
        learn(*values, **options)

    with monkeypatch.context() as patch:
        patch.setattr(prediction, "learn_block", interrupted)
        run(*fit, "-o", MODEL_FILE, "--checkpoint-every", "0s", code=130)
    assert Path(f"{MODEL_FILE}.checkpoint").exists()
    result = run(*fit, "-o", MODEL_FILE, "--checkpoint-every", "0s", "--resume")
    assert "Going on after" in said(result)
    whole, resumed = learned("whole.safetensors"), learned(MODEL_FILE)
    assert np.array_equal(whole.target_coef_, resumed.target_coef_)
    assert "Already complete" in said(run(*fit, "-o", MODEL_FILE, "--resume"))
    refused = run(*fit, "-o", MODEL_FILE, "--resume", "--hold-back", 0.1, code=7)
    assert "--force" in said(refused)


def test_it_goes_on_learning(rows: pd.DataFrame) -> None:
    run(*FIT, "price")
    facts = outcome("update", MODEL_FILE, "rows.csv")
    assert facts["rows_seen"] == 2 * (1200 - facts["rows_judged"]) and facts["score"] > 0.9
    lines = rows.drop(columns="price").to_csv(index=False).encode()
    assert "no column 'price'" in said(run("update", MODEL_FILE, "-", stdin=lines, code=DATA))


def test_a_model_of_python_predicts_too(rows: pd.DataFrame) -> None:
    X = rows[["a"]].to_numpy()
    Y = rows[["price", "level"]].to_numpy()
    StreamingKernelRidge(basis=20, random_state=0).fit(X, Y).save(MODEL_FILE)
    run("predict", MODEL_FILE, "rows.csv", "--columns", "a", "-o", "p.csv")
    assert list(pd.read_csv("p.csv")) == ["target1_predicted", "target2_predicted"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--target", "nope"], DATA, "no column 'nope'; its columns: a, b, colour"),
        (["--target", "price", "--components", 3], USAGE, "--components cannot be used"),
        (["--target", "price", "--detector", "novelty"], USAGE, "--detector cannot be used"),
        (["--target", "price", "--gamma", "auto"], USAGE, "check --tune --target"),
        (["--target", "price", "--weight-column", "price"], DATA, "target and weight at once"),
        (["--hold-back", 0.1], USAGE, "--hold-back cannot be used"),
    ],
)
def test_what_makes_no_sense_is_refused(
    rows: pd.DataFrame, words: list[Any], code: int, message: str
) -> None:
    assert message in said(run("fit", "rows.csv", "-o", MODEL_FILE, *words, code=code))
    assert not Path(MODEL_FILE).exists()


def test_what_cannot_be_predicted_is_said(rows: pd.DataFrame) -> None:
    rows.assign(price=3).to_csv("same.csv", index=False)
    result = run("fit", "same.csv", "-o", MODEL_FILE, "--target", "price", code=DATA)
    assert "is 3 in all rows" in said(result)
    rows.assign(price=rows.price.where(rows.index != 7)).to_csv("gap.csv", index=False)
    gap = ["fit", "gap.csv", "-o", MODEL_FILE, "--target", "price", "--basis", 60]
    assert "row 8, column 'price': the value is missing" in said(run(*gap, code=DATA))
    assert outcome(*gap, "--on-bad-rows", "skip")["bad_rows"] == 1
    rows.drop(columns="colour").to_csv("poor.csv", index=False)
    assert "no column 'colour'" in said(run("predict", MODEL_FILE, "poor.csv", code=DATA))
    assert "predict" in said(run("transform", MODEL_FILE, "rows.csv", code=MODEL))
    run("fit", "rows.csv", "-o", "plain.safetensors", "--basis", 20)
    result = run("predict", "plain.safetensors", "rows.csv", code=MODEL)
    assert "or fit another kind with 'kernelstream fit --target" in said(result)
