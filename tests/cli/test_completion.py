"""What a shell completes: names of parts, and columns of the files that are named."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelstream import kernels, landmarks, papers, preimages, trackers
from kernelstream.cli import completion
from kernelstream.cli.methods import STEPS
from kernelstream.tables.schema import KINDS
from tests.cli.test_light import started

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
    assert set(completion.SCHEDULES) == set(STEPS)
    assert set(completion.USES) == {*KINDS, "out"}


def test_a_shell_is_told_parts_and_columns_and_nothing_heavy_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pd.DataFrame(1.0, index=range(3), columns=["time", "speed", "load"]).to_parquet(path)
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


def write_ndjson(path: Path, table: pd.DataFrame) -> None:
    table.to_json(path, orient="records", lines=True)


def write_gzip(path: Path, table: pd.DataFrame) -> None:
    path.write_bytes(gzip.compress(table.to_csv(index=False).encode()))


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("rows.csv", lambda path, table: table.to_csv(path, index=False)),
        ("rows.tsv", lambda path, table: table.to_csv(path, index=False, sep="\t")),
        ("rows.csv.gz", write_gzip),
        ("rows.ndjson", write_ndjson),
        ("rows.parquet", lambda path, table: table.to_parquet(path)),
    ],
)
def test_columns_of_files(name: str, write: Any, tmp_path: Path) -> None:
    write(tmp_path / name, pd.DataFrame(1.5, index=range(4), columns=NAMES))
    assert completion.columns_of(["fit", "-o", "no.safetensors", str(tmp_path / name)]) == NAMES
    assert completion.columns_of([str(tmp_path)]) == NAMES
    assert completion.columns_of([str(tmp_path / "ro*")]) == NAMES


def test_columns_of_a_parquet_file_with_groups(tmp_path: Path) -> None:
    rows = {"a": [1], "place": [{"x": 1.0, "y": [1, 2]}], "tags": [["u"]], "z": ["w"]}
    pq.write_table(pa.table(rows), tmp_path / "g.parquet")
    assert completion.columns_of([str(tmp_path / "g.parquet")]) == list(rows)


def test_files_that_name_no_columns_are_no_harm(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 2)))
    np.savez(tmp_path / "b.npz", X=np.zeros((2, 2)), y=np.zeros(2))
    (tmp_path / "c.csv").write_text("1,2\n3,4\n")
    (tmp_path / "d.parquet").write_bytes(b"no Parquet at all")
    (tmp_path / "e.csv.gz").write_bytes(b"no gzip")
    (tmp_path / "f.csv").write_text("")
    (tmp_path / "g.parquet").write_bytes(b"PAR1\x19\xff\xff\xff\x04\x00\x00\x00PAR1")
    for name in ("a.npy", "c.csv", "d.parquet", "e.csv.gz", "f.csv", "g.parquet"):
        assert completion.columns_of([str(tmp_path / name)]) == []
    assert completion.columns_of([str(tmp_path / "b.npz")]) == ["X", "y"]
