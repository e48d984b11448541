"""Model files of the command line: reading, file lock, origin, saved position, overwrite checks."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

import kernelstream
from kernelstream.anomaly import KernelMonitor, KernelNovelty
from kernelstream.cli.failures import BUSY, MODEL, USAGE, WRITE, CommandError
from kernelstream.cli.wording import of_shell
from kernelstream.estimators import StoredEstimator, StreamingKernelPCA
from kernelstream.serialization import ModelFile, Replacement
from kernelstream.stream import Components, Stream
from kernelstream.tables import Schema, Source, TableModel, Target
from kernelstream.tables.addresses import same_source

try:
    import fcntl
except ModuleNotFoundError:  # Windows: no advisory locks, two writers are not noticed there
    fcntl = None  # type: ignore[assignment]


# What can be done with a model of each kind, for commands that take others.
USES = {
    "kernel PCA": "use it with 'kernelstream transform {path}', or fit another kind with "
    "'kernelstream fit --target COLUMN', 'fit --detector novelty' or 'fit --detector monitor'",
    "detector": "use it with 'kernelstream score {path}'",
    "prediction": "use it with 'kernelstream predict {path}'",
    "monitor": "use it with 'kernelstream monitor {path}'; its page is written by 'kernelstream "
    "plant report' (pip install kernelstream-plant)",
}
SCORES = ("kernel PCA", "detector")  # kinds that learn from rows alone, and score them


@dataclass
class Stored:
    """A model with what its file says beside it.

    The names of the features are kept apart from the estimator: rows come as plain arrays here,
    and scikit-learn would warn for every block that they have no names.
    """

    estimator: Any  # a KernelEstimator, as a rule
    names: tuple[str, ...] | None = None
    schema: Schema | None = None  # of a TableModel; an estimator of plain numbers has none
    origin: dict[str, Any] = field(default_factory=dict)
    progress: dict[str, Any] | None = None
    release: str = field(default_factory=lambda: kernelstream.__version__)  # that wrote it
    position: dict[str, Any] | None = None  # of a monitor in its source

    @classmethod
    def of(cls, estimator: Any, source: Source) -> Stored:
        """A fresh model of a source; arrays, whose columns have no types, leave it no schema."""
        names = source.names if source.named else None
        return cls(estimator, names, None if source.schema.is_nameless else source.schema)

    @classmethod
    def in_file(cls, path: Path) -> Stored:
        """The model in a file, whatever its kind."""
        file = ModelFile.read(path)
        estimator, content = StoredEstimator.from_file(file, path)
        names, schema = content.get("feature_names"), None
        if isinstance(estimator, TableModel):
            schema, estimator = estimator.encoder_.schema_, estimator.estimator_
            names = schema.features
        if not isinstance(estimator, KernelMonitor):
            vars(estimator).pop("feature_names_in_", None)
        names = None if names is None else tuple(map(str, names))
        origin, progress, position = (
            json.loads(content.get(name) or "null") for name in ("origin", "progress", "position")
        )
        return cls(estimator, names, schema, origin or {}, progress, file.release, position)

    @property
    def kind(self) -> str:
        """What kind of model it is: a name of ``USES``, or of a class that no command uses."""
        estimator = self.estimator
        if isinstance(estimator, KernelMonitor):
            return "monitor"
        if isinstance(estimator, KernelNovelty):
            return "detector"
        if is_regressor(estimator) or is_classifier(estimator):
            return "prediction"
        is_kernel_pca = isinstance(estimator, StreamingKernelPCA)
        return "kernel PCA" if is_kernel_pca else type(estimator).__name__

    @property
    def stream(self) -> Stream:
        """The stream that was learned; an AttributeError before the first row."""
        return self.estimator.stream_

    @property
    def components(self) -> Components:
        """Its components."""
        return self.stream.components

    @property
    def column_names(self) -> Sequence[str]:
        """Names of the features; ``x0``, ``x1`` and so on if they have none."""
        return self.names or [f"x{i}" for i in range(self.stream.n_features)]

    @property
    def target(self) -> Target | None:
        """What the model predicts, where the command line has learned it."""
        facts = self.origin.get("target")
        return None if facts is None else Target.from_facts(facts["column"])

    def position_of(self, address: str) -> dict[str, Any] | None:
        """Where the model, or its run that was stopped, left an address."""
        if self.progress is not None:
            return self.progress.get("position")
        for entry in reversed(self.origin.get("history", [])):
            if entry["sources"] and same_source(entry["sources"][0], address):
                return entry.get("position")
        return None

    def open_source(
        self, sources: list[str], read_options: dict[str, Any], target: Target | None = None
    ) -> Source:
        """A source with the columns that the model wants, in its type, and with targets if any."""
        stream = self.stream
        names = self.names or [f"x{i}" for i in range(stream.n_features)]
        schema = self.schema or Schema.of_numbers(names)
        if read_options["columns"] is not None and not schema.is_plain:
            raise CommandError(
                USAGE,
                "The model knows its columns, some of which are no plain numbers: leave out "
                "--columns.",
            )
        options = {**read_options, "dtype": stream.dtype}
        return Source(sources, schema=schema, target=target, **options)

    def save(self, path: Path) -> None:
        """Write the file wholly or not at all."""
        extra: dict[str, Any] = {"origin": json.dumps(self.origin, sort_keys=True)}
        if self.progress is not None:
            extra["progress"] = json.dumps(self.progress, sort_keys=True)
        if self.schema is None:
            model, extra["feature_names"] = self.estimator, self.names
        else:
            model = TableModel.of(self.estimator, self.schema)
        write(model, path, extra)


def write(model: Any, path: Path, extra: dict[str, Any]) -> None:
    """Write a model; an error of the system names the file, which a full disk does not."""
    try:
        model.save(path, extra)
    except OSError as problem:
        problem.filename = problem.filename or str(path)
        raise


def require_sense(estimator: Any, options: Mapping[str, str] | None = None) -> None:
    """Fail where parameters make no sense, before any row is read.

    ``options`` are what parameters are called that have another name on the command line.
    """
    try:
        # landmarks may be given; the papers' methods bring their basis
        points = np.asarray(getattr(getattr(estimator, "basis", None), "points", 0))
        estimator.new_stream(np.empty((0, points.shape[1] if points.ndim == 2 else 1)))
    except (ValueError, TypeError, OverflowError) as problem:  # numbers of any kind and size
        raise CommandError(USAGE, of_shell(str(problem), options)) from problem


def read(path: Path, *kinds: str, half_done: bool = False) -> Stored:
    """Read a model file.

    Parameters
    ----------
    path : Path
        The file; one that holds no model fails with the reason.
    *kinds : str
        Kinds of models that the command takes; none: all.
    half_done : bool
        Whether a checkpoint of the first of two passes is taken.
    """
    if not path.exists():
        raise CommandError(MODEL, f"There is no model {path}.")
    try:
        stored = Stored.in_file(path)
    except ValueError as problem:
        where = "" if str(path) in str(problem) else f"Cannot load {path}: "
        raise CommandError(MODEL, f"{where}{problem}") from problem
    except OSError as problem:
        raise CommandError(
            MODEL, f"Cannot read the model {path}: {problem.strerror or problem}."
        ) from problem
    if kinds:
        require_kind(stored, path, *kinds)
    if stored.estimator.is_between_passes and not half_done:
        raise CommandError(
            MODEL,
            f"{path} is a checkpoint of the first of two passes, which looks for points: it has no "
            "components yet. Go on with 'kernelstream fit … --resume'.",
        )
    return stored


def require_kind(stored: Stored, path: Path, *kinds: str) -> None:
    """Fail where a model is of another kind, and say what can be done with it."""
    if stored.kind not in kinds:
        use = USES.get(stored.kind, "use it in Python, with kernelstream.load")
        raise CommandError(MODEL, f"{path} holds a {stored.kind}: {use.format(path=path)}.")


def read_monitor(path: Path) -> KernelMonitor:
    """Read the file of a monitor; one that holds no monitor fails with the reason."""
    monitor: KernelMonitor = read(path, "monitor").estimator
    return monitor


def history(sources: list[str], rows: int, bad: int, **more: Any) -> dict[str, Any]:
    """One entry of a model's origin."""
    return {
        "sources": sources,
        "rows": rows,
        "bad_rows": bad,
        "version": kernelstream.__version__,
        **more,
    }


