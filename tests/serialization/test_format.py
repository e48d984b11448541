"""Model files: whole or not at all, the same bytes for the same model, data and never code."""

from __future__ import annotations

import builtins
import hashlib
import importlib
import json
import os
import pickle
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors
from sklearn.exceptions import NotFittedError

import kernelstream
from kernelstream import (
    StreamingKernelPCA,
    kernels,
    landmarks,
    load,
    papers,
    serialization,
    trackers,
)
from kernelstream.landmarks.base import Clock
from kernelstream.landmarks.optimized.state import Reservoir
from kernelstream.papers import schedules
from kernelstream.tables import TableModel
from tests import samples

BASES: dict[str, Any] = {
    **samples.landmark_strategies(10),
    "given landmarks": landmarks.Landmarks(np.random.default_rng(5).normal(size=(8, 4))),
}
TRACKERS: dict[str, Any] = {
    "covariance": trackers.Covariance(),
    "forgetting": trackers.Covariance(forgetting=0.99),
    "hebbian": papers.Hebbian(schedules.SearchThenConverge(0.05, 100.0)),
    "falling": papers.Hebbian(schedules.SearchThenConverge(0.05, 100.0, floor=1e-3)),
}
KERNELS: dict[str, Any] = {
    **samples.kernels_of_numbers(),
    "rbf fixed": kernels.RBF(gamma=0.3),
    "composite": 0.5 * kernels.RBF() * kernels.Linear() + kernels.Laplacian(gamma=0.1) + 1.0,
}


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 4)) / 2


def model(n_components: Any = 2, **parameters: Any) -> StreamingKernelPCA:
    return StreamingKernelPCA(n_components, **{"random_state": 0, "batch_size": 64, **parameters})


def saved(estimator: StreamingKernelPCA, folder: Path) -> bytes:
    path = folder / "model.safetensors"
    estimator.save(path)
    return path.read_bytes()


def assert_goes_on(estimator: StreamingKernelPCA, more: Any, folder: Path) -> None:
    """A loaded model answers and learns like the one that was saved, bit for bit."""
    path = folder / "model.safetensors"
    estimator.save(path)
    again = load(path)
    assert type(again) is type(estimator)
    params = estimator.get_params()
    given = {k: v.item() if isinstance(v, np.generic) else v for k, v in params.items()}
    assert repr(again.get_params()) == repr(given)
    assert saved(again, folder) == path.read_bytes()
    np.testing.assert_array_equal(again.transform(more), estimator.transform(more))
    np.testing.assert_array_equal(
        again.reconstruction_error(more), estimator.reconstruction_error(more)
    )
    np.testing.assert_array_equal(again.explained_variance_, estimator.explained_variance_)
    assert again.n_samples_seen_ == estimator.n_samples_seen_
    weights = np.linspace(0.5, 2.0, more.shape[0])
    for one in (again, estimator):
        one.partial_fit(more).partial_fit(more, sample_weight=weights)
    assert saved(again, folder) == saved(estimator, folder)


# --- there and back


@samples.grid("tracker, basis, n", TRACKERS, BASES, [7, 700])
def test_every_basis_and_tracker(basis: str, tracker: str, n: int, tmp_path: Path) -> None:
    estimator = model(basis=BASES[basis], tracker=TRACKERS[tracker], gamma=0.3)
    assert_goes_on(estimator.partial_fit(rows(n)), rows(500, seed=1), tmp_path)


@pytest.mark.parametrize("n", [7, 700])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel(kernel: str, n: int, tmp_path: Path) -> None:
    estimator = model(kernel=KERNELS[kernel], basis=10).partial_fit(rows(n))
    assert_goes_on(estimator, rows(500, seed=1), tmp_path)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("tracker", ["covariance", "hebbian"])
def test_after_fit(basis: str, tracker: str, tmp_path: Path) -> None:
    estimator = model(basis=BASES[basis], tracker=TRACKERS[tracker], kernel=kernels.RBF())
    assert_goes_on(estimator.fit(rows(300)), rows(500, seed=1), tmp_path)


