"""Migrations of model files from earlier format versions.

A file says which version it has. ``MIGRATIONS`` has a function from the tree of each version to
that of the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

VERSION = 2


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


def tensors_named(node: Any) -> set[str]:
    """The tensors that a tree names: a migration may leave some of them behind."""
    if isinstance(node, list):
        return set().union(*map(tensors_named, node))
    if not isinstance(node, dict):
        return set()
    here = {str(node["tensor"])} if "tensor" in node else set()
    if "csr" in node:
        here |= {f"{node['csr']}.{part}" for part in ("data", "indices", "indptr")}
    return here.union(*map(tensors_named, node.values()))


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
        part = parts.get(node["part"], node["part"])
        # Patches were learned in positions that were drawn.
        added = {"upright": False} if part == "images.PatchFeatures" else {}
        return node | {"part": part, "params": node["params"] | added}
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
    if name == "Parts":
        fields["early_signs"] = False  # signs of models that wait were those of their points
        fields["shown"] = 0  # all components that were learned
        fields["robust"] = False
        fields["auto"] = {"tuple": []}
        fields["only_points"] = False
    if name == "CentroidsState":
        kept = ("span", "n", "residual", "variance", "reference", "unit", "growth")
        cells = {"mass": fields["mass"], "sums": fields["sums"]}
        fields = {field: fields[field] for field in kept} | {
            "sample": fields["reservoir"],
            "wanted": 0,
            "looked_at": fields["refreshed_at"],
            "next_look": fields["next_refresh"],
            "spent": 0.0,
            "missed": 0.0,
            "weight": 0.0,
            "carried": True,
            "cells": {"state": "Cells", "fields": cells},
        }
    if name == "FixedState":
        fields["older"] = None  # no model was compressed
    if name == "Model":
        _tell_components(fields["parts"]["fields"], fields["state"])
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


def _tell_components(chain: dict[str, Any], state: dict[str, Any] | None) -> None:
    """Centroids know how many components they are placed for."""
    basis = None if state is None else state["fields"]["basis"]
    if basis is not None and basis["state"] == "CentroidsState":
        r = chain["n_components"]
        basis["fields"]["wanted"] = (
            r if isinstance(r, int) else chain["basis"]["params"]["n_points"]
        )


MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_version_1}
