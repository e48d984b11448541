"""Sources: every format gives the same rows, from any position, and names what is wrong."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from kernelstream.sources import BadRowError, Position, Source, SourceError, find_files, fingerprint
from kernelstream.sources import readers as readers_module

N, D = 3000, 4
NAMES = ["a", "b", "c", "d"]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a few hundred rows, so that short files have many of them."""
    monkeypatch.setattr(readers_module, "BLOCK_BYTES", 8 * D * 500)


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(N, D))


def frame(X: np.ndarray) -> pd.DataFrame:
    table = pd.DataFrame(X, columns=NAMES)
    table["name"] = [f"row {i}" for i in range(len(X))]
    return table


def ndjson(table: pd.DataFrame) -> bytes:
    lines = (json.dumps(row) for row in table.to_dict("records"))
    return "".join(line + "\n" for line in lines).encode()


def csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False).encode()


def arrow_stream(path: Path, table: pd.DataFrame) -> None:
    rows = pa.Table.from_pandas(table, preserve_index=False)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, rows.schema) as stream:
        stream.write_table(rows, max_chunksize=700)


def write_zstd(path: Path, data: bytes) -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(data)


WRITERS: dict[str, Callable[[Path, np.ndarray], Any]] = {
    "x.parquet": lambda p, X: frame(X).to_parquet(p, row_group_size=800),
    "x.csv": lambda p, X: p.write_bytes(csv(frame(X))),
    "x.tsv": lambda p, X: frame(X).to_csv(p, index=False, sep="\t"),
    "x.csv.gz": lambda p, X: p.write_bytes(gzip.compress(csv(frame(X)))),
    "x.csv.bz2": lambda p, X: p.write_bytes(bz2.compress(csv(frame(X)))),
    "x.csv.xz": lambda p, X: p.write_bytes(lzma.compress(csv(frame(X)))),
    "x.ndjson": lambda p, X: p.write_bytes(ndjson(frame(X))),
    "x.jsonl.zst": lambda p, X: write_zstd(p, ndjson(frame(X))),
    "x.feather": lambda p, X: frame(X).to_feather(p),
    "x.arrows": lambda p, X: arrow_stream(p, frame(X)),
    "x.npy": lambda p, X: np.save(p, X),
    "x.npy.gz": lambda p, X: p.write_bytes(gzip.compress(npy_bytes(X))),
    "x.npz": lambda p, X: np.savez_compressed(p, X=X, y=np.arange(len(X))),
    "plain.npz": lambda p, X: np.savez(p, X=X),
}


