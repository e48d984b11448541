"""The commands: what goes in, what comes out, and what is said when something is wrong."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from kernelstream import StreamingKernelPCA, StreamingKernelRidge, load
from kernelstream import files as storage
from kernelstream.cli.app import app
from kernelstream.cli.failures import BUSY, CHANGED, DATA, MODEL, WRITE, CommandError
from kernelstream.cli.modelfile import locked
from kernelstream.cli.parameters import part, seconds
from kernelstream.cli.run import Rejects
from kernelstream.sources import BadRow, Source, SourceError

COMMANDS = (
    "fit",
    "update",
    "transform",
    "denoise",
    "score",
    "monitor",
    "info",
    "merge",
    "report",
    "demo",
    "bench",
)
NAMES = ["a", "b", "c"]
OPTIONS = ["--basis", "30", "--components", "3", "--gamma", "0.2"]


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(1500, 3)) * [1.0, 2.0, 0.5]


@pytest.fixture
def data(X: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the rows as Parquet and a text column beside them; it is where commands run."""
    table = pd.DataFrame(X, columns=NAMES).assign(id=[f"r{i}" for i in range(len(X))])
    table.to_parquet(tmp_path / "x.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: Any, code: int = 0, stdin: bytes | None = None) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
    problem = result.exception
    if problem is not None and not isinstance(problem, SystemExit):
        raise problem
    assert result.exit_code == code, result.output
    return result


def outcome(*words: Any, **options: Any) -> dict[str, Any]:
    return json.loads(run(*words, "--json", **options).stdout)


def said(result: Result) -> str:
    return " ".join(result.stderr.split())


def fitted(*more: Any, output: str = "m.safetensors", source: str = "x.parquet") -> None:
    run("fit", source, "-o", output, *OPTIONS, *more)


# --- help


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_json(command: str) -> None:
    text = run(command, "--help").stdout
    assert "--json" in text
    assert command == "demo" or "kernelstream " + command in text


def test_the_application_lists_its_commands_and_exit_codes() -> None:
    text = run("--help").stdout
    assert all(re.search(rf"\b{command}\b", text) for command in COMMANDS)
    assert "Exit codes" in text and "--install-completion" in text
    assert run("--version").stdout.startswith("kernelstream ")


# --- fit


def test_fit_in_one_pass_is_partial_fit(data: Path, X: np.ndarray) -> None:
    facts = outcome("fit", "x.parquet", "-o", "m.safetensors", *OPTIONS, "--passes", 1)
    assert (facts["rows"], facts["passes"], facts["points"], facts["features"]) == (1500, 1, 30, 3)
    found = load("m.safetensors")
    assert list(found.feature_names_in_) == NAMES
    python = StreamingKernelPCA(3, gamma=0.2, basis=30, random_state=0).partial_fit(X)
    assert np.array_equal(found.dual_coef_, python.dual_coef_)


def test_a_second_pass_leaves_nothing_stale(data: Path) -> None:
    assert outcome("fit", "x.parquet", "-o", "two.safetensors", *OPTIONS)["passes"] == 2
    fitted("--passes", 1, output="one.safetensors")
    one, two = load("one.safetensors"), load("two.safetensors")
    assert two.n_samples_seen_ == one.n_samples_seen_ == 1500
    assert two._model.state.moments.weight == 1500  # type: ignore[union-attr]
    assert two.certificate_.excess_bound <= one.certificate_.excess_bound


def test_options_reach_the_model(data: Path) -> None:
    fitted(
        "--tracker",
        "rls(forgetting=0.97)",
        "--basis",
        "distance(nu=0.3)",
        "--standardize",
        "--kernel",
        "laplacian",
        "--columns",
        "a,b",
        "--seed",
        7,
        "--certify",
        "none",
    )
    model = load("m.safetensors")
    assert str(model._model.parts.tracker).startswith("RLS(forgetting=0.97")
    assert str(model._model.parts.basis) == "Distance(nu=0.3)"
    assert model._model.standardise and model._model.parts.seed == 7
    assert list(model.feature_names_in_) == ["a", "b"]
    assert model._model.parts.certify is False
    fitted("--forgetting", 0.99)
    assert load("m.safetensors")._model.parts.tracker.forgetting == 0.99


def test_weights_count(data: Path, X: np.ndarray) -> None:
    pd.DataFrame(X, columns=NAMES).assign(w=2.0).to_parquet("w.parquet")
    fitted("--weight-column", "w", source="w.parquet")
    assert load("m.safetensors")._model.state.moments.weight == 3000  # type: ignore[union-attr]
    assert outcome("info", "m.safetensors")["weight"] == 3000


def test_standard_input_and_limit(data: Path, X: np.ndarray) -> None:
    text = pd.DataFrame(X, columns=NAMES).to_csv(index=False).encode()
    facts = outcome("fit", "-", "-o", "m.safetensors", *OPTIONS, "--limit", 700, stdin=text)
    assert (facts["rows"], facts["passes"]) == (700, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kernel", "wrong"], "--kernel must be one of"),
        (["--kernel", "poly(degree=__import__('os'))"], "write a name"),
        (["--basis", "distance(mu=1)"], "the parameters of distance are"),
        (["--basis", "distance(nu=-1)"], "nu must be a number above 0"),
        (["--components", "many"], "write a number, a share"),
        (["--tracker", "hebbian", "--components", "0.9"], "give n_components as an integer"),
        (["--checkpoint-every", "soon"], "write 60s, 5m or 1h"),
        (["--kernel", "linear", "--gamma", "1"], "has no gamma"),
        (["--monitor", "--resume", "--gamma", "1"], "leave out --gamma, --resume"),
    ],
)
def test_wrong_usage_is_told_before_anything_happens(
    data: Path, words: list[str], message: str
) -> None:
    result = run("fit", "x.parquet", "-o", "m.safetensors", *words, code=2)
    assert message in said(result)
    assert sorted(p.name for p in data.iterdir()) == ["x.parquet"]


