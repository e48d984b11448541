"""File format: safetensors bytes, JSON header, format version, checksum, save and read."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version as release_of
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from kernelstream.arrays.namespaces import is_foreign, is_sparse, to_host
from kernelstream.serialization.building import Building, require_shallow
from kernelstream.serialization.declarations import STORED, stored_name
from kernelstream.serialization.part import Part
from kernelstream.serialization.writing import Replacement

FORMAT = "kernelstream"
VERSION = 1  # of the format: CONTRIBUTING.md says when it is raised
_NO_CHECKSUM = "0" * 64


@dataclass(frozen=True)
class ModelFile:
    """A file that was read and checked, whose values are not built yet.

    Attributes
    ----------
    tree : dict
        The JSON tree of the file.
    tensors : dict
        Arrays of the file by name.
    release : str
        Release of kernelstream that wrote the file.
    """

    tree: dict[str, Any]
    tensors: dict[str, np.ndarray]
    release: str  # that wrote it
    version: ClassVar[int] = VERSION  # of the format: files of another one are not read

    @property
    def names(self) -> set[str]:
        """Names of the classes that the file holds values of."""
        at_the_top = {self.tree[key] for key in ("estimator", "inner") if key in self.tree}
        return at_the_top | names_in(self.tree)

    def values(self) -> dict[str, Any]:
        """The content; classes that it names must have been imported."""
        with _knowing():
            return Building(self.tensors).content(self.tree)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> ModelFile:
        """Read a file; one that is truncated, foreign or changed is a ``ValueError``.

        Parameters
        ----------
        path : str or path
            The file to read.

        Returns
        -------
        ModelFile
            The file, whose values are not built yet.
        """
        with naming(path):
            return from_bytes(Path(path).read_bytes())


@contextlib.contextmanager
def _knowing() -> Iterator[None]:
    """Say so where a file holds what no release has written."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as problem:  # a tree of somebody else may raise anything
        said = str(problem) if isinstance(problem, ValueError) else repr(problem)
        raise ValueError(
            f"the file holds something that this release does not know ({said})."
        ) from problem


def names_in(node: Any) -> set[str]:
    """Names of the parts and states in a tree."""
    if isinstance(node, list):
        return set().union(*map(names_in, node))
    if not isinstance(node, dict):
        return set()
    here = {node[key] for key in ("part", "state") if isinstance(node.get(key), str)}
    return here.union(*map(names_in, node.values()))


def save(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a tree of values to ``path``, wholly or not at all."""
    Replacement.write(Path(path), *_pieces(content))


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the name of the file in front of what is wrong with it."""
    try:
        yield
    except ValueError as problem:
        raise ValueError(f"Cannot load {Path(path)}: {problem}") from problem


def to_bytes(content: dict[str, Any]) -> bytes:
    """The file as bytes: the same content always gives the same bytes."""
    return b"".join(_pieces(content))


def _pieces(content: dict[str, Any]) -> tuple[memoryview, bytes, memoryview]:
    """The file as bytes before its checksum, the checksum, and bytes behind it: without a copy.

    The checksum is that of the whole file, with zeros in the place of the checksum.
    """
    tensors: dict[str, np.ndarray] = {}
    tree = {name: _encode(value, name, tensors) for name, value in content.items()}
    require_shallow(tree)
    text = json.dumps(tree, sort_keys=True, allow_nan=False)
    header = {
        "checksum": _NO_CHECKSUM,
        "content": text,
        "format": FORMAT,
        "release": release_of("kernelstream"),
        "version": VERSION,
    }
    # One key only: the order of several keys in safetensors' metadata is not fixed.
    data = save_tensors(tensors, {FORMAT: json.dumps(header)})
    place = data.index(_NO_CHECKSUM.encode())
    whole, behind = memoryview(data), place + len(_NO_CHECKSUM)
    return whole[:place], _checksum(data, place).encode(), whole[behind:]


def from_bytes(data: bytes) -> ModelFile:
    """The content of a file, checked: its version, its checksum and the shape of its tree."""
    header = _header(data)
    version, release = header.get("version"), header.get("release")
    if type(version) is not int or version != VERSION:
        writer = "its release"
        if isinstance(release, str):
            writer = f"kernelstream {release[:40]}, which wrote it"
        raise ValueError(
            f"the file has format version {str(version)[:40]}, and kernelstream "
            f"{release_of('kernelstream')} reads version {VERSION}. Load it with {writer}, or fit "
            "the model again."
        )
    checksum = header.get("checksum")
    whole = isinstance(checksum, str) and len(checksum) == len(_NO_CHECKSUM)
    place = data.find(str(checksum).encode()) if whole else -1
    if place < 0 or checksum != _checksum(data, place):
        raise ValueError(
            "the checksum does not match: the file is truncated, or was changed after it was "
            "written."
        )
    with _knowing():
        tree, tensors = json.loads(header["content"]), load_tensors(data)
        require_shallow(tree)
        if not isinstance(tree, dict) or not isinstance(release, str):
            raise TypeError(f"a tree that is a {type(tree).__name__}")
    return ModelFile(tree, tensors, release)


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
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("this is not a kernelstream model (no header of ours).") from error
    if not isinstance(header, dict):
        raise ValueError("this is not a kernelstream model (a foreign header).")
    return header


def _checksum(data: bytes, place: int) -> str:
    """That of the whole file, with zeros in the place of the checksum; nothing is copied."""
    whole, behind = memoryview(data), place + len(_NO_CHECKSUM)
    digest = hashlib.sha256(whole[:place])
    digest.update(_NO_CHECKSUM.encode())
    digest.update(whole[behind:])
    return digest.hexdigest()


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
        if hasattr(value, "as_stored"):  # of several forms of the same value always the same one
            value = value.as_stored()
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