@pytest.mark.parametrize(
    "parameters",
    [
        {"scale": "standard"},
        {"center": False},
        {"center": np.bool_(False)},
        {"n_components": None},
        {"n_components": 0.9},
        {"n_components": np.int64(3)},
        {"random_state": None},
        {"random_state": "a generator"},
        {"batch_size": "auto"},
        {"certify": False},
        {"certify": "tight"},
        {"preimage": "ridge"},
        {"gamma": np.float64(0.2)},
        {"gamma": np.float32(0.2)},
    ],
    ids=str,
)
@pytest.mark.parametrize("n", [7, 700])
def test_every_parameter(parameters: dict[str, Any], n: int, tmp_path: Path) -> None:
    generator = np.random.RandomState(3)
    given = {k: generator if v == "a generator" else v for k, v in parameters.items()}
    estimator = model(**{"basis": 10, **given}).partial_fit(rows(n))
    if estimator.random_state is generator:
        estimator.random_state = None  # the generator is not kept: the seed that it gave is
    assert_goes_on(estimator, rows(500, seed=1), tmp_path)


@samples.grid(
    "basis, n, kind",
    ["centroids", "everything", "landmarks"],
    [7, 700],
    ["float32", "csr", "csr float32", "fortran", "weights"],
)
def test_every_kind_of_rows(kind: str, n: int, basis: str, tmp_path: Path) -> None:
    def given(X: np.ndarray) -> Any:
        X = X.astype(np.float32) if "float32" in kind else X
        X = np.asfortranarray(X) if kind == "fortran" else X
        return scipy.sparse.csr_matrix(np.where(X > 0, X, 0)) if "csr" in kind else X

    weights = np.linspace(0.1, 3.0, n) if kind == "weights" else None
    estimator = model(basis=BASES[basis], kernel=kernels.RBF(gamma=0.3))
    estimator.partial_fit(given(rows(n)), sample_weight=weights)
    assert_goes_on(estimator, given(rows(500, seed=1)), tmp_path)


def test_single_rows_go_on(tmp_path: Path) -> None:
    estimator = model(basis=10)
    for x in rows(530):
        estimator.learn_one(x)
    estimator.save(tmp_path / "m")
    again = load(tmp_path / "m")
    for x in rows(100, seed=1):
        np.testing.assert_array_equal(again.transform_one(x), estimator.transform_one(x))
        again.learn_one(x)
        estimator.learn_one(x)
    assert saved(again, tmp_path) == saved(estimator, tmp_path)


def test_names_of_features(tmp_path: Path) -> None:
    import pandas as pd

    X = pd.DataFrame(rows(60), columns=["a", "b", "ä", 'd ü\n"quoted"'])
    estimator = model().fit(X)
    estimator.save(tmp_path / "m")
    assert list(load(tmp_path / "m").feature_names_in_) == list(X.columns)


def test_pathlike_and_strings(tmp_path: Path) -> None:
    estimator = model().fit(rows(60))
    estimator.save(str(tmp_path / "a name with spaces, ü"))
    assert isinstance(load(str(tmp_path / "a name with spaces, ü")), StreamingKernelPCA)
    assert isinstance(
        StreamingKernelPCA.load(tmp_path / "a name with spaces, ü"), StreamingKernelPCA
    )


# --- the same model, the same bytes


def test_how_rows_came_in_is_not_in_the_file(tmp_path: Path) -> None:
    whole = model(basis=10).partial_fit(rows(620))
    pieces = model(basis=10)
    for start in range(0, 620, 31):
        pieces.partial_fit(rows(620)[start : start + 31])
        pieces.transform(rows(3))
    assert saved(whole, tmp_path) == saved(pieces, tmp_path)


def test_rows_that_left_a_sample_are_not_in_the_file() -> None:
    rows = np.arange(60.0)[:, None]
    blocks = [(rows[a : a + 20], rows[a : a + 20], None) for a in (0, 20, 40)]
    together = Reservoir(10).offer(blocks, Clock(0, 0))
    one_by_one = Reservoir(10)
    for k, block in enumerate(blocks):
        one_by_one = one_by_one.offer([block], Clock(0, 20 * k))
    assert list(map(len, together.rows)) != list(map(len, one_by_one.rows))
    assert serialization.to_bytes({"sample": together}) == serialization.to_bytes(
        {"sample": one_by_one}
    )


PROGRAM = """
import hashlib, sys
import numpy as np
from kernelstream import StreamingKernelPCA, papers
X = np.random.default_rng(0).normal(size=(700, 4)) / 2
for tracker in ("covariance", papers.Hebbian()):
    stream = StreamingKernelPCA(2, basis=10, tracker=tracker, random_state=0, batch_size=64)
    stream.partial_fit(X).save(sys.argv[1])
    print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())
"""