# --- bad rows

BAD = "a,b,c\n" + "1,2,3\n4,5,6\n" * 300 + "7,,9\n8,x,10\n" + "2,1,0\n" * 10


@pytest.mark.parametrize(
    "words",
    [
        ["--alpha", "0.001"],
        ["--lags", "2"],
        ["--monitor", "--components", "5"],
        ["--monitor", "--certify", "tight"],
        ["--monitor", "--preimage", "ridge"],
    ],
    ids=" ".join,
)
def test_options_that_would_change_nothing_are_refused(data: Path, words: list[str]) -> None:
    option = next(word for word in words if word.startswith("--") and word != "--monitor")
    told = said(run("fit", "x.parquet", "-o", "m.safetensors", "--basis", "20", *words, code=2))
    assert option in told and not Path("m.safetensors").exists()


def test_a_bad_row_is_named_and_the_old_model_stays(data: Path) -> None:
    fitted()
    before = Path("m.safetensors").read_bytes()
    Path("bad.csv").write_text(BAD)
    result = run("fit", "bad.csv", "-o", "m.safetensors", *OPTIONS, code=DATA)
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


def test_errors_for_machines(data: Path) -> None:
    result = run("fit", "no.csv", "-o", "m.safetensors", "--json", code=DATA)
    assert json.loads(result.stderr) == {
        "error": "There is no file or folder 'no.csv'.",
        "exit_code": DATA,
    }


# --- update and merge


def test_update_goes_on_like_one_stream(data: Path, X: np.ndarray) -> None:
    table = pd.DataFrame(X, columns=NAMES)
    table[:900].to_parquet("first.parquet")
    table[900:][["c", "a", "b"]].to_parquet("second.parquet")  # by name, not by place
    fitted("--passes", 1, output="whole.safetensors")
    fitted("--passes", 1, source="first.parquet")
    assert outcome("update", "m.safetensors", "second.parquet")["rows_seen"] == 1500
    whole, parts = load("whole.safetensors"), load("m.safetensors")
    assert np.array_equal(whole.dual_coef_, parts.dual_coef_)
    told = run("info", "m.safetensors").stdout
    assert "900 rows of first.parquet" in told and "600 rows of second.parquet" in told


