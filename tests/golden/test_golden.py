"""Golden files: models that earlier releases wrote are read, answer and go on as they did then.

The folders ``version_*`` hold files as ``write.py`` wrote them (see there), one folder a version of
the file format. They are never written anew.

What is copied from a file is compared exactly. What is computed is compared exactly where
``KERNELSTREAM_EXACT=1`` is set, which is for a change of the code alone: the processor, the number
of threads and the libraries have to be those that the files were written with. Otherwise it is
compared to a tolerance, relative to the largest entry, because BLAS adds in another order on
another processor; what single precision has computed, and what a search has found, to a wider one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

import kernelstream
from kernelstream import images, kernels, landmarks, load, preimages, serialization, trackers
from kernelstream.papers import schedules
from tests.golden.write import CASES, Arrays, Command, paths

HERE = Path(__file__).parent
EXACT = os.environ.get("KERNELSTREAM_EXACT") == "1"
FOLDERS = sorted(HERE.glob("version_*"))
FILES = [(folder, name) for folder in FOLDERS for name in CASES if paths(folder, name)[0].exists()]
GOLDEN = [pytest.param(where, id=f"{where[0].name}-{where[1]}") for where in FILES]

ROUNDING = 1e-9
ROUNDING_OF_FLOAT32 = 1e-4
SEARCHED = 1e-5  # pre-images: a search ends where it is near enough
BOUNDED = 1e-6  # bounds on what is next to nothing are made of rounding; of one, where one is large

# Centroids of version 0.1 were means of cells; those of later releases are placed by a sample. A
# model that places its points anew while it learns on has other points then, which capture as much.
PLACED_ANEW = {
    "certified_tight",
    "single_precision",
    "sparse",
    "weighted",
    "named_features",
    "ridge_forgetting",
    "command_killed_at_the_start",
    "command_killed_in_the_first_pass",
}
CAPTURED = 0.05  # share of the captured variance that may be lost by that

# What attributes were called when the files were written, and are called now.
RENAMED = {"n_tamed_steps_": "n_shortened_steps_"}

WHAT_TO_DO = (
    "has no golden file. Add a case to tests/golden/write.py and run 'python "
    f"tests/golden/write.py tests/golden/version_{serialization.VERSION}', which writes what is "
    "not there yet; files that are there stay as they are."
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The number of threads decides how BLAS cuts its sums: one, as for the files."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> tuple[Any, Path, Path, Path]:
    """The case and its three files."""
    folder, name = request.param
    case = CASES[name]
    if isinstance(case, Command):
        pytest.importorskip("typer", reason="the command line is not installed")
        pytest.importorskip("pyarrow", reason="the command line is not installed")
    return case, *paths(folder, name)


def tolerance(name: str, due: np.ndarray, single: bool) -> tuple[float, float]:
    """How far numbers may be off: as a share of each, and at all."""
    share = ROUNDING_OF_FLOAT32 if single or due.dtype == np.float32 else ROUNDING
    size = float(np.abs(due[np.isfinite(due)]).max(initial=0.0))
    if name == "inverse_transform":
        share = max(share, SEARCHED)
    if name.startswith("certificate."):
        share, size = max(share, BOUNDED), max(size, 1.0)
    return share, share * size


def assert_same(name: str, found: Any, due: np.ndarray, single: bool, exact: bool) -> None:
    """Compare two arrays: numbers that are no floats, and all in exact mode, bit for bit."""
    assert found.shape == due.shape and found.dtype.kind == due.dtype.kind, name
    if exact or due.dtype.kind != "f":
        np.testing.assert_array_equal(found, due, err_msg=name, strict=due.dtype.kind != "U")
        return
    share, most = tolerance(name, due, single)
    np.testing.assert_allclose(found, due, rtol=share, atol=most, err_msg=name)


def assert_answers(case: Any, found: Arrays, due: Arrays) -> None:
    """Everything that was said then is said now. More may be said."""
    assert set(due) <= set(found), sorted(set(due) - set(found))
    single = case.single or any(array.dtype == np.float32 for array in due.values())
    for name, array in due.items():
        if name == "parameters":  # an estimator may get new ones; those of the file stay
            assert set(array.tolist()) <= set(found[name].tolist())
            continue
        assert_same(name, found[name], array, single, EXACT or name in case.exact)


def answers(path: Path) -> Arrays:
    with np.load(path, allow_pickle=False) as archive:
        return {RENAMED.get(name, name): array for name, array in archive.items()}


def saved(path: Path, target: Path) -> bytes:
    """The bytes that this release writes for the model in a file."""
    load(path).save(target)
    return target.read_bytes()


# --- the files


@pytest.mark.parametrize("golden", GOLDEN, indirect=True)
def test_answers(golden: tuple[Any, Path, Path, Path]) -> None:
    case, model, said, _ = golden
    assert_answers(case, case.ask(model), answers(said))


@pytest.mark.parametrize("golden", GOLDEN, indirect=True)
def test_goes_on(golden: tuple[Any, Path, Path, Path], tmp_path: Path) -> None:
    case, model, _, after = golden
    found = tmp_path / "after.safetensors"
    case.go_on(model, found)
    if model.stem in PLACED_ANEW and model.parent.name == "version_1":
        now, then = case.ask(found), case.ask(after)
        assert now["n_samples_seen_"] == then["n_samples_seen_"]
        captured = [answers["explained_variance_"].sum() for answers in (now, then)]
        assert captured[0] > (1.0 - CAPTURED) * captured[1]
        assert now["explained_variance_ratio_"].sum() <= 1.0
        return
    if EXACT:
        assert saved(found, tmp_path / "found") == saved(after, tmp_path / "due")
    assert_answers(case, case.ask(found), case.ask(after))


@pytest.mark.parametrize("golden", GOLDEN, indirect=True)
def test_saved_again(golden: tuple[Any, Path, Path, Path], tmp_path: Path) -> None:
    """Writing what was read, this release writes what it then writes ever after."""
    _, model, _, after = golden
    for path in (model, after):
        once = saved(path, tmp_path / "once")
        assert saved(tmp_path / "once", tmp_path / "twice") == once


# --- nothing is forgotten

# Parts that no release has written yet: their golden files come with the next one.
NOT_RELEASED = {"Window"}
# Parts that no file names: what others are built on, and code.
NEVER_STORED = {"Basis", "Euclidean", "FromCallable", "Kernel", "Preimage", "Schedule", "Tracker"}
FAMILIES: list[tuple[ModuleType, type]] = [
    (landmarks, landmarks.Basis),
    (trackers, trackers.Tracker),
    (kernels, kernels.Kernel),
    (schedules, schedules.Schedule),
    (preimages, preimages.Preimage),
]


def test_every_case_has_its_files() -> None:
    for name in CASES:
        there = [all(path.exists() for path in paths(folder, name)) for folder in FOLDERS]
        assert any(there), f"The case {name} {WHAT_TO_DO}"


def test_every_file_has_its_case() -> None:
    known = {path.name for name in CASES for path in paths(HERE, name)}
    for folder in FOLDERS:
        strangers = sorted(path.name for path in folder.iterdir() if path.name not in known)
        assert not strangers, f"Cases of {folder.name} were removed from write.py: {strangers}"


@pytest.fixture(scope="module")
def stored() -> set[type]:
    """The estimators in the golden files, and the parts that they were given."""
    found: set[type] = set()
    for folder, name in FILES:
        model = load(paths(folder, name)[0])
        found |= {type(model), *map(type, model.get_params(deep=True).values())}
    return found


def test_every_estimator_is_there(stored: set[type]) -> None:
    for module in (kernelstream, images):
        for name in module.__all__:
            kind = getattr(module, name)
            if isinstance(kind, type) and issubclass(kind, BaseEstimator) and hasattr(kind, "save"):
                assert kind in stored, f"{name} {WHAT_TO_DO}"


@pytest.mark.parametrize(("module", "base"), FAMILIES, ids=lambda value: value.__name__)
def test_every_part_is_there(module: ModuleType, base: type, stored: set[type]) -> None:
    for name in set(module.__all__) - NEVER_STORED - NOT_RELEASED:
        kind = getattr(module, name)
        if isinstance(kind, type) and issubclass(kind, base):
            where = f"{module.__name__}.{name}"
            assert kind in stored, f"{where} {WHAT_TO_DO}"