def test_other_processes_write_the_same_bytes(tmp_path: Path) -> None:
    outputs = set()
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / seed)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.add(result.stdout)
    assert len(outputs) == 1


# --- whole or not at all


@pytest.fixture
def old(tmp_path: Path) -> tuple[Path, bytes]:
    path = tmp_path / "model.safetensors"
    model().fit(rows(60)).save(path)
    return path, path.read_bytes()


def assert_untouched(old: tuple[Path, bytes]) -> None:
    path, data = old
    assert path.read_bytes() == data
    assert [p.name for p in path.parent.iterdir()] == [path.name], "a temporary file was left"


@pytest.mark.parametrize("step", ["replace", "fsync"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file(
    step: str, error: BaseException, old: tuple[Path, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        model(3).fit(rows(80)).save(old[0])
    monkeypatch.undo()
    assert_untouched(old)


def test_a_full_disk_leaves_the_old_file(
    old: tuple[Path, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        """A file that takes a hundred bytes and then has no more room."""

        def __init__(self, file: Any) -> None:
            self.file = file

        def fileno(self) -> int:
            return int(self.file.fileno())

        def close(self) -> None:
            self.file.close()

        def write(self, data: bytes) -> int:
            self.file.write(data[:100])
            raise OSError(28, "No space left on device")

    real = builtins.open
    monkeypatch.setattr(builtins, "open", lambda *a, **k: Full(real(*a, **k)))
    with pytest.raises(OSError, match="No space left"):
        model(3).fit(rows(80)).save(old[0])
    monkeypatch.undo()
    assert_untouched(old)


def test_a_model_that_cannot_be_saved_leaves_the_old_file(old: tuple[Path, bytes]) -> None:
    with pytest.raises(ValueError, match="callable"):
        model(kernel=lambda X, Y: X @ Y.T).fit(rows(60)).save(old[0])
    with pytest.raises(NotFittedError, match="fit"):
        model().save(old[0])
    assert_untouched(old)


def test_saving_over_a_model(old: tuple[Path, bytes]) -> None:
    path, data = old
    model(3).fit(rows(80)).save(path)
    assert load(path).n_components == 3
    assert path.read_bytes() != data
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere"):
        model().fit(rows(60)).save(tmp_path / "nowhere" / "model")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load(tmp_path / "nowhere")


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        model().fit(rows(60)).save(tmp_path / "folder")
    with pytest.raises(OSError, match="folder"):
        load(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0,
    reason="root, and Windows, may write everywhere",
)
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError, match="model"):
            model().fit(rows(60)).save(tmp_path / "model")
    finally:
        tmp_path.chmod(0o700)
    assert not list(tmp_path.iterdir())


def test_the_user_decides_who_may_read(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        model().fit(rows(60)).save(tmp_path / "model")
    finally:
        os.umask(before)
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o644


# --- data, never code


@pytest.mark.parametrize(
    "wrap", [lambda f: f, kernels.FromCallable, lambda f: kernels.FromCallable(f) + 1.0]
)
def test_a_callable_kernel_is_not_saved(wrap: Any, tmp_path: Path) -> None:
    estimator = model(kernel=wrap(lambda X, Y: X @ Y.T)).fit(rows(60))
    with pytest.raises(ValueError, match=r"callable.*data, never code.*pickle"):
        estimator.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_part_of_the_user_is_not_saved(tmp_path: Path) -> None:
    class Mine(kernels.RBF):
        pass

    with pytest.raises(ValueError, match=r"Mine.*not a part of kernelstream"):
        model(kernel=Mine(gamma=0.1)).fit(rows(60)).save(tmp_path / "m")


def test_an_estimator_of_the_user_is_not_saved(tmp_path: Path) -> None:
    """A file with its name could not be loaded."""

    class Mine(StreamingKernelPCA):
        pass

    for estimator in (Mine(2).fit(rows(60)), TableModel(Mine(2)).fit(rows(60))):
        with pytest.raises(ValueError, match=r"A Mine cannot be saved: .*Mine\. Pickle"):
            estimator.save(tmp_path / "m")
        assert not list(tmp_path.iterdir())


# --- foreign and damaged files


@pytest.fixture(scope="module")
def sound() -> bytes:
    estimator = model(basis=landmarks.Landmarks(rows(5))).fit(rows(40))
    content = {
        "estimator": "StreamingKernelPCA",
        "parameters": tuple(estimator.get_params(deep=False).items()),
        "feature_names": None,
        "model": estimator.stream_.for_file(),
        "attributes": (),
    }
    return serialization.to_bytes(content)


def header_length(data: bytes) -> int:
    return int(struct.unpack("<Q", data[:8])[0])


def refused(data: bytes, folder: Path, words: str = "") -> None:
    path = folder / "bad"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"(?s)Cannot load .*bad.*{words}"):
        load(path)


def test_the_sound_file_is_sound(sound: bytes, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(sound)
    assert load(tmp_path / "m").n_components_ == 2


def test_truncated_files(sound: bytes, tmp_path: Path) -> None:
    n = header_length(sound)
    for length in (0, 1, 7, 8, 9, 8 + n // 2, 8 + n - 1, 8 + n, 8 + n + 1, len(sound) - 1):
        refused(sound[:length], tmp_path, "truncated|not a kernelstream model")
    for length in (8, 8 + n // 2, 8 + n - 12, 8 + n - 1):
        refused(sound[:length], tmp_path, "truncated")
    refused(sound + b"\0", tmp_path)
    refused(sound + sound, tmp_path)


@pytest.mark.parametrize("n", [0, 1, 8, 100, 10_000])
def test_random_bytes(n: int, tmp_path: Path) -> None:
    refused(np.random.default_rng(n).bytes(n), tmp_path, "not a kernelstream model")


def test_files_of_other_programs(tmp_path: Path) -> None:
    foreign = save_tensors({"weight": np.zeros(3)}, {"format": "pt"})
    refused(foreign, tmp_path, "not a kernelstream model")
    refused(save_tensors({"weight": np.zeros(3)}), tmp_path, "not a kernelstream model")
    refused(save_tensors({"weight": np.zeros(3)}, {"kernelstream": "[]"}), tmp_path, "not a kernel")
    refused(save_tensors({"weight": np.zeros(3)}, {"kernelstream": "{"}), tmp_path, "not a kernel")
    refused(save_tensors({"weight": np.zeros(3)}, {"kernelstream": "{}"}), tmp_path, "version None")
    refused(b'{"a": 1}', tmp_path, "not a kernelstream model")
    refused(b"\x89PNG\r\n\x1a\n" + bytes(100), tmp_path, "not a kernelstream model")
    refused(struct.pack("<Q", 2**63) + bytes(100), tmp_path, "truncated")
    refused(struct.pack("<Q", 2) + b"{}", tmp_path, "not a kernelstream model")
    refused(struct.pack("<Q", 4) + b"null", tmp_path, "not a kernelstream model")
    refused(struct.pack("<Q", 2) + b"\xff\xfe", tmp_path, "not a kernelstream model")


class Bomb:
    def __reduce__(self) -> Any:
        return (os.abort, ())


def test_a_pickle_is_not_run(tmp_path: Path) -> None:
    refused(pickle.dumps(Bomb()), tmp_path, "not a kernelstream model")
    refused(pickle.dumps(model().fit(rows(40))), tmp_path, "not a kernelstream model")


def test_a_changed_number(sound: bytes, tmp_path: Path) -> None:
    n = header_length(sound)
    for place in np.linspace(8 + n, len(sound) - 1, 50).astype(int):
        changed = bytearray(sound)
        changed[place] ^= 1
        refused(bytes(changed), tmp_path, "checksum does not match")


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_changed_byte_is_overlooked(sound: bytes, data: st.DataObject) -> None:
    # The header is the delicate part: half of the examples change it.
    last = data.draw(st.sampled_from([8 + header_length(sound), len(sound)])) - 1
    place = data.draw(st.integers(0, last))
    value = data.draw(st.integers(0, 255).filter(lambda b: b != sound[place]))
    changed = bytearray(sound)
    changed[place] = value
    with pytest.raises(ValueError, match=r"not a kernelstream|truncated|checksum|version"):
        serialization.from_bytes(bytes(changed))


def test_no_byte_of_the_end_of_the_header_is_overlooked(sound: bytes) -> None:
    # safetensors fills the header with spaces; other white space would be read alike
    n = header_length(sound)
    for place in range(8 + n - 16, 8 + n):
        for value in (0x20, 0x09, 0x0A, 0x00):
            if sound[place] != value:
                changed = bytearray(sound)
                changed[place] = value
                with pytest.raises(ValueError, match=r"kernelstream|truncated|checksum"):
                    serialization.from_bytes(bytes(changed))


# A forger knows the checksum too: these files are whole, and hold what we have not written.


def forged(data: bytes, change: Any, tensors: dict[str, np.ndarray] | None = None) -> bytes:
    """The file with its tree changed by a function, and the right checksum."""
    metadata = json.loads(data[8 : 8 + header_length(data)])["__metadata__"]
    header = json.loads(metadata["kernelstream"])
    tree = json.loads(header["content"])
    changed = change(tree)
    header["content"] = json.dumps(tree if changed is None else changed)
    header["checksum"] = "0" * 64
    kept = load_tensors(data) if tensors is None else tensors
    raw = save_tensors(kept, {"kernelstream": json.dumps(header)})
    return raw.replace(b"0" * 64, hashlib.sha256(raw).hexdigest().encode(), 1)


def test_an_unchanged_forgery_is_the_file(sound: bytes, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(forged(sound, lambda tree: None))
    assert load(tmp_path / "m").n_components_ == 2


def chain_of(tree: Any) -> Any:
    return tree["model"]["fields"]["learned"]["fields"]["chain"]["fields"]


def state_of(tree: Any) -> Any:
    return tree["model"]["fields"]["learned"]["fields"]["state"]["fields"]


FORGERIES: dict[str, Any] = {
    "unknown estimator": lambda t: t.update(estimator="os.system"),
    "an estimator that is no name": lambda t: t.update(estimator={"tuple": [1]}),
    "unknown part": lambda t: chain_of(t).update(
        kernel={"part": "os.system", "params": {"command": "true"}}
    ),
    "a part of another module": lambda t: t["model"]["fields"]["learned"]["fields"]["chain"][
        "fields"
    ].update(kernel={"part": "subprocess.Popen", "params": {"args": "true"}}),
    "a class that is no part": lambda t: t["model"]["fields"]["learned"]["fields"]["chain"][
        "fields"
    ].update(kernel={"part": "landmarks.Span", "params": {}}),
    "unknown state": lambda t: t["model"].update(state="Path"),
    "a dunder": lambda t: t["model"].update(state="__class__"),
    "unknown field": lambda t: t["model"]["fields"].update(evil=1),
    "missing field": lambda t: t["model"]["fields"].pop("learned"),
    "unknown parameter of a part": lambda t: t["model"]["fields"]["learned"]["fields"]["chain"][
        "fields"
    ].update(kernel={"part": "kernels.RBF", "params": {"gama": 1.0}}),
    "unknown parameter": lambda t: t.update(parameters={"tuple": [{"tuple": ["evil", 1]}]}),
    "parameters that are no pairs": lambda t: t.update(parameters={"tuple": [1, 2]}),
    "parameters missing": lambda t: t.pop("parameters"),
    "model missing": lambda t: t.pop("model"),
    "model is a number": lambda t: t.update(model=3),
    "model is another state": lambda t: t.update(
        model={"state": "Moments", "fields": {"weight": 1.0, "total": 1.0}}
    ),
    "names missing": lambda t: t.pop("feature_names"),
    "missing tensor": lambda t: t.update(model={"tensor": "nowhere", "order": "C"}),
    "strange order of a tensor": lambda t: t["model"]["fields"]["learned"]["fields"]["state"][
        "fields"
    ]["moments"]["fields"]["total"].update(order="evil"),
    "an unknown mark": lambda t: t.update(model={"exec": "import os"}),
    "a float that is none": lambda t: t.update(model={"float": "os"}),
    "a list": lambda t: [1, 2, 3],
    "a string": lambda t: "content",
    "null": lambda t: 0,
    "CSR without arrays": lambda t: t.update(model={"csr": "x", "shape": [1, 1]}),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_files(name: str, sound: bytes, tmp_path: Path) -> None:
    # A name that is not known may be that of an application that is not imported yet. They are
    # imported here; whatever the file says, nothing else may be.
    for application in kernelstream.STORED_IN:
        importlib.import_module(f"kernelstream.{application}")
    modules = set(sys.modules)
    refused(forged(sound, FORGERIES[name]), tmp_path)
    assert set(sys.modules) == modules, "loading imported something"


def test_a_deep_forgery(sound: bytes, tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(400):
        deep = {"tuple": [deep]}
    refused(forged(sound, lambda t: t.update(estimator=deep)), tmp_path)
    metadata = json.loads(sound[8 : 8 + header_length(sound)])["__metadata__"]
    header = json.loads(metadata["kernelstream"])
    header["content"], header["checksum"] = "[" * 100_000 + "]" * 100_000, "0" * 64
    raw = save_tensors({}, {"kernelstream": json.dumps(header)})
    refused(raw.replace(b"0" * 64, hashlib.sha256(raw).hexdigest().encode(), 1), tmp_path)


def test_attributes_are_only_those_of_the_class(sound: bytes, tmp_path: Path) -> None:
    def change(tree: Any) -> None:
        tree["attributes"] = {"tuple": [{"tuple": ["transform", 1]}, {"tuple": ["_stream", 2]}]}

    (tmp_path / "m").write_bytes(forged(sound, change))
    assert load(tmp_path / "m").transform(rows(3)).shape == (3, 2)


@pytest.mark.parametrize("version", [0, 2, "1", True, 1.0, None, 10**30])
def test_another_version(version: Any, sound: bytes, tmp_path: Path) -> None:
    metadata = json.loads(sound[8 : 8 + header_length(sound)])["__metadata__"]
    header = {**json.loads(metadata["kernelstream"]), "version": version}
    data = save_tensors(load_tensors(sound), {"kernelstream": json.dumps(header)})
    words = r"the file has format version .* reads version 1\. Load it with kernelstream .*fit"
    refused(data, tmp_path, words)


def test_a_file_of_another_estimator(tmp_path: Path) -> None:
    model().fit(rows(60)).save(tmp_path / "m")
    others = [
        c for c in StreamingKernelPCA.__subclasses__() if c.__module__.startswith("kernelstream")
    ]
    for other in others:
        with pytest.raises(ValueError, match=f"holds a StreamingKernelPCA, not a {other.__name__}"):
            other.load(tmp_path / "m")


def test_the_file_is_plain_safetensors(sound: bytes) -> None:
    tensors = load_tensors(sound)
    assert all(isinstance(t, np.ndarray) for t in tensors.values())
    assert kernelstream.serialization.FORMAT == "kernelstream"


# --- values


def test_arrays_keep_the_order_of_their_memory():
    """Products round differently on transposed memory: a model must go on bit for bit."""
    x = np.arange(6.0).reshape(2, 3)
    for array in (x, np.asfortranarray(x)):
        found = serialization.from_bytes(serialization.to_bytes({"x": array})).values()["x"]
        np.testing.assert_array_equal(found, array)
        assert found.flags.c_contiguous == array.flags.c_contiguous
        assert found.flags.f_contiguous == array.flags.f_contiguous


def test_values_come_back_as_they_were() -> None:
    """Also where there is no tensor, and the header is all there is."""
    plain = {"a": 1, "b": (True, "text", None, 2.5, np.inf), "c": kernels.RBF(0.5)}
    found = serialization.from_bytes(serialization.to_bytes(plain)).values()
    assert found["a"] == 1 and found["b"] == plain["b"] and repr(found["c"]) == "RBF(gamma=0.5)"
    kinds = {
        "integer": np.int32(3),
        "truth": np.bool_(True),
        "number": np.float32(0.5),
        "list": [1, 2],
        "texts": np.array(["x", "y"]),
        "array": np.arange(6.0).reshape(2, 3),
        "transposed": np.arange(6.0).reshape(2, 3).T,
        "sparse": scipy.sparse.csc_matrix(np.eye(2)),
    }
    file = serialization.from_bytes(serialization.to_bytes(kinds))
    values = file.values()
    assert (values["integer"], values["truth"], values["number"]) == (3, True, 0.5)
    assert values["list"] == (1, 2) and values["texts"] == ("x", "y")
    np.testing.assert_array_equal(values["array"], kinds["array"])
    np.testing.assert_array_equal(values["transposed"], kinds["transposed"])
    assert values["array"].flags.c_contiguous and values["transposed"].flags.f_contiguous
    np.testing.assert_array_equal(values["sparse"].toarray(), np.eye(2))
    assert file.release == kernelstream.__version__
    with pytest.raises(ValueError, match="a: set cannot be stored in a model file"):
        serialization.to_bytes({"a": {1}})


def test_a_file_is_written_without_a_copy_of_its_bytes(tmp_path: Path) -> None:
    """safetensors makes two: of the arrays, and the file."""
    tracemalloc.start()
    try:
        serialization.save(tmp_path / "a", {"a": np.ones(500_000)})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = (tmp_path / "a").stat().st_size
    assert size > 4_000_000 and peak < 3.2 * size  # the array itself is the third
    assert (tmp_path / "a").read_bytes() == serialization.to_bytes({"a": np.ones(500_000)})
