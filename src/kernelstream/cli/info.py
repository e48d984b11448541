"""Command ``info``: parameters, explained variance, certificate, origin of a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from kernelstream import kernels, papers
from kernelstream.cli.arguments import InfoArguments
from kernelstream.cli.check import column_facts, column_table
from kernelstream.cli.modelfile import (
    Stored,
    holds_monitor,
    monitor_in,
    open_file,
    predicts,
    stored_in,
)
from kernelstream.cli.prediction import score_line
from kernelstream.cli.terminal import Screen, facts_table
from kernelstream.estimators import KernelEstimator
from kernelstream.plot.drawing import short_numbers
from kernelstream.serialization import ModelFile
from kernelstream.stream import Stream


def info(given: InfoArguments, screen: Screen) -> None:
    """Describe a model."""
    model = given.model
    file = open_file(model)
    if holds_monitor(file):
        show_monitor(file, model, screen)
        return
    stored = stored_in(file, model, any_kind=True, half_done=True)
    if not isinstance(stored.estimator, KernelEstimator):
        show_other(stored, model, screen)
        return
    facts = facts_of(stored, model)
    shown = [facts_table(summary(facts), title=str(model))]
    shown += [] if stored.schema is None else [column_table(stored.schema, "Columns")]
    if not predicts(stored.estimator):
        rows = stored.stream.certificate.rows()
        shown += [
            component_table(facts, given.components),
            facts_table(rows, title="Certificate: batch kernel PCA of all rows seen"),
        ]
    screen.result(facts, *shown)


def file_facts(path: Path, kind: str, release: str) -> dict[str, Any]:
    """What a file is, whatever it holds."""
    return {
        "path": str(path),
        "bytes": path.stat().st_size,
        "kind": kind,
        "format_version": ModelFile.version,
        "release": release,
    }


def file_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The same for people."""
    version = facts["format_version"]
    return [
        ("model", f"{facts['kind']}, {facts['bytes'] / 1e6:.1f} MB"),
        ("file", f"format version {version}, written by kernelstream {facts['release']}"),
    ]


def show_other(stored: Stored, path: Path, screen: Screen) -> None:
    """A model that is used in Python: of images, or of what else has no certificate."""
    kind = type(stored.estimator).__name__
    facts = {
        **file_facts(path, kind, stored.release),
        "parameters": {
            name: str(value) for name, value in stored.estimator.get_params(deep=False).items()
        },
        "rows_seen": stored.stream.n_rows,
    }
    shown = [*file_rows(facts), ("rows seen", f"{facts['rows_seen']:,}")]
    shown += [(name, value) for name, value in facts["parameters"].items() if value != "None"]
    screen.result(facts, facts_table(shown, title=str(path)))


def show_monitor(file: ModelFile, path: Path, screen: Screen) -> None:
    """What a monitor watches, and its limits."""
    monitor = monitor_in(file, path)
    names = getattr(monitor, "feature_names_in_", None)
    facts = {
        **file_facts(path, "KernelMonitor", file.release),
        "parameters": {name: str(value) for name, value in monitor.get_params(deep=False).items()},
        "features": int(monitor.n_features_in_),
        "feature_names": None if names is None else list(map(str, names)),
        "rows_followed": int(monitor.n_samples_seen_),
        "limits": {name: str(value) for name, value in monitor.limits_.items()},
        "events": len(monitor.events_),
    }
    shown = [
        *file_rows(facts),
        ("features", str(facts["features"])),
        ("alpha", str(monitor.alpha)),
        ("rows followed", f"{facts['rows_followed']:,}"),
        ("events", str(facts["events"])),
    ]
    screen.result(facts, facts_table(shown, title=str(path)))


def source_of(estimator: Any, tracker: Any) -> dict[str, str | None]:
    """The text that a method is from, and its equations."""
    linear = isinstance(estimator.kernel_, kernels.Linear)
    if hasattr(estimator, "paper") or not (linear and isinstance(tracker, papers.Hebbian)):
        return {name: getattr(estimator, name, None) for name in ("paper", "equations")}
    return {
        "paper": "Oja 1982, A simplified neuron model as a principal component analyzer",
        "equations": "w + η y (x - y w); for several components Sanger's rule",
    }


