"""Command ``info``: parameters, explained variance, certificate, origin of a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from kernelstream.cli.arguments import InfoArguments
from kernelstream.cli.check import column_facts, column_table
from kernelstream.cli.modelfile import Stored, read
from kernelstream.cli.prediction import score_line
from kernelstream.cli.terminal import Screen, facts_table, headed_table
from kernelstream.estimators import KernelEstimator
from kernelstream.plot.drawing import short_numbers
from kernelstream.serialization import ModelFile
from kernelstream.tables.schema import few


def info(given: InfoArguments, screen: Screen) -> None:
    """Describe a model."""
    path = given.model
    stored = read(path, half_done=True)
    facts = facts_of(stored, path)
    shown = [facts_table(summary(facts), title=str(path))]
    if stored.schema is not None:
        shown.append(column_table(stored.schema, "Columns"))
    if "certificate" in facts and stored.kind != "prediction":
        rows = stored.stream.certificate.rows()
        shown += [
            component_table(facts, given.components),
            facts_table(rows, title="Certificate: batch kernel PCA of all rows seen"),
        ]
    screen.result(facts, *shown)


# -- facts for machines


def facts_of(stored: Stored, path: Path) -> dict[str, Any]:
    """Everything about a model."""
    estimator = stored.estimator
    facts = {
        "path": str(path),
        "bytes": path.stat().st_size,
        "kind": type(estimator).__name__,
        "format_version": ModelFile.version,
        "release": stored.release,
        "parameters": {
            name: str(value) for name, value in estimator.get_params(deep=False).items()
        },
        "features": estimator.n_features_in_,
        "feature_names": stored.names,
    }
    if isinstance(estimator, KernelEstimator):
        return facts | stream_facts(stored)
    if stored.kind == "monitor":
        return facts | {"rows_seen": estimator.n_samples_seen_, "events": len(estimator.events_)}
    return facts | {"rows_seen": stored.stream.n_rows}


def stream_facts(stored: Stored) -> dict[str, Any]:
    """What a kernel estimator has learned, and from which rows."""
    estimator, stream, components = stored.estimator, stored.stream, stored.components
    deviation = getattr(stream.scaler, "deviation", 0.0)  # other scalings change every column
    details, statistical = stream.certificate.details, stream.certificate.statistical
    return {
        "kernel": str(estimator.kernel_),
        "basis": str(stream.chain.basis),
        "tracker": str(stream.chain.tracker),
        "paper": getattr(estimator, "paper", None),
        "equations": getattr(estimator, "equations", None),
        "points": len(getattr(estimator, "basis_points_", ())),
        "dtype": stream.dtype,
        "standardized": stream.scaler is not None and bool(np.any(deviation != 1.0)),
        "filled": stream.fills,
        "target": target_facts(stored),
        "columns": None if stored.schema is None else column_facts(stored.schema),
        "rows_seen": estimator.n_samples_seen_,
        "weight": components.weight,
        "history": [
            {k: v for k, v in entry.items() if k not in ("identity", "sizes")}
            for entry in stored.origin.get("history", [])
        ],
        "checkpoint": None if stored.progress is None else stored.progress["place"],
        "explained_variance": components.variances,
        "explained_variance_ratio": components.explained_variance_ratio,
        "certificate": {
            **vars(details),
            "useful": details.useful,
            "variance_intervals": details.eigenvalue_intervals / (components.weight or np.nan),
            "statistical": vars(statistical),
        },
    }


def target_facts(stored: Stored) -> dict[str, Any] | None:
    """What a model predicts and how well; None where it predicts nothing."""
    target = stored.target
    if target is None:
        return None
    return {
        "name": target.name,
        "classes": target.classes if target.is_class else None,
        "words": str(target),
        "judged": stored.origin["target"].get("judged"),
    }


# -- the same for people


def summary(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts that people want first."""
    names = facts["feature_names"]
    listed = "" if names is None else f": {few(names)}"
    release = f"format version {facts['format_version']}, written by kernelstream"
    rows = [
        ("model", f"{facts['kind']}, {facts['bytes'] / 1e6:.1f} MB"),
        ("file", f"{release} {facts['release']}"),
        ("rows seen", f"{facts['rows_seen']:,}"),
        ("features", f"{facts['features']}{listed}"),
    ]
    if "kernel" in facts:
        return rows + learned_rows(facts)
    if "events" in facts:
        rows.append(("events", str(facts["events"])))
    return rows + [(k, v) for k, v in facts["parameters"].items() if v != "None"]


def learned_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """What a kernel estimator has learned."""
    rows = []
    if facts["target"] is not None:
        rows.append(("target", facts["target"]["words"]))
        if facts["target"]["judged"]:
            rows.append(score_line(facts["target"]["judged"]))
    if facts["paper"] is not None:
        rows += [("paper", facts["paper"]), ("equations", facts["equations"])]
    rows += [
        ("type of the rows", facts["dtype"]),
        ("kernel", short_numbers(facts["kernel"])),
        ("basis", f"{facts['points']} points, {facts['basis']}"),
        ("tracker", facts["tracker"]),
    ]
    if facts["standardized"]:
        rows.append(("standardized", "with mean and deviation of a sample of rows"))
    if facts["filled"]:
        rows.append(("missing values", "filled by the model; all here is of filled rows"))
    rows += history_rows(facts["history"])
    if facts["checkpoint"] is not None:
        rows.append(("state", "a checkpoint: go on with fit … --resume"))
    return rows


def history_rows(history: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The rows that were learned, and where they came from."""
    rows = []
    for entry in history:
        bad = f", {entry['bad_rows']:,} bad rows passed over" if entry["bad_rows"] else ""
        rows.append(("learned", f"{entry['rows']:,} rows of {few(entry['sources'], 3)}{bad}"))
    return rows


def component_table(facts: dict[str, Any], limit: int) -> Table:
    """Variances, their fractions of the whole, and certified intervals."""
    names = ("", "variance", "share", "together", "exact variance is certainly in")
    table = headed_table("Components", names)
    shares, certificate = facts["explained_variance_ratio"], facts["certificate"]
    together = np.cumsum(shares)
    for i, variance in enumerate(facts["explained_variance"][:limit]):
        low, high = certificate["variance_intervals"][i]
        interval = f"{low:.4g} … {high:.4g}" if np.isfinite(high) else "–"
        cells = f"{variance:.4g}", f"{shares[i]:.1%}", f"{together[i]:.1%}", interval
        table.add_row(str(i + 1), *cells)
    if len(shares) > limit:
        table.add_row("…", "", "", f"{together[-1]:.1%}", f"{len(shares) - limit} more")
    return table
