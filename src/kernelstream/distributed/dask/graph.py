"""Dask task graphs: tree reduction, broadcast of the model, persisted results."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any

import dask
from dask.delayed import Delayed, delayed
from dask.sizeof import sizeof
from distributed import Client, futures_of

from kernelstream import landmarks
from kernelstream.stream import State, Stream

FAN_IN = 8  # results that one task of a tree takes together


def tree(combine: Callable[..., Any], leaves: list[Delayed], *first: Any) -> Delayed:
    """Combine neighbours, then their results, down to one: the order of the chunks is the shape."""
    task = delayed(combine)
    while True:
        groups = [leaves[i : i + FAN_IN] for i in range(0, len(leaves), FAN_IN)]
        leaves = [task(*first, group) for group in groups]
        if len(leaves) == 1:
            return leaves[0]


def sent_once(value: Any) -> Delayed:
    """A value as a task: sent once, not with every task that needs it."""
    return delayed(value, traverse=False, pure=False)


def held(task: Delayed, client: Client | None) -> Delayed:
    """Compute a task and leave the result where it is, together with its recipe."""
    task = dask.persist(task)[0] if client is None else client.persist(task)
    for future in futures_of(task):  # none without a cluster: the result is there
        problem = future.exception()  # waits
        if problem is not None:
            raise problem
    return task


def computed(task: Delayed, client: Client | None) -> Any:
    """The result of a task, here."""
    return task.compute() if client is None else client.compute(task).result()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No advice to scatter large objects: all that is sent is one model, once."""
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        yield


@sizeof.register((Stream, State, landmarks.UniformSample))
def _n_bytes(value: Any) -> int:
    """What a result weighs: Dask places, moves and spills by it, and would take 56 bytes."""
    if is_dataclass(value):
        return sum(map(_n_bytes, vars(value).values()))
    return sum(map(_n_bytes, value)) if isinstance(value, tuple) else sizeof(value)