def facts_of(stored: Stored, path: Path) -> dict[str, Any]:
    """Everything about a model, for machines."""
    estimator, stream = stored.estimator, stored.stream
    certificate, shown = stored.stream.certificate, stored.components
    finite = np.isfinite(certificate.details.eigenvalue_intervals).all()
    weight = shown.weight
    return {
        **file_facts(path, type(estimator).__name__, stored.release),
        "kernel": str(estimator.kernel_),
        "basis": str(stream.chain.basis),
        "tracker": str(stream.chain.tracker),
        **source_of(estimator, stream.chain.tracker),
        "points": len(getattr(estimator, "basis_points_", ())),
        "dtype": stream.dtype,
        "standardized": is_standardised(stream.scaler),
        "filled": stream.fills,
        "target": target_facts(stored),
        "features": estimator.n_features_in_,
        "feature_names": stored.names,
        "columns": None if stored.schema is None else column_facts(stored.schema),
        "rows_seen": estimator.n_samples_seen_,
        "weight": weight,
        "history": [
            {k: v for k, v in entry.items() if k not in ("identity", "sizes")}
            for entry in stored.origin.get("history", [])
        ],
        "checkpoint": None if stored.progress is None else stored.progress["place"],
        "explained_variance": shown.variances.tolist(),
        "explained_variance_ratio": shown.explained_variance_ratio.tolist(),
        "certificate": {
            "useful": certificate.details.useful,
            "reason": certificate.details.reason,
            "variance_intervals": (certificate.details.eigenvalue_intervals / weight).tolist()
            if finite
            else None,
            "best_explained_variance_ratio_interval": list(
                certificate.best_explained_variance_ratio_interval
            ),
            "reconstruction_error": certificate.details.reconstruction_error if finite else None,
            "excess_bound": certificate.details.excess_bound if finite else None,
            "angle_bound": certificate.details.angle_bound,
            "statistical": statement_facts(stream),
        },
    }


def target_facts(stored: Stored) -> dict[str, Any] | None:
    """What a model predicts and how well, for machines; None where it predicts nothing."""
    target = stored.target
    if target is None:
        return None
    judged = stored.origin["target"].get("judged")
    return {
        "name": target.name,
        "classes": target.classes.tolist() if target.is_class else None,
        "words": str(target),
        "judged": judged if isinstance(judged, dict) and "rows_judged" in judged else None,
    }


def is_standardised(scaler: Any) -> bool:
    """Whether a scaling changes anything."""
    deviation = getattr(scaler, "deviation", None)
    return scaler is not None and (deviation is None or bool(np.any(deviation != 1.0)))


def statement_facts(stream: Stream) -> dict[str, Any]:
    """What a sample of the rows says, for machines."""
    said = stream.certificate.statistical
    known = said.reason is None
    return {
        "reason": said.reason,
        "confidence": said.confidence if known else None,
        "rows_sampled": said.n_sampled,
        "complete": said.complete,
        "reconstruction_error_interval": list(said.reconstruction_error_interval)
        if known
        else None,
        "explained_variance_ratio_interval": list(said.explained_variance_ratio_interval)
        if known
        else None,
        "best_explained_variance_ratio_interval": list(said.best_explained_variance_ratio_interval)
        if known
        else None,
        "shortfall_bound": said.shortfall_bound if known else None,
        "excess_bound": said.excess_bound if known else None,
    }


def summary(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts that people want first."""
    names = facts["feature_names"]
    shown = "" if names is None else ": " + ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
    rows = [
        *file_rows(facts),
        ("rows seen", f"{facts['rows_seen']:,}"),
        ("features", f"{facts['features']}{shown} ({facts['dtype']})"),
        ("kernel", short_numbers(facts["kernel"])),
        ("basis", f"{facts['points']} points, {facts['basis']}"),
        ("tracker", facts["tracker"]),
    ]
    if facts["target"] is not None:
        rows[2:2] = [("target", facts["target"]["words"])]
        if facts["target"]["judged"]:
            rows[3:3] = [score_line(facts["target"]["judged"])]
    if facts["paper"] is not None:
        rows[2:2] = [("paper", facts["paper"]), ("equations", facts["equations"])]
    if facts["standardized"]:
        rows.append(("standardized", "with mean and deviation of a sample of rows"))
    if facts["filled"]:
        rows.append(("missing values", "filled by the model; all here is of filled rows"))
    for entry in facts["history"]:
        sources = entry["sources"]
        more = f" and {len(sources) - 3} more" if len(sources) > 3 else ""
        bad = f", {entry['bad_rows']:,} bad rows passed over" if entry["bad_rows"] else ""
        listed = ", ".join(sources[:3]) + more
        rows.append(("learned", f"{entry['rows']:,} rows of {listed}{bad}"))
    if facts["checkpoint"] is not None:
        rows.append(("state", "a checkpoint: go on with fit … --resume"))
    return rows


def component_table(facts: dict[str, Any], limit: int) -> Table:
    """Variances, shares and certified intervals."""
    table = Table(title="Components", title_style="bold", title_justify="left", box=None)
    for name in ("", "variance", "share", "together", "exact variance is certainly in"):
        table.add_column(name, justify="right")
    shares, intervals = (
        facts["explained_variance_ratio"],
        facts["certificate"]["variance_intervals"],
    )
    for i, variance in enumerate(facts["explained_variance"][:limit]):
        interval = f"{intervals[i][0]:.4g} … {intervals[i][1]:.4g}" if intervals else "–"
        together = sum(shares[: i + 1])
        table.add_row(
            str(i + 1), f"{variance:.4g}", f"{shares[i]:.1%}", f"{together:.1%}", interval
        )
    if len(shares) > limit:
        table.add_row("…", "", "", f"{sum(shares):.1%}", f"{len(shares) - limit} more")
    return table
