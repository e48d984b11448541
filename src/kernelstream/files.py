"""Models as files: safetensors with one JSON header, checksummed, written atomically.

A model file is data, never code. Arrays are stored as tensors; everything else (parameters,
counters, names) is a JSON tree in which a tensor is a reference by name and a part or a piece of
state is named by its class. Loading looks these names up in a fixed table: nothing else can come
out of a file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import secrets
import struct
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from kernelstream import bases, kernels, preimages, schedules, trackers
from kernelstream.backends.arrays import is_foreign, is_sparse, to_host
from kernelstream.bases.base import Span
from kernelstream.bases.centroids.sample import Reservoir
from kernelstream.bases.centroids.state import CentroidsState
from kernelstream.bases.centroids.tolerance import Growth
from kernelstream.bases.fourier import FourierState
from kernelstream.bases.growing import GrowingState
from kernelstream.bases.landmarks import FixedState
from kernelstream.bases.reduced_set import ReducedSetState
from kernelstream.certificate.ledger import Ledger
from kernelstream.part import Part
from kernelstream.stream.state import Model, Parts, Standard, State, Waiting
from kernelstream.stream.wiener import LinearMap, Wiener
from kernelstream.trackers import Moments
from kernelstream.trackers.averaged import AveragedState
from kernelstream.trackers.covariance import CovarianceState
from kernelstream.trackers.hebbian import HebbianState
from kernelstream.trackers.incremental_svd import IncrementalSVDState
from kernelstream.trackers.lms import LMSState
from kernelstream.trackers.moments import CrossMoments
from kernelstream.trackers.rls import RLSState
from kernelstream.trackers.weighted import WeightedState

_T = TypeVar("_T")
FORMAT = "kernelstream"
VERSION = 1
_NO_CHECKSUM = "0" * 64
# What a tree that nobody of ours has written may raise while it is turned into values.
_MALFORMED = (
    SafetensorError,
    AttributeError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    RecursionError,
)

STATES: dict[str, type] = {
    c.__name__: c
    for c in (
        Model,
        Parts,
        State,
        Moments,
        Ledger,
        Standard,
        LinearMap,
        Waiting,
        Span,
        Reservoir,
        CentroidsState,
        Growth,
        GrowingState,
        FixedState,
        FourierState,
        ReducedSetState,
        CovarianceState,
        CrossMoments,
        HebbianState,
        AveragedState,
        IncrementalSVDState,
        LMSState,
        RLSState,
        WeightedState,
    )
}


def stored(cls: type[_T]) -> type[_T]:
    """Let files hold values of a dataclass: for states of outer modules, used as a decorator."""
    if STATES.setdefault(cls.__name__, cls) is not cls:
        raise ValueError(f"Two kinds of state are called {cls.__name__}; rename one.")
    return cls


def _parts_of(module: Any) -> dict[str, type[Part]]:
    found = {name: getattr(module, name) for name in module.__all__}
    return {
        f"{module.__name__.rsplit('.', 1)[-1]}.{name}": value
        for name, value in found.items()
        if isinstance(value, type) and issubclass(value, Part)
    }


PARTS: dict[str, type[Part]] = {
    name: part
    for module in (kernels, bases, trackers, schedules, preimages)
    for name, part in _parts_of(module).items()
} | {"wiener.Wiener": Wiener}


# Where parts, states and estimators live that are imported only when they are used.
LATE = (
    "kernelstream.estimators",
    "kernelstream.kernel_hebbian",
    "kernelstream.regression",
    "kernelstream.images",
    "kernelstream.monitor",
)


def known(table: Mapping[str, Any], name: str) -> Any:
    """The entry of a table of names; modules that may add to it are imported if it is not there."""
    if name not in table:
        import_late()
    return table[name]


def import_late() -> None:
    """Import what is defined further out and was not used yet: a fixed list, never from a file."""
    for module in LATE:
        import_module(module)


def import_estimator(name: str) -> None:
    """Import the module of an estimator that a file names, if it was not used yet."""
    import_module("kernelstream.estimators.pca")
    if name != "StreamingKernelPCA":
        import_late()


def also_known(*classes: type) -> None:
    """Let files hold parts and states that are defined further out (those of images)."""
    for found in classes:
        if issubclass(found, Part):
            PARTS[".".join((*found.__module__.split(".")[1:], found.__name__))] = found
        else:
            STATES[found.__name__] = found


# Estimators of outer modules that are no StreamingKernelPCA: how they come out of a file's content.
READERS: dict[str, Callable[[dict[str, Any]], Any]] = {}


def save(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a tree of values to ``path``, wholly or not at all."""
    write_atomically(Path(path), to_bytes(content))


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a tree of values; a truncated, foreign or changed file is a ``ValueError``."""
    path = Path(path)
    try:
        return from_bytes(path.read_bytes())
    except ValueError as problem:
        raise ValueError(f"Cannot load {path}: {problem}") from problem


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


def from_bytes(data: bytes) -> dict[str, Any]:
    """The content of a file, checked."""
    header = _header(data)
    if header.get("version") != VERSION:
        raise ValueError(
            f"the file has format version {header.get('version')!r}, this release reads version "
            f"{VERSION}. Use the release that wrote it, or fit the model again."
        )
    checksum = str(header.get("checksum"))
    if checksum != _checksum(_with_checksum(data, checksum, _NO_CHECKSUM)):
        raise ValueError(
            "the checksum does not match: the file is truncated, or was changed after it was "
            "written."
        )
    try:
        tensors = load_tensors(data)
        tree = json.loads(header["content"])
        return {name: _decode(value, tensors) for name, value in tree.items()}
    except _MALFORMED as problem:
        raise ValueError(
            f"the file holds something that this release does not know ({problem!r})."
        ) from problem


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
    if isinstance(value, Waiting):
        value = value.packed()
    if dataclasses.is_dataclass(value) and type(value).__name__ in STATES:
        fields = {
            f.name: _encode(getattr(value, f.name), f"{where}.{f.name}", tensors)
            for f in dataclasses.fields(value)
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
    for name, kind in PARTS.items():
        if type(part) is kind:
            params = {
                key: _encode(value, f"{where}.{key}", tensors)
                for key, value in part.get_params(deep=False).items()
            }
            return {"part": name, "params": params}
    raise ValueError(
        f"{part} cannot be saved: {type(part).__name__} is not a part of kernelstream."
    )


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
        return known(PARTS, value["part"])(**params)
    fields = {k: _decode(v, tensors) for k, v in value["fields"].items()}
    return known(STATES, value["state"])(**fields)


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