def test_update_elsewhere_leaves_the_model(data: Path) -> None:
    fitted()
    before = Path("m.safetensors").read_bytes()
    run("update", "m.safetensors", "x.parquet", "-o", "n.safetensors")
    assert Path("m.safetensors").read_bytes() == before
    assert load("n.safetensors").n_samples_seen_ == 3000


def test_update_with_resume_does_not_learn_twice(data: Path) -> None:
    fitted()
    for _ in range(2):
        run("update", "m.safetensors", "x.parquet", "--resume")
    assert load("m.safetensors").n_samples_seen_ == 3000


def test_merge(data: Path) -> None:
    fitted(output="a.safetensors")
    fitted("--seed", 5, output="b.safetensors")
    assert (
        outcome("merge", "a.safetensors", "b.safetensors", "-o", "c.safetensors")["rows_seen"]
        == 3000
    )
    assert list(load("c.safetensors").feature_names_in_) == NAMES
    fitted("--gamma", 0.3, output="b.safetensors")
    result = run("merge", "a.safetensors", "b.safetensors", "-o", "d.safetensors", code=DATA)
    assert "different kernels" in said(result) and not Path("d.safetensors").exists()
    run("merge", "a.safetensors", "-o", "d.safetensors", code=2)


# --- queries


@pytest.mark.parametrize(
    "name", ["o.parquet", "o.csv", "o.csv.gz", "o.ndjson", "o.npy", "o.feather"]
)
def test_transform_to_every_format(data: Path, X: np.ndarray, name: str) -> None:
    fitted()
    keep = [] if name == "o.npy" else ["--keep", "id"]
    facts = outcome("transform", "m.safetensors", "x.parquet", "-o", name, *keep)
    assert facts == {"rows": 1500, "bad_rows": 0, "output": name}
    scores = load("m.safetensors").transform(pd.DataFrame(X, columns=NAMES))
    if name == "o.npy":
        assert np.allclose(np.load(name), scores, atol=1e-12)
        return
    reading: dict[str, Any] = {
        "o.parquet": pd.read_parquet,
        "o.feather": pd.read_feather,
        "o.ndjson": lambda path: pd.read_json(path, lines=True),
    }
    table = reading.get(name, pd.read_csv)(name)
    assert list(table.columns) == ["id", "pc1", "pc2", "pc3"]
    assert np.allclose(table[["pc1", "pc2", "pc3"]], scores, atol=1e-9)
    assert table["id"].tolist()[:2] == ["r0", "r1"]


def test_output_on_the_terminal(data: Path, X: np.ndarray) -> None:
    fitted()
    lines = run("transform", "m.safetensors", "x.parquet", "--limit", 2).stdout.splitlines()
    assert list(json.loads(lines[1])) == ["pc1", "pc2", "pc3"] and len(lines) == 2
    text = run("score", "m.safetensors", "x.parquet", "--limit", 2, "--to", "csv", "--keep", "all")
    assert text.stdout.splitlines()[0] == "id,reconstruction_error,t2"


def test_denoise_and_score_are_the_librarys(data: Path, X: np.ndarray) -> None:
    fitted()
    run("denoise", "m.safetensors", "x.parquet", "-o", "clean.parquet")
    run("score", "m.safetensors", "x.parquet", "-o", "score.parquet")
    model, rows = load("m.safetensors"), pd.DataFrame(X, columns=NAMES)
    clean = pq.read_table("clean.parquet").to_pandas()
    assert list(clean.columns) == NAMES
    assert np.allclose(clean, model.inverse_transform(model.transform(rows)), atol=1e-6)
    score = pq.read_table("score.parquet").to_pandas()
    assert np.allclose(score["reconstruction_error"], model.reconstruction_error(rows), atol=1e-12)
    t2 = (model.transform(rows) ** 2 / model.explained_variance_).sum(axis=1)
    assert np.allclose(score["t2"], t2)


