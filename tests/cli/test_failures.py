"""What goes wrong is said in words, and to machines."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kernelstream import KernelNovelty, StreamingKernelPCA
from kernelstream.cli.failures import DATA, WRITE, of_system
from kernelstream.tables import Learner, Source, SourceError
from tests import samples
from tests.cli.conftest import NAMES, learned, run


def test_errors_for_machines(data: Path) -> None:
    result = run("fit", "no.csv", "-o", "m.safetensors", "--json", code=DATA)
    assert json.loads(result.stderr) == {
        "error": "There is no file or folder 'no.csv'.",
        "exit_code": DATA,
    }


def test_a_closed_standard_input_matters_only_to_those_who_read_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)  # as Python has it where the shell says <&-
    assert len(Source("x.parquet").names) == 3
    with pytest.raises(SourceError, match="standard input is closed"):
        Source("-")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, WRITE),
        (errno.EDQUOT, WRITE),
        (errno.EFBIG, WRITE),
        (errno.EROFS, WRITE),
        (errno.EACCES, WRITE),
        (errno.EMFILE, WRITE),
        (errno.EBADF, WRITE),
        (errno.ENOENT, DATA),
    ],
)
def test_errors_of_the_system_in_words(number: int, code: int) -> None:
    found, message = of_system(OSError(number, os.strerror(number), "file"))
    assert found == code
    room = "there is no room to write" in message and "What was there before" in message
    assert room == (number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
    assert ("choose a place" in message) == (number in (errno.EROFS, errno.EACCES))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    X = np.random.default_rng(0).normal(size=(300, 3))
    pd.DataFrame(X, columns=NAMES).to_csv(folder / "x.csv", index=False)
    StreamingKernelPCA(2, gamma=0.2, basis=60, random_state=0).fit(X).save(folder / "m.st")
    KernelNovelty(basis=60, random_state=0).fit(X).save(folder / "d.st")
    return folder


@samples.grid(
    "redirect, words",
    [">&-", "> /dev/full"],
    [
        "transform m.st x.csv",
        "score m.st x.csv --to csv",
        "info m.st",
        "info m.st --json",
        "monitor d.st < x.csv",
        "fit x.csv -o n.st --basis 10 --json --force",
        "--help",
        "--version",
    ],
    together=1,
)
def test_an_output_that_cannot_be_written(words: str, redirect: str, folder: Path) -> None:
    """In a process of its own, closed or full: a message, a code, and no traceback."""
    if redirect.endswith("full") and not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    command = f"{sys.executable} -m kernelstream {words} {redirect}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=folder)
    assert done.returncode == WRITE, done.stderr
    told = " ".join(done.stderr.split())
    assert "Traceback" not in told and "ignored" not in told
    assert ("output is closed" if redirect == ">&-" else "no room to write") in told


def test_files_do_not_take_the_place_of_closed_streams(folder: Path) -> None:
    """What is printed would go into them."""
    words = "fit x.csv -o n.st --basis 10 -q --force"
    command = f"{sys.executable} -m kernelstream {words} <&- >&- 2>&-"
    assert subprocess.run(command, shell=True, cwd=folder).returncode == 0
    assert learned(folder / "n.st").n_samples_seen_ == 300
    command = f"{sys.executable} -m kernelstream fit nothing.csv -o n.st --force 2>&-"
    assert subprocess.run(command, shell=True, cwd=folder).returncode == DATA


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there are no names of descriptors")
@pytest.mark.parametrize("words", [(), ("--json",)], ids=str)
def test_a_model_on_the_standard_output_has_it_for_itself(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """The table, or the JSON, goes to the standard error: it once was the end of the file."""
    rows = np.random.default_rng(0).normal(size=(600, 3))
    np.savetxt(tmp_path / "p.csv", rows, delimiter=",", header="a,b,c", comments="")
    command = [sys.executable, "-m", "kernelstream", "fit", "p.csv", "--basis", "10", *words]
    with (tmp_path / "m.st").open("wb") as file:
        done = subprocess.run(
            [*command, "-o", "/proc/self/fd/1"],
            stdout=file,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            check=True,
        )
    assert learned(tmp_path / "m.st").n_samples_seen_ == 600
    assert b"600" in done.stderr


def test_where_memory_ends_that_is_said(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scarce(*given: object, **named: object) -> None:
        raise MemoryError("Unable to allocate 1 GiB")

    monkeypatch.setattr(Learner, "learn", scarce)
    result = run("fit", "x.parquet", "-o", "m.safetensors", "--json", code=1)
    said = json.loads(result.stderr)["error"]
    assert said.startswith("There is not enough memory") and said.endswith("1 GiB)")
