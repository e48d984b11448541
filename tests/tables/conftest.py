"""The same rows in every format that sources read."""

from __future__ import annotations

import bz2
import gzip
import io
import ipaddress
import json
import lzma
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

from kernelstream.tables import Position, Source
from kernelstream.tables import readers as readers_module

N, D = 3000, 4
NAMES = ["a", "b", "c", "d"]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a few hundred rows, so that short files have many of them."""
    monkeypatch.setattr(readers_module, "BLOCK_BYTES", 8 * D * 500)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Files with a certificate of 127.0.0.1, signed by itself, and its key."""
    x509 = pytest.importorskip("cryptography.x509", reason="needs cryptography")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "plant")])
    names = [
        x509.UniformResourceIdentifier("urn:kernelstream:plant"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("certificate")
    files = folder / "plant.pem", folder / "plant-key.pem"
    files[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


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
