"""Write the golden files: a small model of every kind, as a file and with its answers.

    python -m tests.golden.write                        # what is missing
    python -m tests.golden.write --only tracker_rls     # nothing but this one, if it is missing
    python -m tests.golden.write --only tracker_rls --anew

Each case of ``CASES`` has two files in ``tests/golden/files``:

``<case>.safetensors``
    the model, as ``save`` or the command line writes it;
``<case>.json``
    fitted attributes and answers of the model that is loaded from that file (``loaded/…``), and of
    the same model after further rows (``continued/…``).

A file that is there is left as it is, unless ``--anew`` is given. ``test_golden.py`` reads the
files; CONTRIBUTING.md says when they are written anew.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from sklearn.base import clone, is_classifier
from threadpoolctl import threadpool_limits

from kernelstream import (
    KernelMonitor,
    KernelNovelty,
    KernelPCA,
    StreamingKernelClassifier,
    StreamingKernelPCA,
    StreamingKernelRidge,
    kernels,
    landmarks,
    load,
    papers,
    preimages,
    tables,
    trackers,
)
from kernelstream.images import Denoiser, SuperResolver
from kernelstream.papers import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    KernelHebbianPCA,
    OnlineKernelPCA,
    schedules,
)

Arrays = dict[str, np.ndarray]

HERE = Path(__file__).parent
FOLDER = HERE / "files"
COMMAND = "python -m tests.golden.write"
N_QUERIES = 3
NAMES = ("a", "b", "ä ö")
CUTS = (1, 7, 19, 40)  # rows of the first calls: odd, so that blocks end inside of them

# --- rows


def rows(n: int, seed: int = 0) -> np.ndarray:
    """Rows on a curved sheet; those of a shorter call are the first ones of a longer."""
    X = np.random.default_rng(seed).normal(size=(n, 3)) * [1.5, 1.0, 0.6]
    X[:, 2] += 0.4 * X[:, 0] * X[:, 0]  # products only: no function that libraries round apart
    return X


def as_kind(X: np.ndarray, kind: str) -> Any:
    """Rows as the caller holds them: an array, single precision, sparse, a data frame."""
    if kind == "frame":
        return pd.DataFrame(X, columns=list(NAMES))
    if kind == "units":  # columns whose scales differ
        return X * [1.0, 100.0, 0.01]
    if kind == "csr":
        return scipy.sparse.csr_matrix(np.where(X > 0, X, 0.0))
    return X.astype(kind)


def targets_of(X: np.ndarray, kind: str | None) -> Any:
    """Targets for regressions and classifiers."""
    value = X[:, 0] - 0.5 * X[:, 1] * X[:, 2]
    if kind == "classes":
        return np.array(["low", "middle", "high"])[(value > -1.0).astype(int) + (value > 1.0)]
    return value if kind == "numbers" else None


@dataclass(frozen=True)
class Table:
    """Rows with their targets and weights, if they have any."""

    X: Any
    y: Any = None
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __getitem__(self, where: slice) -> Table:
        y, weights = (None if v is None else v[where] for v in (self.y, self.weights))
        X = self.X.iloc[where] if isinstance(self.X, pd.DataFrame) else self.X[where]
        return Table(X, y, weights)

    @property
    def plain(self) -> bool:
        """Whether single rows can be given as arrays."""
        return isinstance(self.X, np.ndarray)

    def others(self) -> dict[str, Any]:
        """Targets and weights, as a call that learns takes them."""
        given = {"y": self.y, "sample_weight": self.weights}
        return {name: value for name, value in given.items() if value is not None}


def pieces(n: int) -> Iterator[slice]:
    """Cut n rows into calls."""
    start = 0
    for size in CUTS:
        if start < n:
            yield slice(start, min(start + size, n))
        start += size
    if start < n:
        yield slice(start, n)


# --- ways to learn


def fit(model: Any, table: Table) -> Any:
    """Learn all rows at once."""
    return model.fit(table.X, **table.others())


def stream(model: Any, table: Table) -> Any:
    """Learn call by call."""
    for piece in pieces(len(table)):
        part = table[piece]
        classes = {"classes": ["high", "low", "middle"]} if is_classifier(model) else {}
        model.partial_fit(part.X, **part.others(), **classes)
    return model


def one_by_one(model: Any, table: Table) -> Any:
    """Learn row by row."""
    for i, x in enumerate(table.X):
        model.learn_one(x, *(() if table.y is None else (table.y[i],)))
    return model


def fit_then_stream(model: Any, table: Table) -> Any:
    """Fit all rows but ten, then buffer these ten."""
    return stream(fit(model, table[: len(table) - 10]), table[len(table) - 10 :])


def compressed(model: Any, table: Table) -> Any:
    """Compress a model to three landmarks."""
    return stream(model, table).compress(3)


def drawn(model: Any, table: Table) -> Any:
    """Fit a random sample of the rows, until the captured variance is known well enough."""
    model.fit(table.X, until=0.5)
    # without the sample of 8,192 rows, which would be most of the file
    state = model.stream_.begun
    assert state.observer is not None
    unsampled = replace(state, observer=replace(state.observer, sample=None))
    model.set_stream(model.stream_.with_state(unsampled))
    return model


def further(model: Any, table: Table) -> Any:
    """Learn further rows in calls of odd sizes, plain arrays at the end one by one."""
    last = 3 if isinstance(table.X, np.ndarray) and table.weights is None else 0
    model = stream(model, table[: len(table) - last])
    return one_by_one(model, table[len(table) - last :]) if last else model


# --- answers

ATTRIBUTES = (
    "n_samples_seen_",
    "n_features_in_",
    "feature_names_in_",
    "n_components_",
    "explained_variance_",
    "explained_variance_ratio_",
    "eigenvalues_",
    "basis_points_",
    "dual_coef_",
    "mean_coef_",
    "intercept_",
    "n_shortened_steps_",
    "n_epochs_",
    "converged_",
    "classes_",
    "alpha_",
    "target_coef_",
    "target_intercept_",
    "n_images_seen_",
    "noise_variance_",
    "offset_",
    "lags_",
    "width_",
    "ridge_",
    "whiten_",
    "constant_features_",
)

METHODS = ("transform", "reconstruction_error", "predict", "decision_function", "p_values")


def plain_array(value: Any) -> np.ndarray:
    """An array that a file holds without pickle."""
    found = np.asarray(value)
    return found.astype(str) if found.dtype == object else found


def attributes(model: Any) -> Arrays:
    """Fitted attributes that a model has."""
    return {n: plain_array(getattr(model, n)) for n in ATTRIBUTES if hasattr(model, n)}


def parameters(model: Any) -> Arrays:
    """Parameters in words: numbers and names as they are, parts by their kind."""
    simple = (str, int, float, bool, type(None))
    shown = {
        name: repr(value) if isinstance(value, simple) else type(value).__name__
        for name, value in model.get_params(deep=False).items()
    }
    lines = [f"{name}={text}" for name, text in sorted(shown.items())]
    return {"estimator": np.array(type(model).__name__), "parameters": np.array(lines)}


def condition(model: Any) -> np.ndarray:
    """How much scores and coefficients amplify rounding.

    That is the norm of the factor of the landmarks' Gram matrix, times the largest eigenvalue over
    the smallest gap between those that are shown and the next one.
    """
    model = getattr(model, "estimator_", model)  # of a model of tables
    chain, state = model.stream_.settled.chain, model.stream_.settled.begun
    values = chain.tracker.components(state.tracker, state.moments, chain.center)[0]
    shown = chain.shown or len(getattr(model, "explained_variance_", values))
    leading = np.append(np.asarray(values)[: shown + 1], 0.0)[: shown + 1]
    gap = max(float(np.min(-np.diff(leading))) / max(leading[0], 1e-300), 1e-6)
    span = state.basis.span
    return np.array(np.linalg.norm(span.factor, 2) / gap)


def certificate(model: Any) -> Arrays:
    """Bounds of the certificate."""
    found = model.certificate_.details
    if not np.isfinite(found.reconstruction_error):
        return {"certificate.useful": np.array(found.useful)}
    angle = np.nan if found.angle_bound is None else found.angle_bound
    return {
        "certificate.eigenvalue_intervals": found.eigenvalue_intervals,
        "certificate.ratio": np.array(found.best_explained_variance_ratio_interval),
        # Together, because the last is the difference of the first two and rounds as they do.
        "certificate.errors": np.array(
            [
                found.reconstruction_error,
                found.reconstruction_error_lower_bound,
                found.excess_bound,
            ]
        ),
        "certificate.angle": np.array(angle),
        "certificate.components": found.component_bounds,
        "certificate.useful": np.array(found.useful),
    }


def of_components(model: Any, queries: Any) -> Arrays:
    """Scores, reconstruction errors, pre-images, predictions."""
    found = {"condition": condition(model)}
    found |= certificate(model) if hasattr(model, "certificate_") else {}
    for method in METHODS:
        if hasattr(model, method):
            found[method] = plain_array(getattr(model, method)(queries))
    if hasattr(model, "transform_one") and isinstance(queries, np.ndarray):
        found["transform_one"] = np.stack([model.transform_one(x) for x in queries])
    if hasattr(model, "basis_points_") and hasattr(model, "inverse_transform"):
        found["inverse_transform"] = model.inverse_transform(found["transform"])
    return found


def of_monitor(model: KernelMonitor, queries: Any) -> Arrays:
    """Scores, contributions, limits and events; at last the records of the next rows."""
    limits: dict[str, Any] = dict(model.limits_)
    levels = [limits[name] for name in ("index", "smoothed", "lasting", "t2", "spe")]
    events = [*model.events_, *([] if model.event_ is None else [model.event_])]
    causes = [model.event_contributions(event) for event in events]
    found = {
        "score_samples": model.score_samples(queries),
        "decision_function": model.decision_function(queries),
        "predict": model.predict(queries),
        # Whichever of its two directions a component has.
        "component_scores": np.abs(model.component_scores(queries)[:, :2]),
        "contributions": model.contributions(queries).values,
        "contributions.sizes": model.contributions(queries).sizes,
        "limits": np.array([sorted(level.values()) for level in levels]),
        "limits.event": np.array(limits["event"]),
        "events": np.array([[e.id, e.first_row, e.last_row, e.n_rows] for e in events], dtype=int),
        "events.times": np.array([[str(e.first_time), str(e.last_time)] for e in events]),
        "events.known": np.array([[e.acknowledged, e.accepted] for e in events]),
        "events.peak": np.array([e.peak for e in events]),
        "events.causes": np.array([cause.values for cause in causes]),
        **drift("drift", model.drift_),
    }
    return {**found, **records(model, queries)}


def drift(name: str, found: Any) -> Arrays:
    """Location and scale of normal operation."""
    return {
        f"{name}.centre": found.centre,
        f"{name}.scale": found.scale,
        f"{name}.overlap": np.array([found.overlap, found.novelty]),
        f"{name}.rows": np.array(found.rows),
    }


def records(model: KernelMonitor, queries: Any) -> Arrays:
    """Records of the next rows of the stream, from which the monitor learns."""
    made = model.update_many(queries)
    numbers = ("index", "smoothed", "lasting", "t2", "spe", "limit", "event_limit", "p_value")
    verdicts = ("row", "alarm", "acknowledged", "learned")
    found = {f"records.{name}": made.column(name) for name in (*numbers, *verdicts)}
    found["records.event"] = np.array([record.event or 0 for record in made])
    found["records.missing"] = np.array([" ".join(record.missing) for record in made])
    return found


# --- kinds of cases


class Case:
    """A model file: how it is made, how its model continues, and its answers."""

    #: Answers that are copied and never computed: equal on every processor.
    exact: tuple[str, ...] = ()
    #: Whether answers are computed in single precision, whatever type they have.
    single: bool = False

    def write(self, path: Path) -> None:
        """Write the model."""
        raise NotImplementedError

    def proceed(self, before: Path, after: Path) -> None:
        """Load a model, let it learn further rows, always the same, and save it."""
        raise NotImplementedError

    def ask(self, path: Path) -> Arrays:
        """Answers of the model in a file."""
        raise NotImplementedError


@dataclass(frozen=True)
class Learned(Case):
    """An estimator and its rows."""

    model: Any
    n: int = 58  # rows before it is saved
    more: int = 40  # rows that it learns once it was loaded
    how: Callable[[Any, Table], Any] = stream
    kind: str = "float64"
    targets: str | None = None
    weighted: bool = False
    exact: tuple[str, ...] = ()
    single: bool = False

    def table(self) -> Table:
        """All rows: those before the file, those after, those of the queries."""
        n = self.n + self.more + N_QUERIES
        weights = np.random.default_rng(1).uniform(0.2, 3.0, size=n) if self.weighted else None
        X = rows(n)
        return Table(as_kind(X, self.kind), targets_of(X, self.targets), weights)

    def write(self, path: Path) -> None:
        self.how(clone(self.model), self.table()[: self.n]).save(path)

    def proceed(self, before: Path, after: Path) -> None:
        further(load(before), self.table()[self.n : self.n + self.more]).save(after)

    def ask(self, path: Path) -> Arrays:
        model, queries = load(path), self.table()[-N_QUERIES:].X
        return {**parameters(model), **attributes(model), **of_components(model, queries)}


def normal_rows(n: int, kind: str) -> Any:
    """Rows of a process, some of them with missing values."""
    X = rows(n, seed=2)
    if kind == "frame":
        X[::9, 1] = np.nan
        stamps = [f"2024-03-01 {i // 60:02}:{i % 60:02}" for i in range(n)]
        return pd.DataFrame(X, columns=list(NAMES), index=stamps)
    return X


@dataclass(frozen=True)
class Monitored(Case):
    """A monitor: rows of normal operation, a stream of them, perhaps a fault at its end."""

    model: KernelMonitor
    n: int = 36  # rows of normal operation
    quiet: int = 0  # rows of the stream before it is saved
    faulty: int = 0  # rows of a fault after them
    more: int = 40  # rows of the stream once it was loaded
    kind: str = "float64"
    calibrated: bool = False
    then: Callable[[KernelMonitor], Any] = lambda monitor: None  # before it is saved

    def rows(self) -> Any:
        """All rows, the fault among them."""
        end = self.n + self.quiet + self.faulty
        X = normal_rows(end + self.more + N_QUERIES, self.kind)
        fault = slice(end - self.faulty, end)
        if isinstance(X, pd.DataFrame):
            X.iloc[fault, 0] += 4.0
            X.iloc[fault, 2] = 0.0  # a sensor that stands still
        else:
            X[fault, 0] += 4.0
        return X

    def write(self, path: Path) -> None:
        X, model = self.rows(), clone(self.model)
        run = rows(40, seed=3) if self.calibrated else None
        model.fit(X[: self.n], calibration=run)
        end = self.n + self.quiet + self.faulty
        if end > self.n:
            model.update_many(X[self.n : end])
        self.then(model)
        model.save(path)

    def proceed(self, before: Path, after: Path) -> None:
        model, X = load(before), self.rows()
        start = self.n + self.quiet + self.faulty
        X = X[start : start + self.more]
        for piece in pieces(len(X) - 3):
            model.update_many(X[piece])
        for i in range(len(X) - 3, len(X)):
            model.update(X.iloc[i] if isinstance(X, pd.DataFrame) else X[i])
        model.save(after)

    def ask(self, path: Path) -> Arrays:
        model, queries = load(path), self.rows()[-N_QUERIES:]
        return {**parameters(model), **attributes(model), **of_monitor(model, queries)}


def picture(seed: int, side: int = 18) -> np.ndarray:
    """An image: smooth blobs and edges."""
    rng = np.random.default_rng(seed)
    coarse = np.kron(rng.random((6, 6)), np.ones((3, 3)))
    return 0.8 * coarse[:side, :side] + 0.2 * rng.random((side, side))


def noisy(n: int, seed: int = 0) -> np.ndarray:
    """Images of 3 × 3 pixels under noise, in [0, 1]."""
    rng = np.random.default_rng(seed)
    clean = 0.3 + 0.4 * rng.random((n, 1, 1)) * rng.integers(0, 2, size=(n, 3, 1))
    return np.clip(clean + 0.1 * rng.normal(size=(n, 3, 3)), 0.0, 1.0)


@dataclass(frozen=True)
class Denoised(Case):
    """A denoiser of small images."""

    model: Denoiser
    n: int = 60
    how: str = "fit"

    def write(self, path: Path) -> None:
        model = clone(self.model)
        (model.fit if self.how == "fit" else model.partial_fit)(noisy(self.n)).save(path)

    def proceed(self, before: Path, after: Path) -> None:
        model = load(before)
        for piece in pieces(40):
            model.partial_fit(noisy(40, seed=1)[piece])
        model.save(after)

    def ask(self, path: Path) -> Arrays:
        model = load(path)
        found = {"transform": model.transform(noisy(N_QUERIES, seed=2))}
        return {**parameters(model), **attributes(model), **found}


@dataclass(frozen=True)
class Pictured(Case):
    """A model of the patches of images."""

    model: Any
    verb: str  # that makes an image of an image
    single: bool = False

    def write(self, path: Path) -> None:
        clone(self.model).fit([picture(0)]).save(path)

    def proceed(self, before: Path, after: Path) -> None:
        load(before).partial_fit(picture(1)).save(after)

    def ask(self, path: Path) -> Arrays:
        model = load(path)
        found = {self.verb: getattr(model, self.verb)(picture(2, side=9))}
        return {**parameters(model), **attributes(model), **found}


def frame(n: int, seed: int = 0) -> pd.DataFrame:
    """A table with numbers, missing values, and words."""
    X = rows(n, seed)
    X[::9, 1] = np.nan
    words = np.where(X[:, 0] > 1.0, "on", np.where(X[:, 0] < -1.0, "off", "idle"))
    return pd.DataFrame(X, columns=list(NAMES)).assign(state=words)


@dataclass(frozen=True)
class Tabled(Case):
    """A model of tables."""

    model: Any

    def write(self, path: Path) -> None:
        clone(self.model).fit(frame(60)).save(path)

    def proceed(self, before: Path, after: Path) -> None:
        model, table = load(before), frame(40, seed=1)
        for piece in pieces(40):
            model.partial_fit(table.iloc[piece])
        model.save(after)

    def ask(self, path: Path) -> Arrays:
        model, queries = load(path), frame(N_QUERIES, seed=2)
        scores = model.transform(queries)
        schema = np.array(model.encoder_.schema_.features)
        return {"schema": schema, "transform": scores, **attributes(model.estimator_)}


# --- the command line

SOURCES = ("first.csv", "second.csv")
PLACE = "/data"  # the folder of the sources that a golden checkpoint names


def command(folder: Path, *words: str) -> tuple[str, str]:
    """Run a command to its end, in this process, which costs no start: output and remarks."""
    from kernelstream.cli import main  # its packages may not be installed

    out, said, given, code = io.StringIO(), io.StringIO(), sys.argv, None
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(folder))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(said))
        stack.callback(setattr, sys, "argv", given)
        sys.argv = ["kernelstream", *words]
        try:
            main()
        except SystemExit as end:
            code = end.code
    if code:
        raise RuntimeError(f"kernelstream {' '.join(words)} failed: {said.getvalue()}")
    return out.getvalue(), said.getvalue()


def csv(X: np.ndarray) -> str:
    """Rows as text, with a column of weights; every digit is there."""
    weights = 0.5 + np.arange(len(X)) % 3
    lines = [
        ",".join(map(repr, [*x, w])) for x, w in zip(X.tolist(), weights.tolist(), strict=True)
    ]
    return "\n".join([",".join([*NAMES, "weight"]), *lines]) + "\n"


def edited(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """A model file with another progress: with its checksum."""
    (length,) = struct.unpack("<Q", data[:8])
    outer = json.loads(data[8 : 8 + length])
    header = json.loads(outer["__metadata__"]["kernelstream"])
    tree = json.loads(header["content"])
    progress = json.loads(tree["progress"])
    change(progress)
    tree["progress"] = json.dumps(progress, sort_keys=True)
    header |= {"content": json.dumps(tree, sort_keys=True), "checksum": "0" * 64}
    outer["__metadata__"]["kernelstream"] = json.dumps(header)
    text = json.dumps(outer, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    whole = struct.pack("<Q", len(text)) + text + data[8 + length :]
    return whole.replace(b"0" * 64, hashlib.sha256(whole).hexdigest().encode(), 1)


@dataclass(frozen=True)
class Command(Case):
    """A model of the command line: ``fit`` on one file, ``update`` with another."""

    options: tuple[str, ...]
    n: int = 60  # rows of the first file
    more: int = 45  # rows of the second

    def sources(self, folder: Path) -> None:
        """Write both files."""
        X = rows(self.n + self.more)
        for name, part in zip(SOURCES, (X[: self.n], X[self.n :]), strict=True):
            (folder / name).write_text(csv(part), encoding="utf-8")

    @property
    def fit(self) -> tuple[str, ...]:
        """The command, up to its sources."""
        return ("fit", "-o", "m.safetensors", "--weight-column", "weight", *self.options)

    def write(self, path: Path) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.sources(folder)
            command(folder, *self.fit, SOURCES[0])
            path.write_bytes((folder / "m.safetensors").read_bytes())

    def proceed(self, before: Path, after: Path) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.sources(folder)
            (folder / "m.safetensors").write_bytes(before.read_bytes())
            words = ("m.safetensors", SOURCES[1], "--weight-column", "weight")
            command(folder, "update", *words)
            after.write_bytes((folder / "m.safetensors").read_bytes())

    def ask(self, path: Path) -> Arrays:
        facts = json.loads(command(path.parent, "info", str(path.resolve()), "--json")[0])
        history = [
            f"{entry['sources']} {entry['rows']} {entry['bad_rows']} {entry['passes']}"
            for entry in facts["history"]
        ]
        place = facts["checkpoint"] or {}
        found = {
            "info.history": np.array(history, dtype=str),
            "info.place": np.array([f"{k}={v}" for k, v in sorted(place.items())], dtype=str),
            "info.names": np.array(facts["feature_names"]),
        }
        if place:  # the first of two passes, which has no components yet
            return found
        model, queries = load(path), as_kind(rows(N_QUERIES, seed=4), "frame")
        answers = {**parameters(model), **attributes(model), **of_components(model, queries)}
        return {**found, **answers}


@dataclass(frozen=True)
class Checkpoint(Command):
    """A checkpoint of ``fit`` on two files, the second of which ended it with an error."""

    def write(self, path: Path) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.sources(folder)
            second = folder / SOURCES[1]
            spoiled = second.read_text(encoding="utf-8")[:-4] + "x.0\n"  # the last weight
            size = second.stat().st_size
            second.write_text(spoiled, encoding="utf-8")
            assert second.stat().st_size == size
            with contextlib.suppress(RuntimeError):
                command(folder, *self.fit, "--checkpoint-every", "0s", *SOURCES)
            checkpoint = (folder / "m.safetensors.checkpoint").read_bytes()

        def elsewhere(progress: dict[str, Any]) -> None:  # the same wherever it is written
            for entry in progress["files"]:
                entry[0], entry[2] = f"{PLACE}/{Path(entry[0]).name}", 0

        path.write_bytes(edited(checkpoint, elsewhere))

    def proceed(self, before: Path, after: Path) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.sources(folder)

            def here(progress: dict[str, Any]) -> None:
                for entry in progress["files"]:
                    path = os.path.realpath(folder / Path(entry[0]).name)
                    stat = os.stat(path)
                    assert entry[1] == stat.st_size, "these are not the rows of the checkpoint"
                    entry[:] = [path, stat.st_size, stat.st_mtime_ns]

            checkpoint = folder / "m.safetensors.checkpoint"
            checkpoint.write_bytes(edited(before.read_bytes(), here))
            words = ("--checkpoint-every", "1h", "--resume")
            _, said = command(folder, *self.fit, *words, *SOURCES)
            assert "Going on after" in said, said
            after.write_bytes((folder / "m.safetensors").read_bytes())


# --- the cases


def pca(n_components: Any = 2, **options: Any) -> StreamingKernelPCA:
    """A small model; options replace those here."""
    chosen: dict[str, Any] = dict(gamma=0.3, basis=landmarks.Centroids(4), batch_size=16)
    chosen |= {"random_state": 0, **options}
    if not isinstance(chosen.get("kernel", "rbf"), str):
        del chosen["gamma"]  # it goes with a kernel's name
    return StreamingKernelPCA(n_components, **chosen)


def given(m: int = 4) -> landmarks.Landmarks:
    """Landmarks that never change."""
    return landmarks.Landmarks(rows(m, seed=9))


def tracked(tracker: Any, kernel: Any, preimage: Any = "auto", **options: Any) -> Case:
    """A model with given landmarks: nothing but the tracker learns, and the file is small."""
    parts = dict(tracker=tracker, kernel=kernel, preimage=preimage)
    return Learned(pca(basis=given(), certify=False, **parts, **options))


COPIED = ("basis_points_",)  # rows that became landmarks

LANDMARKS: dict[str, Case] = {
    "centroids": Learned(
        pca(certify="tight"), n=70, how=fit_then_stream, kind="frame", weighted=True
    ),
    "centroids_adaptive": Learned(pca(certify=False), n=530),
    "centroids_sparse_buffer": Learned(pca(), n=40, more=500, kind="csr"),
    "coherence": Learned(
        pca(
            basis=landmarks.Coherence(delta=0.3, max_points=6, first=3),
            kernel=kernels.RBF(gamma=0.3),
            preimage=preimages.Gradient(20, n_neighbours=3),
        ),
        exact=COPIED,
    ),
    "distance": Learned(pca(basis=landmarks.Distance(nu=0.3, max_points=5)), exact=COPIED),
    "everything": Learned(pca(basis=landmarks.Everything()), n=12, more=8, exact=COPIED),
    "given_landmarks": Learned(
        pca(
            basis=given(),
            kernel=kernels.Polynomial(degree=2, gamma="scale"),
            preimage=preimages.Ridge(0.05),
            scale="standard",
            robust=True,
        ),
        how=fit,
        exact=COPIED,
    ),
    "iterated_preimages": Learned(
        pca(basis=papers.IteratedPreimages(2), tracker=trackers.IncrementalSVD())
    ),
    "pivoted_cholesky": Learned(
        pca(basis=landmarks.PivotedCholesky(6), kernel=kernels.RBF(gamma=0.3)),
        how=fit,
        weighted=True,
        exact=COPIED,
    ),
    "reduced_set": Learned(
        pca(basis=landmarks.ReducedSet(6), tracker=trackers.IncrementalSVD(), scale="auto")
    ),
}

TRACKERS: dict[str, Case] = {
    "tracker_covariance": tracked(
        trackers.Covariance(forgetting=0.95), kernels.RBF(), preimages.FixedPoint(n_starts=2)
    ),
    "tracker_hebbian": tracked(
        papers.Hebbian(schedules.AutomaticRate(floor=0.01), forgetting=0.98),
        kernels.Laplacian(gamma=0.2),
        preimages.Ridge(0.05, source="points"),
    ),
    "tracker_incremental_svd": tracked(
        trackers.IncrementalSVD(forgetting=0.97),
        kernels.Exponential(gamma=0.4),
        preimages.Gradient(n_starts=2),
    ),
    "tracker_lms": tracked(
        papers.LMS(0.05), kernels.Matern(nu=2.5, length_scale=1.5), preimages.Gradient(max_iter=20)
    ),
    "tracker_recentred_hebbian": tracked(
        papers.RecentredHebbian(schedules.SearchThenConverge(0.3, 50.0, floor=0.01)),
        kernels.Normalised(kernels.Polynomial(degree=2, gamma=0.1)),
        "ridge",
    ),
    "tracker_rls": tracked(
        papers.RLS(0.95), kernels.Matern(nu=0.5, length_scale=2.0), preimages.Neighbours(3)
    ),
    "tracker_subset_hebbian": tracked(
        papers.SubsetHebbian(schedules.InverseTime(1.0, floor=0.01), weights=(1.0, 0.5)),
        kernels.On([0], kernels.RBF()) * kernels.On([1], kernels.Categorical(gamma=0.5)),
    ),
    "tracker_window": tracked(trackers.Window(20), kernels.Linear(), preimages.LinearMap()),
}

KERNELS: dict[str, Case] = {
    "kernel_composite": Learned(
        pca(
            basis=given(),
            tracker=papers.Hebbian(schedules.ConstantRate(0.05)),
            kernel=kernels.RBF(gamma=0.2) * 0.5 * kernels.Linear() + kernels.Laplacian(0.1) + 1.0,
        )
    ),
    # Three landmarks: the kernel is not positive semidefinite on more of them.
    "kernel_sigmoid": Learned(pca(basis=given(3), kernel=kernels.Sigmoid(gamma=0.01, coef0=0.0))),
}

SEEDED: dict[str, Any] = dict(gamma=0.3, batch_size=8, random_state=0)
SMALL: dict[str, Any] = dict(basis=4, n_directions=4, n_components=3, random_state=0)

ESTIMATORS: dict[str, Case] = {
    "adaptive_kernel_pca": Learned(
        AdaptiveKernelPCA(2, gamma=0.3, delta=0.3, method="rls", random_state=0)
    ),
    "classifier": Learned(
        StreamingKernelClassifier(basis=given(), **SEEDED), targets="classes", kind="frame"
    ),
    "compressed": Learned(pca(certify=False), n=2600, how=compressed),
    "drawn": Learned(pca(basis=given()), n=40_000, how=drawn),
    "incremental_kernel_pca": Learned(IncrementalKernelPCA(2, n_points=8, **SEEDED)),
    "kernel_hebbian_pca": Learned(
        KernelHebbianPCA(2, gamma=0.3, n_epochs=20, random_state=0), n=14, more=8, how=fit
    ),
    "kernel_hebbian_pca_stream": Learned(
        KernelHebbianPCA(2, center="paper", **SEEDED), n=14, more=8
    ),
    "kernel_novelty": Learned(KernelNovelty(0.1, basis=8, **SEEDED), n=70, how=fit),
    "kernel_pca": Learned(
        KernelPCA(2, kernel="rbf", gamma=0.3, fit_inverse_transform=True, basis=8, random_state=0),
        how=fit,
    ),
    "online_kernel_pca": Learned(OnlineKernelPCA(2, gamma=0.3, nu=0.5, tau=50, random_state=0)),
    "ridge": Learned(
        StreamingKernelRidge(basis=4, **SEEDED), n=70, targets="numbers", how=fit_then_stream
    ),
    "table_model": Tabled(tables.TableModel(pca(basis=6, certify=False, scale="auto"))),
    # images
    "denoiser": Denoised(Denoiser(0.01, width=0.3, **SMALL)),
    "super_resolver": Pictured(
        SuperResolver(2, 3, patches_per_image=6, random_state=0), "predict", single=True
    ),
}


def monitor(**options: Any) -> KernelMonitor:
    """A monitor whose choices are made, which learns in blocks of four rows."""
    chosen: dict[str, Any] = dict(width=100.0, ridge=0.1, whiten=True, basis=5, memory=40)
    return KernelMonitor(**{**chosen, "random_state": 0, **options})


MONITORS: dict[str, Case] = {
    "monitor": Monitored(monitor(alpha=0.05, smooth=None, lags=1), calibrated=True),
    "monitor_event": Monitored(monitor(), kind="frame", quiet=30, faulty=24),
    "monitor_accepted": Monitored(monitor(), quiet=30, faulty=12, then=KernelMonitor.accept),
}

FIT = ("--components", "2", "--basis", "4", "--gamma", "0.3")
COMMANDS: dict[str, Case] = {
    "command_fit": Command(FIT),
    "command_checkpoint": Checkpoint(FIT, n=60, more=500),
}

CASES: dict[str, Case] = {
    **LANDMARKS,
    **TRACKERS,
    **KERNELS,
    **ESTIMATORS,
    **MONITORS,
    **COMMANDS,
}


# --- writing


def paths(folder: Path, name: str) -> tuple[Path, Path]:
    """The model of a case, and its answers."""
    return folder / f"{name}.safetensors", folder / f"{name}.json"


def is_written(folder: Path, name: str) -> bool:
    """Whether both files of a case are there."""
    return all(path.exists() for path in paths(folder, name))


def continued(case: Case, model: Path) -> Arrays:
    """Answers of a model in a file after further rows."""
    with tempfile.TemporaryDirectory() as folder:
        after = Path(folder) / "after.safetensors"
        case.proceed(model, after)
        return case.ask(after)


def write(folder: Path, name: str) -> None:
    """Write the two files of a case."""
    case = CASES[name]
    model, answers = paths(folder, name)
    case.write(model)
    both = {"loaded": case.ask(model), "continued": continued(case, model)}
    lines = [
        f"{json.dumps(f'{when}/{name}')}: {json.dumps(as_json(array))}"
        for when, arrays in both.items()
        for name, array in arrays.items()
    ]
    answers.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def as_json(array: np.ndarray) -> dict[str, Any]:
    """An array in JSON; the digits of floats are those that give the same float again."""
    array = np.asarray(array)
    return {"type": array.dtype.str, "shape": array.shape, "values": array.ravel().tolist()}


def read_answers(path: Path) -> dict[str, Arrays]:
    """The answers of a case, ``loaded`` and ``continued``."""
    found: dict[str, Arrays] = {"loaded": {}, "continued": {}}
    for key, entry in json.loads(path.read_text(encoding="utf-8")).items():
        when, name = key.split("/")
        array = np.array(entry["values"], dtype=entry["type"]).reshape(entry["shape"])
        found[when][name] = array
    return found


def main(words: Sequence[str] | None = None) -> None:
    """Write what is missing."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=CASES, default=list(CASES))
    parser.add_argument("--anew", action="store_true", help="replace files that are there")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args(words)
    options.folder.mkdir(parents=True, exist_ok=True)
    # The number of threads decides how BLAS cuts its sums, and with it the last digits.
    with threadpool_limits(1):
        for name in options.only:
            if options.anew or not is_written(options.folder, name):
                print(name)
                write(options.folder, name)


if __name__ == "__main__":
    main()
