"""Sources: every format gives the same rows, from any position, and names what is wrong."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

from kernelstream.tables import SchemaOptions, Source, SourceError, SourcePosition
from kernelstream.tables import readers as readers_module
from tests.tables.conftest import NAMES, WRITERS, D, N, arrow_stream, joined


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_rows(name: str, tmp_path: Path, X: np.ndarray) -> None:
    WRITERS[name](tmp_path / name, X)
    source = Source(tmp_path / name)
    assert len(source.names) == D
    assert np.array_equal(joined(source), X)
    assert source.fraction() == 1.0


@pytest.mark.filterwarnings("error")
def open_files_below(folder: Path) -> list[str]:
    """Files below a folder that this process holds open."""
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that lists the folder is closed again
            targets.append(os.readlink(descriptor))
    return [target for target in targets if target.startswith(str(folder))]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's list of open files")
@pytest.mark.parametrize("name", WRITERS)
def test_source_that_is_not_read_to_its_end_leaves_no_file_open(
    name: str, tmp_path: Path, X: np.ndarray
) -> None:
    WRITERS[name](tmp_path / name, X)
    source = Source(tmp_path / name, schema=SchemaOptions())
    with pytest.raises(SourceError):
        Source(tmp_path / name, schema=SchemaOptions(), columns=["no such column"])
    assert open_files_below(tmp_path) == []
    blocks = source.blocks()
    next(blocks)
    blocks.close()
    assert open_files_below(tmp_path) == []


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("skip", [1, 799, 800, 2999])
def test_reading_goes_on_anywhere(name: str, skip: int, tmp_path: Path, X: np.ndarray) -> None:
    WRITERS[name](tmp_path / name, X)
    rest = list(Source(tmp_path / name).blocks(SourcePosition(0, skip)))
    assert np.array_equal(np.concatenate([block.X for block in rest]), X[skip:])
    assert rest[0].rows[0] == skip + 1
    assert rest[-1].end == SourcePosition(0, N)


@pytest.mark.parametrize("name", WRITERS)
def test_blocks_that_are_read_ahead(name: str, tmp_path: Path, X: np.ndarray) -> None:
    for part in ("one", "two"):
        (tmp_path / part).mkdir()
        WRITERS[name](tmp_path / part / name, X)
    source = Source([tmp_path / part / name for part in ("one", "two")])
    here = list(source.blocks(SourcePosition(0, 799)))
    there = list(source.ahead(SourcePosition(0, 799)))
    assert [block.end for block in there] == [block.end for block in here]
    for block, expected in zip(there, here, strict=True):
        assert np.array_equal(block.X, expected.X) and np.array_equal(block.rows, expected.rows)
    limited = Source(tmp_path / "one" / name, limit=900)
    assert sum(len(block) for block in limited.ahead()) == 900


def test_one_block_is_read_ahead_and_no_more(tmp_path: Path, X: np.ndarray) -> None:
    WRITERS["x.parquet"](tmp_path / "x.parquet", X)
    source: Any = Source(tmp_path / "x.parquet")
    made: list[str] = []
    given = source._block

    def counted(*arguments: Any) -> Any:
        made.append(threading.current_thread().name)
        return given(*arguments)

    source._block = counted
    total = len(list(source.blocks()))
    assert total > 3
    made.clear()
    blocks = source.ahead()
    next(blocks)
    deadline = time.monotonic() + 5
    while len(made) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(made) == 2 and all(name.startswith("kernelstream reads") for name in made)
    blocks.close()
    assert not any(thread.name.startswith("kernelstream reads") for thread in threading.enumerate())
    assert len(list(source.ahead())) == total  # the file was let go


def test_what_goes_wrong_ahead_is_raised_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "1,2\n" * 200_000 + "3,four\n")
    blocks = Source(path).ahead()
    rows = 0
    with pytest.raises(SourceError, match="four"):
        for block in blocks:
            rows += len(block)
    assert rows == sum(len(block) for block in Source(path, on_bad_rows="skip")) - last_block(path)
    assert not any(thread.name.startswith("kernelstream reads") for thread in threading.enumerate())


def last_block(path: Path) -> int:
    return len(list(Source(path, on_bad_rows="skip"))[-1])


@pytest.mark.parametrize(
    "name", ["x.csv", "x.ndjson", "x.csv.gz", "x.npy", "x.arrows", "x.feather"]
)
def test_standard_input(name: str, tmp_path: Path, X: np.ndarray) -> None:
    WRITERS[name](tmp_path / name, X)
    source = Source("-", stdin=io.BytesIO((tmp_path / name).read_bytes()))
    assert source.from_pipe
    assert np.array_equal(joined(source), X)
    with pytest.raises(SourceError, match="only once"):
        joined(source)


def test_rows_of_an_open_pipe_come_when_they_are_written() -> None:
    end, beginning = os.pipe()
    with os.fdopen(end, "rb") as stdin:
        os.write(beginning, b'{"a": 1}\n{"a": 2}\n')
        blocks = iter(Source("-", stdin=stdin, format="ndjson"))
        assert next(blocks).X.tolist() == [[1], [2]]
        os.write(beginning, b'{"a": 3}\n')
        assert next(blocks).X.tolist() == [[3]]
        os.close(beginning)
        assert list(blocks) == []


def test_parquet_through_a_pipe_says_what_to_do(tmp_path: Path, X: np.ndarray) -> None:
    WRITERS["x.parquet"](tmp_path / "x.parquet", X)
    with pytest.raises(SourceError, match="send CSV, NDJSON or an Arrow stream"):
        Source("-", stdin=io.BytesIO((tmp_path / "x.parquet").read_bytes()))


def test_weights(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("a,w\n1,2\n3,-1\n5,0\n")
    source = Source(path, weight_column="w", on_bad_rows="skip")
    (block,) = source
    assert source.names == ("a",)
    assert block.X.tolist() == [[1], [5]] and block.weights.tolist() == [2, 0]  # type: ignore[union-attr]
    assert block.bad[0].reason == "the weight -1 is negative"


def test_the_limit_counts_good_rows(tmp_path: Path, X: np.ndarray) -> None:
    WRITERS["x.parquet"](tmp_path / "x.parquet", X)
    source = Source([tmp_path / "x.parquet"] * 2, limit=N + 10)
    blocks = list(source)
    assert sum(map(len, blocks)) == N + 10
    assert blocks[-1].end == SourcePosition(1, 10)


def test_files_that_differ(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("b,c\n1,2\n")
    with pytest.raises(SourceError, match=r"b\.csv has no column 'a'; its columns: b, c"):
        joined(Source([tmp_path / "a.csv", tmp_path / "b.csv"]))


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "e.csv", "is empty"),
        (b"PAR1 no, not really", "p.parquet", "cannot be read"),
        (b"\x00\x01\x02", "what", "give --format"),
        (b"name\nAnna\n", "text.csv", "no column of numbers"),
        (b"\x1f\x8b\x08broken", "broken.csv.gz", "cannot be read"),
        (b"\x28\xb5\x2f\xfdbroken", "broken.csv.zst", "cannot be read"),
        (b"a,b,a\n1,2,3\n", "twice.csv", "several columns called 'a': rename them"),
        (b"1,5;2,7\n1,6;2,8\n", "comma.csv", "no column of numbers"),
    ],
)
def test_files_that_cannot_be_read(content: bytes, name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=message):
        joined(Source(tmp_path / name))


def test_a_compressed_file_is_recognized_by_its_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "packed.csv").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    (tmp_path / "plain.csv.gz").write_bytes(b"a,b\n1,2\n")
    for name in ("packed.csv", "plain.csv.gz"):
        assert joined(Source(tmp_path / name)).tolist() == [[1, 2]]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_go_straight_in(library: str, X: np.ndarray) -> None:
    from kernelstream import StreamingKernelPCA

    table: Any = pytest.importorskip(library).DataFrame(dict(zip(NAMES, X.T, strict=True)))
    model = StreamingKernelPCA(2, basis=30, random_state=0).partial_fit(table)
    assert list(model.feature_names_in_) == NAMES
    plain = StreamingKernelPCA(2, basis=30, random_state=0).partial_fit(X)
    assert np.allclose(model.transform(table), plain.transform(X), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(table[["b", "a", "c", "d"]])


@pytest.mark.parametrize("name", ["a.csv", "a.ndjson", "a.parquet", "a.feather", "a.arrows"])
def test_tables_may_be_wide_but_not_without_end(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow takes about 10 kB a column: millions of them ended the process."""
    wide = np.ones((3, 300))
    frame = pd.DataFrame(wide, columns=[f"c{i}" for i in range(300)])
    path = tmp_path / name
    if name.endswith("csv"):
        frame.to_csv(path, index=False)
    elif name.endswith("ndjson"):
        frame.to_json(path, orient="records", lines=True)
    elif name.endswith("parquet"):
        frame.to_parquet(path)
    elif name.endswith("feather"):
        frame.to_feather(path)
    else:
        arrow_stream(path, frame)
    assert joined(Source(path)).shape == (3, 300)
    monkeypatch.setattr(readers_module, "MOST_COLUMNS", 299)
    with pytest.raises(SourceError, match="300 columns, and a table may have 299"):
        Source(path)


