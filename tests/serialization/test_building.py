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
from kernelstream import StreamingKernelPCA, landmarks, load, papers, serialization
from kernelstream.serialization.building import DEEPEST, Building, require_shallow
from tests import samples

Change = Callable[[dict[str, Any], dict[str, np.ndarray]], None]


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
        2,
        **{
            "gamma": 0.3,
            "basis": landmarks.Landmarks(samples.rows(6, 3)),
            "random_state": 0,
            **options,
        },
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
    model = pca(batch_size=64).partial_fit(scipy.sparse.csr_matrix(samples.rows(100, 3)))

    def change(tree: Any, arrays: Any) -> None:
        arrays[f"{WAITING}.{part}"] = np.array(arrays[f"{WAITING}.{part}"])
        arrays[f"{WAITING}.{part}"][place] = value

    refused(model, path, change, "sparse matrix")


def test_shapes_of_sparse_rows(path: Path) -> None:
    model = pca(batch_size=64).partial_fit(scipy.sparse.csr_matrix(samples.rows(100, 3)))

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
    "rls": (papers.RLS(0.95), "Q", (1, 2)),
    "hebbian": (papers.Hebbian(), "V", (5, 2)),
    "lms": (papers.LMS(), "V", (6, 1)),
    "subset_hebbian": (papers.SubsetHebbian(), "variances", (1,)),
}


@pytest.mark.parametrize("name", RULES)
def test_shapes_of_trackers(name: str, path: Path) -> None:
    tracker, field, shape = RULES[name]

    def change(tree: Any, arrays: Any) -> None:
        arrays[f"model.learned.state.tracker.{field}"] = np.ones(shape)

    refused(pca(tracker=tracker).fit(samples.rows(300, 3)), path, change, f"{field}: ")


def test_the_state_of_another_tracker(path: Path) -> None:
    def change(tree: Any, arrays: Any) -> None:
        state = tree["model"]["fields"]["learned"]["fields"]["state"]["fields"]["tracker"]
        assert state["state"] == "SequentialState"
        state["state"] = "RLSState"

    refused(
        pca(tracker=papers.SubsetHebbian()).fit(samples.rows(300, 3)),
        path,
        change,
        "a RLSState for",
    )


def test_a_sample_that_points_outside_of_its_log(path: Path) -> None:
    model = pca(basis=landmarks.Centroids(8)).partial_fit(samples.rows(3000, 3))
    name = "model.learned.state.basis.sample.position"

    def change(tree: Any, arrays: Any) -> None:
        arrays[name] = np.array(arrays[name])
        arrays[name][-1] = 10**6

    refused(model, path, change, "a sampled row that is nowhere")


# --- memory and recursion


def test_loading_takes_a_few_times_the_size_of_the_file(path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(1200, 400))
    StreamingKernelPCA(5, basis=landmarks.Landmarks(X[:400]), gamma=1e-3).fit(X).save(path)
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

    refused(pca().fit(samples.rows(50, 3)), path, twice, "used already")

    def more(tree: Any, arrays: Any) -> None:
        arrays["more"] = np.zeros(3)

    refused(pca().fit(samples.rows(50, 3)), path, more, "belong to nothing")


@pytest.mark.parametrize("count", [2**16 + 1, 2**40, 10**30, -1, 0])
def test_components_without_end(count: int, path: Path) -> None:
    def change(tree: Any, arrays: Any) -> None:
        tree["model"]["fields"]["learned"]["fields"]["chain"]["fields"]["n_components"] = count

    refused(pca().fit(samples.rows(50, 3)), path, change, "Chain")


def test_widths_without_end(path: Path) -> None:
    """An array without entries may be as wide as it likes."""

    for name in ("basis.span.points", "signs"):

        def change(tree: Any, arrays: Any, name: str = name) -> None:
            arrays[f"model.learned.state.{name}"] = np.zeros((0, 2**40))

        refused(pca().fit(samples.rows(50, 3)), path, change, name.split(".")[-1])


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
    pca().fit(samples.rows(50, 3)).save(path)
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
        pca(kernel=kernel, gamma=None).fit(samples.rows(50, 3)).save(path)
    assert not path.exists()


# --- many of them


def test_changed_files_give_answers_or_errors() -> None:
    """A few of those that ``python -m fuzz.files`` makes; the seeds are the same on every run."""
    pytest.importorskip("typer", reason="the command line is not installed")
    pytest.importorskip("resource", reason="no limits on memory on this system")
    if not Path("/proc/self/statm").exists():
        pytest.skip("the memory of a process is not told on this system")
    failures = [failure for seed in range(100) if (failure := fuzz.attack(seed)) is not None]
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


def test_the_classes_that_a_file_names(path: Path) -> None:
    """They are known before anything is built, so that what holds them can be imported."""
    pca(tracker=papers.Hebbian()).fit(samples.rows(50, 3)).save(path)
    names = serialization.ModelFile.read(path).names
    assert {"StreamingKernelPCA", "kernels.RBF", "trackers.Hebbian", "FixedState"} <= names
    assert names <= serialization.STORED.keys()


def test_an_estimator_in_the_place_of_a_state() -> None:
    with pytest.raises(ValueError, match="there is no state 'StreamingKernelPCA'"):
        built({"it": {"state": "StreamingKernelPCA", "fields": {}}})


# --- trees, node by node


def built(tree: Any, **tensors: np.ndarray) -> Any:
    return Building(tensors).content(tree)


MOMENTS = {"state": "Moments", "fields": {"weight": 2.0, "total": {"tensor": "t", "order": "C"}}}


