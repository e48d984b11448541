"""The command line: random words and broken inputs end with a documented code and no traceback."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from fuzz.readers import damaged, whole
from kernelstream.cli.app import app

CODES = {0, 2, 3, 4, 5, 6, 7}
VERBS = (
    "fit",
    "update",
    "transform",
    "score",
    "predict",
    "explain",
    "monitor",
    "info",
    "merge",
    "report",
)
SOURCES = (
    "good.csv",
    "good.parquet",
    "bad.csv",
    "bad.ndjson",
    "bad.npy",
    "none.csv",
    ".",
    "-",
    "*.csv",
    "m.st",
)
MODELS = ("m.st", "w.st", "y.st", "bad.st", "none.st", "good.csv", ".")
OUTPUTS = ("out.st", "out.csv", "out.parquet", "out.npy", "out.ndjson.gz", "no/folder", ".", "")
VALUES = (
    "0",
    "-1",
    "1",
    "3",
    "1e400",
    "nan",
    "",
    "x",
    "a,b",
    "*",
    "all",
    "é",
    "\t",
    "1" * 400,
    "[",
    "rbf(gamma=[1])",
    "poly(degree=-1)",
    "centroids(n_points='x')",
    "landmarks(points=[[1,2]])",
    "rls",
    "60s",
    "0.5",
    "b",
    "b=category",
)
OPTIONS = (
    "--components",
    "--kernel",
    "--gamma",
    "--basis",
    "--forgetting",
    "--seed",
    "--columns",
    "--exclude",
    "--weight-column",
    "--limit",
    "--read",
    "--format",
    "--on-bad-rows",
    "--passes",
    "--set",
    "--alpha",
    "--detector",
    "--keep",
    "--to",
    "--rejects",
    "--checkpoint-every",
    "--top",
    "--time-column",
    "--image-shape",
    "--color",
    "--target",
    "--hold-back",
    "--treat",
)
FLAGS = (
    "--json",
    "-q",
    "--denoise",
    "--tune",
    "--standardize",
    "--resume",
    "--learn",
    "--alarms-only",
    "--force",
)

SCRIPT = """\
# {seen}
from fuzz.command_line import run, prepare
import numpy as np, pathlib, tempfile
folder = pathlib.Path(tempfile.mkdtemp())
prepare(folder, np.random.default_rng({seed}))
print(run(folder, {words!r}))
"""


def attack(seed: int) -> str | None:
    """Twenty commands in a folder of good and broken files."""
    rng = np.random.default_rng([seed, 1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, np.random.default_rng(seed))
        for _ in range(20):
            words = drawn_words(rng)
            seen = run(folder, words)
            if seen is None:
                continue
            i = 1
            while i < len(words):  # without the words that do not matter
                fewer = words[:i] + words[i + 1 :]
                found = run(folder, fewer)
                words, seen, i = (fewer, found, i) if found else (words, seen, i + 1)
            return SCRIPT.format(seen=seen, seed=seed, words=words)
    return None


def prepare(folder: Path, rng: np.random.Generator) -> None:
    """Rows, models, and damaged ones."""
    X = rng.normal(size=(300, 2))
    np.savetxt(folder / "good.csv", X, delimiter=",", header="a,b", comments="")
    (folder / "good.parquet").write_bytes(whole("a.parquet", rng))
    for name in ("a.csv", "a.ndjson", "a.npy"):
        (folder / f"bad{name[1:]}").write_bytes(damaged(whole(name, rng), rng))
    run(folder, ["fit", "good.csv", "-o", "m.st", "--basis", "110", "-q"])
    run(folder, ["fit", "good.csv", "-o", "w.st", "--basis", "10", "-q", "--detector", "monitor"])
    run(folder, ["fit", "good.csv", "-o", "y.st", "--basis", "10", "-q", "--target", "b"])
    (folder / "bad.st").write_bytes(damaged((folder / "m.st").read_bytes(), rng))


def drawn_words(rng: np.random.Generator) -> list[str]:
    """A verb, what it wants, and options that may make no sense."""

    def pick(choices: tuple[str, ...]) -> str:
        return str(choices[int(rng.integers(len(choices)))])

    verb = pick(VERBS)
    words = [verb]
    if verb != "fit":
        words.append(pick(MODELS))
    if verb == "merge":
        words.append(pick(MODELS))
    elif verb not in ("monitor", "info"):
        words.append(pick(SOURCES))
    if verb in ("fit", "merge") or rng.random() < 0.4:
        words += ["-o", pick(OUTPUTS)]
    for _ in range(int(rng.integers(0, 4))):
        words += [pick(OPTIONS), pick(VALUES)] if rng.random() < 0.7 else [pick(FLAGS)]
    return words


def run(folder: Path, words: list[str]) -> str | None:
    """What was wrong with how a command ended; its input is a broken stream of rows."""
    path = folder / "bad.csv"
    with contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = CliRunner().invoke(app, words, input=path.read_bytes() if path.exists() else b"")
    problem = done.exception
    if done.exit_code in CODES and (problem is None or isinstance(problem, SystemExit)):
        return None
    where = traceback.extract_tb(done.exc_info[2])[-1] if done.exc_info else "?"
    return f"kernelstream {shlex.join(words)}: exit code {done.exit_code}, {problem!r} at {where}"
