"""Model files: what is none, two writers, full disks, and nothing written over what is read."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelstream import StreamingKernelRidge, serialization
from kernelstream.cli.failures import BUSY, MODEL, USAGE, WRITE
from kernelstream.cli.modelfile import lock
from kernelstream.serialization.writing import Replacement
from tests.cli.conftest import OPTIONS, fitted, outcome, run, said


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
        assert "holds a prediction: use it with 'kernelstream predict" in said(result)


def test_a_model_of_another_version(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serialization.format, "VERSION", 99)
    fitted()
    monkeypatch.undo()
    monkeypatch.chdir(data)
    before = Path("m.safetensors").read_bytes()
    result = run("update", "m.safetensors", "x.parquet", code=MODEL)
    assert "format version 99" in said(result) and Path("m.safetensors").read_bytes() == before


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
        [*fit, "-o", whole, "--detector", "monitor"],
        [*fit, "-o", "n.safetensors", "--rejects", whole],
        [*fit, "-o", "n.safetensors", "--rejects", "n.safetensors"],
        [*fit, "-o", "n.safetensors", "--rejects", "n.safetensors.checkpoint"],
        [*fit, "-o", "n.safetensors", "--detector", "monitor", "--rejects", whole],
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
    """A pipe or a device that a file is renamed over would be gone: it is written through."""
    fitted()
    os.mkfifo("pipe")
    for words in (
        ["transform", "m.safetensors", "x.parquet", "-o", "pipe", "--to", "csv"],
        ["fit", "x.parquet", "-o", "pipe", *OPTIONS],
        ["report", "m.safetensors", "-o", "pipe"],
    ):
        found: list[bytes] = []
        reader = threading.Thread(target=lambda to=found: to.append(Path("pipe").read_bytes()))
        reader.start()
        run(*words)
        reader.join(timeout=60)
        assert len(found[0]) > 1000, words
        if words[0] == "fit":
            Path("through.safetensors").write_bytes(found[0])
            assert Path("through.safetensors").read_bytes() == Path("m.safetensors").read_bytes()
    assert Path("pipe").is_fifo()
    assert not list(data.glob(".*")) and not list(data.glob("*.checkpoint"))


def test_what_cannot_go_through_a_pipe(data: Path) -> None:
    fitted()
    os.mkfifo("pipe")
    for format in ("parquet", "arrow", "npy"):
        words = ["transform", "m.safetensors", "x.parquet", "-o", "pipe", "--to", format]
        assert "is no plain file" in said(run(*words, code=2))
    words = ["fit", "x.parquet", "-o", "pipe", "--checkpoint-every", "1s", *OPTIONS]
    assert "no place for a checkpoint" in said(run(*words, code=2))


@pytest.mark.parametrize("command", ["fit", "update", "transform", "report", "merge"])
def test_links_are_followed(command: str, data: Path) -> None:
    fitted()
    Path("sub").mkdir(exist_ok=True)
    Path("link").symlink_to("sub/real")
    words = {
        "fit": ["x.parquet", *OPTIONS],
        "update": ["m.safetensors", "x.parquet"],
        "transform": ["m.safetensors", "x.parquet", "--to", "parquet"],
        "report": ["m.safetensors"],
        "merge": ["m.safetensors", "m.safetensors"],
    }[command]
    run(command, *words, "-o", "link")
    assert Path("link").is_symlink() and Path("sub/real").stat().st_size > 1000
    assert [path.name for path in Path("sub").iterdir()] == ["real"]


def test_an_output_that_stays_private(data: Path) -> None:
    fitted()
    Path("m.safetensors").chmod(0o600)
    run("update", "m.safetensors", "x.parquet")
    assert Path("m.safetensors").stat().st_mode & 0o777 == 0o600


def test_temporary_files_of_others_stay(data: Path) -> None:
    """Names that begin alike are other files: those that are being written, and other people's."""
    theirs = [Replacement(Path(name)) for name in ("day10", "day1-scores.csv", "day1.csv")]
    fitted(output="day1")
    for each in theirs:
        each.file.write(b"whole")
        each.keep()
        assert each.path.read_bytes() == b"whole"
    assert not list(data.glob(".*"))


def test_links_to_one_model_have_one_lock(data: Path) -> None:
    fitted()
    Path("link").symlink_to("m.safetensors")
    with lock(Path("link")):
        assert "Another process" in said(run("update", "m.safetensors", "x.parquet", code=BUSY))


def test_long_names(data: Path) -> None:
    name = "n" * 238 + ".safetensors"
    run("fit", "x.parquet", "-o", name, "--checkpoint-every", "0s", *OPTIONS)
    assert outcome("info", name)["kind"] == "StreamingKernelPCA"


def test_rejects_through_a_device(data: Path) -> None:
    Path("bad.csv").write_text("a,b\n" + "1,2\n3,4\n" * 50 + "x,1\n", encoding="utf-8")
    words = ["fit", "bad.csv", "-o", "b.safetensors", "--on-bad-rows", "skip", "--basis", "5"]
    run(*words, "--rejects", os.devnull)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_two_writers(data: Path) -> None:
    fitted()
    before = Path("m.safetensors").read_bytes()
    with lock(Path("m.safetensors")):
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


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "x.parquet", *OPTIONS],
        ["merge", "m.safetensors", "m.safetensors"],
        ["compress", "m.safetensors"],
        ["update", "m.safetensors", "x.parquet"],
    ],
)
def test_a_model_that_is_there_is_replaced_on_demand_only(data: Path, words: list[Any]) -> None:
    fitted()
    Path("there.safetensors").write_bytes(Path("m.safetensors").read_bytes() + b" ")
    before = Path("there.safetensors").read_bytes()
    refused = run(*words, "-o", "there.safetensors", code=USAGE)
    assert "there.safetensors is there already: replace it with --force" in said(refused)
    assert Path("there.safetensors").read_bytes() == before
    run(*words, "-o", "there.safetensors", "--force")
    assert Path("there.safetensors").read_bytes() != before


def test_an_empty_file_is_nothing_to_lose(data: Path) -> None:
    Path("made.safetensors").touch()  # as by mktemp
    run("fit", "x.parquet", "-o", "made.safetensors", *OPTIONS)
    run("fit", "x.parquet", "-o", "made.safetensors", *OPTIONS, "--resume")  # complete, no error
    refused = run("fit", "x.parquet", "-o", "made.safetensors", "--basis", 20, "--resume", code=7)
    assert "--force in the place of --resume" in said(refused)
