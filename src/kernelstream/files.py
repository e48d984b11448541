"""Model files: safetensors with one JSON header, checksummed, written atomically.

A model file is data, never code. Arrays are stored as tensors; everything else (parameters,
counters, names) is a JSON tree in which a tensor is a reference by name and a part or a piece of
state is named by its class. Loading looks these names up among the classes that were declared with
:func:`stored`: nothing else can come out of a file.

A file says which version of this format it has. One of an earlier version is brought up to date by
``MIGRATIONS``, a function from the tree of each version to that of the next.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import secrets
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from kernelstream.backends.arrays import is_foreign, is_sparse, to_host
from kernelstream.part import Part

_T = TypeVar("_T")
FORMAT = "kernelstream"
VERSION = 2
_NO_CHECKSUM = "0" * 64
# What a tree that was written by somebody else may raise while it is turned into values.
_MALFORMED = (
    SafetensorError,
    AttributeError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    RecursionError,
)

STORED: dict[str, type] = {}


def stored(cls: type[_T]) -> type[_T]:
    """Let files hold values of a class, a part or a dataclass: used as a decorator."""
    if STORED.setdefault(stored_name(cls), cls) is not cls:
        raise ValueError(f"Two classes are called {stored_name(cls)} in files; rename one.")
    return cls


def stored_name(cls: type) -> str:
    """What a class is called in files: ``kernels.RBF`` for a part, ``LMSState`` for a state."""
    room = cls.__module__.split(".")[1:2]
    return ".".join([*room, cls.__name__]) if issubclass(cls, Part) else cls.__name__


@dataclass(frozen=True)
class ModelFile:
    """A file that was read and checked, whose values are not built yet."""

    tree: dict[str, Any]
    tensors: dict[str, np.ndarray]

    def values(self) -> dict[str, Any]:
        """The content; classes that it names must have been imported."""
        try:
            return {name: _decode(value, self.tensors) for name, value in self.tree.items()}
        except _MALFORMED as problem:
            raise ValueError(
                f"the file holds something that this release does not know ({problem!r})."
            ) from problem


def save(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a tree of values to ``path``, wholly or not at all."""
    write_atomically(Path(path), to_bytes(content))


def read(path: str | os.PathLike[str]) -> ModelFile:
    """Read a file; one that is truncated, foreign or changed is a ``ValueError``."""
    with naming(path):
        return from_bytes(Path(path).read_bytes())


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the name of the file in front of what is wrong with it."""
    try:
        yield
    except ValueError as problem:
        raise ValueError(f"Cannot load {Path(path)}: {problem}") from problem


def to_bytes(content: dict[str, Any]) -> bytes:
    """The file as bytes: the same content always gives the same bytes.

    The checksum is that of the whole file, with zeros in the place of the checksum.
    """
    tensors: dict[str, np.ndarray] = {}
    tree = {name: _encode(value, name, tensors) for name, value in content.items()}
    text = json.dumps(tree, sort_keys=True, allow_nan=False)
    header = {"checksum": _NO_CHECKSUM, "content": text, "format": FORMAT, "version": VERSION}
    # One key only: the order of several keys in safetensors' metadata is not fixed.
    data = save_tensors(tensors, {FORMAT: json.dumps(header)})
    return _with_checksum(data, _NO_CHECKSUM, _checksum(data))


def from_bytes(data: bytes) -> ModelFile:
    """The content of a file, checked and brought to the present version."""
    header = _header(data)
    version = header.get("version")
    if version not in (*MIGRATIONS, VERSION):
        raise ValueError(
            f"the file has format version {version!r}, this release reads versions up to "
            f"{VERSION}. Use the release that wrote it, or a later one."
        )
    checksum = str(header.get("checksum"))
    if checksum != _checksum(_with_checksum(data, checksum, _NO_CHECKSUM)):
        raise ValueError(
            "the checksum does not match: the file is truncated, or was changed after it was "
            "written."
        )
    try:
        tree, tensors = json.loads(header["content"]), load_tensors(data)
        if not isinstance(tree, dict):
            raise TypeError(f"a tree that is a {type(tree).__name__}")
        while version < VERSION:
            tree, version = MIGRATIONS[version](tree), version + 1
    except _MALFORMED as problem:
        raise ValueError(
            f"the file holds something that this release does not know ({problem!r})."
        ) from problem
    return ModelFile(tree, tensors)


def _header(data: bytes) -> dict[str, Any]:
    """Our JSON header out of safetensors' own: eight bytes of length, then JSON."""
    problem = "this is not a kernelstream model (no safetensors header)."
    if len(data) < 8:
        raise ValueError(problem)
    (length,) = struct.unpack("<Q", data[:8])
    if length > len(data) - 8:
        raise ValueError("the file is truncated, or " + problem)
    try:
        ours = json.loads(data[8 : 8 + length])["__metadata__"][FORMAT]
        header = json.loads(ours)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError("this is not a kernelstream model (no header of ours).") from error
    if not isinstance(header, dict):
        raise ValueError("this is not a kernelstream model (a foreign header).")
    return header


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _with_checksum(data: bytes, old: str, new: str) -> bytes:
    return data.replace(old.encode(), new.encode(), 1)