def npy_bytes(X: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue()


def joined(source: Source, start: Position | None = None) -> np.ndarray:
    blocks = source.blocks() if start is None else source.blocks(start)
    return np.concatenate([block.X for block in blocks])


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_rows(name: str, tmp_path: Path, X: np.ndarray) -> None:
    WRITERS[name](tmp_path / name, X)
    source = Source(tmp_path / name)
    assert len(source.names) == D
    assert np.array_equal(joined(source), X)
    assert source.fraction() == 1.0


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("skip", [1, 799, 800, 2999])
def test_reading_goes_on_anywhere(name: str, skip: int, tmp_path: Path, X: np.ndarray) -> None:
    WRITERS[name](tmp_path / name, X)
    rest = list(Source(tmp_path / name).blocks(Position(0, skip)))
    assert np.array_equal(np.concatenate([block.X for block in rest]), X[skip:])
    assert rest[0].rows[0] == skip + 1
    assert rest[-1].end == Position(0, N)


@pytest.mark.parametrize("name", ["x.csv", "x.ndjson", "x.csv.gz", "x.npy", "x.arrows"])
def test_standard_input(name: str, tmp_path: Path, X: np.ndarray) -> None:
    WRITERS[name](tmp_path / name, X)
    source = Source("-", stdin=io.BytesIO((tmp_path / name).read_bytes()))
    assert source.from_pipe
    assert np.array_equal(joined(source), X)
    with pytest.raises(SourceError, match="only once"):
        joined(source)


def test_parquet_through_a_pipe_says_what_to_do(tmp_path: Path, X: np.ndarray) -> None:
    WRITERS["x.parquet"](tmp_path / "x.parquet", X)
    with pytest.raises(SourceError, match="send CSV, NDJSON or an Arrow stream"):
        Source("-", stdin=io.BytesIO((tmp_path / "x.parquet").read_bytes()))


def test_folders_and_globs_in_a_fixed_order(tmp_path: Path, X: np.ndarray) -> None:
    (tmp_path / "deep").mkdir()
    np.save(tmp_path / "b.npy", X[1000:2000])
    np.save(tmp_path / "a.npy", X[:1000])
    np.save(tmp_path / "deep" / "c.npy", X[2000:])
    np.save(tmp_path / "_hidden.npy", X)
    (tmp_path / "notes.md").write_text("not data")
    assert np.array_equal(joined(Source(tmp_path)), X)
    assert np.array_equal(joined(Source(str(tmp_path / "**" / "[abc].npy"))), X)
    assert np.array_equal(joined(Source(tmp_path), Position(1, 500)), X[1500:])


def test_images_are_flattened(tmp_path: Path) -> None:
    images = np.arange(24, dtype=np.uint8).reshape(3, 2, 4)
    np.savez(tmp_path / "images.npz", images=images, label=np.array([7, 8, 9]))
    source = Source(tmp_path / "images.npz", keep=["label"])
    (block,) = source
    assert source.dtype == "float32" and source.image_shape == (2, 4)
    assert np.array_equal(block.X, images.reshape(3, 8))
    assert block.carried.to_pydict() == {"label": [7, 8, 9]}


def test_several_arrays_ask_for_a_choice(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", first=np.zeros((3, 2)), second=np.ones((4, 5)))
    with pytest.raises(SourceError, match=r"--array: first \(3, 2\), second \(4, 5\)"):
        Source(tmp_path / "two.npz")
    assert joined(Source(tmp_path / "two.npz", array="second")).shape == (4, 5)
    with pytest.raises(SourceError, match="no array 'third'"):
        Source(tmp_path / "two.npz", array="third")


def test_an_archive_without_rows_says_so(tmp_path: Path) -> None:
    path = tmp_path / "number.npz"
    np.savez(path, answer=np.float64(42.0))
    with pytest.raises(SourceError, match="holds no array with rows"):
        Source(path)


def test_columns_by_name_and_pattern(tmp_path: Path, X: np.ndarray) -> None:
    WRITERS["x.parquet"](tmp_path / "x.parquet", X)
    source = Source(tmp_path / "x.parquet", columns=["d", "[ab]"], keep=["name", "a"])
    assert source.names == ("d", "a", "b")
    block = next(iter(source))
    assert np.array_equal(block.X, X[: len(block), [3, 0, 1]])
    assert block.carried.schema.names == ["name", "a"]
    assert Source(tmp_path / "x.parquet", exclude=["a", "c"]).names == ("b", "d")
    with pytest.raises(SourceError, match="no column 'z'; its columns: a, b, c, d, name"):
        Source(tmp_path / "x.parquet", columns=["z"])


@pytest.mark.parametrize("name", ["x.csv", "x.ndjson", "x.parquet"])
def test_text_columns_are_left_out_and_reported(name: str, tmp_path: Path, X: np.ndarray) -> None:
    WRITERS[name](tmp_path / name, X)
    assert Source(tmp_path / name).left_out == ("name",)


def test_types(tmp_path: Path) -> None:
    columns = {"f": pa.array([1.5], pa.float32()), "u": pa.array([7], pa.uint8())}
    pq.write_table(pa.table(columns), tmp_path / "small.parquet")
    pq.write_table(pa.table({**columns, "i": pa.array([9])}), tmp_path / "large.parquet")
    assert Source(tmp_path / "small.parquet").dtype == "float32"
    assert Source(tmp_path / "large.parquet").dtype == "float64"


# --- bad rows

BAD_CSV = "t,a,b\nmon,1,2\ntue,3\nwed,5,six\nthu,,8\nfri,9,inf\nsat,10,11,12\nsun,13,14\n"
BAD_ROWS = [
    (2, None, "2 cells, but the file has 3 columns"),
    (3, "b", "'six' is not a number"),
    (4, "a", "the value is missing"),
    (5, "b", "inf is infinite"),
    (6, None, "4 cells, but the file has 3 columns"),
]


def test_bad_rows_of_csv(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(BAD_CSV)
    with pytest.raises(BadRowError, match=r"bad\.csv, row 2: 2 cells, .* --on-bad-rows skip"):
        joined(Source(path))
    blocks = list(Source(path, on_bad_rows="skip", keep=["t"]))
    assert np.concatenate([b.X for b in blocks]).tolist() == [[1, 2], [13, 14]]
    assert [n for b in blocks for n in b.rows] == [1, 7]
    assert [(b.row, b.column, b.reason) for block in blocks for b in block.bad] == BAD_ROWS
    assert [t for b in blocks for t in b.carried.column("t").to_pylist()] == ["mon", "sun"]


@pytest.mark.parametrize("skip", range(8))
def test_bad_rows_after_a_position(tmp_path: Path, skip: int) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(BAD_CSV)
    blocks = list(Source(path, on_bad_rows="skip").blocks(Position(0, skip)))
    assert [n for b in blocks for n in b.rows] == [n for n in (1, 7) if n > skip]
    assert [b.row for block in blocks for b in block.bad] == [r for r, *_ in BAD_ROWS if r > skip]


def test_bad_rows_of_ndjson(tmp_path: Path) -> None:
    path = tmp_path / "bad.ndjson"
    lines = ['{"a": 1, "b": 2}', '{"a": "x", "b": 2}', "[1, 2]", '{"a": 1}', '{"a": 3, "b": 4.5}']
    path.write_text("\n".join(lines))
    with pytest.raises(BadRowError, match=r"bad\.ndjson, row 2, column 'a': 'x' is not a number"):
        joined(Source(path))
    blocks = list(Source(path, on_bad_rows="skip"))
    assert np.concatenate([b.X for b in blocks]).tolist() == [[1, 2], [3, 4.5]]
    assert [(b.row, b.column) for block in blocks for b in block.bad] == [
        (2, "a"),
        (3, None),
        (4, "b"),
    ]


@pytest.mark.parametrize("name", ["x.parquet", "x.feather", "x.npy", "x.npz"])
def test_missing_values_of_typed_files(name: str, tmp_path: Path, X: np.ndarray) -> None:
    holed = X.copy()
    holed[1234, 2] = np.nan
    WRITERS[name](tmp_path / name, holed)
    column = "c" if name in ("x.parquet", "x.feather") else "x2"
    with pytest.raises(BadRowError, match=rf"row 1235, column '{column}': the value is missing"):
        joined(Source(tmp_path / name))
    assert np.array_equal(
        joined(Source(tmp_path / name, on_bad_rows="skip")), np.delete(X, 1234, axis=0)
    )


def test_a_number_too_large_for_the_type(tmp_path: Path) -> None:
    np.save(tmp_path / "large.npy", np.array([[1.0, 2.0], [1e300, 2.0]]))
    with pytest.raises(BadRowError, match="1e\\+300 is too large for float32"):
        joined(Source(tmp_path / "large.npy", dtype="float32"))


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
    assert blocks[-1].end == Position(1, 10)


def test_a_csv_without_names(tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("1,2\n3,4\n")
    source = Source(tmp_path / "plain.csv")
    assert source.names == ("x0", "x1") and not source.named
    assert joined(source).tolist() == [[1, 2], [3, 4]]
    assert Source(tmp_path / "plain.csv", header=True).names == ("1", "2")


def test_kept_columns_keep_leading_zeros(tmp_path: Path) -> None:
    (tmp_path / "id.csv").write_text("id,n,a\n007,1,1.5\n010,2,2.5\n")
    (block,) = Source(tmp_path / "id.csv", columns=["a"], keep=["id", "n"])
    assert block.carried.to_pydict() == {"id": ["007", "010"], "n": [1, 2]}


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
        (b"a,a\n1,2\n", "twice.csv", "several columns of one name"),
        (b"name\nAnna\n", "text.csv", "no column of numbers"),
        (b"\x1f\x8b\x08broken", "broken.csv.gz", "cannot be read"),
        (b"a,b\n1,2\n", "plain.csv.gz", "plain.csv.gz cannot be read"),
        (b"a,b\n1,2\n", "plain.csv.bz2", "plain.csv.bz2 cannot be read"),
        (b"a,b\n1,2\n", "plain.csv.xz", "plain.csv.xz cannot be read"),
        (b"a,b\n1,2\n", "plain.csv.zst", "plain.csv.zst cannot be read"),
        (b"a,b\r1,2\r3,4\r", "mac.csv", "mac.csv cannot be read"),
        (b"1,5;2,7\n1,6;2,8\n", "comma.csv", "no column of numbers"),
    ],
)
def test_files_that_cannot_be_read(content: bytes, name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=message):
        joined(Source(tmp_path / name))


@pytest.mark.parametrize(
    "compress", [gzip.compress, bz2.compress, lzma.compress], ids=["gz", "bz2", "xz"]
)
def test_a_compressed_file_that_is_damaged_in_the_middle(
    compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    rows = np.random.default_rng(0).normal(size=(20_000, 2)).tolist()
    stored = compress(("a,b\n" + "".join(f"{a},{b}\n" for a, b in rows)).encode())
    middle = len(stored) // 2
    (tmp_path / "a.csv").write_bytes(stored[:middle] + b"\0\xff" * 40 + stored[middle + 80 :])
    with pytest.raises(SourceError, match=r"a\.csv cannot be read"):
        joined(Source(tmp_path / "a.csv"))


def test_a_line_nested_without_end_is_a_bad_row(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(b'{"a": 1}\n' + b"[" * 100_000 + b'\n{"a": 2}\n')
    source = Source(tmp_path / "a.ndjson", on_bad_rows="skip")
    blocks = list(source)
    assert [x for block in blocks for x in block.X[:, 0].tolist()] == [1.0, 2.0]
    assert [bad.row for block in blocks for bad in block.bad] == [2]


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no file or folder"):
        Source(tmp_path / "no.csv")
    with pytest.raises(SourceError, match="No file matches"):
        Source(str(tmp_path / "*.csv"))
    with pytest.raises(SourceError, match="holds no file of a known format"):
        Source(tmp_path)


def test_the_fingerprint_notices_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    before = fingerprint(find_files([path]))
    assert before == fingerprint(find_files([path]))
    path.write_text("a\n2\n2\n")
    assert before != fingerprint(find_files([path]))


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
