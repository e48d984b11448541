"""Sources: damaged and odd files give rows or a message, in bounded time and memory."""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from kernelstream.tables import Source, SourceError
from kernelstream.tables.feeds import PipeFeed
from kernelstream.tables.live import LiveRows

ODD = (
    b'"', b'""', b",", b"\n", b"\r", b"\0", b"{", b"}", b"[" * 200, b":", b"\xff", b"\xef\xbb\xbf",
    b"NaN", b"1e999", b"-", b"1" + b"0" * 400, b"\\u", b"\\ud800", b"'", b";", b"\t", b" ", b"null",
    b"true", b"\xed\xa0\x80", b"x" * 3000, b"\x1f\x8b", b"PAR1", b"ARROW1", b"\x93NUMPY",
)  # fmt: skip
NAMES = (
    "a.csv",
    "a.ndjson",
    "a.parquet",
    "a.feather",
    "a.arrows",
    "a.npy",
    "a.csv.gz",
    "a",
)

SCRIPT = """\
import base64, pathlib, tempfile
from fuzz.readers import refused
# {seen}
content = base64.b85decode({content!r})
print(refused({name!r}, content, {options!r}))
"""


def attack(seed: int) -> str | None:
    """Forty files, each damaged in a few places; the shortest one that fails."""
    rng = np.random.default_rng(seed)
    for _ in range(40):
        name = str(rng.choice(NAMES))
        content = damaged(whole(name, rng), rng)
        options = drawn_options(rng)
        seen = refused(name, content, options)
        if seen is None:
            continue
        size = len(content)
        while size > 1:  # leave out what is not needed to fail
            size //= 2
            for start in range(0, len(content), size):
                shorter = content[:start] + content[start + size :]
                if shorter and refused(name, shorter, options) is not None:
                    content = shorter
                    break
        seen = refused(name, content, options)
        text = base64.b85encode(content).decode()
        return SCRIPT.format(seen=seen, content=text, name=name, options=options)
    return None


def whole(name: str, rng: np.random.Generator) -> bytes:
    """A good file of a few rows."""
    X = rng.normal(size=(int(rng.integers(1, 30)), int(rng.integers(1, 4))))
    columns = [f"c{i}" for i in range(X.shape[1])]
    table = pa.table(
        {**dict(zip(columns, X.T, strict=True)), "t": [f"r{i}" for i in range(len(X))]}
    )
    out = io.BytesIO()
    if name == "a.parquet":
        pa.parquet.write_table(table, out)
    elif name == "a.feather":
        pa.feather.write_feather(table, out)
    elif name == "a.arrows":
        with pa.ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table)
    elif name == "a.npy":
        np.save(out, X)
    elif name == "a.ndjson":
        out.write("".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode())
    else:
        lines = [
            ",".join([*columns, "t"]),
            *(",".join(map(str, r.values())) for r in table.to_pylist()),
        ]
        text = "\n".join(lines).encode() + b"\n"
        out.write(gzip.compress(text) if name.endswith("gz") else text)
    return out.getvalue()


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """The same with bytes changed, cut out, repeated, or odd ones put in."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(0, len(data) + 1))
        kind = rng.integers(5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[at:at] = ODD[int(rng.integers(len(ODD)))]
        elif kind == 2:
            del data[at : at + int(rng.integers(1, 20))]
        elif kind == 3:
            data[at:at] = data[at : at + int(rng.integers(1, 200))]
        else:
            data[at : at + 4] = rng.bytes(4)
    return bytes(data)


def drawn_options(rng: np.random.Generator) -> dict[str, object]:
    """Options of a source."""
    options: dict[str, object] = {"on_bad_rows": str(rng.choice(["skip", "error"]))}
    if rng.random() < 0.3:
        options["keep"] = None
    if rng.random() < 0.2:
        options["limit"] = int(rng.integers(1, 10))
    if rng.random() < 0.2:
        options["header"] = bool(rng.integers(2))
    if rng.random() < 0.2:
        options["weight_column"] = "c0"
    return options


def refused(name: str, content: bytes, options: dict[str, object]) -> str | None:
    """What a reader did that it must not do: anything but finite rows, or a SourceError."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            with contextlib.suppress(SourceError):
                for block in Source(path, **options):  # type: ignore[arg-type]
                    if not np.isfinite(block.X).all():
                        return "a block holds numbers that are not finite"
            for _ in PipeFeed(io.BytesIO(content), LiveRows(2)).rows():
                pass
        except Exception as problem:
            return f"{type(problem).__name__}: {problem}"
    return None