def test_csv_cells_that_need_quotes(data: Path) -> None:
    fitted()
    Path("q.csv").write_text('note,a,b,c\n"one, ""two""",1,2,3\nplain,1,2,3\n')
    run("score", "m.safetensors", "q.csv", "-o", "o.csv", "--keep", "note")
    assert pd.read_csv("o.csv")["note"].tolist() == ['one, "two"', "plain"]


def test_queries_that_fail_leave_no_file(data: Path) -> None:
    fitted()
    Path("bad.csv").write_text(BAD)
    Path("o.csv").write_text("old")
    assert "row 601" in said(run("score", "m.safetensors", "bad.csv", "-o", "o.csv", code=DATA))
    assert Path("o.csv").read_text() == "old" and not list(data.glob(".o.csv*"))
    few = run("transform", "m.safetensors", "x.parquet", "-o", "what", code=2)
    assert "name the format with --to" in said(few)
    Path("few.csv").write_text("a,b\n1,2\n")
    assert "no column 'c'" in said(run("score", "m.safetensors", "few.csv", code=DATA))
    same = run("score", "m.safetensors", "bad.csv", "-o", "bad.csv", code=2)
    assert "is also a source" in said(same)


def test_nothing_that_is_read_is_written_over(data: Path) -> None:
    """By whatever name: an output or a list of rejects that is a source, or the model."""
    fitted()
    (data / "sub").mkdir()
    pd.read_parquet("x.parquet").drop(columns="id").to_csv("x.csv", index=False)
    Path("link.csv").symlink_to("x.csv")
    Path("hard.csv").hardlink_to("x.csv")
    before = {name: Path(name).read_bytes() for name in ("x.csv", "m.safetensors")}
    fit = ["fit", "x.csv", "--basis", "20"]
    whole = data / "x.csv"
    for words in (
        [*fit, "-o", whole],
        [*fit, "-o", "sub/../x.csv"],
        [*fit, "-o", "link.csv"],
        [*fit, "-o", "hard.csv"],
        [*fit, "-o", whole, "--monitor"],
        [*fit, "-o", "n.safetensors", "--rejects", whole],
        [*fit, "-o", "n.safetensors", "--rejects", "n.safetensors"],
        [*fit, "-o", "n.safetensors", "--rejects", "n.safetensors.checkpoint"],
        [*fit, "-o", "n.safetensors", "--monitor", "--rejects", whole],
        ["update", "m.safetensors", "x.csv", "-o", whole],
        ["update", "m.safetensors", "x.csv", "--rejects", whole],
        ["update", "m.safetensors", "x.csv", "--rejects", data / "m.safetensors"],
        ["transform", "m.safetensors", "x.csv", "-o", whole],
        ["transform", "m.safetensors", "x.csv", "-o", data / "m.safetensors", "--to", "csv"],
        ["score", "m.safetensors", "x.csv", "-o", "o.csv", "--rejects", whole],
        ["score", "m.safetensors", "x.csv", "-o", "o.csv", "--rejects", "o.csv"],
        ["report", "m.safetensors", "x.csv", "-o", whole],
        ["report", "m.safetensors", "x.csv", "-o", data / "m.safetensors"],
    ):
        assert "write another file" in said(run(*words, code=2))
    assert {name: Path(name).read_bytes() for name in before} == before
    left = {path.name for path in data.iterdir()}
    assert left == {"x.parquet", "x.csv", "link.csv", "hard.csv", "m.safetensors", "sub"}


def test_only_plain_files_are_replaced(data: Path) -> None:
    """A pipe or a device that a file is renamed over would be gone."""
    fitted()
    os.mkfifo("pipe.csv")
    for words in (
        ["transform", "m.safetensors", "x.parquet", "-o", "pipe.csv"],
        ["fit", "x.parquet", "-o", "pipe.csv"],
        ["report", "m.safetensors", "-o", "pipe.csv"],
    ):
        assert "is no plain file" in said(run(*words, code=WRITE))
    assert Path("pipe.csv").is_fifo()