def _encode(value: Any, where: str, tensors: dict[str, np.ndarray]) -> Any:
    """A JSON value; arrays go into ``tensors`` under the path where they stand."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        number = float(value)
        return number if math.isfinite(number) else {"float": repr(number)}
    if isinstance(value, Part):
        return _encode_part(value, where, tensors)
    if dataclasses.is_dataclass(value) and STORED.get(type(value).__name__) is type(value):
        fields = {
            f.name: _encode(getattr(value, f.name), f"{where}.{f.name}", tensors)
            for f in dataclasses.fields(value)
            if f.init
        }
        return {"state": type(value).__name__, "fields": fields}
    if isinstance(value, tuple | list):
        return {"tuple": [_encode(v, f"{where}.{i}", tensors) for i, v in enumerate(value)]}
    if is_sparse(value):
        csr = scipy.sparse.csr_matrix(value)
        tensors[f"{where}.data"] = csr.data
        tensors[f"{where}.indices"] = csr.indices.astype(np.int64)
        tensors[f"{where}.indptr"] = csr.indptr.astype(np.int64)
        return {"csr": where, "shape": list(csr.shape)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "US":
        return {"tuple": [str(v) for v in value]}
    if isinstance(value, np.ndarray) or is_foreign(value):
        host = to_host(value)
        tensors[where] = np.ascontiguousarray(host)
        # Products round differently on transposed memory: keep the order, to go on bit for bit.
        fortran = host.flags.f_contiguous and not host.flags.c_contiguous
        return {"tensor": where, "order": "F" if fortran else "C"}
    if callable(value):
        raise ValueError(
            f"A model whose kernel is the callable {value!r} cannot be saved: a model file is "
            "data, never code. Use one of the kernels in kernelstream.kernels, or pickle the model "
            "(which only your own code should load)."
        )
    raise ValueError(f"{where}: {type(value).__name__} cannot be stored in a model file.")


def _encode_part(part: Part, where: str, tensors: dict[str, np.ndarray]) -> Any:
    name = stored_name(type(part))
    if STORED.get(name) is not type(part):
        raise ValueError(
            f"{part} cannot be saved: {type(part).__name__} is not a part of kernelstream."
        )
    params = {
        key: _encode(value, f"{where}.{key}", tensors)
        for key, value in part.get_params(deep=False).items()
    }
    return {"part": name, "params": params}


def _decode(value: Any, tensors: dict[str, np.ndarray]) -> Any:
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "tensor" in value:
        return np.asarray(tensors[value["tensor"]], order=value["order"])
    if "tuple" in value:
        return tuple(_decode(v, tensors) for v in value["tuple"])
    if "csr" in value:
        name = value["csr"]
        arrays = tuple(tensors[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
        return scipy.sparse.csr_matrix(arrays, shape=tuple(value["shape"]))
    if "part" in value:
        params = {k: _decode(v, tensors) for k, v in value["params"].items()}
        return STORED[value["part"]](**params)
    fields = {k: _decode(v, tensors) for k, v in value["fields"].items()}
    return STORED[value["state"]](**fields)


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside the target, flush to the disk, then rename: the old file or the new, whole."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"Cannot save to {path}: there is no folder {path.parent}.")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with open(temporary, "xb") as file:  # unlike mkstemp's, readable by whom the user allows
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _rebuilt(node: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A tree in which every part and every state is replaced by what ``change`` makes of it."""
    if not isinstance(node, dict):
        return node
    if "tuple" in node:
        return {"tuple": [_rebuilt(item, change) for item in node["tuple"]]}
    for inside in ("params", "fields"):
        if inside in node:
            values = {name: _rebuilt(value, change) for name, value in node[inside].items()}
            return change(node | {inside: values})
    return node


def _from_version_1(tree: dict[str, Any]) -> dict[str, Any]:
    """Version 0.1 called the stream a model, and had three fields for what scales its rows."""
    return {name: _rebuilt(value, _of_version_2) for name, value in tree.items()}


def _of_version_2(node: dict[str, Any]) -> dict[str, Any]:
    parts = {
        "wiener.Wiener": "images.Wiener",
        "images.features.PatchFeatures": "images.PatchFeatures",
    }
    states = {"Parts": "Chain", "Standard": "Standardisation"}
    if "part" in node:
        return node | {"part": parts.get(node["part"], node["part"])}
    name, fields = node["state"], dict(node["fields"])
    if "tamed" in fields:
        fields["n_shortened"] = fields.pop("tamed")
    if name == "Waiting":
        pieces = zip(
            fields["rows"]["tuple"],
            fields["weights"]["tuple"],
            fields["targets"]["tuple"] or [None] * len(fields["rows"]["tuple"]),
            strict=True,
        )
        rows = [
            {"state": "Rows", "fields": {"X": X, "weights": w, "targets": y}} for X, w, y in pieces
        ]
        return {"state": "Buffer", "fields": {"blocks": {"tuple": rows}}}
    if name == "Model":
        standard = {"part": "stream.Standard", "params": {}}
        standardises, reduction = fields.pop("standardise"), fields.pop("reduction")
        fields["scaling"] = reduction or (standard if standardises else None)
        fields["scaler"] = fields.pop("standard")
        fields["learned"] = {
            "state": "Learned",
            "fields": {"chain": fields.pop("parts"), "state": fields.pop("state")},
        }
        return {"state": "Stream", "fields": fields}
    return {"state": states.get(name, name), "fields": fields}


MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_version_1}