def require_apart(written: list[Path | None], needed: list[Any]) -> None:
    """Fail before anything is written where that would be over a source, the model, or each other.

    Parameters
    ----------
    written : list of Path or None
        What options name: outputs, lists of rejects.
    needed : list of path-like
        Sources and models.
    """
    seen = {identity(path) for path in needed}
    for path in filter(None, written):
        if identity(path) in seen:
            raise CommandError(
                USAGE, f"{path} is also a source, the model or an output: write another file."
            )
        seen.add(identity(path))


def identity(path: Any) -> tuple[Any, ...]:
    """What a file is, whatever it is called here."""
    if not os.path.exists(path):
        return (os.path.realpath(path),)
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino


def require_writable(path: Path) -> None:
    """Fail before any work is done where the result could not be written."""
    if path.is_dir():
        raise CommandError(WRITE, f"{path} is a folder: name a file in it.")
    if not Replacement.is_possible(path):
        return  # a pipe or a device: it is written through, and opening one may wait for a reader
    folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
    if not folder.is_dir():
        raise CommandError(WRITE, f"Cannot write {path}: there is no folder {folder}.")
    try:
        Replacement(path).discard()
    except OSError as problem:
        raise CommandError(
            WRITE, f"Cannot write {path}: {problem.strerror}. Choose another place with -o."
        ) from problem


def require_new(path: Path, force: bool, hint: str = "") -> None:
    """Fail where a file would be replaced that nobody wanted to lose."""
    if force or not Replacement.is_possible(path) or not path.exists() or not path.stat().st_size:
        return
    raise CommandError(
        USAGE,
        f"{path} is there already: replace it with --force, or write another file with -o.{hint}",
    )


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Be the only process that writes ``path``, and clear what a killed one left half written.

    The lock is the system's: it ends with the process, however that ends.
    """
    require_writable(path)
    if not Replacement.is_possible(path):
        yield  # nothing is replaced there, and writers take turns as the system has it
        return
    lock = Replacement.companion(Path(os.path.realpath(path)), ".lock", hidden=True)
    handle = _lock(lock, path)
    try:
        Replacement.clear_leftovers(path)
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _lock(lock: Path, path: Path) -> int:
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        if fcntl is None:
            return handle
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            os.close(handle)
            raise CommandError(
                BUSY,
                f"Another process is writing {path}: wait for it, or write another file with -o.",
            ) from problem
        # The holder before us may have removed the file that we opened: then it locks nothing.
        with contextlib.suppress(FileNotFoundError):
            if os.stat(lock).st_ino == os.fstat(handle).st_ino:
                return handle
        os.close(handle)