def test_a_closed_standard_input_matters_only_to_those_who_read_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)  # as Python has it where the shell says <&-
    assert len(Source("x.parquet").names) == 3
    with pytest.raises(SourceError, match="standard input is closed"):
        Source("-")


def test_models_without_names_take_columns_by_place(data: Path, X: np.ndarray) -> None:
    np.save("x.npy", X)
    fitted(source="x.npy")
    assert not hasattr(load("m.safetensors"), "feature_names_in_")
    assert len(run("score", "m.safetensors", "x.parquet").stdout.splitlines()) == 1500
    Path("wide.csv").write_text("a,b,c,d\n1,2,3,4\n")
    wide = run("score", "m.safetensors", "wide.csv", code=DATA)
    assert "4 columns of numbers and the model wants 3" in said(wide)


# --- info


def test_info_tells_everything(data: Path) -> None:
    fitted()
    facts = outcome("info", "m.safetensors")
    assert facts["rows_seen"] == 1500 and facts["feature_names"] == NAMES
    assert facts["kernel"] == "RBF(gamma=0.2)" and facts["points"] == 30
    assert facts["history"][0]["sources"] == ["x.parquet"]
    intervals = facts["certificate"]["variance_intervals"]
    for variance, (low, high) in zip(facts["explained_variance"], intervals, strict=True):
        assert low <= variance <= high
    text = run("info", "m.safetensors").stdout
    assert "1,500" in text and "Certificate" in text and "RBF(gamma=0.2)" in text