@pytest.mark.slow  # the limit of seconds holds only where little else runs
def test_wide_rows_take_linear_time(tmp_path: Path) -> None:
    """A list of names searched for each name took minutes."""
    wide = np.ones((2, 40_000))
    np.save(tmp_path / "a.npy", wide)
    began = time.perf_counter()
    source = Source(tmp_path / "a.npy", columns=[f"x{i}" for i in range(40_000)])
    assert joined(source).shape == wide.shape
    (tmp_path / "a.ndjson").write_text(json.dumps({f"c{i}": 1 for i in range(40_000)}) + "\n")
    assert joined(Source(tmp_path / "a.ndjson")).shape == (1, 40_000)
    assert time.perf_counter() - began < 15


@pytest.mark.parametrize("name", ["t.npy", "fortran.npy", "t.feather"])
def test_a_file_that_is_cut_while_it_is_read(name: str, tmp_path: Path) -> None:
    """In a process of its own: a memory map would end it with a signal."""
    path = tmp_path / name
    X = np.random.default_rng(0).normal(size=(200_000, 5))
    if name == "t.npy":
        np.save(path, X)
    elif name == "fortran.npy":
        np.save(path, np.asfortranarray(X))
    else:
        table = pa.table({f"c{i}": X[:, i] for i in range(5)})
        pyarrow.feather.write_feather(table, str(path), compression="uncompressed")
    code = (
        "import os, sys; from kernelstream.tables import Source, SourceError\n"
        "blocks = iter(Source(sys.argv[1])); next(blocks); os.truncate(sys.argv[1], 4096)\n"
        "try: sum(len(block) for block in blocks)\n"
        "except SourceError as problem: print(problem)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "truncated" in done.stdout or "cannot be read to its end" in done.stdout


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_limit_ends_reading_between_bad_rows(n: int, tmp_path: Path) -> None:
    """Bad rows after the last row that counts were not read; those before it were."""
    (tmp_path / "a.csv").write_text("a,b\n1,1\nx,1\n2,2\n3\n3,3\nx,x\n4,4\n5,x\n")
    blocks = list(Source(tmp_path / "a.csv", on_bad_rows="skip", limit=n))
    assert [x for block in blocks for x in block.X[:, 0]] == [1, 2, 3][:n]
    assert [bad.row for block in blocks for bad in block.bad] == [2, 4, 6, 8][: n - 1]
    end = blocks[-1].end
    assert end == SourcePosition(0, 2 * n - 1)
    rest = list(Source(tmp_path / "a.csv", on_bad_rows="skip").blocks(end))
    assert [x for block in rest for x in block.X[:, 0]] == [1, 2, 3, 4][n:]
    assert [bad.row for block in rest for bad in block.bad] == [2, 4, 6, 8][n - 1 :]


def test_a_length_that_asks_for_all_memory(tmp_path: Path, X: np.ndarray) -> None:
    """Of the first message of an Arrow stream, or of any other."""
    WRITERS["x.arrows"](tmp_path / "x.arrows", X)
    whole = (tmp_path / "x.arrows").read_bytes()
    code = (
        "import resource, sys; from kernelstream.tables import Source, SourceError\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "try: list(Source(sys.argv[1]))\n"
        "except SourceError as problem: print(problem)"
    )
    path = tmp_path / "damaged.arrows"
    path.write_bytes(whole[:4] + (0x7FFFFFF0).to_bytes(4, "little") + whole[8:])
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert done.returncode == 0 and "cannot be read" in done.stdout, done.stderr


@pytest.mark.parametrize("name", ["x.csv", "x.ndjson", "x.csv.gz", "x.parquet"])
def test_shares_are_those_of_the_rows_that_were_handed_out(name: str, tmp_path: Path) -> None:
    """What is read ahead was counted: a short CSV file was done before its first row."""
    X = np.random.default_rng(0).normal(size=(240_000, 4))
    WRITERS[name](tmp_path / name, X)
    source, rows, apart = Source(tmp_path / name), 0, []
    for block in source:
        rows += len(block)
        apart.append(abs(source.fraction() - rows / len(X)))
    assert len(apart) > 2 and max(apart) < 0.25


def test_lines_that_end_with_a_return(tmp_path: Path) -> None:
    """As spreadsheets on a Mac write them."""
    (tmp_path / "mac.csv").write_bytes(b"a,b\r1,2\r3,4\r")
    assert joined(Source(tmp_path / "mac.csv")).tolist() == [[1, 2], [3, 4]]
