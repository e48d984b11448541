"""GPU and device support: transfer of rows, prefetching, chunk size that fits the memory."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from kernelstream.arrays.namespaces import Array, is_foreign, is_sparse, on_accelerator, to_host

# Share of a device's memory that one block of rows may take, with all that is computed from it.
_BLOCK_SHARE = 1 / 16
_LEAST_ROWS, _MOST_ROWS = 1024, 2**19


def checked_device(device: Any) -> str | None:
    """The name of a device of PyTorch, or an error in words; None stays None."""
    if device is None:
        return None
    torch = _torch(device)
    try:
        name = str(torch.device(device))
    except (RuntimeError, TypeError) as problem:
        raise ValueError(
            f"device must be None or a device of PyTorch such as 'cuda' or 'cpu'; got {device!r}."
        ) from problem
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(
            f"device={device!r} was given, but PyTorch finds no CUDA device here. Use device=None "
            "to compute with NumPy."
        )
    return name


def place(x: Array, device: str | None) -> Array:
    """Rows of the host on ``device``; arrays that live elsewhere already are returned as they are.

    Copies to a GPU start from pinned memory and run beside the computation.
    """
    if device is None or is_foreign(x):
        return x
    if is_sparse(x):
        raise ValueError(
            "device was given, and rows in CSR: sparse rows are computed on the host only. Use "
            "device=None, or give dense rows."
        )
    torch = _torch(device)
    rows = torch.from_numpy(np.ascontiguousarray(x))
    if device.startswith("cuda"):
        return rows.pin_memory().to(device, non_blocking=True)
    return rows.to(device, copy=True)


def move_to_device(value: Any, device: str | None) -> Any:
    """A value with its arrays on a device of PyTorch, or (None) on the host.

    Fields that a dataclass names in ``ON_HOST`` stay there.
    """
    if isinstance(value, tuple):
        return tuple(move_to_device(item, device) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        stay = getattr(value, "ON_HOST", ())
        return dataclasses.replace(
            value,
            **{
                field.name: move_to_device(getattr(value, field.name), device)
                for field in dataclasses.fields(value)
                if field.init and field.name not in stay
            },
        )
    if isinstance(value, np.ndarray) or is_foreign(value):
        return to_host(value) if device is None else place(to_host(value), device)
    return value


def ahead(
    blocks: Iterable[Any], prepare: Callable[[Any], Any], device: str | None
) -> Iterator[Any]:
    """Prepared blocks, on a GPU one ahead of the caller: copies overlap with the work.

    The copy runs on a stream of its own; the caller's stream waits for it before it reads.
    """
    if device is None or not device.startswith("cuda"):
        yield from map(prepare, blocks)
        return
    torch = _torch(device)
    copies = torch.cuda.Stream(device)
    pending: Any = None
    for block in blocks:
        with torch.cuda.stream(copies):
            coming = prepare(block), copies.record_event()
        if pending is not None:
            yield _await_copy(pending, torch, device)
        pending = coming
    if pending is not None:
        yield _await_copy(pending, torch, device)


def _await_copy(pending: tuple[Any, Any], torch: Any, device: str) -> Any:
    block, event = pending
    current = torch.cuda.current_stream(device)
    current.wait_event(event)
    for part in block if isinstance(block, tuple) else (block,):
        if isinstance(part, torch.Tensor):
            part.record_stream(current)
    return block


def preferred_rows(X: Array, device: str | None, m: int, otherwise: int) -> int:
    """Rows in a block: ``otherwise`` on the host, as many as fill a GPU without filling its memory.

    A power of two, so that devices of about the same size make the same blocks.
    """
    where = device if device is not None else str(X.device) if on_accelerator(X) else "cpu"
    if not where.startswith("cuda"):
        return otherwise
    memory = _torch(where).cuda.get_device_properties(where).total_memory
    rows = int(memory * _BLOCK_SHARE / (4 * (int(X.shape[1]) + 3 * m)))
    return min(max(2 ** (rows.bit_length() - 1), _LEAST_ROWS), _MOST_ROWS)


@contextlib.contextmanager
def explain_memory(rows: int) -> Iterator[None]:
    """Turn a device's lack of memory into an error that says what would fit."""
    try:
        yield
    except RuntimeError as problem:
        if type(problem).__name__ != "OutOfMemoryError":
            raise
        raise MemoryError(
            f"The device has not enough memory for blocks of {rows} rows: give "
            f"batch_size={max(rows // 4, 1)}, or a smaller basis. ({problem})"
        ) from problem


def _torch(device: Any) -> Any:
    try:
        import torch
    except ImportError as problem:
        raise ValueError(
            f"device={device!r} needs PyTorch: install kernelstream[torch], or use device=None."
        ) from problem
    return torch
