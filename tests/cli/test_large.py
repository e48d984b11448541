"""Five million rows that do not fit into the memory that the commands may use."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelstream import load

resource = pytest.importorskip("resource", reason="limits of POSIX")

N_ROWS, N_COLUMNS, N_FILES = 5_000_000, 16, 5
MEGABYTE = 1 << 20
DATA_BYTES = N_ROWS * N_COLUMNS * 8  # 610 MiB as float64
ALLOWED = 400 * MEGABYTE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("large")
    names = [f"c{i}" for i in range(N_COLUMNS)]
    for part in range(N_FILES):
        rng = np.random.default_rng(part)
        X = rng.normal(size=(N_ROWS // N_FILES, N_COLUMNS))
        X[:, 1:4] += X[:, :1] ** 2
        table = pa.table({name: X[:, i] for i, name in enumerate(names)})
        table = table.append_column("id", pa.array(np.arange(len(X)) + part * len(X)))
        # one row group a file: a reader that takes a group at a time would need 130 MB for it
        pq.write_table(table, path / f"{part}.parquet", row_group_size=len(X))
    yield path
    shutil.rmtree(path)  # pytest would keep it for three runs


def limited(allowed: int = ALLOWED) -> None:
    """The system refuses more private memory than this, which is less than the rows need."""
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))


def run(*words: object, allowed: int = ALLOWED) -> dict[str, Any]:
    command = [sys.executable, "-m", "kernelstream", *map(str, words), "--json"]
    done = subprocess.run(
        command, capture_output=True, preexec_fn=partial(limited, allowed), timeout=900
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_DATA works on Linux")
def test_five_million_rows_in_bounded_memory(folder: Path, tmp_path: Path) -> None:
    assert ALLOWED < DATA_BYTES
    model, scores = tmp_path / "m.safetensors", tmp_path / "scores.parquet"
    facts = run("fit", folder, "-o", model, "--exclude", "id", "--basis", 64, "--components", 5)
    assert facts["rows"] == N_ROWS and facts["passes"] == 2
    facts = run("score", model, folder, "-o", scores, "--keep", "id")
    assert facts["rows"] == N_ROWS
    table = pq.read_table(scores)
    assert table.column("id").to_numpy().tolist()[:: N_ROWS // 10] == list(
        range(0, N_ROWS, N_ROWS // 10)
    )
    first = pq.ParquetFile(folder / "0.parquet").iter_batches(1000)
    rows = next(first).select(list(load(model).feature_names_in_)).to_pandas()
    expected = load(model).reconstruction_error(rows)
    found = table.column("reconstruction_error").to_numpy()[:1000]
    assert np.allclose(found, expected, atol=1e-9)
    run("update", model, folder, "--limit", 100_000)
    # Matplotlib and its pictures need memory of their own, whatever the number of rows.
    more = ALLOWED + 100 * MEGABYTE
    assert more < DATA_BYTES
    run("report", model, folder, "-o", tmp_path / "r.html", "--limit", 500_000, allowed=more)
    assert load(model).estimator_.n_samples_seen_ == N_ROWS + 100_000


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_DATA works on Linux")
def test_the_limit_is_a_limit(folder: Path) -> None:
    """Reading all rows at once fails under it: the test above would notice."""
    code = f"import pyarrow.parquet as pq; pq.read_table({str(folder)!r}).to_pandas().to_numpy()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, preexec_fn=limited)
    assert done.returncode != 0