def test_values_of_a_tree() -> None:
    t = np.arange(6.0).reshape(2, 3)
    found = built(
        {
            "number": 1.5,
            "nothing": None,
            "infinite": {"float": "-inf"},
            "several": {"tuple": [1, "a", {"tuple": [True]}]},
            "array": {"tensor": "a", "order": "F"},
            "part": {"part": "kernels.RBF", "params": {"gamma": 0.5}},
        },
        a=t,
    )
    assert found["number"] == 1.5 and found["nothing"] is None and found["infinite"] == -np.inf
    assert found["several"] == (1, "a", (True,))
    np.testing.assert_array_equal(found["array"], t)
    assert found["array"].flags.f_contiguous
    assert repr(found["part"]) == "RBF(gamma=0.5)"
    moments = built({"state": MOMENTS}, t=np.ones(2))["state"]
    assert moments.weight == 2.0 and moments.total.shape == (2,)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"tensor": "t", "order": "A"}, "the order 'A' of a tensor is neither 'C' nor 'F'"),
        ({"tensor": "t"}, r"an object with the keys \['tensor'\], not \['order', 'tensor'\]"),
        ({"tensor": "other", "order": "C"}, "there is no tensor 'other', or it was used already"),
        ({"tensor": ["t"], "order": "C"}, "there is no tensor"),
        ({"tuple": 3}, "a tuple that is none"),
        ({"tuple": [], "more": 1}, "an object with the keys"),
        ([1], "a list in the place of a value"),
        ({"float": "1.0"}, "'1.0' is no number"),
        (float("inf"), "a number that JSON does not have"),
        ({"part": "kernels.None", "params": {}}, "there is no part 'kernels.None'"),
        ({"part": ["kernels.RBF"], "params": {}}, "there is no part"),
        ({"part": "Moments", "params": {}}, "there is no part 'Moments'"),
        ({"part": "kernels.RBF", "params": {"width": 1}}, r"RBF has no parameters \['width'\]"),
        ({"part": "kernels.RBF", "params": [1]}, r"\[1\] in the place of an object"),
        ({"part": "kernels.RBF", "params": {"gamma": -1.0}}, "gamma must be a positive number"),
        (MOMENTS | {"state": "None"}, "there is no state 'None'"),
        (MOMENTS | {"state": "kernels.RBF"}, "there is no state 'kernels.RBF'"),
        (MOMENTS | {"state": ["Moments"]}, "there is no state"),
        (MOMENTS | {"fields": {"other": 1}}, r"Moments has no fields \['other'\]"),
        (
            {"state": "Moments", "fields": {"weight": -1.0}},
            "Moments.weight: -1.0, which is negative",
        ),
        (
            {"state": "Moments", "fields": {"weight": {"tuple": [1]}}},
            "Moments.weight: a tuple in the place of number",
        ),
        (
            {"state": "Moments", "fields": {"weight": {"part": "kernels.Linear", "params": {}}}},
            "Moments.weight: a Linear in the place of number",
        ),
        (
            {"state": "Moments", "fields": {"total": {"tensor": "matrix", "order": "C"}}},
            r"Moments.total: an array of shape \(2, 2\)",
        ),
    ],
    ids=str,
)
def test_nodes_that_are_none(node: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        built({"it": node}, t=np.ones(2), matrix=np.ones((2, 2)))


def test_tensors_that_belong_to_nothing() -> None:
    with pytest.raises(ValueError, match=r"tensors that belong to nothing: \['a', 'b', 'c'\]$"):
        built({}, d=np.ones(1), c=np.ones(1), b=np.ones(1), a=np.ones(1))


def test_how_deep_a_tree_may_be() -> None:
    def nested(levels: int) -> Any:
        tree: Any = 1
        for i in range(levels - 1):
            tree = {"a": tree} if i % 2 else [tree]
        return tree

    require_shallow(nested(DEEPEST))
    with pytest.raises(ValueError, match=f"nested more than {DEEPEST} levels deep"):
        require_shallow(nested(DEEPEST + 1))


@pytest.mark.parametrize("shape", [[2], [2, 3, 1], [2.0, 3], [-1, 3], [2**31, 3], "2, 3"])
def test_shapes_of_a_sparse_matrix(shape: Any) -> None:
    tensors = {
        "m.data": np.array([1.0, 2.0]),
        "m.indices": np.array([0, 2]),
        "m.indptr": np.array([0, 1, 2]),
    }
    found = Building(tensors).content({"it": {"csr": "m", "shape": [2, 3]}})["it"]
    np.testing.assert_array_equal(found.toarray(), [[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    with pytest.raises(ValueError, match=r"the shape .* of a sparse matrix"):
        Building(tensors).content({"it": {"csr": "m", "shape": shape}})


@pytest.mark.parametrize(
    "changed",
    [
        {"m.data": np.ones((2, 1))},
        {"m.indices": np.array([0, 2], dtype=np.int32)},
        {"m.indptr": np.array([0, 1, 2], dtype=np.int32)},
        {"m.indptr": np.array([0, 2])},
        {"m.indices": np.array([0, 1, 2])},
        {"m.indptr": np.array([1, 1, 2])},
        {"m.indptr": np.array([0, 1, 1])},
        {"m.indptr": np.array([0, 3, 2])},
        {"m.indices": np.array([-1, 2])},
        {"m.indices": np.array([0, 3])},
    ],
    ids=str,
)
def test_indices_that_are_not_those_of_the_shape(changed: dict[str, np.ndarray]) -> None:
    tensors = {
        "m.data": np.array([1.0, 2.0]),
        "m.indices": np.array([0, 2]),
        "m.indptr": np.array([0, 1, 2]),
    }
    with pytest.raises(ValueError, match="a sparse matrix whose indices are not those of the shap"):
        Building(tensors | changed).content({"it": {"csr": "m", "shape": [2, 3]}})
