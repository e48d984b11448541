"""What a shell completes: names of parts, and columns of the files that are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kernelstream import kernels, landmarks, papers, preimages, trackers
from kernelstream.cli import completion
from kernelstream.tables.schema import KINDS
from tests.cli.test_help import started

NAMES = ["time", "speed", "load left", "städte"]


def completed(line: str, word: str = "") -> list[str]:
    """What bash is told for a line and the word that is being typed."""
    words = f"kernelstream {line} {word}"
    count = len(line.split()) + 1
    found = started(_KERNELSTREAM_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(count))
    assert found.stderr.endswith("heavy: []"), found.stderr
    return found.stdout.split()


def test_the_names_are_those_of_the_parts() -> None:
    assert set(completion.part_names("kernels")) == set(kernels.NAMES)
    assert set(completion.part_names("landmarks")) == {*landmarks.NAMES, *papers.LANDMARKS}
    assert set(completion.part_names("trackers")) == {*trackers.NAMES, *papers.TRACKERS}
    assert set(completion.part_names("preimages")) == set(preimages.NAMES)
    assert set(completion.USES) == {*KINDS, "out"}


def test_a_shell_is_told_parts_and_columns_and_nothing_heavy_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("time,speed,load\n1,2,3\n")
    assert completed(f"fit {path} --target", "s") == ["speed"]
    assert completed(f"fit {path} --kernel", "rbf+l") == ["rbf+laplacian", "rbf+linear"]


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("", ["time=", "speed=", "load="]),
        ("time=number,l", ["time=number,load="]),
        ("time=ca", ["time=number", "time=boolean", "time=category"]),
    ],
)
def test_what_columns_are(
    word: str, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.csv").write_text("time,speed,load\n1,2,3\n")
    monkeypatch.setenv("COMP_WORDS", f"kernelstream fit '{tmp_path}/rows.csv' --treat '{word}")
    assert completion.uses(None, [], word)[:3] == told
    assert completion.columns(None, [], "time,") == ["time,speed", "time,load"]
    assert completion.column(None, [], "lo") == ["load"]


@pytest.mark.parametrize(("name", "delimiter"), [("rows.csv", ","), ("rows.tsv", "\t")])
def test_columns_of_text_files(name: str, delimiter: str, tmp_path: Path) -> None:
    table = pd.DataFrame(1.5, index=range(4), columns=NAMES)
    table.to_csv(tmp_path / name, index=False, sep=delimiter)
    assert completion.columns_of(["fit", "-o", "no.safetensors", str(tmp_path / name)]) == NAMES
    assert completion.columns_of([str(tmp_path)]) == NAMES
    assert completion.columns_of([str(tmp_path / "ro*")]) == NAMES


def test_files_that_name_no_columns_are_no_harm(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 2)))
    (tmp_path / "c.csv").write_text("1,2\n3,4\n")
    (tmp_path / "d.parquet").write_bytes(b"no Parquet at all")
    (tmp_path / "f.csv").write_text("")
    for name in ("a.npy", "c.csv", "d.parquet", "f.csv"):
        assert completion.columns_of([str(tmp_path / name)]) == []