def test_files_that_are_no_models(data: Path) -> None:
    assert "There is no model" in said(run("info", "no.safetensors", code=MODEL))
    assert "not a kernelstream model" in said(run("info", "x.parquet", code=MODEL))
    fitted()
    whole = Path("m.safetensors").read_bytes()
    Path("cut.safetensors").write_bytes(whole[: len(whole) // 2])
    assert "Cannot load" in said(run("info", "cut.safetensors", code=MODEL))


def test_a_folder_is_no_model(data: Path) -> None:
    for words in (["info", "."], ["monitor", "."], ["score", ".", "x.parquet"]):
        assert "Cannot read the model" in said(run(*words, code=MODEL))


def test_models_that_are_no_kernel_pca(data: Path, X: np.ndarray) -> None:
    StreamingKernelRidge(basis=20, random_state=0).fit(X, X[:, 0]).save("r.safetensors")
    assert outcome("info", "r.safetensors")["kind"] == "StreamingKernelRidge"
    for command in ("update", "transform", "score"):
        result = run(command, "r.safetensors", "x.parquet", code=MODEL)
        assert "holds a StreamingKernelRidge" in said(result)


def test_a_model_of_another_version(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "VERSION", 99)
    fitted()
    monkeypatch.undo()
    monkeypatch.chdir(data)
    before = Path("m.safetensors").read_bytes()
    result = run("update", "m.safetensors", "x.parquet", code=MODEL)
    assert "format version 99" in said(result) and Path("m.safetensors").read_bytes() == before


# --- resume, without killing (see test_cli_killed.py)


def test_resume_without_a_checkpoint_starts_afresh_and_says_so(data: Path) -> None:
    result = run("fit", "x.parquet", "-o", "m.safetensors", *OPTIONS, "--resume")
    assert "No checkpoint m.safetensors.checkpoint yet: starting afresh" in said(result)


def test_resume_of_a_finished_fit_says_so(data: Path) -> None:
    fitted()
    before = Path("m.safetensors").stat().st_mtime_ns
    result = run("fit", "x.parquet", "-o", "m.safetensors", *OPTIONS, "--resume")
    assert "Already complete" in said(result)
    assert Path("m.safetensors").stat().st_mtime_ns == before
    other = run("fit", "x.parquet", "-o", "m.safetensors", "--basis", 20, "--resume", code=CHANGED)
    assert "made from other sources or with other options" in said(other)


def test_two_writers(data: Path) -> None:
    fitted()
    before = Path("m.safetensors").read_bytes()
    with locked(Path("m.safetensors")):
        result = run("update", "m.safetensors", "x.parquet", code=BUSY)
        assert "Another process is writing m.safetensors" in said(result)
    assert Path("m.safetensors").read_bytes() == before
    run("update", "m.safetensors", "x.parquet")
    assert not list(data.glob(".*"))


def test_places_that_cannot_be_written(data: Path) -> None:
    result = run("fit", "x.parquet", "-o", "no/m.safetensors", code=WRITE)
    assert "there is no folder no" in said(result)
    assert "is a folder" in said(run("fit", "x.parquet", "-o", data, code=WRITE))


def test_a_disk_that_is_full_when_the_model_is_written(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted()
    before = Path("m.safetensors").read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    result = run("update", "m.safetensors", "x.parquet", code=WRITE)
    assert "m.safetensors: there is no room to write" in said(result)
    assert Path("m.safetensors").read_bytes() == before
    assert sorted(p.name for p in data.iterdir()) == ["m.safetensors", "x.parquet"]


def test_the_list_of_rejects_is_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    """Rows that were listed after the last checkpoint are met again: they must not stand twice."""
    path = tmp_path / "rejects.ndjson"
    rows = [BadRow("x.csv", i, "a", "the value is missing", "") for i in (3, 7, 9)]
    rejects = Rejects(path, 0)
    at_checkpoint = rejects.add(tuple(rows[:2]))
    rejects.add(tuple(rows[2:]))
    rejects.close()
    whole = path.read_bytes()
    again = Rejects(path, at_checkpoint)
    again.add(tuple(rows[2:]))
    again.close()
    assert path.read_bytes() == whole and whole.count(b"\n") == 3
    path.unlink()
    with pytest.raises(CommandError, match="not the list of rejects"):
        Rejects(path, at_checkpoint)


# --- small things


def test_durations() -> None:
    assert [seconds(t) for t in ("60s", "5m", "1.5h", "2", None)] == [60, 300, 5400, 2, None]


def test_parts_are_never_evaluated() -> None:
    with pytest.raises(Exception, match="write a name"):
        part("(lambda: 1)()", {}, "kernel")


def test_demo(tmp_path: Path) -> None:
    facts = outcome("demo", "-o", tmp_path / "demo")
    sizes = [Path(name).stat().st_size for name in facts["files"]]
    assert len(sizes) == 4 and min(sizes) > 10_000


def test_bench(data: Path) -> None:
    facts = outcome("bench", "--rows", 2000, "--features", 5, "--points", "20", "--components", 3)
    names = [line["system"] for line in facts["results"]]
    assert names == ["kernelstream, 20 points", "Nystroem(20) + IncrementalPCA"]
    assert 0.5 < facts["results"][0]["captured"] < 1.1
    assert outcome("bench", "x.parquet", "--points", "20", "--components", 3)["features"] == 3


# --- the pages

ROOT = Path(__file__).parents[2]
SESSIONS = [
    pytest.param(session, id=f"{page.name} {number}")
    for page in (ROOT / "README.md", ROOT / "docs" / "command-line.md")
    for number, session in enumerate(
        re.findall(r"```console\n(.*?)```", page.read_text(), flags=re.DOTALL), 1
    )
]


def comparable(text: str) -> list[str]:
    """Lines without what differs from machine to machine: seconds and the last digits."""
    text = re.sub(r"\d+\.\d s\b", "# s", text)
    text = re.sub(r"\d+\.\d MB\b", "# MB", text)
    text = re.sub(r"(\d+\.\d{2})\d+", r"\1", text)
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("session", SESSIONS)
def test_sessions_on_the_pages_are_true(
    session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    run("demo", "-o", tmp_path, "--json")
    monkeypatch.chdir(tmp_path)
    for name in ("digits.safetensors", "errors.csv", "report.html"):
        Path(name).unlink()
    for step in session.removeprefix("$ ").split("\n$ "):
        command, _, expected = step.partition("\n")
        words = shlex.split(command)
        assert words[0] == "kernelstream"
        shown = CliRunner().invoke(app, words[1:]).output
        assert comparable(shown) == comparable(expected)
