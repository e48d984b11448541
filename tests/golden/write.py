"""Write the golden files: small models of every kind, as the release at hand writes them.

    python tests/golden/write.py tests/golden/version_1

writes three files for each case of ``CASES`` that has none in the folder yet:

``<case>.safetensors``
    the model, as ``save`` or the command line writes it;
``<case>.npz``
    what the model says once it was loaded from that file: fitted attributes, answers to queries;
``<case>.after.safetensors``
    the model that was loaded from that file and has learned further rows.

A file that is there stays: golden files are what a release *has* written, and every later release
has to read them (``test_golden.py``). A new kind of model needs a new case; a new version of the
file format needs a new folder, beside the old ones. Killing a command half-way needs named pipes,
so the cases of the command line can be written on POSIX systems only. They are read everywhere.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
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
    trackers,
)
from kernelstream.images import Denoiser, ImageReconstructor, PatchReconstructor, SuperResolver
from kernelstream.papers import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    KernelHebbianPCA,
    OnlineKernelPCA,
    schedules,
)

Arrays = dict[str, np.ndarray]

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
    if kind == "csr":
        return scipy.sparse.csr_matrix(np.where(X > 0, X, 0.0))
    return X.astype(kind)


def targets_of(X: np.ndarray, kind: str | None) -> Any:
    """What regressions and classifiers learn beside the rows."""
    value = X[:, 0] - 0.5 * X[:, 1] * X[:, 2]
    place = (value > -1.0).astype(int) + (value > 1.0)
    known: dict[str | None, Callable[[], Any]] = {
        None: lambda: None,
        "number": lambda: value,
        "numbers": lambda: np.stack([value, X[:, 1]], axis=1),
        "two labels": lambda: (value > 0.0).astype(int),
        "names": lambda: np.array(["low", "middle", "high"])[place],
        "objects": lambda: np.array(["low", "middle", "high"], dtype=object)[place],
    }
    return known[kind]()


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

    def beside(self) -> dict[str, Any]:
        """What a call that learns is given beside the rows."""
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
    """All rows at once."""
    return model.fit(table.X, **table.beside())


def stream(model: Any, table: Table) -> Any:
    """Call by call."""
    labels = ["high", "low", "middle"] if is_classifier(model) else None
    for piece in pieces(len(table)):
        part = table[piece]
        given = part.beside()
        if labels is not None:
            given["classes"] = [0, 1] if part.y.dtype.kind == "i" else labels
        model.partial_fit(part.X, **given)
    return model


def one_by_one(model: Any, table: Table) -> Any:
    """Row by row."""
    for i, x in enumerate(table.X):
        model.learn_one(x, *(() if table.y is None else (table.y[i],)))
    return model


def fit_then_stream(model: Any, table: Table) -> Any:
    """All rows but ten at once, then ten that wait for their block."""
    return stream(fit(model, table[: len(table) - 10]), table[len(table) - 10 :])


def halves(model: Any, table: Table) -> Any:
    """Two models, merged."""
    half = len(table) // 2
    first, second = (stream(clone(model), part) for part in (table[:half], table[half:]))
    return first.merge(second)


def odds_and_ends(model: Any, table: Table) -> Any:
    """Further rows in calls of odd sizes, the last ones one by one where they are plain arrays."""
    last = 3 if table.plain and table.weights is None else 0
    model = stream(model, table[: len(table) - last])
    return one_by_one(model, table[len(table) - last :]) if last else model


# --- what models are asked

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


def plain_array(value: Any) -> np.ndarray:
    """An array that a file holds without pickle."""
    found = np.asarray(value)
    return found.astype(str) if found.dtype == object else found


def attributes(model: Any) -> Arrays:
    """The fitted attributes that a model has (one without points has no points to show)."""
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


def certificate(model: Any) -> Arrays:
    """What is certain, as numbers."""
    found = model.certificate_
    if not np.isfinite(found.reconstruction_error):
        return {"certificate.useful": np.array(found.useful)}
    angle = np.nan if found.angle_bound is None else found.angle_bound
    return {
        "certificate.eigenvalue_intervals": found.eigenvalue_intervals,
        "certificate.ratio": np.array(found.explained_variance_ratio_interval),
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
        "certificate.proved": np.array(found.proved),
        "certificate.useful": np.array(found.useful),
    }


def of_components(model: Any, queries: Any) -> Arrays:
    """Scores, errors, the way back."""
    scores = model.transform(queries)
    found = {
        "transform": scores,
        "reconstruction_error": model.reconstruction_error(queries),
        **certificate(model),
    }
    if isinstance(queries, np.ndarray):
        found["transform_one"] = np.stack([model.transform_one(x) for x in queries])
    if hasattr(model, "basis_points_"):
        found["inverse_transform"] = model.inverse_transform(scores)
    for verb in ("predict", "decision_function"):
        if hasattr(model, verb):
            found[verb] = plain_array(getattr(model, verb)(queries))
    return found


def of_monitor(model: KernelMonitor, queries: Any) -> Arrays:
    """Novelty, causes, limits, events; at last the records of the next rows."""
    limits: dict[str, Any] = dict(model.limits_)
    levels = [limits[name] for name in ("index", "smoothed", "t2", "spe")]
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
    """Where normal operation is."""
    return {
        f"{name}.centre": found.centre,
        f"{name}.scale": found.scale,
        f"{name}.overlap": np.array([found.overlap, found.novelty]),
        f"{name}.rows": np.array(found.rows),
    }


def records(model: KernelMonitor, queries: Any) -> Arrays:
    """The next rows of the stream as the monitor judges them. It learns from them."""
    made = model.update_many(queries)
    numbers = ("index", "smoothed", "t2", "spe", "limit", "index_limit", "event_limit", "p_value")
    verdicts = ("row", "t2_blind", "alarm", "acknowledged", "learned")
    found = {f"records.{name}": made.column(name) for name in (*numbers, *verdicts)}
    found["records.event"] = np.array([record.event or 0 for record in made])
    found["records.missing"] = np.array([" ".join(record.missing) for record in made])
    return found


# --- kinds of cases


class Case:
    """A model file: how it comes to be, how the model in it goes on, and what it is asked."""

    #: Attributes of floats that are copied and never computed: equal on every processor.
    exact: tuple[str, ...] = ()
    #: Whether its answers are computed in single precision, whatever type they have.
    single: bool = False

    def write(self, path: Path) -> None:
        """Write the model."""
        raise NotImplementedError

    def go_on(self, before: Path, after: Path) -> None:
        """Load a model, let it learn the same further rows, save it."""
        raise NotImplementedError

    def ask(self, path: Path) -> Arrays:
        """What the model in a file says."""
        raise NotImplementedError


@dataclass(frozen=True)
class Learned(Case):
    """An estimator and its rows."""

    model: Any
    n: int = 70  # rows before it is saved
    more: int = 70  # rows that it learns once it was loaded
    how: Callable[[Any, Table], Any] = fit
    kind: str = "float64"
    targets: str | None = None
    weighted: bool = False
    jump: int | None = None  # from this row on the stream is elsewhere
    then: Mapping[str, Any] = field(default_factory=dict)  # parameters that are changed in between
    exact: tuple[str, ...] = ()

    def table(self) -> Table:
        """All rows: those before the file, those after, those of the queries."""
        n = self.n + self.more + N_QUERIES
        X = rows(n)
        if self.jump is not None:
            X[self.jump :] += [6.0, -4.0, 2.0]
        weights = np.random.default_rng(1).uniform(0.2, 3.0, size=n) if self.weighted else None
        return Table(as_kind(X, self.kind), targets_of(X, self.targets), weights)

    def write(self, path: Path) -> None:
        self.how(clone(self.model), self.table()[: self.n]).save(path)

    def go_on(self, before: Path, after: Path) -> None:
        model = load(before).set_params(**self.then)
        odds_and_ends(model, self.table()[self.n : self.n + self.more]).save(after)

    def ask(self, path: Path) -> Arrays:
        model, queries = load(path), self.table()[-N_QUERIES:].X
        return {**parameters(model), **attributes(model), **of_components(model, queries)}


def normal_rows(n: int, kind: str) -> Any:
    """Rows of a process, some of them with gaps."""
    X = rows(n, seed=2)
    if kind == "frame":
        X[::9, 1] = np.nan
        stamps = [f"2024-03-01 {i // 60:02}:{i % 60:02}" for i in range(n)]
        return pd.DataFrame(X, columns=list(NAMES), index=stamps)
    return X


@dataclass(frozen=True)
class Watched(Case):
    """A monitor: rows of normal operation, a quiet stream, perhaps a fault at its end."""

    model: KernelMonitor
    n: int = 36  # rows of normal operation
    quiet: int = 0  # rows of the stream before it is saved
    faulty: int = 0  # rows of a fault after them
    more: int = 40  # rows that it follows once it was loaded
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

    def go_on(self, before: Path, after: Path) -> None:
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

    def go_on(self, before: Path, after: Path) -> None:
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

    def go_on(self, before: Path, after: Path) -> None:
        load(before).partial_fit(picture(1)).save(after)

    def ask(self, path: Path) -> Arrays:
        model = load(path)
        found = {self.verb: getattr(model, self.verb)(picture(2, side=9))}
        return {**parameters(model), **attributes(model), **found}


@dataclass(frozen=True)
class Whole(Case):
    """A model of whole images, which are learned all at once."""

    model: Any

    def write(self, path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            clone(self.model).fit(np.stack([picture(i, side=6) for i in range(12)])).save(path)

    def go_on(self, before: Path, after: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            load(before).fit(np.stack([picture(i, side=6) for i in range(15)])).save(after)

    def ask(self, path: Path) -> Arrays:
        model = load(path)
        found = {"transform": model.transform(picture(20, side=6)[None])}
        return {**parameters(model), **attributes(model), **found}


# --- the command line

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
SOURCES = ("first.csv", "second.csv")
PLACE = "/data"  # where the sources lie that a golden checkpoint speaks of


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    """The command line as a process in a folder; with one thread, as everything here."""
    return subprocess.Popen(
        [sys.executable, "-m", "kernelstream", *words],
        cwd=folder,
        env={**os.environ, **ONE_THREAD},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


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
    """A model file with another progress: header, tree and checksum as version 1 has them."""
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


def place_of(checkpoint: Path) -> tuple[int, int]:
    """The pass that a checkpoint is of, and the rows it has learned in that pass."""
    found: list[tuple[int, int]] = []

    def look(progress: dict[str, Any]) -> None:
        found.append((progress["place"]["turn"], progress["place"]["rows"]))

    edited(checkpoint.read_bytes(), look)
    return found[0]


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

    def go_on(self, before: Path, after: Path) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.sources(folder)
            (folder / "m.safetensors").write_bytes(before.read_bytes())
            words = ("m.safetensors", SOURCES[1], "--weight-column", "weight")
            command(folder, "update", *words)
            after.write_bytes((folder / "m.safetensors").read_bytes())

    def ask(self, path: Path) -> Arrays:
        model, queries = load(path), as_kind(rows(N_QUERIES, seed=4), "frame")
        facts = json.loads(command(path.parent, "info", str(path.resolve()), "--json")[0])
        origin = [
            f"{entry['sources']} {entry['rows']} {entry['bad_rows']} {entry['passes']}"
            for entry in facts["history"]
        ]
        place = facts["checkpoint"] or {}
        return {
            **parameters(model),
            **attributes(model),
            **of_components(model, queries),
            "info.origin": np.array(origin, dtype=str),
            "info.place": np.array([f"{k}={v}" for k, v in sorted(place.items())], dtype=str),
            "info.names": np.array(facts["feature_names"]),
        }


@dataclass(frozen=True)
class Killed(Command):
    """A checkpoint that ``fit`` on two files left when it was killed between them."""

    turn: int = 1  # the pass

    def write(self, path: Path) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.sources(folder)
            # The second file becomes a pipe: the command waits where it begins.
            text = (folder / SOURCES[1]).read_text(encoding="utf-8")
            (folder / SOURCES[1]).unlink()
            os.mkfifo(folder / SOURCES[1])
            checkpoint = self._killed(folder, text)
        sizes = [len(csv(part).encode()) for part in np.split(rows(self.n + self.more), [self.n])]

        def elsewhere(progress: dict[str, Any]) -> None:
            # Where and when the sources were written is nobody's business.
            known = zip(SOURCES, sizes, strict=True)
            progress["files"] = [[f"{PLACE}/{file}", size, 0] for file, size in known]

        path.write_bytes(edited(checkpoint, elsewhere))

    def _killed(self, folder: Path, text: str) -> bytes:
        process = started(folder, *self.fit, "--checkpoint-every", "0s", *SOURCES)
        checkpoint = folder / "m.safetensors.checkpoint"
        try:
            if self.turn == 2:
                with open(folder / SOURCES[1], "w", encoding="utf-8") as pipe:
                    pipe.write(text)
            while not checkpoint.exists() or place_of(checkpoint) != (self.turn, self.n):
                if process.poll() is not None:
                    raise RuntimeError(f"fit ended: {process.communicate()[1]}")
                time.sleep(0.02)
        finally:
            process.kill()
            process.communicate()
        return checkpoint.read_bytes()

    def go_on(self, before: Path, after: Path) -> None:
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


def few(tracker: Any = "covariance", **options: Any) -> StreamingKernelPCA:
    """A model over given points: nothing but the tracker moves, and the file is small."""
    return pca(basis=landmarks.Landmarks(rows(4, seed=9)), tracker=tracker, **options)


POINTS = ("basis_points_",)  # rows that became points

BASES: dict[str, Case] = {
    "centroids_fit": Learned(pca()),
    "centroids_stream": Learned(pca(), n=530, how=stream),
    "centroids_refined": Learned(pca(basis=landmarks.Centroids(4, refinements=2))),
    "centroids_tolerance": Learned(
        pca(basis=landmarks.Centroids(33, tolerance=0.001)), n=40, more=15
    ),
    "distance": Learned(pca(basis=landmarks.Distance(nu=0.6)), how=stream, exact=POINTS),
    "coherence_first": Learned(
        pca(basis=landmarks.Coherence(delta=0.3, max_points=6, first=3)), how=stream, exact=POINTS
    ),
    "everything": Learned(
        pca(basis=landmarks.Everything()), n=12, more=8, how=stream, exact=POINTS
    ),
    "landmarks": Learned(pca(basis=landmarks.Landmarks(6)), exact=POINTS),
    "landmarks_given": Learned(few(), how=stream, exact=POINTS),
    "reduced_set": Learned(
        pca(basis=landmarks.ReducedSet(6), tracker=trackers.IncrementalSVD()), how=stream
    ),
    "fourier": Learned(pca(basis=landmarks.Fourier(10)), how=stream),
    "iterated_preimages": Learned(
        pca(
            basis=papers.IteratedPreimages(2),
            tracker=trackers.IncrementalSVD(reorthogonalise="paper"),
        ),
        how=stream,
    ),
    "distance_exchanged": Learned(
        pca(basis=landmarks.Distance(nu=0.3, max_points=5, exchange=20)), how=stream, exact=POINTS
    ),
}

RULES: dict[str, trackers.Tracker] = {
    "covariance_forgetting": trackers.Covariance(forgetting=0.95),
    "hebbian_constant": papers.Hebbian(schedules.Constant(0.05)),
    "hebbian_inverse_time": papers.Hebbian(schedules.InverseTime(2.0, floor=0.001)),
    "hebbian_search": papers.Hebbian(schedules.SearchThenConverge(0.5, 50.0)),
    "hebbian_annealed": papers.Hebbian(schedules.EigenvalueAnnealed(0.3, 50.0, floor=0.01)),
    "hebbian_automatic": papers.Hebbian(schedules.Automatic(floor=0.01), forgetting=0.98),
    "hebbian_spread": papers.Hebbian(0.1, spread=True),
    "subset_hebbian": papers.SubsetHebbian(0.1, weights=(1.0, 0.5)),
    "lms": papers.LMS(0.05),
    "rls": papers.RLS(0.95),
    "incremental_svd_forgetting": trackers.IncrementalSVD(forgetting=0.97),
    "averaged": papers.Averaged(papers.Hebbian(schedules.SearchThenConverge(0.5, 50.0))),
    "recentred_hebbian": papers.RecentredHebbian(schedules.SearchThenConverge(0.3, 50.0)),
}
TRACKERS: dict[str, Case] = {
    f"tracker_{name}": Learned(few(rule), n=58, how=stream) for name, rule in RULES.items()
}

# Each with a way back to inputs that it can go.
FUNCTIONS: dict[str, tuple[kernels.Kernel, Any]] = {
    "rbf_median": (kernels.RBF(), preimages.FixedPoint(n_starts=2)),
    "laplacian": (kernels.Laplacian(gamma=0.2), preimages.Ridge(0.05, source="points")),
    "exponential": (kernels.Exponential(gamma=0.4), preimages.Conformal(0.01)),
    "matern": (kernels.Matern(nu=2.5, length_scale=1.5), preimages.Gradient(max_iter=20)),
    "matern_infinite": (kernels.Matern(nu=np.inf, length_scale=2.0), preimages.Neighbours(3)),
    "polynomial": (kernels.Polynomial(degree=2, gamma="scale"), preimages.Ridge(0.05)),
    "linear": (kernels.Linear(), preimages.Linear()),
    "cosine": (kernels.Cosine(), "ridge"),
    "normalised": (kernels.Normalised(kernels.Polynomial(degree=2, gamma=0.1)), "ridge"),
    "rbf_chained": (kernels.RBF(gamma=0.3), preimages.NeighboursThenGradient(3, 20)),
    "composite": (
        kernels.RBF(gamma=0.2) * 0.5 * kernels.Linear() + kernels.Laplacian(0.1) + 1.0,
        "auto",
    ),
    "product": (kernels.Product(kernels.RBF(), kernels.Matern(nu=1.5)), "auto"),
    "by_columns": (
        kernels.On([0], kernels.RBF()) * kernels.On([1], kernels.Categorical(gamma=0.5)),
        "auto",
    ),
}
KERNELS: dict[str, Case] = {
    **{
        f"kernel_{name}": Learned(few(kernel=kernel, preimage=way))
        for name, (kernel, way) in FUNCTIONS.items()
    },
    # Three points: on more of them it is not positive semidefinite.
    "kernel_sigmoid": Learned(
        pca(
            kernel=kernels.Sigmoid(gamma=0.01, coef0=0.0),
            basis=landmarks.Landmarks(rows(3, seed=9)),
        )
    ),
    "ridge_from_rows_in_a_moving_basis": Learned(pca(preimage="ridge"), n=530, how=stream),
}

OPTIONS: dict[str, Case] = {
    "not_centred": Learned(few(center=False)),
    "filled": Learned(pca(missing="fill", scale="auto"), n=530, how=stream),
    "standardised": Learned(pca(scale="standard"), n=530, how=stream),
    "certified_tight": Learned(pca(certify="tight"), how=fit_then_stream),
    "not_certified": Learned(few(certify=False)),
    "all_components": Learned(few(n_components=None)),
    "share_of_variance": Learned(few(n_components=0.8)),
    "single_precision": Learned(pca(), kind="float32", how=fit_then_stream),
    "single_precision_hebbian": Learned(few("hebbian"), kind="float32", how=stream),
    "sparse": Learned(pca(), kind="csr", how=fit_then_stream),
    "weighted": Learned(pca(), weighted=True, how=fit_then_stream),
    "named_features": Learned(pca(), kind="frame", how=fit_then_stream),
}

WAITING: dict[str, Case] = {
    "waiting_for_the_start": Learned(pca(), n=40, more=500, how=stream),
    "waiting_for_the_width": Learned(few(gamma="median"), n=40, more=500, how=stream),
    "waiting_with_weights": Learned(pca(), n=40, more=500, weighted=True, how=stream),
    "waiting_sparse": Learned(pca(), n=40, more=500, kind="csr", how=stream),
    "waiting_one_by_one": Learned(pca(), n=40, more=500, how=one_by_one),
    "waiting_in_a_block_one_by_one": Learned(few(batch_size=32), n=58, how=one_by_one),
    "waiting_in_a_block_with_weights": Learned(few(batch_size=32), n=58, weighted=True, how=stream),
}

LONG: dict[str, Case] = {
    "centroids_moved": Learned(pca(batch_size=64), n=3850, jump=2700, how=stream),
    "centroids_moved_forgetting": Learned(
        pca(batch_size=64, tracker=trackers.Covariance(forgetting=0.999)),
        n=3850,
        jump=2700,
        how=stream,
    ),
    "centroids_moved_weighted_hebbian": Learned(
        pca(batch_size=64, tracker=papers.Hebbian()),
        n=3850,
        jump=2700,
        weighted=True,
        how=stream,
    ),
}

SEEDED: dict[str, Any] = dict(gamma=0.3, basis=4, batch_size=16, random_state=0)
FEW_POINTS: dict[str, Any] = {**SEEDED, "basis": landmarks.Landmarks(rows(4, seed=9))}

MERGED: dict[str, Case] = {
    "merged_centroids": Learned(pca(), n=1100, how=halves),
    "merged_distance": Learned(pca(basis=landmarks.Distance(nu=0.6)), how=halves),
    "merged_ridge": Learned(
        StreamingKernelRidge(0.1, **FEW_POINTS),
        targets="number",
        how=halves,
    ),
}

PAPERS: dict[str, Case] = {
    "kernel_hebbian_fit": Learned(
        KernelHebbianPCA(2, gamma=0.3, n_epochs=20, random_state=0), n=14, more=8
    ),
    "kernel_hebbian_batch": Learned(
        KernelHebbianPCA(
            2,
            gamma=0.3,
            n_epochs=10,
            update="batch",
            schedule=schedules.Constant(0.3),
            random_state=0,
        ),
        n=20,
        more=0,
    ),
    "kernel_hebbian_stream": Learned(
        KernelHebbianPCA(2, gamma=0.3, batch_size=8, random_state=0), n=14, more=8, how=stream
    ),
    "kernel_hebbian_points": Learned(
        KernelHebbianPCA(2, kernel="linear", init="points", batch_size=8, random_state=0),
        n=20,
        more=20,
        how=stream,
    ),
    "online": Learned(OnlineKernelPCA(2, gamma=0.3, nu=0.5, tau=50, random_state=0), how=stream),
    "online_averaged": Learned(
        OnlineKernelPCA(2, gamma=0.3, nu=0.5, tau=50, average=True, random_state=0), how=stream
    ),
    **{
        f"adaptive_{method}": Learned(
            AdaptiveKernelPCA(2, gamma=0.3, delta=0.3, method=method, random_state=0), how=stream
        )
        for method in ("rls", "lms", "subkha")
    },
    "adaptive_options": Learned(
        AdaptiveKernelPCA(
            2,
            kernel=kernels.Laplacian(0.2),
            delta=0.3,
            method="lms",
            eta=schedules.InverseTime(1.0, floor=0.01),
            weights=(1.0, 0.7),
            center=True,
            random_state=0,
        )
    ),
    "incremental_all": Learned(
        IncrementalKernelPCA(2, gamma=0.3, batch_size=8, random_state=0), n=14, more=8, how=stream
    ),
    "drop_in": Learned(
        KernelPCA(2, kernel="rbf", gamma=0.3, fit_inverse_transform=True, basis=8, random_state=0)
    ),
    "novelty": Learned(KernelNovelty(0.1, gamma=0.3, basis=8, batch_size=8, random_state=0)),
    "incremental_points": Learned(
        IncrementalKernelPCA(2, gamma=0.3, n_points=8, batch_size=8, random_state=0), how=stream
    ),
}

REGRESSIONS: dict[str, Case] = {
    "ridge_gcv": Learned(StreamingKernelRidge(**SEEDED), targets="number"),
    "ridge_loo": Learned(
        StreamingKernelRidge("loo", **SEEDED), targets="number", then={"alpha": "gcv"}
    ),
    "ridge_number": Learned(
        StreamingKernelRidge(0.1, fit_intercept=False, **FEW_POINTS),
        targets="number",
        weighted=True,
        how=stream,
    ),
    "ridge_columns": Learned(
        StreamingKernelRidge(**FEW_POINTS), n=58, targets="numbers", how=stream
    ),
    "ridge_waiting": Learned(
        StreamingKernelRidge(**SEEDED), n=40, more=500, targets="number", how=stream
    ),
    "ridge_forgetting": Learned(
        StreamingKernelRidge(forgetting=0.99, **SEEDED), targets="number", how=fit_then_stream
    ),
    "classifier_two": Learned(StreamingKernelClassifier(**SEEDED), targets="two labels"),
    "classifier_names": Learned(
        StreamingKernelClassifier(0.1, **FEW_POINTS), targets="names", how=stream
    ),
    "classifier_objects": Learned(
        StreamingKernelClassifier(**SEEDED), targets="objects", kind="frame", how=fit
    ),
    "classifier_waiting": Learned(
        StreamingKernelClassifier(0.1, **SEEDED), n=40, more=500, targets="names", how=stream
    ),
}


def monitor(**options: Any) -> KernelMonitor:
    """A monitor whose choices are made, which learns in blocks of four rows."""
    chosen: dict[str, Any] = dict(width=100.0, ridge=0.1, whiten=True, basis=5, memory=40)
    return KernelMonitor(**{**chosen, "quarantine": 5, "random_state": 0, **options})


MONITORS: dict[str, Case] = {
    "monitor_fitted": Watched(monitor()),
    "monitor_chosen": Watched(monitor(width="auto", ridge="auto", whiten="auto")),
    "monitor_calibrated": Watched(monitor(alpha=0.05, smooth=None), calibrated=True),
    "monitor_following": Watched(monitor(), quiet=45),
    "monitor_lags": Watched(monitor(lags=2), quiet=21),
    "monitor_in_an_event": Watched(monitor(), quiet=20, faulty=12),
    "monitor_accepted": Watched(monitor(), quiet=20, faulty=12, then=KernelMonitor.accept),
    "monitor_names_and_gaps": Watched(monitor(), kind="frame", quiet=20, faulty=12),
    "monitor_distance": Watched(monitor(basis=landmarks.Distance(nu=0.01, max_points=5)), quiet=20),
}

SMALL: dict[str, Any] = dict(basis=4, n_directions=4, n_components=3, random_state=0)
IMAGES: dict[str, Case] = {
    "denoiser": Denoised(Denoiser(0.01, width=0.3, **SMALL)),
    "denoiser_clipped": Denoised(Denoiser(0.01, True, width=0.3, **SMALL)),
    "denoiser_waiting": Denoised(Denoiser(0.01, width=0.3, **SMALL), n=20, how="stream"),
    "denoiser_project": Denoised(
        Denoiser(0.01, method="project", width=0.5, preimage=preimages.Ridge(0.05), **SMALL)
    ),
    "super_resolver": Pictured(
        SuperResolver(2, 3, patches_per_image=6, random_state=0), "predict", single=True
    ),
    "image_reconstructor": Whole(
        ImageReconstructor(3, gamma=0.05, n_epochs=10, tol=1.0, random_state=0)
    ),
    "patch_reconstructor": Pictured(
        PatchReconstructor(3, 3, gamma=1.0, basis=4, patches_per_image=30, random_state=0),
        "transform",
    ),
}

FIT = ("--components", "2", "--basis", "4", "--gamma", "0.3")
COMMANDS: dict[str, Case] = {
    "command_fit": Command(FIT),
    "command_fit_distance": Command(
        ("--components", "2", "--kernel", "laplacian(gamma=0.2)", "--basis", "distance(nu=0.6)")
    ),
    "command_killed_at_the_start": Killed(FIT, n=60, more=500),
    "command_killed_in_the_first_pass": Killed(FIT, n=1060, more=90),
    "command_killed_in_the_second_pass": Killed((*FIT, "--standardize"), n=1060, more=90, turn=2),
}

CASES: dict[str, Case] = {
    **BASES,
    **TRACKERS,
    **KERNELS,
    **OPTIONS,
    **WAITING,
    **LONG,
    **MERGED,
    **PAPERS,
    **REGRESSIONS,
    **MONITORS,
    **IMAGES,
    **COMMANDS,
}


# --- writing


def paths(folder: Path, name: str) -> tuple[Path, Path, Path]:
    """The model, what it says, the model after further rows."""
    return (
        folder / f"{name}.safetensors",
        folder / f"{name}.npz",
        folder / f"{name}.after.safetensors",
    )


def write(folder: Path, name: str) -> None:
    """Write the three files of a case."""
    case = CASES[name]
    model, answers, after = paths(folder, name)
    case.write(model)
    np.savez_compressed(answers, allow_pickle=False, **case.ask(model))
    case.go_on(model, after)


def main() -> None:
    """Write what is not there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    # The number of threads decides how BLAS cuts its sums, and with it the last digits.
    with threadpool_limits(1):
        for name in CASES:
            if all(path.exists() for path in paths(folder, name)):
                continue
            print(name)
            write(folder, name)


if __name__ == "__main__":
    main()
