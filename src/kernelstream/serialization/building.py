"""Deserialization: builds values from a file, each field checked against its declaration.

A file may have been written by anybody. So everything is looked at before it is used: compiled
passes, which see plain arrays and trust their shapes, are never given what was not checked here.
"""

from __future__ import annotations

import inspect
import itertools
import math
from typing import Any

import numpy as np
import scipy.sparse

from kernelstream.serialization.declarations import (
    STORED,
    Declaration,
    Sizes,
    check_array,
    check_scalar,
    declarations,
    is_state,
)
from kernelstream.serialization.part import Part

# Levels of a tree. A sum of kernels takes two for each of its terms; states are ten deep.
DEEPEST = 100


def require_shallow(tree: Any) -> None:
    """Raise where a tree has more levels than any model: each takes a call to go through."""
    level = [tree]
    for _ in range(DEEPEST):
        inside = [
            node.values() if isinstance(node, dict) else node
            for node in level
            if isinstance(node, dict | list)
        ]
        level = list(itertools.chain.from_iterable(inside))
        if not level:
            return
    raise ValueError(f"something in it is nested more than {DEEPEST} levels deep")


class Building:
    """Values out of a tree and its tensors, of which each is used once."""

    def __init__(self, tensors: dict[str, np.ndarray]):
        self._left = dict(tensors)

    def content(self, tree: dict[str, Any]) -> dict[str, Any]:
        """What stands in a file, by name."""
        values = {}
        for name, node in tree.items():
            with_states = isinstance(node, dict) and "state" in node
            values[name] = self._state(node, Sizes()) if with_states else self._value(node)
        if self._left:
            raise ValueError(f"tensors that belong to nothing: {sorted(self._left)[:3]}")
        return values

    # -- what stands in a tree

    def _tensor(self, name: Any) -> np.ndarray:
        if not isinstance(name, str) or name not in self._left:
            raise ValueError(f"there is no tensor {name!r}, or it was used already")
        return self._left.pop(name)

    def _array(self, node: dict[str, Any]) -> np.ndarray:
        require_keys(node, "tensor", "order")
        if node["order"] not in ("C", "F"):
            raise ValueError(f"the order {node['order']!r} of a tensor is neither 'C' nor 'F'")
        return np.asarray(self._tensor(node["tensor"]), order=node["order"])

    def _csr(self, node: dict[str, Any]) -> scipy.sparse.csr_matrix:
        require_keys(node, "csr", "shape")
        data, indices, indptr = (
            self._tensor(f"{node['csr']}.{part}") for part in ("data", "indices", "indptr")
        )
        shape = node["shape"]
        whole = isinstance(shape, list) and all(type(n) is int and 0 <= n < 2**31 for n in shape)
        if not whole or len(shape) != 2:
            raise ValueError(f"the shape {shape!r} of a sparse matrix")
        n, width = shape
        sound = (
            data.ndim == indices.ndim == indptr.ndim == 1
            and indices.dtype == indptr.dtype == np.int64
            and len(indptr) == n + 1
            and len(indices) == len(data)
            and indptr[0] == 0
            and indptr[-1] == len(data)
            and bool(np.all(np.diff(indptr) >= 0))
            and bool(np.all((indices >= 0) & (indices < width)))
        )
        if not sound:
            raise ValueError(f"a sparse matrix whose indices are not those of the shape {shape}")
        return scipy.sparse.csr_matrix((data, indices, indptr), shape=(n, width))

    def _part(self, node: dict[str, Any]) -> Part:
        require_keys(node, "part", "params")
        kind = STORED.get(node["part"]) if isinstance(node["part"], str) else None
        if kind is None or not issubclass(kind, Part):
            raise ValueError(f"there is no part {node['part']!r}")
        values = {name: self._value(value) for name, value in mapping(node["params"]).items()}
        if unknown := set(values) - set(inspect.signature(kind).parameters):
            raise ValueError(f"{node['part']} has no parameters {sorted(unknown)}")
        part = kind(**values)
        part.check()
        return part

    def _state(self, node: Any, sizes: Sizes) -> Any:
        require_keys(node, "state", "fields")
        name = node["state"]
        kind = STORED.get(name) if isinstance(name, str) else None
        if kind is None or not is_state(kind):
            raise ValueError(f"there is no state {name!r}")
        declared, own = declarations(kind), Sizes()
        fields = mapping(node["fields"])
        if unknown := set(fields) - set(declared):
            raise ValueError(f"{name} has no fields {sorted(unknown)}")
        values = {}
        for field, what in declared.items():  # in this order: sizes come before what needs them
            if field not in fields:
                continue  # one with a default, or the class will say that it is missing
            try:
                inside = Sizes() if "apart" in what.words else sizes
                values[field] = self._value(fields[field], what, inside, own)
            except ValueError as problem:
                raise ValueError(f"{name}.{field}: {problem}") from None
        state = kind(**values)
        try:
            if hasattr(state, "check"):
                state.check(sizes)
        except ValueError as problem:
            raise ValueError(f"{name}: {problem}") from None
        return state

    def _value(
        self, node: Any, what: Declaration | None = None, sizes: Any = None, own: Any = None
    ) -> Any:
        """A value, as declared; parameters of parts are not: whoever takes one has to look at it.

        ``sizes`` are the numbers that names of dimensions stand for, in the model and in this
        state.
        """
        if not isinstance(node, dict) or "float" in node:
            value = scalar(node)
            if what is not None:
                check_scalar(what, value, sizes)
            return value
        if "tuple" in node:
            require_keys(node, "tuple")
            items, each = node["tuple"], None if what is None else what.items
            if not isinstance(items, list):
                raise ValueError("a tuple that is none")
            if what is not None and each is None:
                raise ValueError(f"a tuple in the place of {what}")
            declared = each if isinstance(each, tuple) else (each,) * len(items)
            if len(declared) != len(items):
                raise ValueError(f"{len(items)} values in the place of {what}")
            pairs = zip(items, declared, strict=True)
            return tuple(self._value(item, one, sizes, own) for item, one in pairs)
        if "tensor" in node or "csr" in node:
            array = self._array(node) if "tensor" in node else self._csr(node)
            if what is not None:
                check_array(what, array, sizes, own)
            return array
        if what is None or "part" in node:
            value = self._part(node)
        else:
            value = self._state(node, sizes)
        if what is not None and not what.allows(value):
            raise ValueError(f"a {type(value).__name__} in the place of {what}")
        return value


def scalar(node: Any) -> Any:
    """A number, a text, a boolean or nothing."""
    if isinstance(node, dict):
        require_keys(node, "float")
        if node["float"] not in ("nan", "inf", "-inf"):
            raise ValueError(f"{node['float']!r} is no number")
        return float(node["float"])
    if isinstance(node, list):
        raise ValueError("a list in the place of a value")
    if isinstance(node, float) and not math.isfinite(node):
        raise ValueError("a number that JSON does not have")
    return node


def mapping(node: Any) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(node, dict):
        raise ValueError(f"{node!r} in the place of an object")
    return node


def require_keys(node: Any, *keys: str) -> None:
    """Raise unless an object has these keys and no others."""
    if not isinstance(node, dict) or set(node) != set(keys):
        raise ValueError(f"an object with the keys {sorted(mapping(node))}, not {sorted(keys)}")
