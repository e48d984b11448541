"""Crafted files: the checksum is right, and what they hold was written by nobody of ours."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from fuzz import files as fuzz
from kernelstream import StreamingKernelPCA, bases, files, load, trackers
from kernelstream.files.building import DEEPEST

Change = Callable[[dict[str, Any], dict[str, np.ndarray]], None]


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 3))


def crafted(model: Any, path: Path, change: Change) -> Path:
    """The file of a model, changed and given the right checksum."""
    model.save(path)
    tree, arrays, header = fuzz.take_apart(path.read_bytes())
    change(tree, arrays)
    path.write_bytes(fuzz.put_together(json.dumps(tree), arrays, header))
    return path


def refused(model: Any, path: Path, change: Change, words: str = "") -> None:
    with pytest.raises(ValueError, match=f"Cannot load .*{words}"):
        load(crafted(model, path, change))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.safetensors"


def pca(**options: Any) -> StreamingKernelPCA:
    return StreamingKernelPCA(
        2, **{"gamma": 0.3, "basis": bases.Landmarks(rows(6)), "random_state": 0, **options}
    )


# --- sparse rows that wait: their indices reach compiled code

WAITING = "model.waiting.blocks.0.X"


@pytest.mark.parametrize(
    ("part", "place", "value"),
    [
        ("indices", slice(None), 2**40),
        ("indices", slice(None), 2000),
        ("indices", 0, -1),
        ("indices", 5, 3),
        ("indptr", 0, 1),
        ("indptr", -1, 2**40),
        ("indptr", 3, 10**6),
        ("indptr", 3, -5),
    ],
)
def test_indices_of_sparse_rows(part: str, place: Any, value: int, path: Path) -> None:
    model = pca(batch_size=64).partial_fit(scipy.sparse.csr_matrix(rows(100)))

    def change(tree: Any, arrays: Any) -> None:
        arrays[f"{WAITING}.{part}"] = np.array(arrays[f"{WAITING}.{part}"])
        arrays[f"{WAITING}.{part}"][place] = value

    refused(model, path, change, "sparse matrix")


def test_shapes_of_sparse_rows(path: Path) -> None:
    model = pca(batch_size=64).partial_fit(scipy.sparse.csr_matrix(rows(100)))

    def shape(*sizes: Any) -> Change:
        def change(tree: Any, arrays: Any) -> None:
            blocks = tree["model"]["fields"]["waiting"]["fields"]["blocks"]["tuple"]
            blocks[0]["fields"]["X"]["shape"] = list(sizes)

        return change

    for sizes in ((36, 2), (36,), (36, 3, 1), (35, 3), (37, 3), (36, 2**40), (-36, 3), (36, "3")):
        refused(model, path, shape(*sizes), "sparse matrix")
    refused(model, path, shape(36, 4), "columns")  # each index is inside, and rows have 3 columns


# --- states of trackers: compiled passes trust their shapes

RULES = {
    "rls": (trackers.RLS(0.95), "Q", (1, 2)),
    "hebbian": (trackers.Hebbian(), "V", (5, 2)),
    "lms": (trackers.LMS(), "V", (6, 1)),
    "subset_hebbian": (trackers.SubsetHebbian(), "variances", (1,)),
}


@pytest.mark.parametrize("name", RULES)
def test_shapes_of_trackers(name: str, path: Path) -> None:
    tracker, field, shape = RULES[name]

    def change(tree: Any, arrays: Any) -> None:
        arrays[f"model.learned.state.tracker.{field}"] = np.ones(shape)

    refused(pca(tracker=tracker).fit(rows(300)), path, change, f"{field}: ")


def test_the_state_of_another_tracker(path: Path) -> None:
    def change(tree: Any, arrays: Any) -> None:
        state = tree["model"]["fields"]["learned"]["fields"]["state"]["fields"]["tracker"]
        assert state["state"] == "WeightedState"
        state["state"] = "LMSState"

    refused(pca(tracker=trackers.SubsetHebbian()).fit(rows(300)), path, change, "a LMSState for")


def test_a_sample_that_points_outside_of_its_log(path: Path) -> None:
    model = pca(basis=bases.Centroids(8)).partial_fit(rows(3000))
    name = "model.learned.state.basis.sample.position"

    def change(tree: Any, arrays: Any) -> None:
        arrays[name] = np.array(arrays[name])
        arrays[name][-1] = 10**6

    refused(model, path, change, "a sampled row that is nowhere")


# --- memory and recursion


def test_loading_takes_a_few_times_the_size_of_the_file(path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(1200, 400))
    StreamingKernelPCA(5, basis=bases.Landmarks(X[:400]), gamma=1e-3).fit(X).save(path)
    load(path)  # imports
    tracemalloc.start()
    load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * path.stat().st_size + 2**20


def test_a_tensor_is_used_once(path: Path) -> None:
    """Each use of one could be a copy: a small file would become a large model."""

    def twice(tree: Any, arrays: Any) -> None:
        span = tree["model"]["fields"]["learned"]["fields"]["state"]["fields"]["basis"]["fields"][
            "span"
        ]["fields"]
        span["projector"] = span["factor"]

    refused(pca().fit(rows(50)), path, twice, "used already")

    def more(tree: Any, arrays: Any) -> None:
        arrays["more"] = np.zeros(3)

    refused(pca().fit(rows(50)), path, more, "belong to nothing")


@pytest.mark.parametrize("count", [2**16 + 1, 2**40, 10**30, -1, 0])
def test_components_without_end(count: int, path: Path) -> None:
    def change(tree: Any, arrays: Any) -> None:
        tree["model"]["fields"]["learned"]["fields"]["chain"]["fields"]["n_components"] = count

    refused(pca().fit(rows(50)), path, change, "Chain")


def test_widths_without_end(path: Path) -> None:
    """An array without entries may be as wide as it likes."""

    for name in ("basis.span.points", "signs"):

        def change(tree: Any, arrays: Any, name: str = name) -> None:
            arrays[f"model.learned.state.{name}"] = np.zeros((0, 2**40))

        refused(pca().fit(rows(50)), path, change, name.split(".")[-1])


def test_a_deep_header(path: Path) -> None:
    for deep in (b"[" * 200_000, b'{"a":' * 100_000):
        path.write_bytes(struct.pack("<Q", len(deep)) + deep)
        with pytest.raises(ValueError, match="not a kernelstream model"):
            load(path)
    header = json.dumps({"__metadata__": {"kernelstream": "[" * 200_000}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(ValueError, match="not a kernelstream model"):
        load(path)


@pytest.mark.parametrize("depth", [DEEPEST, 900, 50_000])
def test_a_deep_tree(depth: int, path: Path) -> None:
    pca().fit(rows(50)).save(path)
    tree, arrays, header = fuzz.take_apart(path.read_bytes())
    tree["parameters"] = 1
    text = json.dumps(tree).replace(
        '"parameters": 1', '"parameters": ' + '{"tuple": [' * depth + "1" + "]}" * depth
    )
    path.write_bytes(fuzz.put_together(text, arrays, header))
    with pytest.raises(ValueError, match=r"nested|RecursionError"):
        load(path)


def test_what_is_too_deep_is_not_saved(path: Path) -> None:
    """Nobody is left with a file that cannot be read."""
    kernel = StreamingKernelPCA(kernel="rbf").kernel
    from kernelstream import kernels

    kernel = kernels.RBF(0.1)
    for _ in range(DEEPEST):
        kernel = kernel + 1.0
    with pytest.raises(ValueError, match="nested more than"):
        pca(kernel=kernel, gamma=None).fit(rows(50)).save(path)
    assert not path.exists()


# --- many of them


def test_changed_files_give_answers_or_errors() -> None:
    """A few of those that ``python -m fuzz.files`` makes; the seeds are the same on every run."""
    pytest.importorskip("typer", reason="the command line is not installed")
    pytest.importorskip("resource", reason="no limits on memory on this system")
    if not Path("/proc/self/statm").exists():
        pytest.skip("the memory of a process is not told on this system")
    failures = [failure for seed in range(200) if (failure := fuzz.attack(seed)) is not None]
    fuzz.stop()
    assert not failures, "\n\n".join(failures)


def test_the_attack_sees_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that a file kills is told by its signal."""
    if sys.platform != "linux":
        pytest.skip("signals as Linux has them")
    worker = fuzz.Worker()
    process = subprocess.Popen(
        [sys.executable, "-c", "import os; input(); os.abort()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    worker.process = process
    assert "SIGABRT" in str(worker.use(3)) and worker.process is None
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None and pipe.closed


def test_versions_are_kept_apart(path: Path) -> None:
    pca().fit(rows(50)).save(path)
    assert files.read(path).version == files.VERSION
    old = Path(__file__).parents[1] / "golden" / "version_1" / "distance.safetensors"
    assert (files.read(old).version, files.read(old).release) == (1, "0.1")
